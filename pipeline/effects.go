package pipeline

import (
	"regexp"
	"slices"
	"strings"

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

// needs reports what an effect cannot be without.
func (c *compiler) needs(what string, p *program, why string) {
	if p == nil && !c.failed("event."+what) {
		c.fault("event", c.p.Kind(), "add event: {"+what+": …}", "a %s needs %s", c.p.Kind(), why)
	}
}

// failed reports whether something is wrong at a path already.
func (c *compiler) failed(path string) bool {
	at := join(c.p.path, path)
	return slices.ContainsFunc(c.f.b.findings, func(f Finding) bool { return f.Path == at && f.Severity == Fault })
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
