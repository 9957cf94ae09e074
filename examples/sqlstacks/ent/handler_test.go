package ent

import (
	"context"
	"errors"
	"testing"

	"entgo.io/ent/dialect"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/pawltest"

	"github.com/pawlhq/pawl/examples/sqlstacks/ent/gen"
	"github.com/pawlhq/pawl/examples/sqlstacks/orders"
	"github.com/pawlhq/pawl/examples/sqlstacks/orderstest"
)

var dialects = map[orderstest.Database]string{
	orderstest.SQLite:   dialect.SQLite,
	orderstest.Postgres: dialect.Postgres,
}

func TestEachEventTakesEffectOnce(t *testing.T) {
	orderstest.On(t, func(t *testing.T, on orderstest.Database, open func(testing.TB) *orderstest.Store) {
		store := open(t)
		got := pawltest.Run(t, store, orders.Decoder, Handler(dialects[on]), orderstest.Records()...)
		got.Want(pawl.Applied, pawl.Duplicate, pawl.Applied, pawl.WasStale, pawl.Quarantined, pawl.Quarantined, pawl.Applied)
		orderstest.WantCauses(t, got, pawl.CauseConflict, pawl.CauseValidation)
		orderstest.WantRecords(t, store)
	})
}

func TestACrashLosesAndDoublesNothing(t *testing.T) {
	orderstest.On(t, func(t *testing.T, on orderstest.Database, open func(testing.TB) *orderstest.Store) {
		pawltest.EveryCrash(t, open, orders.Decoder, Handler(dialects[on]), orderstest.Records(), orderstest.WantRecords)
	})
}

// UpdateOne is a builder that asks its driver for a transaction.
func TestABuilderThatNeedsATransactionUsesTheHandlers(t *testing.T) {
	placed := pawltest.JSON(orders.Event{ID: "e1", OrderID: "o1", Version: 1, Status: "placed", TotalCents: 1200})
	orderstest.On(t, func(t *testing.T, on orderstest.Database, open func(testing.TB) *orderstest.Store) {
		store := open(t)
		h := func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[orders.Event]) error {
			client, err := join(ctx, dialects[on], tx)
			if err != nil {
				return err
			}
			if err := apply(ctx, client.Order, e.Body); err != nil {
				return err
			}
			return client.Order.UpdateOneID(e.Body.OrderID).AddChanges(1).Exec(ctx)
		}
		pawltest.Run(t, store, orders.Decoder, h, placed).Want(pawl.Applied)
		orderstest.Want(t, store, orderstest.Row{ID: "o1", Status: "placed", TotalCents: 1200, Version: 1, Changes: 2})
	})
}

func TestEntCannotEndTheTransaction(t *testing.T) {
	ctx := t.Context()
	client, err := join(ctx, dialect.SQLite, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Tx(ctx); !errors.Is(err, gen.ErrTxStarted) {
		t.Errorf("Tx: %v, want %v", err, gen.ErrTxStarted)
	}
	if err := (joined{}).Commit(); !errors.Is(err, pawl.ErrTxEnded) {
		t.Errorf("Commit: %v, want %v", err, pawl.ErrTxEnded)
	}
	if err := client.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}
