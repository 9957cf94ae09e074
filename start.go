package pawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// begin takes a partition for the first time in this assignment, and finds out where to start. The store's position wins;
// the group's committed offset is evidence of what may have happened to either. Where a person has to decide, the seat is
// left without a lane, and the condition says why: one that an earlier owner has left without an answer, or without having
// carried it out, or
//
//	store                  group's commit             start
//	none                   none                       Config.Start, durably
//	none                   any                        StateNoPosition, or from the commit with StartCommitted
//	none, but of a topic   any                        StateRecreated, or the beginning with RecreatedAccept
//	of this name before
//	has                    none, or Pawl's            the store's position
//	has                    Pawl's, of a later one     the store has lost commits: alarm, and from the store's position.
//	                                                  Unless its seq is not behind: then an operator has moved it back
//	has                    not Pawl's, elsewhere      someone reset it: Config.Reset
func (s *seat[Tx]) begin(ctx context.Context) (*Condition, error) {
	bound, p := s.r.opened(), s.assignment.Partition
	standing, err := bound.Standing(ctx, p)
	if err != nil {
		return nil, err
	}
	for _, c := range standing {
		last := slices.Contains(lasting, c.State)
		if c.State.Halts() && !last { // does an answer wait to be carried out?
			answer, err := bound.Raise(ctx, c)
			if err != nil {
				return nil, err
			}
			last = answer != nil
		}
		switch {
		case !last:
			s.stale = append(s.stale, c.State)
		case c.State.Halts(): // and no answer was carried out
			return &c, nil
		}
	}
	o, err := bound.Acquire(ctx, p, NoStart)
	if errors.Is(err, ErrNoPosition) {
		start, condition := s.firstStart(errors.Is(err, ErrOtherTopic))
		if condition != nil {
			return condition, nil
		}
		o, err = bound.Acquire(ctx, p, start)
	}
	if err != nil {
		return nil, err
	}
	condition, err := s.compare(ctx, bound, o)
	if err != nil {
		return nil, err
	}
	if condition != nil {
		return condition, bound.Release(ctx, o)
	}
	s.lane = newLane(s, bound, o)
	return nil, nil
}

// firstStart is for a partition that the store has never seen.
func (s *seat[Tx]) firstStart(recreated bool) (int64, *Condition) {
	a, cfg := s.assignment, &s.r.cfg
	c := &Condition{Partition: a.Partition, Next: a.Start, Start: a.Start, End: a.End}
	switch {
	case recreated && cfg.Recreated == RecreatedHalt:
		c.State = StateRecreated
		c.Reason = fmt.Sprintf("the topic %s was deleted and made again: its id is now %s, and the position is of the old one", a.Partition.Topic, a.Partition.TopicID)
		c.Hint = "going on begins with the first record of the new topic; keys that took effect before are duplicates there too"
		return 0, c
	case recreated, a.Committed < 0:
		return a.Start, nil
	case cfg.Start == StartCommitted:
		return a.Committed, nil
	}
	c.State = StateNoPosition
	c.Reason = fmt.Sprintf("group %s has committed offset %d, and the store has no position", s.r.binding.Group, a.Committed)
	c.Hint = fmt.Sprintf("someone has read it without this store, or this is not the store it was read with: going on begins at %d, moving to %d follows the group", a.Start, a.Committed)
	return 0, c
}

// compare holds the group's commit against the store's position.
func (s *seat[Tx]) compare(ctx context.Context, bound BoundStore[Tx], o *Ownership) (*Condition, error) {
	a, cfg := s.assignment, &s.r.cfg
	warn := func(what string) {
		cfg.Logger.Warn(what, "partition", a.Partition.String(), "next", o.Next, "committed", a.Committed)
	}
	followed, ours := signed(a.Metadata)
	switch {
	case a.Committed < 0, !ours && a.Committed == o.Next, ours && followed.next <= o.Next, ours && followed.seq <= o.Seq:
		return nil, nil

	case !ours && cfg.Start == StartCommitted && a.Committed < o.Next:
		// What the consumer before us committed, and we have not yet followed: not a reset.
		warn("the group's offset is not Pawl's and behind the store: reading on from the store's position")
		return nil, nil

	case ours:
		s.r.alarm(wentBack(a.Partition, fmt.Sprintf("the store's position is %d, and an offset was committed after it had been %d", o.Next, followed.next)))
		if h := cfg.Hooks.Restarted; h != nil {
			h(a.Partition, ErrStoreWentBack)
		}
		return nil, nil

	case cfg.Reset == ResetRefuse:
		warn("the group's offset was reset, and is refused")
		return nil, nil

	case cfg.Reset == ResetAccept:
		warn("the group's offset was reset, and is accepted")
		return nil, bound.Move(ctx, o, a.Committed)
	}
	return &Condition{
		Partition: a.Partition, State: StateOffsetReset, Next: o.Next, Start: a.Start, End: a.End,
		Reason: fmt.Sprintf("someone has set the offset of group %s to %d, and the store's position is %d", s.r.binding.Group, a.Committed, o.Next),
		Hint:   fmt.Sprintf("going on refuses the reset; moving to %d accepts it. In Go, Config.Reset decides without asking", a.Committed),
	}, nil
}
