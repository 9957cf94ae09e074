// Package gorm writes the handler with gorm: the handler's transaction is the pool of a gorm session.
package gorm

import (
	"context"
	"fmt"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/pawlhq/pawl"

	"github.com/pawlhq/pawl/examples/sqlstacks/orders"
)

// Order is the table of orders/schema.sql.
type Order struct {
	ID         string
	Status     string
	TotalCents int64
	Version    int64
	Changes    int64
}

// The guard is in the statement: a version that is not newer changes no row.
var newerOnly = clause.OnConflict{
	Columns: []clause.Column{{Name: "id"}},
	DoUpdates: append(
		clause.AssignmentColumns([]string{"status", "total_cents", "version"}),
		clause.Assignments(map[string]any{"changes": gorm.Expr("orders.changes + 1")})...,
	),
	Where: clause.Where{Exprs: []clause.Expression{gorm.Expr("orders.version < excluded.version")}},
}

// Handler returns a handler that brings an order up to the event's version. base is gorm as the program opened it: its
// dialect, its naming and its cache of models are used, its connections are not.
func Handler(base *gorm.DB) func(context.Context, pawl.SQLTx, pawl.Envelope[orders.Event]) error {
	return func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[orders.Event]) error {
		o := e.Body
		result := join(ctx, base, tx).Clauses(newerOnly).Create(&Order{
			ID: o.OrderID, Status: o.Status, TotalCents: o.TotalCents, Version: o.Version, Changes: 1,
		})
		if result.Error != nil {
			return result.Error
		}
		if result.RowsAffected == 0 {
			return pawl.Stale(fmt.Sprintf("order %s has version %d or newer", o.OrderID, o.Version))
		}
		return nil
	}
}

// join returns a gorm session inside tx. gorm.Open with a dialector on tx does the same, but registers every callback and
// parses every model again for each record. A handler must not ask the session for prepared statements
// (Session{PrepareStmt: true}): gorm keeps them for longer than tx lives, and the next one fails. base may.
func join(ctx context.Context, base *gorm.DB, tx pawl.SQLTx) *gorm.DB {
	s := base.Session(&gorm.Session{NewDB: true, Context: ctx, SkipDefaultTransaction: true})
	pool := &joined{tx}
	s.Statement.ConnPool = pool // what statements run on
	s.ConnPool = pool           // what gorm falls back to: it must not be base's, which is outside tx
	return s
}

// joined tells gorm that it is in a transaction already, so that Transaction makes a savepoint. Without the two methods
// it would return gorm.ErrInvalidTransaction, as there is nothing to begin a transaction on.
type joined struct{ pawl.SQLTx }

func (*joined) Commit() error   { return pawl.ErrTxEnded }
func (*joined) Rollback() error { return pawl.ErrTxEnded }
