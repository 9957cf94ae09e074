package effect_test

import (
	"context"
	"fmt"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/effect"
)

// Accounts as a ledger of double entries, with a cached balance that cannot go below zero.
func ExampleLedger() {
	type Transfer struct{ From, To, Amount string }

	accounts := &effect.Ledger[Transfer]{
		Table: "ledger_entry", Key: "event_key", Line: "line", Account: "account", Amount: "amount",
		Balances: "account_balance", Balanced: true,
		NoNegative: func(account string) bool { return account != "cash" },
		Post: func(e *pawl.Envelope[Transfer]) ([]effect.Posting, error) {
			return []effect.Posting{{Account: e.Body.From, Amount: "-" + e.Body.Amount}, {Account: e.Body.To, Amount: e.Body.Amount}}, nil
		},
	}
	// In a program: pawl.Apply(runner, route, decoder, accounts)

	event := func(key, from, to, amount string) pawl.Envelope[Transfer] {
		return pawl.Envelope[Transfer]{Identity: pawl.Identity{Key: key}, Body: Transfer{from, to, amount}}
	}
	trial := pawl.Trial[Transfer]{Events: []pawl.Envelope[Transfer]{
		event("a", "cash", "alice", "10.50"), event("b", "alice", "bob", "10.51"), event("c", "alice", "bob", "10.50"),
	}}
	verdicts, err := trial.Fold(context.Background(), accounts, newMemory())
	if err != nil {
		fmt.Println(err)
	}
	for i, v := range verdicts {
		fmt.Println(trial.Events[i].Key, v.Outcome)
	}
	fmt.Println(verdicts[1].Reason)
	// Output:
	// a applied
	// b quarantined
	// c applied
	// negative balance: account=alice has 10.50, and would have -0.01
}
