package pawl

import (
	"context"
	"slices"
	"testing"
	"time"
)

// An answer that was given while nobody owned the partition was lost, where there was something to settle before what the
// partition had been halted for: that ended the condition, answer and all.
func TestAnAnswerOutlivesTheProcessItWasGivenTo(t *testing.T) {
	store := newDeskStore()
	store.conditions[StateUnreadable] = &Resolution{To: 5, By: "an operator", Why: "the rest is lost"}
	atDesk(t, store, Config{}, func(r *Runner[int]) {
		Handle(r, routeT[0], Decoder[int64](offsetOf{}), func(context.Context, int, Envelope[int64]) error { return nil })
	}, func(d *desk) {
		p, _ := d.assign("t")
		d.in.Take(p, recordsOf(p, 0, 3))
		d.pass(time.Minute)
		if !slices.Equal(store.moved, []int64{5}) || store.stands(StateUnreadable) {
			d.t.Errorf("moved to %d; %d applied; the condition stands: %v", store.moved, store.applied, store.stands(StateUnreadable))
		}
	})
}
