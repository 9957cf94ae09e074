package pawl_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pawlhq/pawl"
)

// picky decides by the key, and counts what it was asked about.
type picky struct{ asked *[]string }

func (picky) Tables() ([]*pawl.Table, error) { return nil, nil }
func (picky) Gaps() bool                     { return false }

func (p picky) Fold(_ context.Context, _ pawl.Rows, b *pawl.Batch[int]) error {
	for i := range b.Len() {
		key := b.At(i).Key
		*p.asked = append(*p.asked, key)
		switch key {
		case "bad":
			b.Reject(i, errors.New("bad"))
		case "late":
			b.Decide(i, pawl.Verdict{Outcome: pawl.WasStale, Reason: "late"})
		}
	}
	return nil
}

// evens ignores every second record, and leaves the others to another effect.
type evens struct{ picky }

func (e evens) Fold(ctx context.Context, rows pawl.Rows, b *pawl.Batch[int]) error {
	var rest []int
	for i := range b.Len() {
		if i%2 == 0 {
			b.Ignore(i, "even")
		} else {
			rest = append(rest, i)
		}
	}
	return b.Delegate(ctx, rows, e.picky, rest)
}

func TestWhatAnotherEffectDecidesHoldsAtTheRightPlaces(t *testing.T) {
	var asked []string
	trial := pawl.Trial[int]{}
	for _, key := range []string{"a", "bad", "b", "good", "bad2", "late"} {
		trial.Events = append(trial.Events, pawl.Envelope[int]{Identity: pawl.Identity{Key: key}})
	}
	got, err := trial.Fold(t.Context(), evens{picky{&asked}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []pawl.Outcome{pawl.Ignored, pawl.Quarantined, pawl.Ignored, pawl.Applied, pawl.Ignored, pawl.WasStale}
	for i, v := range got {
		if v.Outcome != want[i] {
			t.Errorf("record %d is %s, want %s", i, v.Outcome, want[i])
		}
	}
	if len(asked) != 3 || asked[0] != "bad" || asked[1] != "good" || asked[2] != "late" {
		t.Errorf("asked about %v", asked)
	}
}
