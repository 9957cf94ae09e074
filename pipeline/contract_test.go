package pipeline

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
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

// A case that sends an event a second time says so with again, or writes it out; one that only has other events does not.
func TestASecondDeliveryIsCountedHoweverItIsWritten(t *testing.T) {
	files := fstest.MapFS{"a.yaml": {Data: []byte(goodFile)}, "a_test.yaml": {Data: []byte(`version: 1
cases:
  - {name: again, records: [{json: {id: 1}}, {again: 1, outcome: duplicate}]}
  - {name: written out, records: [{json: {id: 1}}, {json: {id: 1}, outcome: duplicate}]}
  - {name: once, records: [{json: {id: 1}}, {json: {id: 2}, outcome: stale}]}
`)}}
	env := Env{Files: files, Offline: true}
	set, err := Load([]string{"a.yaml"}, env)
	if err != nil {
		t.Fatal(err)
	}
	if got := set.Coverage(env)["p"]; got != (Coverage{Cases: 3, Again: 2}) {
		t.Errorf("coverage: %+v", got)
	}
}
