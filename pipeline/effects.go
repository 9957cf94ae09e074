package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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
	}
}

// add checks a declaration, and keeps it.
func (c *compiler) add(name string, e pawl.Effect[*Document]) {
	if c.f.b.faults() > 0 {
		return // what follows from a fault is no fault of its own
	}
	tables, err := e.Tables()
	if err != nil {
		c.fault("columns", name, "", "%v", err)
		return
	}
	if c.p.when != nil {
		e = &filter{e, c.p.when}
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
	return slices.ContainsFunc(c.f.b.findings, func(f Finding) bool { return f.Path == join(c.p.path, path) && f.Severity == Fault })
}

// column takes the column with a role out of the others.
func (c *compiler) column(cols []column, role, path string) (string, []column) {
	name, rest := find(cols, role)
	if name == "" && !c.failedBelow(path) {
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

func (c *compiler) failedBelow(path string) bool {
	at := join(c.p.path, path)
	return slices.ContainsFunc(c.f.b.findings, func(f Finding) bool { return len(f.Path) >= len(at) && f.Path[:len(at)] == at && f.Severity == Fault })
}

func (c *compiler) projection(s *Projection) {
	c.table(s.Table, "projection.table")
	c.needs("stream", c.p.decoder.stream, "a stream: it has one row for each")
	cols := c.columns(s.Columns, "projection.columns", nil)
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
	cols := c.columns(s.Columns, "workflow.columns", map[string]*program{"state": state})
	e := &effect.Workflow[*Document]{Table: s.Table, Initial: s.Initial, Transitions: map[string][]string{}, States: s.States}
	e.Stream, cols = c.column(cols, "event.stream", "workflow.columns")
	e.Version, cols = c.column(cols, "event.version", "workflow.columns")
	if state != nil {
		e.State, cols = c.column(cols, "state", "workflow.columns")
	}
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
			c.fault("transitions", "workflow.transitions."+t.From, hint, "no way leads from an initial state to %s", t.From)
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
			e.Source = effect.HTTPSource{URL: r.URL, Version: r.Version, Values: r.Values}
		}
	}
	return e
}

// filter ignores events for which a condition is false.
type filter struct {
	pawl.Effect[*Document]
	when *program
}

// Fold is part of pawl.Effect.
func (f *filter) Fold(ctx context.Context, rows pawl.Rows, b *pawl.Batch[*Document]) error {
	var pass []int
	for i, e := range b.All() {
		ok, err := f.when.required(inputOf(&e), boolKind)
		switch {
		case err != nil:
			b.Reject(i, fmt.Errorf("when: %w", err))
		case ok == true:
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

// Ask is part of pawl.Asker.
func (f *filter) Ask(ctx context.Context, streams []string) (map[string]pawl.Answer, error) {
	if a, ok := f.Effect.(pawl.Asker); ok {
		return a.Ask(ctx, streams)
	}
	return nil, nil
}
