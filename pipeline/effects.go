package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/effect"
)

// effects makes the effects of a pipeline.
func (c *compiler) effects() {
	p := c.p
	switch {
	case p.Projection != nil:
		c.projection(p.Projection)
	case p.Workflow != nil:
		c.workflow(p.Workflow)
	case p.Ledger != nil:
		c.ledger(p.Ledger)
	case p.Counter != nil:
		c.counter(p.Counter)
	case p.State != nil:
		c.state(p.State)
	case p.Commands != nil:
		c.commands(p.Commands)
	}
	if also := slices.Contains(p.Also, "audit"); p.Audit != nil && (p.Kind() == "audit" || also) {
		c.audit(p.Audit)
	} else if also {
		c.audit(&Audit{Table: strings.ToLower(notIdentifier.ReplaceAllString(p.Name, "_")) + "_audit"})
	}
}

var notIdentifier = regexp.MustCompile(`[^A-Za-z0-9_]`)

// add checks a declaration, and keeps it.
func (c *compiler) add(name string, e pawl.Effect[*Document]) { c.addWith(name, e, nil) }

func (c *compiler) addWith(name string, e pawl.Effect[*Document], deleted *program) {
	if c.f.b.faults() > 0 {
		return // what follows from a fault is no fault of its own
	}
	tables, err := e.Tables()
	if err != nil {
		c.fault("columns", name, "", "%v", err)
		return
	}
	if c.p.decoder.when != nil || deleted != nil {
		e = &filter{e, c.p.decoder.when, deleted}
	}
	c.p.routes = append(c.p.routes, route{name, e, tables})
}

func (s *source) faults() int {
	n := 0
	for _, f := range s.findings {
		if f.Severity == Fault {
			n++
		}
	}
	return n
}

// needs reports what an effect cannot be without.
func (c *compiler) needs(what string, p *program, why string) {
	if p == nil && !c.failed("event."+what) {
		c.fault("event", c.p.Kind(), "add event: {"+what+": …}", "a %s needs %s", c.p.Kind(), why)
	}
}

// failed reports whether something is wrong at a path already.
func (c *compiler) failed(path string) bool {
	return slices.ContainsFunc(c.f.b.findings, func(f Finding) bool {
		return f.Path == join(c.p.path, path) && f.Severity == Fault
	})
}

// column takes the column with a role out of the others.
func (c *compiler) column(cols []column, role, path string) (string, []column) {
	name, rest := find(cols, role)
	if name == "" && !c.failedBelow(path+".") && !c.failedAs("type", path) {
		word := role
		for short, long := range roles {
			if long == role {
				word = short
			}
		}
		c.fault("columns", path, "add a column: {name: "+word+"}", "no column holds the %s", word)
	}
	return name, rest
}

// failedAs reports whether a rule has found something at a path already.
func (c *compiler) failedAs(rule, path string) bool {
	return slices.ContainsFunc(c.f.b.findings, func(f Finding) bool { return f.Path == join(c.p.path, path) && f.Rule == rule })
}

func (c *compiler) failedBelow(path string) bool {
	at := join(c.p.path, path)
	return slices.ContainsFunc(c.f.b.findings, func(f Finding) bool {
		return strings.HasPrefix(f.Path, at) && f.Severity == Fault
	})
}

func (c *compiler) projection(s *Projection) {
	c.table(s.Table, "projection.table")
	c.needs("stream", c.p.decoder.stream, "a stream: it has one row for each")
	cols := c.columns(s.Columns, "projection.columns")
	e := &effect.Projection[*Document]{Table: s.Table, States: s.States}
	e.Stream, cols = c.column(cols, "event.stream", "projection.columns")
	guard := "event.version"
	switch s.Rule {
	case "newer":
		e.Rule = effect.Newer
	case "newer_time":
		e.Rule, guard = effect.NewerTime, "event.at"
		c.needs("at", c.p.decoder.at, "a time under rule: newer_time")
		c.warn("newer-time", "projection.rule", "use versions, if the events have any", "events are guarded by their time alone")
	}
	if guard == "event.version" {
		c.needs("version", c.p.decoder.version, "a version, which keeps its rows from going back")
	}
	e.Version, cols = c.column(cols, guard, "projection.columns")
	e.Columns = effectColumns(cols)
	if e.Rule == effect.Next {
		e.Early = c.early(s.Requery)
	}
	c.add("projection", e)
}

func (c *compiler) workflow(s *Workflow) {
	c.table(s.Table, "workflow.table")
	c.needs("stream", c.p.decoder.stream, "a stream: it has one row for each")
	c.needs("version", c.p.decoder.version, "a version, which keeps its rows from going back")
	state := c.optional(s.State, "workflow.state", c.full, textKind)
	cols := c.columns(s.Columns, "workflow.columns", "state")
	e := &effect.Workflow[*Document]{Table: s.Table, Initial: s.Initial, Transitions: map[string][]string{}, States: s.States}
	e.Stream, cols = c.column(cols, "event.stream", "workflow.columns")
	e.Version, cols = c.column(cols, "event.version", "workflow.columns")
	e.State, cols = c.column(cols, "state", "workflow.columns")
	e.Columns = effectColumns(cols)
	for _, t := range s.Transitions {
		e.Transitions[t.From] = t.To
	}
	c.machine(s)
	e.To = func(e *pawl.Envelope[*Document]) (string, error) { return state.word(inputOf(e)) }
	if s.Rule == "newer" {
		e.Rule = effect.Newer
	} else {
		e.Early = c.early(s.Requery)
	}
	c.add("workflow", e)
}

// machine looks for states that no stream can get to.
func (c *compiler) machine(s *Workflow) {
	next := map[string][]string{}
	for _, t := range s.Transitions {
		next[t.From] = t.To
	}
	reached := map[string]bool{}
	for todo := slices.Clone(s.Initial); len(todo) > 0; todo = todo[1:] {
		if at := todo[0]; !reached[at] {
			reached[at] = true
			todo = append(todo, next[at]...)
		}
	}
	var known []string
	for at := range reached {
		known = append(known, at)
	}
	for _, t := range s.Transitions {
		if !reached[t.From] && len(s.Initial) > 0 {
			hint := "add it to initial, or a transition to it"
			if w := nearest(t.From, known); w != "" {
				hint = "did you mean " + w + "?"
			}
			path := join(c.p.path, "workflow.transitions."+t.From)
			c.report(Fault, "transitions", c.f.b.places[path].key, "workflow.transitions."+t.From, hint,
				"no way leads from an initial state to %s", t.From)
		}
		c.once(t.To, "workflow.transitions."+t.From)
	}
	c.once(s.Initial, "workflow.initial")
}

// once reports what is listed twice.
func (c *check) once(list []string, path string) {
	for i, s := range list {
		if slices.Contains(list[:i], s) {
			c.fault("twice", fmt.Sprintf("%s[%d]", path, i), "remove one of them", "%s is listed twice", s)
		}
	}
}

// early is what becomes of events that come before their turn.
func (c *compiler) early(r *Requery) effect.Early {
	on := c.p.On.Early
	e := effect.Early{Hold: time.Duration(on.Hold), Most: on.Most}
	if on == (Early{}) {
		e.Hold = 10 * time.Minute
	}
	switch cmp.Or(on.Act, on.Then) {
	case "ignore":
		e.Then = effect.Ignore
	case "requery":
		e.Then = effect.Requery
		if r != nil {
			e.Source = r.source()
		}
	}
	return e
}

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

func (c *compiler) counter(s *Counter) {
	c.table(s.Table, "counter.table")
	e := &effect.Counter[*Document]{Table: s.Table, States: s.States}
	for i, g := range []struct {
		cols Columns
		path string
		to   *[]effect.Column[*Document]
	}{{s.Group, "counter.group", &e.Group}, {s.Add, "counter.add", &e.Sum}} {
		cols := c.columns(g.cols, g.path)
		if len(g.cols) == 0 && !c.failed(g.path) && !c.failedAs("required", "counter") {
			c.fault("columns", g.path, []string{"write group: {name: $.name}", "write add: {name: 1}, to count events"}[i],
				"%s", []string{"no column says what is counted apart", "there is nothing to count"}[i])
		}
		for _, col := range cols {
			if i == 1 && col.kind != intKind && col.kind != decimalKind {
				c.fault("ledger-amount", join(g.path, col.Name), "write int("+col.text+") or decimal("+col.text+")",
					"%s is %s, and must be an int or a decimal", col.text, col.kind)
			}
		}
		*g.to = effectColumns(cols)
	}
	if s.Contributions != "" {
		c.table(s.Contributions, "counter.contributions")
		e.Contributions.Table = s.Contributions
	} else if c.p.decoder.supersedes != nil {
		c.fault("corrections", "event.supersedes", "add contributions: a table that keeps what each event has contributed",
			"what the original has contributed could not be taken back")
	}
	c.add("counter", e)
}

func (c *compiler) audit(s *Audit) {
	c.table(s.Table, "audit.table")
	declared := s.Columns
	if len(declared) == 0 {
		declared = Columns{{Name: "event_key", Value: Expr{Text: "key"}}}
		for _, name := range []string{"id", "stream", "version", "type", "at"} {
			if _, ok := c.full["event."+name]; ok {
				col := name
				if name == "id" || name == "type" {
					col = "event_" + name
				} else if name == "at" {
					col = "occurred_at"
				}
				declared = append(declared, Column{Name: col, Value: Expr{Text: name}})
			}
		}
		declared = append(declared, Column{Name: "body", Value: Expr{Text: "json($)"}})
	}
	cols := c.columns(declared, "audit.columns")
	e := &effect.Audit[*Document]{Table: s.Table}
	e.Key, cols = c.column(cols, "event.key", "audit.columns")
	e.Columns = effectColumns(cols)
	c.add("audit", e)
}

func (c *compiler) state(s *State) {
	c.table(s.Table, "state.table")
	c.needs("stream", c.p.decoder.stream, "a stream: it has one row for each. For a compacted topic it is mostly meta.key")
	cols := c.columns(s.Columns, "state.columns")
	e := &effect.State[*Document]{Table: s.Table, States: s.States}
	e.Stream, cols = c.column(cols, "event.stream", "state.columns")
	e.Version, cols = find(cols, "event.version")
	e.Columns = effectColumns(cols)
	deleted := c.optional(s.Deleted, "state.deleted", c.full, boolKind)
	e.Tombstone = func(e *pawl.Envelope[*Document]) bool {
		if e.Body.Tombstone || deleted == nil {
			return e.Body.Tombstone
		}
		v, err := deleted.required(inputOf(e), boolKind) // one that fails was set aside before
		return err == nil && v == true
	}
	d := c.p.decoder
	reads := func(p *program) bool { // whether it needs a document
		if p == nil {
			return false
		}
		for name, part := range map[string]*program{"event.id": d.id, "event.stream": d.stream, "event.version": d.version,
			"event.type": d.typ, "event.at": d.at, "event.message_id": d.messageID} {
			if p.uses[name] && part != nil && part.uses["$"] {
				return true
			}
		}
		return p.uses["$"]
	}
	switch {
	case deleted != nil && (reads(d.stream) || reads(d.key)):
		d.tombstones = false // the events say themselves what deletes: one without a document is none
	case reads(d.stream):
		c.fault("event", "event.stream", "write stream: meta.key; or, if events say so themselves, deleted: …",
			"a tombstone has no document: its stream must be known from the record's key")
	case reads(d.key):
		c.fault("event", "once_per", "write once_per: meta.position: reading a record again is harmless here",
			"a tombstone has no document: its key must be known without one")
	}
	c.addWith("state", e, deleted)
}

func (c *compiler) commands(s *Commands) {
	c.table(s.Table, "commands.table")
	command := c.optional(s.Command, "commands.command", c.full, textKind)
	cols := c.columns(s.Columns, "commands.columns", "command")
	e := &effect.Commands[*Document]{Table: s.Table}
	e.ID, cols = c.column(cols, "command", "commands.columns")
	e.Columns = effectColumns(cols)
	e.Identify = func(e *pawl.Envelope[*Document]) (string, error) { return command.word(inputOf(e)) }
	c.add("commands", e)
}

// filter ignores events for which a condition is false, and sets aside those for which one cannot be told.
type filter struct {
	pawl.Effect[*Document]
	when    *program // nil: none
	deleted *program // nil: none. It is only tried: the effect itself asks
}

// Fold is part of pawl.Effect.
func (f *filter) Fold(ctx context.Context, rows pawl.Rows, b *pawl.Batch[*Document]) error {
	var pass []int
	for i, e := range b.All() {
		switch ok, err := f.passes(inputOf(&e)); {
		case err != nil:
			b.Reject(i, err)
		case ok:
			pass = append(pass, i)
		default:
			b.Ignore(i, "when: "+clip(f.when.text, 200))
		}
	}
	if len(pass) == 0 {
		return nil
	}
	return b.Delegate(ctx, rows, f.Effect, pass)
}

func (f *filter) passes(in *input) (bool, error) {
	if f.when != nil {
		if ok, err := f.when.required(in, boolKind); err != nil {
			return false, fmt.Errorf("when: %w", err)
		} else if ok != true {
			return false, nil
		}
	}
	if f.deleted != nil && !in.doc.Tombstone {
		if _, err := f.deleted.required(in, boolKind); err != nil {
			return false, fmt.Errorf("deleted: %w", err)
		}
	}
	return true, nil
}

// Ask is part of pawl.Asker.
func (f *filter) Ask(ctx context.Context, streams []string) (map[string]pawl.Answer, error) {
	if a, ok := f.Effect.(pawl.Asker); ok {
		return a.Ask(ctx, streams)
	}
	return nil, nil
}
