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
		l, err := r.acquire(ctx, a)
		if err != nil {
			return nil, fmt.Errorf("acquire %s: %w", a.Partition, err)
		}
		r.mu.Lock()
		r.lanes[a.Partition] = l
		r.mu.Unlock()
		starts[i] = l.owned.Next
		r.cfg.Logger.Info("partition assigned", "partition", a.Partition.String(), "epoch", l.owned.Epoch, "next", l.owned.Next)
	}
	return starts, nil
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
	l := in.lanes[p]
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
	r.drain(ended)
	if fault.Hit(r.workCtx, fault.Drained) != nil {
		return
	}
	// The callback's context may have ended already, on shutdown; what is settled is committed all the same, within a bound.
	bounded, cancel := context.WithTimeout(context.WithoutCancel(r.workCtx), r.cfg.ShutdownTimeout)
	defer cancel()
	if err := r.commit(bounded, ended); err != nil {
		r.cfg.Logger.Warn("offsets not committed on revoke: the store's position stands", "error", err)
	}
	for _, l := range ended {
		if !l.stopped() {
			continue // a handler that does not return has it still
		}
		l.cancel()
		if err := l.bound.Release(bounded, l.owned); err != nil {
			r.cfg.Logger.Warn("partition not released", "partition", l.assignment.Partition.String(), "error", err)
		}
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
		if !l.stopped() {
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
}

// loseAll ends what the source has left assigned, after an error that ended it early.
func (r *Runner[Tx]) loseAll() {
	r.mu.Lock()
	var left []Partition
	for p := range r.lanes {
		left = append(left, p)
	}
	r.mu.Unlock()
	(*intake[Tx])(r).Lose(left)
}

// detach removes lanes from the current assignments: nothing is taken for them any more.
func (r *Runner[Tx]) detach(ps []Partition) []*lane[Tx] {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ended []*lane[Tx]
	for _, p := range ps {
		if l := r.lanes[p]; l != nil {
			delete(r.lanes, p)
			ended = append(ended, l)
		}
	}
	return ended
}
