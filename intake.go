package pawl

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/internal/fault"
)

// intake is the Runner as its Source sees it.
type intake[Tx any] Runner[Tx]

// Assign takes the fence of each partition separately, and starts its lane where the store says.
func (in *intake[Tx]) Assign(ctx context.Context, as []*Assignment) ([]int64, error) {
	r := (*Runner[Tx])(in)
	ctx, cancel := r.reach(ctx)
	defer cancel()
	starts := make([]int64, len(as))
	for i, a := range as {
		s := newSeat(r, a)
		condition, err := s.begin(ctx)
		if err != nil {
			s.cancel()
			return nil, fmt.Errorf("acquire %s: %w", a.Partition, err)
		}
		starts[i] = Halted
		var epoch int64
		if condition == nil { // read here: once it has its seat, the lane may be given kept records
			starts[i], epoch = s.lane.owned.Next, s.lane.owned.Epoch
		}
		r.mu.Lock()
		r.seats[a.Partition] = s
		r.mu.Unlock()
		if h := r.cfg.Hooks.Assigned; h != nil {
			h(a.Partition)
		}
		if condition != nil {
			s.halt(*condition)
			continue
		}
		r.cfg.Logger.Info("partition assigned", "partition", a.Partition.String(), "epoch", epoch, "next", starts[i])
	}
	return starts, nil
}

// Seen is called by the source, for Runner.Progress.
func (in *intake[Tx]) Seen(p Partition, end int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if s := in.seats[p]; s != nil {
		s.end = max(s.end, end)
	}
}

// Raise is called by the source with what it has met.
func (in *intake[Tx]) Raise(c Condition) {
	in.mu.Lock()
	s := in.seats[c.Partition]
	in.mu.Unlock()
	switch {
	case !c.State.Halts(), c.Partition.Index == AllPartitions:
		(*Runner[Tx])(in).alarm(c)
	case s != nil:
		s.halt(c)
	}
}

// Clear is called by the source when what it had met has passed.
func (in *intake[Tx]) Clear(p Partition, state State) { (*Runner[Tx])(in).over(p, state) }

// tell says what is the matter to who listens.
func (r *Runner[Tx]) tell(c Condition) Condition {
	c.Since = r.cfg.Now()
	log := r.cfg.Logger.Warn
	if c.State.Halts() || c.State == StateStoreWentBack {
		log = r.cfg.Logger.Error
	}
	log("condition raised", "partition", c.Partition.String(), "state", c.State, "halted", c.State.Halts(), "reason", c.Reason, "hint", c.Hint)
	if h := r.cfg.Hooks.Raised; h != nil {
		h(c)
	}
	return c
}

// alarm keeps a condition that halts nothing.
func (r *Runner[Tx]) alarm(c Condition) {
	c = r.tell(c)
	r.note(c.Partition, c.State, func(ctx context.Context) error {
		_, err := r.opened().Raise(ctx, c)
		return err
	})
}

// over ends a condition that needs no answer.
func (r *Runner[Tx]) over(p Partition, state State) {
	if h := r.cfg.Hooks.Cleared; h != nil {
		h(p, state)
	}
	r.note(p, state, func(ctx context.Context) error { return r.opened().Clear(ctx, p, state) })
}

// reach joins the context of a callback of the source with the runner's own, so that injected faults and the end of the
// runner reach it too.
func (r *Runner[Tx]) reach(ctx context.Context) (context.Context, context.CancelFunc) {
	joined, cancel := context.WithCancel(r.workCtx)
	unhook := context.AfterFunc(ctx, cancel)
	return joined, func() { unhook(); cancel() }
}

func (in *intake[Tx]) Take(p Partition, records []Record) {
	in.mu.Lock()
	var l *lane[Tx]
	if s := in.seats[p]; s != nil {
		l = s.lane
	}
	in.mu.Unlock()
	if l != nil {
		l.take(records)
	}
}

// Revoke: stop, drain with a bound, commit, release.
func (in *intake[Tx]) Revoke(ctx context.Context, ps []Partition) {
	r := (*Runner[Tx])(in)
	if len(ps) == 0 || fault.Hit(r.workCtx, fault.Revoking) != nil {
		return
	}
	ended := r.detach(ps)
	defer r.tellEnded(ps)
	r.drain(ended)
	if fault.Hit(r.workCtx, fault.Drained) != nil {
		return
	}
	// The callback's context may have ended already, on shutdown; what is settled is committed all the same, within a bound.
	bounded, cancel := r.afterwards()
	defer cancel()
	if err := r.commit(bounded, ended); err != nil {
		r.cfg.Logger.Warn("offsets not committed on revoke: the store's position stands", "error", err)
	}
	for _, l := range ended {
		if l.isIdle() { // otherwise a handler that does not return has it still
			r.release(l)
		}
	}
}

// afterwards is the time that cleaning up gets when everything else is over.
func (r *Runner[Tx]) afterwards() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.workCtx), r.cfg.ShutdownTimeout)
}

// release gives a lane's partition back to the store.
func (r *Runner[Tx]) release(l *lane[Tx]) {
	l.cancel()
	ctx, cancel := r.afterwards()
	defer cancel()
	if err := l.bound.Release(ctx, l.owned); err != nil {
		r.cfg.Logger.Warn("partition not released", "partition", l.assignment.Partition.String(), "error", err)
	}
}

// drain stops lanes and waits for the batches in flight: first for them to commit, then, cancelled, for them to return.
func (r *Runner[Tx]) drain(lanes []*lane[Tx]) {
	for _, l := range lanes {
		l.stop()
	}
	if awaitAll(lanes, r.cfg.ShutdownTimeout) {
		return
	}
	for _, l := range lanes {
		if !l.isIdle() {
			r.cfg.Logger.Warn("work in flight cancelled: the next owner does it again", "partition",
				l.assignment.Partition.String(), "after", r.cfg.ShutdownTimeout)
			l.cancel()
		}
	}
	if !awaitAll(lanes, max(r.cfg.ShutdownTimeout, time.Second)) {
		r.cfg.Logger.Error("a handler does not return although its context ended: its partition is given up without it")
	}
}

// awaitAll reports whether all lanes were without a worker in time.
func awaitAll[Tx any](lanes []*lane[Tx], within time.Duration) bool {
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	for _, l := range lanes {
		select {
		case <-l.idle:
		case <-timeout.C:
			return false
		}
	}
	return true
}

// Lose: another member may own these already. Work in flight is abandoned (the fence stops what cannot be), and nothing
// is committed.
func (in *intake[Tx]) Lose(ps []Partition) {
	r := (*Runner[Tx])(in)
	for _, l := range r.detach(ps) {
		l.cancel()
		l.stop()
	}
	r.tellEnded(ps)
}

func (r *Runner[Tx]) tellEnded(ps []Partition) {
	if h := r.cfg.Hooks.Ended; h != nil {
		for _, p := range ps {
			h(p)
		}
	}
}

// loseAll ends what the source has left assigned, after an error that ended it early.
func (r *Runner[Tx]) loseAll() {
	r.mu.Lock()
	var left []Partition
	for p := range r.seats {
		left = append(left, p)
	}
	r.mu.Unlock()
	(*intake[Tx])(r).Lose(left)
}

// detach removes seats from the current assignments, and returns their lanes: nothing is taken for them any more, and none
// is replaced.
func (r *Runner[Tx]) detach(ps []Partition) []*lane[Tx] {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ended []*lane[Tx]
	for _, p := range ps {
		s := r.seats[p]
		if s == nil {
			continue
		}
		delete(r.seats, p)
		s.cancel()
		if s.lane != nil {
			ended = append(ended, s.lane)
		}
	}
	return ended
}
