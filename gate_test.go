package pawl

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// A batch that alone was more than the budget was refused again after each answer of an operator: going on never helped.
func TestGoingOnBeginsTheBudgetAnew(t *testing.T) {
	for name, budget := range map[string]Budget{"share": {}, "records": {Records: 1, Share: 1}} {
		t.Run(name, func(t *testing.T) {
			store := newDeskStore()
			var aside atomic.Int64
			cfg := Config{Budget: budget, Hooks: Hooks{Settled: func(s Settled) { aside.Add(int64(len(s.Decisions))) }}}
			atDesk(t, store, cfg, func(r *Runner[int]) {
				for _, name := range []string{"a", "b"} {
					Handle(r, Route{Name: name, Topics: []string{"t"}}, Decoder[int64](offsetOf{}),
						func(context.Context, int, Envelope[int64]) error { return Reject(errors.New("no")) })
				}
			}, func(d *desk) {
				p, _ := d.assign("t")
				d.in.Take(p, recordsOf(p, 0, 1000))
				for i := range 5 {
					d.pass(2 * time.Minute)
					before := aside.Load()
					if !store.answer(StateQuarantineBudget) {
						d.t.Fatalf("answer %d: the consumer is not latched, with %d set aside", i, before)
					}
					d.pass(2 * time.Minute)
					if more := aside.Load() - before; more == 0 || more > BudgetFrom {
						d.t.Errorf("answer %d: %d more were set aside", i, more)
					}
				}
			})
		})
	}
}

// An answer was found again by the next latch, as long as the condition it was given to had not been ended in the store: one
// answer was carried out many times.
func TestAnAnswerIsCarriedOutOnce(t *testing.T) {
	store := newDeskStore()
	store.slow = 100 * time.Millisecond
	var tries atomic.Int64
	atDesk(t, store, Config{}, func(r *Runner[int]) {
		Handle(r, routeT[0], Decoder[int64](offsetOf{}), func(context.Context, int, Envelope[int64]) error {
			tries.Add(1)
			return Classed(Misconfigured, errors.New("no such table"))
		})
	}, func(d *desk) {
		p, _ := d.assign("t")
		d.in.Take(p, recordsOf(p, 0, 1))
		d.pass(time.Minute)
		if tries.Load() != 1 || !store.answer(StateLatched) {
			d.t.Fatalf("%d tries, and no latch", tries.Load())
		}
		d.pass(time.Minute)
		if tries.Load() != 2 || !store.stands(StateLatched) {
			d.t.Errorf("%d tries after one answer; latched: %v", tries.Load()-1, store.stands(StateLatched))
		}
	})
}

// That a record had stopped the consumer stood for ever, once the next process could settle it.
func TestTheNextStartTriesAgain(t *testing.T) {
	store := newDeskStore()
	bad := true
	run := func(body func(*desk)) {
		atDesk(t, store, Config{OnPoison: PoisonStop}, func(r *Runner[int]) {
			Handle(r, routeT[0], Decoder[int64](offsetOf{}), func(context.Context, int, Envelope[int64]) error {
				if bad {
					return Reject(errors.New("no such account"))
				}
				return nil
			})
		}, func(d *desk) {
			p, _ := d.assign("t")
			d.in.Take(p, recordsOf(p, 0, 1))
			d.pass(time.Minute)
			body(d)
		})
	}
	run(func(d *desk) {
		if !store.stands(StatePoison) {
			d.t.Error("the record has not stopped the consumer")
		}
	})
	bad = false // repaired
	run(func(d *desk) {
		if store.stands(StatePoison) || len(store.applied) != 1 {
			d.t.Errorf("it is said to stop the consumer: %v; %d applied", store.stands(StatePoison), len(store.applied))
		}
	})
}
