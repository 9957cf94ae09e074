package effect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cockroachdb/apd/v3"

	"github.com/pawlhq/pawl"
)

// Ledger keeps entries that are never changed: what each event posts, under the event's Key. Amounts are exact decimals.
//
//	the event                                      is decided as
//	posts entries that keep the invariants         Applied
//	posts nothing                                  Ignored
//	breaks an invariant, or cannot be posted       Quarantined (validation)
//
// A correction is an event of its own that posts the difference, and may name what it corrects in a column. It must not say so
// in Identity.Supersedes, which replaces: an original that came after its correction would never be posted, and the
// difference would stand alone.
type Ledger[T any] struct {
	Table    string // the entries
	Key      string // the column of the event's Key: text. With Line, it is the primary key
	Line     string // the column of the entry's number within its event, from 1. Empty: an event posts one entry
	Account  string // the column of the account: text
	Currency string // the column of the currency: text. Empty: there is one
	Amount   string // the column of the amount: decimal
	Columns  []Column[T]

	// Post returns what an event posts.
	Post func(e *pawl.Envelope[T]) ([]Posting, error)

	// Balances is a table of cached balances, kept in the same transaction: its key is the columns named in Account and
	// Currency. Empty: there is none.
	Balances string
	Balance  string // the column of the balance: decimal. Default: "balance"

	// Balanced demands that what an event posts sums to zero, in each currency: double entry.
	Balanced bool
	// NoNegative says which accounts must not go below zero. It needs Balances. One that is below zero may still rise.
	NoNegative func(account string) bool

	States bool // keep the balances before and after each event as evidence

	declared declared
	entries  *pawl.Table
	balances *pawl.Table
}

// Posting is one entry.
type Posting struct {
	Account  string
	Currency string // where the ledger has several
	Amount   string // a decimal number such as "-12.50"
}

// EveryAccount is for [Ledger].NoNegative.
func EveryAccount(string) bool { return true }

// Tables is part of pawl.Effect.
func (l *Ledger[T]) Tables() ([]*pawl.Table, error) {
	return l.declared.do(func() ([]*pawl.Table, error) {
		bad := &problems{what: fmt.Sprintf("ledger %q", l.Table)}
		bad.need("Table", l.Table)
		bad.need("Key", l.Key)
		bad.need("Account", l.Account)
		bad.need("Amount", l.Amount)
		if l.Post == nil {
			bad.add("Post is nil: nothing would be posted")
		}
		if l.Balances == "" && (l.NoNegative != nil || l.States || l.Balance != "") {
			bad.add("NoNegative, States and Balance need Balances")
		}
		if l.Balances == l.Table && l.Table != "" {
			bad.add("Balances is the table of the entries")
		}
		if l.Balanced && l.Line == "" {
			bad.add("Balanced needs Line: an event that sums to zero posts several entries")
		}
		columns[T](l.Columns).check(bad)

		l.entries = &pawl.Table{Name: l.Table, Key: 1, Columns: []pawl.Column{{Name: l.Key, Kind: pawl.KindText, NotNull: true}}}
		if l.Line != "" {
			l.entries.Key = 2
			l.entries.Columns = append(l.entries.Columns, pawl.Column{Name: l.Line, Kind: pawl.KindInt, NotNull: true})
		}
		of := []pawl.Column{{Name: l.Account, Kind: pawl.KindText, NotNull: true}}
		if l.Currency != "" {
			of = append(of, pawl.Column{Name: l.Currency, Kind: pawl.KindText, NotNull: true})
		}
		l.entries.Columns = append(append(l.entries.Columns, of...), pawl.Column{Name: l.Amount, Kind: pawl.KindDecimal, NotNull: true})
		columns[T](l.Columns).of(l.entries)
		if l.Balances == "" {
			return bad.tables(l.entries)
		}
		balance := l.Balance
		if balance == "" {
			balance = "balance"
		}
		l.balances = &pawl.Table{Name: l.Balances, Key: len(of), Columns: append(slices.Clone(of), pawl.Column{Name: balance, Kind: pawl.KindDecimal, NotNull: true})}
		return bad.tables(l.entries, l.balances)
	})
}

// Gaps is part of pawl.Effect.
func (l *Ledger[T]) Gaps() bool { return false }

// entry is an event with what it posts.
type entry struct {
	record int
	rows   []pawl.Row
	at     []int // balance of each row
}

// Fold is part of pawl.Effect.
func (l *Ledger[T]) Fold(ctx context.Context, rows pawl.Rows, b *pawl.Batch[T]) error {
	if _, err := l.Tables(); err != nil {
		return pawl.Classed(pawl.Misconfigured, err)
	}
	var balances *totals
	if l.balances != nil {
		balances = newTotals(l.balances)
	}
	entries := make([]entry, 0, b.Len())
	for i := range b.Len() {
		en, err := l.post(b.At(i))
		switch {
		case err != nil:
			b.Reject(i, err)
			continue
		case len(en.rows) == 0:
			b.Decide(i, pawl.Verdict{Outcome: pawl.Ignored, Reason: "it posts nothing"})
			continue
		}
		en.record = i
		if balances != nil {
			for _, r := range en.rows {
				en.at = append(en.at, balances.at(r[l.entries.Key:l.entries.Key+l.balances.Key]))
			}
		}
		entries = append(entries, en)
	}
	if balances != nil && (l.NoNegative != nil || l.States) {
		if err := balances.load(ctx, rows); err != nil {
			return err
		}
	}
	var insert []pawl.Row
	for _, en := range entries {
		v := pawl.Verdict{Outcome: pawl.Applied}
		if balances != nil {
			v = l.settle(balances, &en)
		}
		if v.Outcome == pawl.Applied {
			v.RowAffected = l.accounts(&en, b.At(en.record).Stream)
		}
		if b.Decide(en.record, v); v.Outcome != pawl.Applied {
			continue
		}
		insert = append(insert, en.rows...)
	}
	if len(insert) == 0 {
		return nil
	}
	if err := rows.Insert(ctx, l.entries, insert); err != nil {
		return err
	}
	if balances == nil {
		return nil
	}
	return balances.write(ctx, rows)
}

// post makes the rows of an event, or says why there can be none.
func (l *Ledger[T]) post(e *pawl.Envelope[T]) (en entry, err error) {
	defer recovered(&err)
	if e.Supersedes != "" {
		return en, errors.New("a ledger's corrections are additive: post the difference, and name what it corrects in a column, not in Identity.Supersedes")
	}
	if err := validKey(e.Key); err != nil {
		return en, err
	}
	postings, err := l.Post(e)
	if err != nil {
		return en, err
	}
	if len(postings) > 1 && l.Line == "" {
		return en, fmt.Errorf("it posts %d entries, and the ledger has no Line column to tell them apart", len(postings))
	}
	values := make([]any, len(l.Columns))
	if len(postings) > 0 {
		if err := columns[T](l.Columns).fill(e, values); err != nil {
			return en, err
		}
		none(values)
	}
	sums := map[string]*apd.Decimal{}
	for i, p := range postings {
		amount, err := l.amount(p)
		if err != nil {
			return en, fmt.Errorf("posting %d: %w", i+1, err)
		}
		if l.Balanced {
			if sums[p.Currency] == nil {
				sums[p.Currency] = new(apd.Decimal)
			}
			exact.Add(sums[p.Currency], sums[p.Currency], amount)
		}
		row := make(pawl.Row, 0, len(l.entries.Columns))
		row = append(row, e.Key)
		if l.Line != "" {
			row = append(row, int64(i+1))
		}
		row = append(row, p.Account)
		if l.Currency != "" {
			row = append(row, p.Currency)
		}
		en.rows = append(en.rows, append(append(row, plain(amount)), values...))
	}
	for _, currency := range slices.Sorted(maps.Keys(sums)) { // the same reason each time
		if s := sums[currency]; !s.IsZero() {
			return en, fmt.Errorf("not balanced: what it posts sums to %s %s", plain(s), currency)
		}
	}
	return en, nil
}

func (l *Ledger[T]) amount(p Posting) (*apd.Decimal, error) {
	switch {
	case p.Account == "":
		return nil, errors.New("the account is empty")
	case l.Currency != "" && p.Currency == "":
		return nil, errors.New("the currency is empty")
	case l.Currency == "" && p.Currency != "":
		return nil, fmt.Errorf("it has the currency %q, and the ledger has no Currency column", p.Currency)
	}
	if err := errors.Join(validText(p.Account), validText(p.Currency)); err != nil {
		return nil, err
	}
	return parseDecimal(p.Amount)
}

// settle adds what an event posts to the balances, unless that breaks an invariant.
func (l *Ledger[T]) settle(balances *totals, en *entry) pawl.Verdict {
	touched := distinct(en.at)
	v := pawl.Verdict{Outcome: pawl.Applied}
	if l.States {
		v.StateBefore = balances.states(touched)
	}
	was := make([]apd.Decimal, len(touched))
	changed := make([]bool, len(touched))
	for i, at := range touched {
		was[i].Set(&balances.rows[at].sums[0].d)
		changed[i] = balances.rows[at].changed
	}
	amount := l.entries.Key + l.balances.Key
	for i, at := range en.at {
		if err := balances.add(at, en.rows[i][amount:amount+1], false); err != nil {
			v = pawl.Verdict{Outcome: pawl.Quarantined, Cause: pawl.CauseValidation, Reason: err.Error()}
			break
		}
	}
	if v.Outcome == pawl.Applied && l.NoNegative != nil {
		for i, at := range touched {
			account, now := balances.rows[at].row[0].(string), &balances.rows[at].sums[0].d
			if now.Sign() < 0 && now.Cmp(&was[i]) < 0 && l.NoNegative(account) {
				v = pawl.Verdict{Outcome: pawl.Quarantined, Cause: pawl.CauseValidation}
				v.Reason = fmt.Sprintf("negative balance: %s has %s, and would have %s", balances.name(at), plain(&was[i]), plain(now))
				break
			}
		}
	}
	if v.Outcome != pawl.Applied {
		for i, at := range touched {
			balances.rows[at].sums[0].d.Set(&was[i])
			balances.rows[at].changed = changed[i]
		}
		return v
	}
	if l.States {
		v.StateAfter = balances.states(touched)
	}
	return v
}

// accounts names the accounts of an event, for people.
func (l *Ledger[T]) accounts(en *entry, stream string) string {
	at := l.entries.Key
	if len(en.rows) == 1 && en.rows[0][at] == stream {
		return ""
	}
	if len(en.rows) == 1 {
		return l.Account + "=" + en.rows[0][at].(string)
	}
	var names []string
	for _, r := range en.rows {
		if name := r[at].(string); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	const most = 10 // of them say enough
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("and %d more", more))
	}
	return l.Account + "=" + strings.Join(names, ", ")
}

// distinct returns each place once, in the order they came.
func distinct(at []int) []int {
	out := make([]int, 0, len(at))
	for _, a := range at {
		if !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}
