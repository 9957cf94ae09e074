package pawl

import (
	"context"
	"errors"
	"testing"
	"time"
)

// That the store is down cannot be written while it is. It was written afterwards, when it was already over, and stood for
// ever.
func TestWhatIsOverIsNotNotedAfterwards(t *testing.T) {
	store := newDeskStore()
	down := func(is bool) {
		store.mu.Lock()
		defer store.mu.Unlock()
		store.down = is
	}
	store.before = func(context.Context, *Work[int]) error {
		store.mu.Lock()
		defer store.mu.Unlock()
		if store.down {
			return Classed(Transient, errors.New("connection refused"))
		}
		return nil
	}
	atDesk(t, store, Config{}, func(r *Runner[int]) {
		Handle(r, routeT[0], Decoder[int64](offsetOf{}), func(context.Context, int, Envelope[int64]) error { return nil })
	}, func(d *desk) {
		p, _ := d.assign("t")
		for i := range 20 {
			down(true)
			d.in.Take(p, recordsOf(p, int64(i), 1))
			d.pass(5 * time.Second)
			down(false)
			d.pass(time.Minute)
			if store.stands(StateDependencyDown) {
				d.t.Fatalf("outage %d: it is said to be down a minute after it was over", i)
			}
		}
	})
}
