package effect

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawlhq/pawl"
)

// Workflow keeps one row per stream with the state that it is in, and lets events move it only along allowed transitions. Why
// an event is refused is told apart, and never collapsed:
//
//	the event                                            is decided as
//	leads from the row's state to one that may follow    Applied
//	has the row's version and says the same              Duplicate
//	has the row's version and says something else        Quarantined (conflict)
//	has a version below the row's                        WasStale
//	leads to a state that may not follow, or not begin   Quarantined (transition)
//	has no row to follow on                              "missing aggregate": as [Early] says; under Newer Quarantined (gap)
//	comes before its turn                                "out of order": as [Early] says
//	meets a row whose state is none of the machine's     Quarantined (corruption)
//	leads to a state that is none of the machine's       Quarantined (validation)
//
// An event that is refused does not move its stream: under Next, those behind it are early until it has been replayed,
// edited or replaced.
type Workflow[T any] struct {
	Table   string
	Stream  string // the column of the stream: text
	Version string // the column of the version: a whole number of 64 bits, or with NewerTime a time
	State   string // the column of the state: text
	Rule    Rule   // default: Next

	// Initial are the states that a stream may begin in.
	Initial []string
	// Transitions are the states that may follow on each; a state that is left out has none. A state follows on itself only if
	// this says so.
	Transitions map[string][]string
	// To returns the state that an event leads to; "" is an event that leaves its stream in the state it is in.
	To func(e *pawl.Envelope[T]) (string, error)

	Columns []Column[T] // beside the state
	Early   Early
	States  bool // keep the row before and after each event as evidence

	declared declared
	sequence sequence[T]
	machine  map[string][]string // every state, and what may follow
}

// Tables is part of pawl.Effect.
func (w *Workflow[T]) Tables() ([]*pawl.Table, error) {
	return w.declared.do(func() ([]*pawl.Table, error) {
		bad := &problems{what: fmt.Sprintf("workflow %q", w.Table)}
		bad.need("Table", w.Table)
		bad.need("State", w.State)
		w.build(bad)
		state := Column[T]{Name: w.State, Kind: pawl.KindText}
		if w.To == nil {
			bad.add("To is nil: no event leads anywhere")
		}
		state.Value = func(e *pawl.Envelope[T]) (any, error) {
			to, err := w.To(e)
			if err == nil && to == "" {
				return Keep, nil
			}
			if _, ok := w.machine[to]; err == nil && !ok {
				err = fmt.Errorf("%q is no state of the machine", to)
			}
			return to, err
		}
		w.sequence = sequence[T]{
			rule: w.Rule, early: w.Early, columns: append(columns[T]{state}, w.Columns...), states: w.States, allow: w.allow, sound: w.sound,
		}
		w.sequence.open(w.Table, w.Stream, w.Version, bad)
		return bad.tables(w.sequence.table)
	})
}

// build gathers the states.
func (w *Workflow[T]) build(bad *problems) {
	w.machine = map[string][]string{}
	if len(w.Initial) == 0 {
		bad.add("Initial is empty: no stream could begin")
	}
	for _, s := range w.Initial {
		w.machine[s] = nil
	}
	for from, to := range w.Transitions {
		for _, s := range to {
			w.machine[s] = nil
		}
		w.machine[from] = nil
	}
	for from, to := range w.Transitions {
		w.machine[from] = slices.Clone(to)
	}
	if _, ok := w.machine[""]; ok {
		bad.add(`a state is ""`)
	}
	reached := map[string]bool{}
	for todo := slices.Clone(w.Initial); len(todo) > 0; todo = todo[1:] {
		if s := todo[0]; !reached[s] {
			reached[s] = true
			todo = append(todo, w.machine[s]...)
		}
	}
	var lost []string
	for s := range w.machine {
		if !reached[s] && s != "" {
			lost = append(lost, s)
		}
	}
	if slices.Sort(lost); len(lost) > 0 && len(w.Initial) > 0 {
		bad.add("no way leads from a state in Initial to %q", lost)
	}
}

// allow is the machine.
func (w *Workflow[T]) allow(row, values []any) (pawl.Verdict, bool) {
	to := values[0]
	switch {
	case row == nil && to != Keep && slices.Contains(w.Initial, to.(string)):
		return pawl.Verdict{}, true
	case row == nil && w.Rule != Next:
		reason := "missing aggregate: there is no row, and the event does not begin one"
		return pawl.Verdict{Outcome: pawl.Quarantined, Cause: pawl.CauseGap, Reason: reason}, false
	case row == nil && to == Keep:
		return illegal("a stream cannot begin without a state"), false
	case row == nil:
		return illegal("a stream cannot begin as %q", to), false
	case to == Keep || slices.Contains(w.machine[row[0].(string)], to.(string)):
		return pawl.Verdict{}, true
	}
	return illegal("from %q to %q", row[0], to), false
}

func illegal(format string, args ...any) pawl.Verdict {
	return pawl.Verdict{Outcome: pawl.Quarantined, Cause: pawl.CauseTransition, Reason: "illegal transition: " + fmt.Sprintf(format, args...)}
}

// sound refuses a row whose state is none of the machine's.
func (w *Workflow[T]) sound(row []any) string {
	state, ok := row[0].(string)
	if !ok {
		return "the row has no state"
	}
	if _, ok := w.machine[state]; !ok {
		return fmt.Sprintf("the row's state %q is none of the machine's", state)
	}
	return ""
}

// Gaps is part of pawl.Effect.
func (w *Workflow[T]) Gaps() bool { return w.Early.Hold > 0 }

// Fold is part of pawl.Effect.
func (w *Workflow[T]) Fold(ctx context.Context, rows pawl.Rows, b *pawl.Batch[T]) error {
	if _, err := w.Tables(); err != nil {
		return pawl.Classed(pawl.Misconfigured, err)
	}
	return w.sequence.fold(ctx, rows, b)
}

// Ask is part of pawl.Asker.
func (w *Workflow[T]) Ask(ctx context.Context, streams []string) (map[string]pawl.Answer, error) {
	return w.sequence.ask(ctx, streams)
}
