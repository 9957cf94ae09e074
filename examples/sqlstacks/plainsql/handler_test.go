package plainsql_test

import (
	"testing"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/pawltest"

	"github.com/pawlhq/pawl/examples/sqlstacks/orders"
	"github.com/pawlhq/pawl/examples/sqlstacks/orderstest"
	"github.com/pawlhq/pawl/examples/sqlstacks/plainsql"
)

func TestEachEventTakesEffectOnce(t *testing.T) {
	orderstest.On(t, func(t *testing.T, _ orderstest.Database, open func(testing.TB) *orderstest.Store) {
		store := open(t)
		got := pawltest.Run(t, store, orders.Decoder, plainsql.Handler, orderstest.Records()...)
		got.Want(pawl.Applied, pawl.Duplicate, pawl.Applied, pawl.WasStale, pawl.Quarantined, pawl.Quarantined, pawl.Applied)
		orderstest.WantCauses(t, got, pawl.CauseConflict, pawl.CauseValidation)
		orderstest.WantRecords(t, store)
	})
}

func TestACrashLosesAndDoublesNothing(t *testing.T) {
	orderstest.On(t, func(t *testing.T, _ orderstest.Database, open func(testing.TB) *orderstest.Store) {
		pawltest.EveryCrash(t, open, orders.Decoder, plainsql.Handler, orderstest.Records(), orderstest.WantRecords)
	})
}
