package effect_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/effect"
)

// transfer is the body of a ledger's event.
type transfer struct {
	Postings []effect.Posting
	Corrects string
	Fail     string
}

type booking = pawl.Envelope[transfer]

func ledger(change func(*effect.Ledger[transfer])) *effect.Ledger[transfer] {
	l := &effect.Ledger[transfer]{
		Table: "entries", Key: "event_key", Line: "line", Account: "account", Amount: "amount",
		Columns: []effect.Column[transfer]{{Name: "corrects", Kind: pawl.KindText, Value: func(e *booking) (any, error) {
			if e.Body.Corrects == "" {
				return effect.Keep, nil
			}
			return e.Body.Corrects, nil
		}}},
		Post: func(e *booking) ([]effect.Posting, error) {
			switch e.Body.Fail {
			case "error":
				return nil, errMade
			case "panic":
				panic(errMade)
			}
			return e.Body.Postings, nil
		},
	}
	if change != nil {
		change(l)
	}
	return l
}

func balanced(l *effect.Ledger[transfer]) { l.Balances = "balances" }

// post makes an event of account and amount in turn.
func post(key string, pairs ...string) booking {
	e := booking{Identity: pawl.Identity{Key: key}}
	for i := 0; i < len(pairs); i += 2 {
		e.Body.Postings = append(e.Body.Postings, effect.Posting{Account: pairs[i], Amount: pairs[i+1]})
	}
	return e
}

func TestALedgerKeepsWhatEventsPost(t *testing.T) {
	w := newWorld(t, ledger(balanced))
	fix := post("c", "alice", "-0.01")
	fix.Body.Corrects = "a"
	got := w.fold(post("a", "alice", "10.10", "bob", "-10.10", "alice", "0.2"), post("b", "bob", "1e2"), fix)
	want(t, got, "applied", "applied", "applied")
	w.wantTable("entries", "a 1 alice 10.10 -", "a 2 bob -10.10 -", "a 3 alice 0.2 -", "b 1 bob 100 -", "c 1 alice -0.01 a")
	w.wantTable("balances", "alice 10.29", "bob 89.90")
	if got[0].RowAffected != "account=alice, bob" || got[1].RowAffected != "account=bob" {
		t.Errorf("rows affected: %q, %q", got[0].RowAffected, got[1].RowAffected)
	}
	if calls := strings.Join(w.rows.calls, ", "); calls != "insert entries, add balances" {
		t.Errorf("calls: %s", calls)
	}
	own := post("d", "alice", "-10.29")
	own.Stream = "alice"
	if v := w.fold(own)[0]; v.RowAffected != "" {
		t.Errorf("row affected: %q, which the stream says", v.RowAffected)
	}
	w.wantTable("balances", "alice 0.00", "bob 89.90")
	w.fold(post("e", "carol", "-0.0"))
	w.wantTable("balances", "alice 0.00", "bob 89.90", "carol 0.0")
}

func TestALedgerWithoutBalancesOnlyInserts(t *testing.T) {
	w := newWorld(t, ledger(func(l *effect.Ledger[transfer]) { l.Line = "" }))
	want(t, w.fold(post("a", "alice", "1"), post("b", "alice", "1", "bob", "2")), "applied",
		"quarantined validation: it posts 2 entries, and the ledger has no Line column")
	w.wantTable("entries", "a alice 1 -")
	if calls := strings.Join(w.rows.calls, ", "); calls != "insert entries" {
		t.Errorf("calls: %s", calls)
	}
}

func TestWhatCannotBePostedIsSetAside(t *testing.T) {
	superseding := post("a", "alice", "1")
	superseding.Supersedes = "z"
	failing, panicking := post("a"), post("a")
	failing.Body.Fail, panicking.Body.Fail = "error", "panic"
	foreign := post("a", "alice", "1")
	foreign.Body.Postings[0].Currency = "EUR"
	for name, c := range map[string]struct {
		event booking
		want  string
	}{
		"nothing":       {post("a"), "ignored: it posts nothing"},
		"no account":    {post("a", "alice", "1", "", "1"), "quarantined validation: posting 2: the account is empty"},
		"no number":     {post("a", "alice", "ten"), `quarantined validation: posting 1: "ten" is no decimal number`},
		"infinite":      {post("a", "alice", "Infinity"), `quarantined validation: posting 1: "Infinity" is no decimal number`},
		"no text":       {post("a", "\xff", "1"), "quarantined validation: posting 1: the text is not valid UTF-8"},
		"a currency":    {foreign, `quarantined validation: posting 1: it has the currency "EUR"`},
		"an error":      {failing, "quarantined validation: made by the test"},
		"a panic":       {panicking, "quarantined validation: panic: made by the test"},
		"a replacement": {superseding, "quarantined validation: a ledger's corrections are additive"},
		"a long key":    {post(strings.Repeat("k", 2000), "alice", "1"), "quarantined validation: the key is 2000 bytes long"},
		"a broken key":  {post("k\xff", "alice", "1"), "quarantined validation: the key: the text is not valid UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, ledger(balanced))
			want(t, w.fold(c.event, post("b", "bob", "2")), c.want, "applied")
			w.wantTable("entries", "b 1 bob 2 -")
			w.wantTable("balances", "bob 2")
		})
	}
}

func TestDoubleEntrySumsToZeroInEachCurrency(t *testing.T) {
	w := newWorld(t, ledger(func(l *effect.Ledger[transfer]) { l.Balanced, l.Currency, l.Balances = true, "currency", "balances" }))
	eur := func(key string, amounts ...string) booking {
		e := booking{Identity: pawl.Identity{Key: key}}
		for i, a := range amounts {
			amount, currency, _ := strings.Cut(a, " ")
			e.Body.Postings = append(e.Body.Postings, effect.Posting{Account: fmt.Sprint("a", i), Currency: currency, Amount: amount})
		}
		return e
	}
	want(t, w.fold(eur("a", "5 EUR", "-5.00 EUR"), eur("b", "5 EUR", "-4.99 EUR"), eur("c", "5 EUR", "-5 USD"), eur("d", "5 EUR", "-5 EUR", "1 USD", "-1 USD"), eur("e", "5", "-5")),
		"applied", "quarantined validation: not balanced: what it posts sums to 0.01 EUR", "quarantined validation: not balanced: what it posts sums to 5 EUR", "applied",
		"quarantined validation: posting 1: the currency is empty")
	w.wantTable("balances", "a0 EUR 10", "a1 EUR -10.00", "a2 USD 1", "a3 USD -1")
}

func TestABalanceDoesNotGoBelowZero(t *testing.T) {
	w := newWorld(t, ledger(func(l *effect.Ledger[transfer]) {
		l.Balances, l.States = "balances", true
		l.NoNegative = func(account string) bool { return account != "bank" }
	}))
	got := w.fold(post("a", "alice", "10", "bank", "-10"), post("b", "alice", "-10.01", "bob", "10.01"), post("c", "alice", "-10", "bob", "4", "bob", "6"), post("d", "carol", "-1"))
	want(t, got, "applied", "quarantined validation: negative balance: account=alice has 10, and would have -0.01", "applied", "quarantined validation: negative balance: account=carol has 0")
	w.wantTable("balances", "alice 0", "bank -10", "bob 10")
	if got[0].StateBefore != "[null,null]" || got[0].StateAfter != `[{"account":"alice","balance":"10"},{"account":"bank","balance":"-10"}]` || got[1].StateAfter != "" {
		t.Errorf("states: %+v", got[:2])
	}
	if calls := strings.Join(w.rows.calls, ", "); calls != "read balances, insert entries, put balances" {
		t.Errorf("calls: %s", calls)
	}
	want(t, w.fold(post("e", "bob", "-10.5", "bob", "1"), post("f", "bob", "-1")), "applied", "quarantined validation") // only the sum of an event counts

	e := ledger(func(l *effect.Ledger[transfer]) { l.Balances, l.NoNegative = "balances", effect.EveryAccount })
	w = newWorld(t, e)
	tables, _ := e.Tables()
	w.rows.seed(tables[1], pawl.Row{"alice", "-5"})
	want(t, w.fold(post("a", "alice", "1"), post("b", "alice", "-1")), "applied", "quarantined validation: negative balance: account=alice has -4, and would have -5")
}

func TestALedgerIsChecked(t *testing.T) {
	_, err := (&effect.Ledger[transfer]{Balanced: true, States: true}).Tables()
	wantError(t, err, "Table is empty", "Key is empty", "Account is empty", "Amount is empty", "Post is nil", "need Balances", "Balanced needs Line")
	_, err = ledger(func(l *effect.Ledger[transfer]) { l.Balances, l.Balance = "entries", "account" }).Tables()
	wantError(t, err, "Balances is the table of the entries", `column "account" is there twice`)
}

// The balance is the sum of the entries, whatever is refused and however the events are cut.
func TestBalancesAreTheSumOfTheEntries(t *testing.T) {
	for _, guard := range []bool{false, true} {
		t.Run(fmt.Sprintf("guarded %t", guard), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				var all []booking
				for i := range rapid.IntRange(1, 15).Draw(rt, "events") {
					var pairs []string
					for range rapid.IntRange(0, 3).Draw(rt, "postings") {
						pairs = append(pairs, rapid.SampledFrom([]string{"x", "y", "z"}).Draw(rt, "account"), fmt.Sprint(rapid.IntRange(-9, 9).Draw(rt, "amount")))
					}
					all = append(all, post(fmt.Sprint("k", i), pairs...))
				}
				w := newWorld(t, ledger(func(l *effect.Ledger[transfer]) {
					if l.Balances = "balances"; guard {
						l.NoNegative = effect.EveryAccount
					}
				}))
				sums, there := map[string]int{}, map[string]bool{}
				for _, b := range batches(rt, all) {
					w.fold(b...)
				}
				for _, e := range all { // the model: whole numbers, one event at a time
					after := map[string]int{}
					for _, p := range e.Body.Postings {
						var n int
						fmt.Sscan(p.Amount, &n)
						after[p.Account] += n
					}
					refused := false
					for a, n := range after {
						refused = refused || guard && sums[a]+n < 0 && n < 0
					}
					if is := w.said[e.Key].Outcome == pawl.Quarantined; is != refused {
						rt.Fatalf("%s: %s", e.Key, said(w.said[e.Key]))
					}
					for a, n := range after {
						if !refused {
							sums[a] += n
							there[a] = true
						}
					}
				}
				var lines []string
				for _, a := range []string{"x", "y", "z"} {
					if there[a] {
						lines = append(lines, fmt.Sprintf("%s %d", a, sums[a]))
					}
				}
				if got := w.table("balances"); got != strings.Join(lines, "\n") {
					rt.Fatalf("balances:\n%s\nmodel:\n%s", got, strings.Join(lines, "\n"))
				}
			})
		})
	}
}
