package pipeline

import (
	"fmt"
	"strings"
	"testing"
)

// A ledger that refuses overdrafts does depend on order: no line of its contract says otherwise.
func TestTheContractOfALedgerThatRefusesOverdraftsSaysThatOrderMatters(t *testing.T) {
	for negative, free := range map[string]bool{"allow": true, "quarantine": false} {
		set, err := load(t, nil, "a.yaml", body(events, once, strings.Replace(ledger, "ledger: {", "ledger: {balances: {table: b, negative: "+negative+"}, ", 1)))
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("%+v", *NewContract(set.Pipelines[0], Coverage{}))
		says := strings.Contains(text, "rows do not depend on the order") || strings.Contains(text, "does not depend on the order of events")
		if says != free {
			t.Errorf("negative: %s\n%s", negative, text)
		}
	}
}
