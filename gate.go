package pawl

import (
	"context"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/retry"
)

// gate is what every worker passes before it begins something. It is shut for as long as there is a reason.
type gate struct {
	mu      sync.Mutex
	reasons map[string]struct{}
	open    chan struct{} // closed while the gate is open
}

func newGate() *gate {
	g := &gate{reasons: map[string]struct{}{}, open: make(chan struct{})}
	close(g.open)
	return g
}

// shut reports whether the reason is new.
func (g *gate) shut(reason string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.reasons[reason]; ok {
		return false
	}
	if len(g.reasons) == 0 {
		g.open = make(chan struct{})
	}
	g.reasons[reason] = struct{}{}
	return true
}

// lift takes a reason away, and reports whether there was one.
func (g *gate) lift(reason string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.reasons[reason]; !ok {
		return false
	}
	delete(g.reasons, reason)
	if len(g.reasons) == 0 {
		close(g.open)
	}
	return true
}

// pass waits until the gate is open, or ctx ends.
func (g *gate) pass(ctx context.Context) {
	for {
		g.mu.Lock()
		open, shut := g.open, len(g.reasons) > 0
		g.mu.Unlock()
		if !shut {
			return
		}
		select {
		case <-open:
		case <-ctx.Done():
			return
		}
	}
}

// latch stops the whole consumer, for a reason that waiting would not mend and no record is to blame for. Offsets stay where
// they are, and partitions are kept. It goes on when an operator says so, or, unless the state is lasting, with the next
// start.
func (r *Runner[Tx]) latch(state State, reason, hint string) {
	if !r.gate.shut("latch") {
		return
	}
	c := r.tell(Condition{
		Partition: Partition{Index: AllPartitions}, State: state, Reason: reason, Hint: hint, Next: NoStart,
	})
	r.work.Go(func() {
		if r.awaitAnswer(r.workCtx, c, forever) == nil || !r.answered(r.workCtx, c) {
			return
		}
		r.budget.forget()
		r.gate.lift("latch")
	})
}

// answered ends a condition whose answer is about to be carried out. Nothing goes on before: raised again too soon, it would
// find the same answer. false: ctx ended.
func (r *Runner[Tx]) answered(ctx context.Context, c Condition) bool {
	for n := 1; ; n++ {
		err := r.opened().Clear(ctx, c.Partition, c.State)
		if err == nil {
			break
		}
		r.cfg.Logger.Warn("condition not ended in the store: tried again", "partition", c.Partition.String(), "state", c.State, "error", err)
		select {
		case <-ctx.Done():
			return false
		case <-time.After(retry.Delay(n)):
		}
	}
	if h := r.cfg.Hooks.Cleared; h != nil {
		h(c.Partition, c.State)
	}
	return true
}

// unlatched looks, at the start, for what an earlier process or an operator has left, and waits for a store that does not
// answer at the moment: it was there when it was opened.
func (r *Runner[Tx]) unlatched(ctx context.Context) error {
	for n := 1; ; n++ {
		err := r.lookAround(ctx)
		if err == nil || classify(err, r.cfg.Classify, r.opened().Classify) != Transient {
			return err
		}
		r.cfg.Logger.Warn("conditions that stand are not known yet: tried again", "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retry.Delay(n)):
		}
	}
}

// lookAround looks for a latch of an earlier process that only a person ends, and for a pause.
func (r *Runner[Tx]) lookAround(ctx context.Context) error {
	orders, err := r.opened().Orders(ctx, nil, r.cfg.Now(), 0)
	if err != nil {
		return err
	}
	r.heed(orders.Paused)
	r.boundHolds(orders.Held)
	whole := Partition{Index: AllPartitions}
	standing, err := r.opened().Standing(ctx, whole)
	if err != nil {
		return err
	}
	for _, c := range standing {
		switch c.State {
		case StateQuarantineBudget:
			r.latch(c.State, c.Reason, c.Hint)
		case StateLatched, StatePoison, StateDependencyDown:
			if err := r.opened().Clear(ctx, whole, c.State); err != nil {
				return err
			}
		}
	}
	return nil
}

// latchError: the batch must not be committed, and the consumer stops.
type latchError struct {
	state        State
	reason, hint string
}

func (e *latchError) Error() string { return e.reason }
