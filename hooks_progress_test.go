package pawl

import (
	"context"
	"testing"
	"time"
)

// A hook that asked how far the runner is when a condition had passed never returned, and nor did the partition's worker.
func TestHooksMayAskForProgress(t *testing.T) {
	store := newDeskStore()
	store.refuse.Store(fencedOften + 1)
	var r *Runner[int]
	asked := make(map[string]bool)
	ask := func(in string) { r.Progress(); asked[in] = true }
	atDesk(t, store, Config{Workers: 1, Hooks: Hooks{
		Assigned:  func(Partition) { ask("assigned") },
		Settled:   func(Settled) { ask("settled") },
		Restarted: func(Partition, error) { ask("restarted") },
		Raised:    func(Condition) { ask("raised") },
		Cleared:   func(Partition, State) { ask("cleared") },
		Committed: func([]Commit) { ask("committed") },
	}}, func(it *Runner[int]) {
		r = it
		Handle(r, routeT[0], Decoder[int64](offsetOf{}), func(context.Context, int, Envelope[int64]) error { return nil })
	}, func(d *desk) {
		p, _ := d.assign("t")
		for range fencedOften + 2 {
			d.in.Take(p, recordsOf(p, 0, 1))
			d.pass(time.Minute)
		}
		if len(asked) != 6 {
			d.t.Errorf("asked in %v", asked)
		}
	})
}
