package pawltest_test

import (
	"context"
	"testing"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/pawltest"
)

// A handler's test: each outcome, then a crash in every window.
func ExampleRun() {
	var t *testing.T // of the test function

	handler := func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[deposit]) error {
		_, err := tx.ExecContext(ctx, `update account set balance = balance + ?`, e.Body.Amount)
		return err
	}
	pawltest.Run(t, openAccount(t), deposits, handler,
		pawltest.JSON(deposit{"a", 2}),
		pawltest.JSON(deposit{"a", 2}),
		pawltest.JSON(deposit{"a", 3}), // the same key with another content
		pawltest.Bytes([]byte("{")),
	).Want(pawl.Applied, pawl.Duplicate, pawl.Quarantined, pawl.Quarantined)
}

// The handler is crashed in every window between two durable steps, on a fresh store each time.
func ExampleEveryCrash() {
	var t *testing.T // of the test function

	handler := func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[deposit]) error {
		_, err := tx.ExecContext(ctx, `update account set balance = balance + ?`, e.Body.Amount)
		return err
	}
	pawltest.EveryCrash(t, openAccount, deposits, handler,
		[]pawl.Record{pawltest.JSON(deposit{"a", 2}), pawltest.JSON(deposit{"a", 2}), pawltest.JSON(deposit{"b", 5})},
		func(t testing.TB, a account) {
			if n := a.balance(t); n != 7 {
				t.Errorf("balance %d, want 7", n)
			}
		})
}
