package pawl

import (
	"context"
	"fmt"
	"time"
)

const (
	ordersEvery = time.Second // between two looks for orders
	mostTasks   = 500         // of one look
)

// ordersLoop looks in the store for what operators want, and for held records whose stream is free, and gives it to the
// lanes of their partitions.
func (r *Runner[Tx]) ordersLoop(ctx context.Context) {
	tick := time.NewTicker(ordersEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-r.wanted:
		}
		if err := r.takeOrders(ctx); err != nil && ctx.Err() == nil {
			r.cfg.Logger.Warn("orders not read: tried again", "error", err)
		}
	}
}

// askOrders has orders looked for soon: there may be more.
func (r *Runner[Tx]) askOrders() {
	select {
	case r.wanted <- struct{}{}:
	default:
	}
}

func (r *Runner[Tx]) takeOrders(ctx context.Context) error {
	lanes := map[int64]*lane[Tx]{}
	rows := []int64{}
	bound := r.opened()
	for _, l := range r.lanes() {
		if l.bound == bound {
			lanes[l.row] = l
			rows = append(rows, l.row)
		}
	}
	orders, err := bound.Orders(ctx, rows, r.cfg.Now(), mostTasks)
	if err != nil {
		return err
	}
	r.heed(orders.Paused)
	r.boundHolds(orders.Held)
	byLane := map[*lane[Tx]][]Task{}
	for _, t := range orders.Tasks {
		if l := lanes[t.Row]; l != nil {
			byLane[l] = append(byLane[l], t)
		}
	}
	for l, tasks := range byLane {
		l.give(tasks)
	}
	return nil
}

// heed shuts the gate while an operator wants a pause.
func (r *Runner[Tx]) heed(p *Pause) {
	whole := Partition{Index: AllPartitions}
	switch {
	case p != nil && r.gate.shut("pause"):
		r.tell(Condition{Partition: whole, State: StatePaused, Next: NoStart, Reason: "paused by " + p.By + ": " + p.Why, Hint: "it goes on when it is resumed"})
	case p == nil && r.gate.lift("pause"):
		r.cfg.Logger.Info("consumer resumed")
		if h := r.cfg.Hooks.Cleared; h != nil {
			h(whole, StatePaused)
		}
	}
}

// boundHolds notes whether more may be held, and tells when that changes.
func (r *Runner[Tx]) boundHolds(held int) {
	full := held >= r.cfg.MaxHeld
	if was := r.holdsFull.Swap(full); was == full {
		return
	}
	whole := Partition{Index: AllPartitions}
	if !full {
		r.over(whole, StateHoldsFull)
		return
	}
	r.alarm(Condition{
		Partition: whole, State: StateHoldsFull, Next: NoStart, Reason: fmt.Sprintf("%d records are held behind blocked streams, and %d may be", held, r.cfg.MaxHeld),
		Hint: "replay, edit or skip what blocks them; partitions with more of them wait. Config.MaxHeld (in a file: limits.held) is the bound",
	})
}
