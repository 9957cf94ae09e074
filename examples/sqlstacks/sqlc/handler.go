// Package sqlc writes the handler with queries that sqlc generates for database/sql: the handler's transaction is its DBTX.
package sqlc

import (
	"context"
	"fmt"

	"github.com/pawlhq/pawl"

	"github.com/pawlhq/pawl/examples/sqlstacks/orders"
	"github.com/pawlhq/pawl/examples/sqlstacks/sqlc/db"
)

//go:generate go run github.com/sqlc-dev/sqlc/cmd/sqlc@v1.31.1 generate

// Handler brings an order up to the event's version.
func Handler(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[orders.Event]) error {
	o := e.Body
	n, err := db.New(tx).ApplyOrder(ctx, db.ApplyOrderParams{
		ID: o.OrderID, Status: o.Status, TotalCents: o.TotalCents, Version: o.Version,
	})
	if err != nil {
		return err
	}
	if n == 0 {
		return pawl.Stale(fmt.Sprintf("order %s has version %d or newer", o.OrderID, o.Version))
	}
	return nil
}
