package effect_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/effect"
)

var lifecycle = map[string][]string{"NEW": {"REVIEW"}, "REVIEW": {"REVIEW", "ESCALATED", "CLOSED"}, "ESCALATED": {"CLOSED"}}

func workflow(change func(*effect.Workflow[doc])) *effect.Workflow[doc] {
	w := &effect.Workflow[doc]{
		Table: "flow", Stream: "case_id", Version: "version", State: "state",
		Initial: []string{"NEW", "IMPORTED"}, Transitions: lifecycle,
		To: func(e *pawl.Envelope[doc]) (string, error) {
			if e.Body.Fail != "" {
				return "", errMade
			}
			return e.Body.Status, nil
		},
		Columns: []effect.Column[doc]{effect.Text("fee", func(e *pawl.Envelope[doc]) string { return e.Body.Fee })},
	}
	if change != nil {
		change(w)
	}
	return w
}

func TestAWorkflowTellsWhyItRefuses(t *testing.T) {
	heldFor := func(w *effect.Workflow[doc]) { w.Early.Hold = time.Minute }
	newer := func(w *effect.Workflow[doc]) { w.Rule = effect.Newer }
	began := []pawl.Envelope[doc]{ev("c1", 1, st("NEW")), ev("c1", 2, st("REVIEW"))}
	for name, c := range map[string]struct {
		change func(*effect.Workflow[doc])
		before []pawl.Envelope[doc]
		event  pawl.Envelope[doc]
		want   string
	}{
		"an allowed transition":           {nil, began, ev("c1", 3, st("ESCALATED")), "applied"},
		"a state that follows on itself":  {nil, began, ev("c1", 3, st("REVIEW")), "applied"},
		"an event that leaves the state":  {nil, began, ev("c1", 3, doc{Fee: "x"}), "applied"},
		"another initial state":           {nil, nil, ev("c1", 1, st("IMPORTED")), "applied"},
		"a duplicate":                     {nil, began, ev("c1", 2, st("REVIEW")), "duplicate"},
		"a conflict of states":            {nil, began, ev("c1", 2, st("CLOSED")), "quarantined conflict"},
		"a conflict of columns":           {nil, began, ev("c1", 2, doc{Status: "REVIEW", Fee: "x"}), "quarantined conflict"},
		"a stale event":                   {nil, began, ev("c1", 1, st("NEW")), "stale: it is version 1"},
		"an illegal transition":           {nil, began, ev("c1", 3, st("NEW")), `quarantined transition: illegal transition: from "REVIEW" to "NEW"`},
		"from a state that is the last":   {nil, append(slices.Clone(began), ev("c1", 3, st("CLOSED"))), ev("c1", 4, st("CLOSED")), `quarantined transition: illegal transition: from "CLOSED" to "CLOSED"`},
		"a state that cannot begin":       {nil, nil, ev("c1", 1, st("REVIEW")), `quarantined transition: illegal transition: a stream cannot begin as "REVIEW"`},
		"no state to begin with":          {nil, nil, ev("c1", 1, st("")), "quarantined transition: illegal transition: a stream cannot begin without a state"},
		"a missing aggregate":             {nil, nil, ev("c1", 2, st("REVIEW")), "quarantined gap: missing aggregate"},
		"a missing aggregate, held":       {heldFor, nil, ev("c1", 2, st("REVIEW")), "held: missing aggregate"},
		"a missing aggregate under newer": {newer, nil, ev("c1", 2, st("REVIEW")), "quarantined gap: missing aggregate: there is no row, and the event does not begin one"},
		"an aggregate that begins late":   {newer, nil, ev("c1", 2, st("NEW")), "applied"},
		"out of order":                    {nil, began, ev("c1", 4, st("CLOSED")), "quarantined gap: out of order: version 4 came, and version 3 is missing"},
		"out of order, held":              {heldFor, began, ev("c1", 4, st("CLOSED")), "held: out of order"},
		"no state of the machine":         {nil, began, ev("c1", 3, st("LOST")), `quarantined validation: column "state": "LOST" is no state of the machine`},
		"an error":                        {nil, began, ev("c1", 3, doc{Fail: "x"}), `quarantined validation: column "state": made by the test`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, workflow(c.change))
			if len(c.before) > 0 {
				w.fold(c.before...)
			}
			before := w.table("flow")
			want(t, w.fold(c.event), c.want)
			if changed := w.table("flow") != before; changed != (c.want == "applied") {
				t.Errorf("the table was\n%s\nand is\n%s", before, w.table("flow"))
			}
			w = newWorld(t, workflow(c.change)) // the same within a batch
			got := w.fold(append(slices.Clone(c.before), c.event)...)
			want(t, got[len(got)-1:], c.want)
		})
	}
}

func TestAStateThatIsNoneOfTheMachinesIsCorruption(t *testing.T) {
	for state, reason := range map[any]string{"LOST": `the row's state "LOST" is none of the machine's`, nil: "the row has no state"} {
		e := workflow(nil)
		w := newWorld(t, e)
		tables, _ := e.Tables()
		w.rows.seed(tables[0], pawl.Row{"c1", int64(2), state, ""})
		want(t, w.fold(ev("c1", 3, st("CLOSED")), ev("c2", 1, st("NEW"))), "quarantined corruption: corruption: "+reason, "applied")
	}
}

func TestARefusedTransitionKeepsItsStreamWaiting(t *testing.T) {
	w := newWorld(t, workflow(func(w *effect.Workflow[doc]) { w.Early.Hold = time.Minute }))
	want(t, w.fold(ev("c1", 1, st("NEW")), ev("c1", 2, st("CLOSED")), ev("c1", 3, st("ESCALATED"))), "applied", "quarantined transition", "held")
	want(t, w.fold(ev("c1", 2, st("REVIEW"))), "applied", "applied")
	w.wantTable("flow", "c1 3 ESCALATED ")
}

func TestAWorkflowJumpsToStatesOfItsMachineOnly(t *testing.T) {
	state := "CLOSED"
	src := effect.SourceFunc(func(_ context.Context, stream string) (pawl.Answer, bool, error) {
		return pawl.Answer{Version: 5, Values: map[string]any{"state": state, "fee": "f"}}, true, nil
	})
	e := workflow(func(w *effect.Workflow[doc]) { w.Early = effect.Early{Then: effect.Requery, Source: src} })
	w := newWorld(t, e)
	want(t, w.fold(ev("c1", 1, st("NEW")), ev("c1", 3, st("REVIEW"))), "applied", "superseded")
	w.wantTable("flow", "c1 5 CLOSED f")
	state = "LOST"
	_, err := w.try([]pawl.Envelope[doc]{ev("c2", 3, st("REVIEW"))}, nil)
	wantError(t, err, `the row's state "LOST" is none of the machine's`)
}

func TestAMachineIsChecked(t *testing.T) {
	_, err := (&effect.Workflow[doc]{Table: "t", Stream: "s", Version: "v"}).Tables()
	wantError(t, err, "State is empty", "Initial is empty", "To is nil")
	_, err = workflow(func(w *effect.Workflow[doc]) {
		w.Transitions = map[string][]string{"NEW": {""}, "LOST": {"FOUND", "NEW"}}
	}).Tables()
	wantError(t, err, `a state is ""`, `no way leads from a state in Initial to ["FOUND" "LOST"]`)
}

// Whatever comes, a row's history is a way through the machine, and the cut into batches decides nothing.
func TestAWorkflowIsTheSameHoweverItIsCut(t *testing.T) {
	states := []string{"NEW", "IMPORTED", "REVIEW", "ESCALATED", "CLOSED", ""}
	rapid.Check(t, func(rt *rapid.T) {
		var all []pawl.Envelope[doc]
		for i := range rapid.IntRange(1, 20).Draw(rt, "events") {
			e := ev(fmt.Sprint("s", rapid.IntRange(0, 1).Draw(rt, "stream")), rapid.Int64Range(1, 6).Draw(rt, "version"), st(rapid.SampledFrom(states).Draw(rt, "state")))
			all = append(all, keyed(fmt.Sprint("k", i), e))
		}
		keep := func(w *effect.Workflow[doc]) { w.Early.Hold, w.States = time.Hour, true }
		cut, singly := newWorld(t, workflow(keep)), newWorld(t, workflow(keep))
		for _, b := range batches(rt, all) {
			cut.fold(b...)
		}
		for _, e := range all {
			singly.fold(e)
		}
		if cut.table("flow") != singly.table("flow") {
			rt.Fatalf("rows:\n%s\nsingly:\n%s", cut.table("flow"), singly.table("flow"))
		}
		stateIn := func(s string) string {
			_, s, _ = strings.Cut(s, `"state":"`)
			s, _, _ = strings.Cut(s, `"`)
			return s
		}
		for key, v := range cut.said {
			if a, b := said(v), said(singly.said[key]); a != b && v.Outcome != pawl.Held {
				rt.Fatalf("%s is %q, and singly %q", key, a, b)
			}
			if v.Outcome != pawl.Applied {
				continue
			}
			from, to := stateIn(v.StateBefore), stateIn(v.StateAfter)
			begins := from == "" && (to == "NEW" || to == "IMPORTED")
			i := slices.IndexFunc(all, func(e pawl.Envelope[doc]) bool { return e.Key == key })
			if stays := all[i].Body.Status == "" && from == to; !begins && !stays && !slices.Contains(lifecycle[from], to) {
				rt.Fatalf("%s went from %q to %q", key, from, to)
			}
		}
	})
}
