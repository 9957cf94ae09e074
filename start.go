package pawl

import (
	"context"
	"errors"
	"fmt"
)

// acquire takes a partition, finds out where to start, and makes a lane for it. The store's position wins; the group's
// committed offset is evidence of what may have happened to either.
//
//	store   group's commit             start
//	none    none                       Config.Start, durably
//	none    any                        stop, or from the commit with StartCommitted
//	has     none, or Pawl's            the store's position
//	has     Pawl's, of a later one     the store has lost commits: alarm, and from the store's position
//	has     not Pawl's, elsewhere      someone reset it: Config.Reset
func (r *Runner[Tx]) acquire(ctx context.Context, a *Assignment) (*lane[Tx], error) {
	bound, o, err := r.own(ctx, a)
	if err != nil {
		return nil, err
	}
	if err := r.compare(ctx, bound, a, o); err != nil {
		return nil, err
	}
	return newLane(r, a, bound, o), nil
}

// own takes a partition where the store has it, or where it starts for the first time.
func (r *Runner[Tx]) own(ctx context.Context, a *Assignment) (BoundStore[Tx], *Ownership, error) {
	r.mu.Lock()
	bound := r.bound
	r.mu.Unlock()
	o, err := bound.Acquire(ctx, a.Partition, NoStart)
	if !errors.Is(err, ErrNoPosition) {
		return bound, o, err
	}
	start, err := r.firstStart(a)
	if err != nil {
		return nil, nil, err
	}
	o, err = bound.Acquire(ctx, a.Partition, start)
	return bound, o, err
}

// firstStart is for a partition that the store has never seen.
func (r *Runner[Tx]) firstStart(a *Assignment) (int64, error) {
	switch {
	case a.Committed < 0:
		return a.Start, nil
	case r.cfg.Start == StartCommitted:
		return a.Committed, nil
	}
	return 0, &Error{
		Op: "start " + a.Partition.String(), Class: Misconfigured,
		Err:  fmt.Errorf("group %s has committed offset %d, and the store has no position", r.binding.Group, a.Committed),
		Hint: "someone has read it without this store, or this is not the store it was read with: StartCommitted goes on from there, another group begins at the beginning",
	}
}

// compare holds the group's commit against the store's position.
func (r *Runner[Tx]) compare(ctx context.Context, bound BoundStore[Tx], a *Assignment, o *Ownership) error {
	followed, ours := signed(a.Metadata)
	switch {
	case a.Committed < 0, !ours && a.Committed == o.Next, ours && followed <= o.Next:
		return nil

	case !ours && r.cfg.Start == StartCommitted && a.Committed < o.Next:
		// What the consumer before us committed, and we have not yet followed: not a reset.
		r.cfg.Logger.Warn("the group's offset is not Pawl's and behind the store: reading on from the store's position",
			"partition", a.Partition.String(), "stored", o.Next, "committed", a.Committed)
		return nil

	case ours:
		r.cfg.Logger.Error("store went back while nobody owned the partition: reading on from the store's position",
			"partition", a.Partition.String(), "stored", o.Next, "committed_after", followed)
		if h := r.cfg.Hooks.Restarted; h != nil {
			h(a.Partition, ErrStoreWentBack)
		}
		return nil

	case r.cfg.Reset == ResetRefuse:
		r.cfg.Logger.Warn("the group's offset was reset, and is refused", "partition", a.Partition.String(), "stored", o.Next, "reset_to", a.Committed)
		return nil

	case r.cfg.Reset == ResetAccept:
		r.cfg.Logger.Warn("the group's offset was reset, and is accepted", "partition", a.Partition.String(), "stored", o.Next, "reset_to", a.Committed)
		return bound.Move(ctx, o, a.Committed)
	}
	return &Error{
		Op: "start " + a.Partition.String(), Class: Misconfigured,
		Err:  fmt.Errorf("someone has set the offset of group %s to %d, and the store's position is %d", r.binding.Group, a.Committed, o.Next),
		Hint: "Config.Reset decides: ResetRefuse goes on from the store's position, ResetAccept moves to the new offset",
	}
}
