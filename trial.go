package pawl

import (
	"context"
	"errors"
	"time"
)

// Trial is a batch made by hand, for tests of effects: it folds as the engine would, without a log and a store.
type Trial[T any] struct {
	Events  []Envelope[T]   // each Key once; those that were held because they came early are the last
	Early   int             // how many of the last events those are
	Expired map[string]bool // by Key: held for as long as it was to be
	Waiting map[string]int  // by stream: early records that are held, those of Events included
	Full    bool            // no more may be held
	Now     time.Time
}

// Fold has e decide the events, and returns a verdict for each. A source of truth is asked where e asks for it. As in a
// transaction, what was written to rows before an error is the caller's to undo.
func (t *Trial[T]) Fold(ctx context.Context, e Effect[T], rows Rows) ([]Verdict, error) {
	n := len(t.Events)
	at, steps, gaps := make([]int, n), make([]*Decision, n), map[string]*Gap{}
	for i := range t.Events {
		at[i], steps[i] = i, &Decision{Identity: t.Events[i].Identity}
		if i >= n-t.Early {
			steps[i].Kept = &Kept{Early: int64(i + 1), Expired: t.Expired[t.Events[i].Key]}
		}
	}
	for stream, waiting := range t.Waiting {
		gaps[stream] = &Gap{Stream: stream, Waiting: waiting}
	}
	sec := &folds[any, T]{envelopes: envelopes[T]{all: t.Events}, e: e}
	for {
		h := &hearing{marks: make([]error, n), steps: steps, gaps: gaps, now: t.Now, full: t.Full}
		err := sec.callBatch(ctx, trialSession{rows: rows}, at, h)
		if ask := (*askError)(nil); errors.As(err, &ask) {
			if err := sec.ask(ctx, ask.streams); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		verdicts := make([]Verdict, n)
		copy(verdicts, h.verdicts)
		d := decider[any]{maxTries: 1}
		for i := range verdicts {
			if h.marks[i] != nil {
				st := &step[any]{}
				d.judge(st, Unknown, h.marks[i])
				verdicts[i] = Verdict{Outcome: st.Outcome, Reason: st.Reason, Cause: st.Cause}
			} else if verdicts[i].Outcome == 0 {
				verdicts[i].Outcome = Applied
			}
		}
		return verdicts, nil
	}
}

// trialSession has rows and no transaction.
type trialSession struct {
	Session[any]
	rows Rows
}

func (s trialSession) Rows() Rows { return s.rows }
