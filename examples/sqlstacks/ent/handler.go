// Package ent writes the handler with ent: the handler's transaction is the connection of an ent client.
package ent

import (
	"context"
	"fmt"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"

	"github.com/pawlhq/pawl"

	"github.com/pawlhq/pawl/examples/sqlstacks/ent/gen"
	"github.com/pawlhq/pawl/examples/sqlstacks/ent/gen/order"
	"github.com/pawlhq/pawl/examples/sqlstacks/orders"
)

//go:generate go run entgo.io/ent/cmd/ent@v0.14.5 generate --target ./gen ./schema

// Handler returns a handler that brings an order up to the event's version. dialectName is ent's name for the database.
func Handler(dialectName string) func(context.Context, pawl.SQLTx, pawl.Envelope[orders.Event]) error {
	return func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[orders.Event]) error {
		client, err := join(ctx, dialectName, tx)
		if err != nil {
			return err
		}
		return apply(ctx, client.Order, e.Body)
	}
}

func apply(ctx context.Context, table *gen.OrderClient, o orders.Event) error {
	// The guard is in the statement: a version that is not newer changes no row.
	n, err := table.Update().
		Where(order.ID(o.OrderID), order.VersionLT(o.Version)).
		SetStatus(o.Status).SetTotalCents(o.TotalCents).SetVersion(o.Version).AddChanges(1).
		Save(ctx)
	if err != nil || n > 0 {
		return err
	}
	known, err := table.Query().Where(order.ID(o.OrderID)).Exist(ctx)
	if err != nil {
		return err
	}
	if known {
		return pawl.Stale(fmt.Sprintf("order %s has version %d or newer", o.OrderID, o.Version))
	}
	return table.Create().
		SetID(o.OrderID).SetStatus(o.Status).SetTotalCents(o.TotalCents).SetVersion(o.Version).SetChanges(1).
		Exec(ctx)
}

// join returns a client that is inside tx as ent sees it: builders that need a transaction use this one, and a
// transaction within it is refused with gen.ErrTxStarted.
func join(ctx context.Context, dialectName string, tx pawl.SQLTx) (*gen.Client, error) {
	d := joined{entsql.NewDriver(dialectName, entsql.Conn{ExecQuerier: tx})}
	inside, err := gen.NewClient(gen.Driver(d)).Tx(ctx)
	if err != nil {
		return nil, err
	}
	return inside.Client(), nil
}

// joined is a driver that is in a transaction already. What it overrides would reach for a *sql.DB, and panic.
type joined struct{ *entsql.Driver }

func (j joined) Tx(context.Context) (dialect.Tx, error) { return j, nil }

func (j joined) BeginTx(context.Context, *entsql.TxOptions) (dialect.Tx, error) { return j, nil }

func (joined) Commit() error   { return pawl.ErrTxEnded }
func (joined) Rollback() error { return pawl.ErrTxEnded }
func (joined) Close() error    { return nil }
