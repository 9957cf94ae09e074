package gorm

import (
	"context"
	"errors"
	"testing"

	"github.com/ncruces/go-sqlite3/gormlite"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/pawltest"

	"github.com/pawlhq/pawl/examples/sqlstacks/orders"
	"github.com/pawlhq/pawl/examples/sqlstacks/orderstest"
)

// openGorm opens gorm as a program might, with the options that could lead a statement or an error astray. Its pool answers
// nothing: a statement beside the handler's transaction fails the test.
func openGorm(t testing.TB, on orderstest.Database) *gorm.DB {
	t.Helper()
	dialector := gormlite.OpenDB(nowhere{})
	if on == orderstest.Postgres {
		dialector = postgres.New(postgres.Config{Conn: nowhere{}})
	}
	base, err := gorm.Open(dialector, &gorm.Config{
		Logger: logger.Discard, PrepareStmt: true, TranslateError: true, DisableAutomaticPing: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return base
}

// nowhere panics when it is used.
type nowhere struct{ pawl.SQLTx }

func TestEachEventTakesEffectOnce(t *testing.T) {
	orderstest.On(t, func(t *testing.T, on orderstest.Database, open func(testing.TB) *orderstest.Store) {
		store := open(t)
		got := pawltest.Run(t, store, orders.Decoder, Handler(openGorm(t, on)), orderstest.Records()...)
		got.Want(pawl.Applied, pawl.Duplicate, pawl.Applied, pawl.WasStale, pawl.Quarantined, pawl.Quarantined, pawl.Applied)
		orderstest.WantCauses(t, got, pawl.CauseConflict, pawl.CauseValidation)
		orderstest.WantRecords(t, store)
	})
}

func TestACrashLosesAndDoublesNothing(t *testing.T) {
	orderstest.On(t, func(t *testing.T, on orderstest.Database, open func(testing.TB) *orderstest.Store) {
		pawltest.EveryCrash(t, open, orders.Decoder, Handler(openGorm(t, on)), orderstest.Records(), orderstest.WantRecords)
	})
}

func TestATransactionWithinIsASavepoint(t *testing.T) {
	placed := pawltest.JSON(orders.Event{ID: "e1", OrderID: "o1", Version: 1, Status: "placed", TotalCents: 1200})
	orderstest.On(t, func(t *testing.T, on orderstest.Database, open func(testing.TB) *orderstest.Store) {
		store, base := open(t), openGorm(t, on)
		h := func(ctx context.Context, tx pawl.SQLTx, _ pawl.Envelope[orders.Event]) error {
			db := join(ctx, base, tx)
			undone := errors.New("undone")
			err := db.Transaction(func(db *gorm.DB) error {
				if err := db.Create(&Order{ID: "undone"}).Error; err != nil {
					return err
				}
				return undone
			})
			if !errors.Is(err, undone) {
				t.Errorf("the transaction that fails: %v", err)
			}
			return db.Transaction(func(db *gorm.DB) error { return db.Create(&Order{ID: "kept"}).Error })
		}
		pawltest.Run(t, store, orders.Decoder, h, placed).Want(pawl.Applied)
		orderstest.Want(t, store, orderstest.Row{ID: "kept"})
	})
}

func TestGormCannotEndTheTransaction(t *testing.T) {
	placed := pawltest.JSON(orders.Event{ID: "e1", OrderID: "o1", Version: 1, Status: "placed", TotalCents: 1200})
	orderstest.On(t, func(t *testing.T, on orderstest.Database, open func(testing.TB) *orderstest.Store) {
		store, base := open(t), openGorm(t, on)
		h := func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[orders.Event]) error {
			if err := join(ctx, base, tx).Commit().Error; !errors.Is(err, pawl.ErrTxEnded) {
				t.Errorf("Commit: %v, want %v", err, pawl.ErrTxEnded)
			}
			if err := join(ctx, base, tx).Rollback().Error; !errors.Is(err, pawl.ErrTxEnded) {
				t.Errorf("Rollback: %v, want %v", err, pawl.ErrTxEnded)
			}
			if err := join(ctx, base, tx).Begin().Error; !errors.Is(err, gorm.ErrInvalidTransaction) {
				t.Errorf("Begin: %v, want %v", err, gorm.ErrInvalidTransaction)
			}
			return Handler(base)(ctx, tx, e)
		}
		pawltest.Run(t, store, orders.Decoder, h, placed).Want(pawl.Applied)
		orderstest.Want(t, store, orderstest.Row{ID: "o1", Status: "placed", TotalCents: 1200, Version: 1, Changes: 1})
	})
}

func TestASessionWithinStaysInTheTransaction(t *testing.T) {
	placed := pawltest.JSON(orders.Event{ID: "e1", OrderID: "o1", Version: 1, Status: "placed", TotalCents: 1200})
	orderstest.On(t, func(t *testing.T, on orderstest.Database, open func(testing.TB) *orderstest.Store) {
		store, base := open(t), openGorm(t, on)
		h := func(ctx context.Context, tx pawl.SQLTx, _ pawl.Envelope[orders.Event]) error {
			// Of all options, this one makes gorm fall back to the pool of its Config.
			return join(ctx, base, tx).Session(&gorm.Session{PrepareStmt: true}).Create(&Order{ID: "kept"}).Error
		}
		pawltest.Run(t, store, orders.Decoder, h, placed).Want(pawl.Applied)
		orderstest.Want(t, store, orderstest.Row{ID: "kept"})
	})
}
