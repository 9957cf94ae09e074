package pawl

import (
	"context"
	"slices"
	"testing"
	"time"
)

// deadlyStore has seen owners die.
type deadlyStore struct {
	*deskStore
	crashes int
}

func (s deadlyStore) Open(context.Context, Binding) (BoundStore[int], error) { return s, nil }
func (s deadlyStore) Acquire(ctx context.Context, p Partition, start int64) (*Ownership, error) {
	o, err := s.deskStore.Acquire(ctx, p, start)
	o.Crashes = s.crashes
	return o, err
}

// After a death batches stay small for a while, so that the next owner is stopped by what kills at once; then records are tried
// one at a time, longer with each death that this did not explain.
func TestOwnersAfterDeathsGoCarefully(t *testing.T) {
	alone := func(n int, then ...int) []int { return append(slices.Repeat([]int{1}, n), then...) }
	for crashes, want := range [][]int{
		{100, 200, 200, 200},
		{100, 100, 100, 100, 200, 100},
		alone(200, 100, 200, 200),
		alone(400, 100, 200),
	} {
		store := newDeskStore()
		var sizes []int
		store.before = func(_ context.Context, w *Work[int]) error {
			sizes = append(sizes, len(w.Decisions))
			return nil
		}
		atDesk(t, store, Config{MaxBatch: 200, MaxDeaths: 3}, func(r *Runner[int]) {
			r.store = deadlyStore{store, crashes}
			Handle(r, Route{Name: "r", Topics: []string{"t"}}, Decoder[int64](offsetOf{}), func(context.Context, int, Envelope[int64]) error { return nil })
		}, func(d *desk) {
			p, _ := d.assign("t")
			d.in.Take(p, recordsOf(p, 0, 700))
			d.pass(time.Minute)
		})
		if !slices.Equal(sizes, want) {
			t.Errorf("after %d deaths: batches of %d, want %d", crashes, sizes, want)
		}
	}
}
