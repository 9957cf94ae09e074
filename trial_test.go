package pawl

import (
	"context"
	"errors"
	"testing"
)

// asking is an effect that asks about the stream "s" whenever it has not been told.
type asking struct {
	told []int64
	fail error
}

func (a *asking) Tables() ([]*Table, error) { return nil, nil }
func (a *asking) Gaps() bool                { return false }
func (a *asking) Fold(_ context.Context, _ Rows, b *Batch[string]) error {
	answer, _, asked := b.Answer("s")
	if !asked {
		return b.Ask("s")
	}
	a.told = append(a.told, answer.Version)
	return a.fail
}
func (a *asking) Ask(context.Context, []string) (map[string]Answer, error) {
	return map[string]Answer{"s": {Version: int64(len(a.told) + 1)}}, nil
}

func TestAnswersAreForOneBatch(t *testing.T) {
	e := &asking{}
	sec := &folds[any, string]{e: e}
	fold := func() error { return sec.callBatch(t.Context(), trialSession{}, nil, &hearing{}) }
	for range 2 {
		var ask *askError
		if err := fold(); !errors.As(err, &ask) {
			t.Fatalf("the source is not asked: %v", err)
		}
		if err := sec.ask(t.Context(), ask.streams); err != nil {
			t.Fatal(err)
		}
		if err := fold(); err != nil {
			t.Fatal(err)
		}
	}
	if len(e.told) != 2 || e.told[1] != 2 {
		t.Errorf("told %v", e.told)
	}
}

// marking is an effect that uses the verbs.
type marking struct{ asking }

func (m *marking) Fold(_ context.Context, _ Rows, b *Batch[string]) error {
	b.Reject(0, errors.New("no"))
	b.Ignore(1, "why")
	b.Decide(2, Verdict{Outcome: Held, Expected: int64(b.Waiting("s"))})
	if !b.Early(3) || b.Early(2) || !b.Expired(3) || !b.Full() {
		return errors.New("the trial's batch is not what was asked for")
	}
	return nil
}

func TestATrialSaysWhatTheEngineWould(t *testing.T) {
	events := make([]Envelope[string], 4)
	for i := range events {
		events[i].Key = string(rune('a' + i))
	}
	trial := Trial[string]{Events: events, Early: 1, Expired: map[string]bool{"d": true}, Waiting: map[string]int{"s": 7}, Full: true}
	got, err := trial.Fold(t.Context(), &marking{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []Verdict{{Outcome: Quarantined, Cause: CauseValidation, Reason: "no"}, {Outcome: Ignored, Reason: "why"}, {Outcome: Held, Expected: 7}, {Outcome: Applied}}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("event %d: %+v", i, got[i])
		}
	}
	if _, err := trial.Fold(t.Context(), &asking{fail: ErrRaced}, nil); !errors.Is(err, ErrRaced) {
		t.Errorf("got %v", err)
	}
}
