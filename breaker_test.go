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
