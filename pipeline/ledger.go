package pipeline

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/effect"
)

func (c *compiler) ledger(s *Ledger) {
	c.table(s.Table, "ledger.table")
	words := []string{"account", "amount", "currency"}
	amounts := []kind{decimalKind, intKind}
	e := &effect.Ledger[*Document]{Table: s.Table, States: s.States}
	account := c.optional(s.Account, "ledger.account", c.full, textKind)
	amount := c.amount(s.Amount, "ledger.amount", c.full, amounts)
	currency := c.optional(s.Currency, "ledger.currency", c.full, textKind)
	var lines *program
	switch p := s.Postings; {
	case p != nil:
		for path, given := range map[string]Expr{"ledger.account": s.Account, "ledger.amount": s.Amount,
			"ledger.currency": s.Currency} {
			if !given.IsZero() {
				c.fault("no-effect", path, "say it under postings", "with postings, each entry has its own")
			}
		}
		line := maps.Clone(c.full)
		line["line"] = dynKind
		lines = c.optional(p.Each, "ledger.postings.each", c.full, jsonKind)
		account = c.optional(p.Account, "ledger.postings.account", line, textKind)
		amount = c.amount(p.Amount, "ledger.postings.amount", line, amounts)
		currency = c.optional(p.Currency, "ledger.postings.currency", line, textKind)
		e.Balanced = p.Sum != "any"
		words = append(words, "line")
	case s.Account.IsZero() || s.Amount.IsZero():
		c.fault("required", "ledger", "add account and amount, or postings", "it is not said what an event posts")
	}
	cols := c.columns(s.Columns, "ledger.columns", words...)
	e.Key, cols = c.column(cols, "event.key", "ledger.columns")
	e.Account, cols = c.column(cols, "account", "ledger.columns")
	e.Amount, cols = c.column(cols, "amount", "ledger.columns")
	if currency != nil {
		e.Currency, cols = c.column(cols, "currency", "ledger.columns")
	} else if name, _ := find(cols, "currency"); name != "" {
		c.fault("columns", "ledger.columns."+name, "add currency: $.currency to the ledger", "it is not said what the currency is")
		return
	}
	if s.Postings != nil {
		e.Line, cols = c.column(cols, "line", "ledger.columns")
	}
	e.Columns = effectColumns(cols)
	if b := s.Balances; b != nil {
		c.table(b.Table, "ledger.balances.table")
		if b.Balance != "" {
			c.identifier(b.Balance, "ledger.balances.balance")
		}
		if e.Balances, e.Balance = b.Table, b.Balance; b.Negative == "quarantine" {
			e.NoNegative = effect.EveryAccount
		}
	} else if s.States {
		c.fault("no-effect", "ledger.states", "add balances", "there are no balances that could be kept as evidence")
	}
	if c.p.decoder.supersedes != nil {
		c.fault("corrections", "event.supersedes", "let a correction post the difference, and keep what it corrects in a column",
			"entries are never taken back: an original that came after its correction would never be posted")
	}
	post := func(in *input) (p effect.Posting, err error) {
		if p.Account, err = account.word(in); err != nil {
			return p, err
		}
		v, err := amount.required(in, decimalKind)
		if err != nil {
			return p, err
		}
		p.Amount = v.(decimal).text()
		if currency != nil {
			p.Currency, err = currency.word(in)
		}
		return p, err
	}
	e.Post = func(e *pawl.Envelope[*Document]) ([]effect.Posting, error) {
		in := inputOf(e)
		if lines == nil {
			p, err := post(in)
			return []effect.Posting{p}, err
		}
		v, err := lines.required(in, jsonKind)
		if err != nil {
			return nil, err
		}
		list, ok := v.([]any)
		if !ok {
			return nil, fmt.Errorf("%s is %s, and must be a list", lines.text, describe(v))
		}
		all := make([]effect.Posting, len(list))
		for i := range list {
			in.line = list[i]
			if all[i], err = post(in); err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
		}
		return all, nil
	}
	c.add("ledger", e)
}

// amount compiles what must be exact, and known to be before any record is read.
func (c *compiler) amount(e Expr, path string, sc scope, want []kind) *program {
	if e.IsZero() {
		return nil
	}
	p := c.expr(e, path, sc)
	if p != nil && !slices.Contains(want, p.kind) {
		hint := "write decimal(" + e.Text + ")"
		c.report(Fault, "ledger-amount", e.at, path, hint, "%s is %s, and must be a decimal or an int", e.Text, p.kind)
	}
	return p
}
