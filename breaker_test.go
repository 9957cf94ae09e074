package pawl

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// Of two dependencies that were down, the one that was back first ended the condition of both.
func TestADependencyThatIsBackDoesNotSpeakForAnother(t *testing.T) {
	store := newDeskStore()
	down := map[string]*atomic.Bool{"t": {}, "u": {}}
	atDesk(t, store, Config{}, func(r *Runner[int]) {
		for topic, is := range down {
			is.Store(true)
			Handle(r, Route{Name: topic, Topics: []string{topic}}, Decoder[int64](offsetOf{}), func(context.Context, int, Envelope[int64]) error {
				if is.Load() {
					return Overloaded(topic, errors.New("503"))
				}
				return nil
			})
		}
	}, func(d *desk) {
		for topic := range down {
			p, _ := d.assign(topic)
			d.in.Take(p, recordsOf(p, 0, 1))
		}
		d.pass(time.Minute)
		down["t"].Store(false)
		d.pass(time.Minute)
		if !store.stands(StateDependencyDown) {
			d.t.Error("one is still down, and the condition is over")
		}
		down["u"].Store(false)
		d.pass(time.Minute)
		if store.stands(StateDependencyDown) {
			d.t.Error("both are back, and the condition stands")
		}
	})
}

// What waits for a dependency was looked for among the bundles of all lanes, also those that a worker was just writing to.
// It shows under the race detector.
func TestABundleThatIsBeingTriedIsNotLookedAt(t *testing.T) {
	down := atomic.Bool{}
	down.Store(true)
	atDesk(t, newDeskStore(), Config{Workers: 8, Hooks: Hooks{Failed: func(f Failure) {
		if f.Partition.Topic == "t" {
			time.Sleep(time.Minute) // after it was noted in the bundle that it waits
		}
	}}}, func(r *Runner[int]) {
		for _, topic := range []string{"t", "u", "v", "w", "x", "y"} {
			Handle(r, Route{Name: topic, Topics: []string{topic}}, Decoder[int64](offsetOf{}), func(context.Context, int, Envelope[int64]) error {
				if down.Load() {
					time.Sleep(time.Second)
					return Overloaded("payments-api", errors.New("503"))
				}
				return nil
			})
		}
	}, func(d *desk) {
		for _, topic := range []string{"t", "u", "v", "w", "x", "y"} {
			p, _ := d.assign(topic)
			d.in.Take(p, recordsOf(p, 0, 1))
		}
		time.Sleep(1100 * time.Millisecond)
		down.Store(false)
		time.Sleep(2 * time.Minute)
	})
}
