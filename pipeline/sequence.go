package pipeline

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/effect"
)

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
