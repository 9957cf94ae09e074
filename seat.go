package pawl

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/retry"
)

// seat is a partition that this member has, from Assign to the Revoke or Lose that ends it. Its lane is replaced when the
// partition is taken anew: because the store refused its owner, or because an operator has decided where to go on.
type seat[Tx any] struct {
	r          *Runner[Tx]
	assignment *Assignment
	ctx        context.Context // ends with the assignment
	cancel     context.CancelFunc
	changing   sync.Mutex // held while the partition is taken anew

	// With r.mu held.
	lane   *lane[Tx] // nil: halted before it was owned
	halted bool      // an answer is awaited
	fences int       // refusals in a row
	tries  int       // in a row, without an answer
	end    int64     // of the log, when it was last looked at
	stale  []State   // conditions of an earlier owner that pass when a batch is settled
}

func newSeat[Tx any](r *Runner[Tx], a *Assignment) *seat[Tx] {
	s := &seat[Tx]{r: r, assignment: a, end: a.End}
	s.ctx, s.cancel = context.WithCancel(r.workCtx)
	return s
}

// fencedOften is how many refusals in a row are told as a condition.
const fencedOften = 3

// restart takes the partition anew after the store refused its owner. Everything of the old ownership is dropped.
func (s *seat[Tx]) restart(old *lane[Tx], cause error) {
	old.progress.end()
	p := s.assignment.Partition
	s.r.mu.Lock()
	replaced := s.lane != old
	s.fences++
	fences := s.fences
	s.r.mu.Unlock()
	if replaced {
		return
	}
	s.r.cfg.Logger.Warn("partition restarts from the store's position", "partition", p.String(), "error", cause)
	if h := s.r.cfg.Hooks.Restarted; h != nil {
		h(p, cause)
	}
	switch {
	case errors.Is(cause, ErrStoreWentBack):
		s.r.alarm(wentBack(p, cause.Error()))
	case fences >= fencedOften:
		s.r.alarm(Condition{
			Partition: p, State: StateFenced, Next: NoStart, Reason: fmt.Sprintf("%d refusals in a row: %v", fences, cause),
			Hint: "another process works under the same consumer name: another group's member, or a copy of this one that lost its group",
		})
	}
	s.r.work.Go(func() {
		s.retake(change{to: GoOn, start: NoStart, refusals: fences, reopen: errors.Is(cause, ErrStoreWentBack)})
	})
}

func wentBack(p Partition, reason string) Condition {
	return Condition{
		Partition: p, State: StateStoreWentBack, Next: NoStart, Reason: reason,
		Hint: "reading goes on from the store's position, and effects in it are exact; what was told to other systems from the lost commits was not taken back",
	}
}

// worked is called when the lane has settled its first batch.
func (s *seat[Tx]) worked() {
	s.r.mu.Lock()
	over := s.stale
	if s.fences >= fencedOften {
		over = append(over, StateFenced)
	}
	s.fences, s.tries, s.stale = 0, 0, nil
	s.r.mu.Unlock()
	for _, state := range over {
		s.r.over(s.assignment.Partition, state)
	}
}

// halt waits for an operator's answer to a condition, and carries it out. What was read before goes on.
func (s *seat[Tx]) halt(c Condition) {
	s.r.mu.Lock()
	again := s.halted
	s.halted = true
	s.r.mu.Unlock()
	if again {
		return
	}
	s.r.work.Go(func() {
		if s.isFenced() {
			return
		}
		res := s.answer(s.r.tell(c))
		if res == nil {
			return
		}
		s.r.cfg.Logger.Warn("partition goes on", "partition", c.Partition.String(), "state", c.State, "to", res.To, "by", res.By, "why", res.Why)
		s.retake(change{to: res.To, start: c.Next, answers: c.State})
	})
}

// isFenced asks the store whether the partition is still ours: who is no longer its owner and has not heard of it reads
// behind the position, and what it meets there is nobody's concern. It is then taken anew. While the store does not answer it
// is asked again: nothing could be kept in it either.
func (s *seat[Tx]) isFenced() bool {
	s.r.mu.Lock()
	l := s.lane
	s.r.mu.Unlock()
	if l == nil {
		return false
	}
	for n := 1; ; n++ {
		err := l.bound.Apply(s.ctx, l.owned, &Work[Tx]{
			Now: s.r.cfg.Now(), Run: func(context.Context, Session[Tx]) error { return nil },
			Turn: &l.committing, Frontier: l.progress.unmoved, Settled: func() { l.progress.settle(nil, l.owned) },
		})
		switch {
		case errors.Is(err, ErrFenced):
			s.r.mu.Lock()
			s.halted = false
			s.r.mu.Unlock()
			s.restart(l, err)
			return true
		case err == nil, errors.Is(err, ErrStoreWentBack), s.ctx.Err() != nil, l.class(err) == Misconfigured:
			return false // or it cannot be told
		}
		s.r.cfg.Logger.Warn("not known whether the partition is still ours: asked again", "partition", s.assignment.Partition.String(), "error", err)
		select {
		case <-s.ctx.Done():
			return false
		case <-time.After(retry.Delay(n)):
		}
	}
}

const (
	answerPoll = time.Second      // between two looks for an answer
	mostRarely = 30 * time.Second // between two tries by itself
)

// answer waits for an operator's answer. A right that was taken away may be given back without a word: there it answers by
// itself after a while. nil: the assignment ended.
func (s *seat[Tx]) answer(c Condition) *Resolution {
	itself := forever
	if c.State == StateUnauthorized {
		s.r.mu.Lock()
		s.tries++
		itself = min(answerPoll<<min(s.tries, 10), mostRarely)
		s.r.mu.Unlock()
	}
	return s.r.awaitAnswer(s.ctx, c, itself)
}

const forever = time.Duration(1<<63 - 1)

// awaitAnswer keeps a condition in the store and waits there for an answer; after a while it answers by itself. nil: ctx
// ended.
func (r *Runner[Tx]) awaitAnswer(ctx context.Context, c Condition, itself time.Duration) *Resolution {
	for waited := time.Duration(0); ; waited += answerPoll {
		res, err := r.opened().Raise(ctx, c)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			r.cfg.Logger.Warn("condition not kept in the store: tried again", "partition", c.Partition.String(), "state", c.State, "error", err)
		case res != nil:
			return res
		case waited >= itself:
			return &Resolution{To: GoOn, By: "pawl", Why: "tries again by itself"}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(answerPoll):
		}
	}
}

// change is a reason to take a partition anew.
type change struct {
	to       int64 // read on from here, or GoOn: from the store's position
	start    int64 // where the store has no position yet
	refusals int   // in a row, before this
	reopen   bool  // what the store called this consumer may be gone
	answers  State // what the partition was halted for; "": it was not
}

// retake takes the partition anew and reads on. It gives up once the assignment has ended: then another member is its
// owner.
func (s *seat[Tx]) retake(c change) {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.r.mu.Lock()
	old := s.lane
	s.r.mu.Unlock()
	if old != nil {
		select {
		case <-old.stop():
		case <-s.ctx.Done():
			return
		}
		old.progress.end()
	}
	for n := c.refusals; ; n++ {
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(retry.Delay(n)):
		}
		l, err := s.take(c)
		if e := (*Error)(nil); errors.As(err, &e) && e.Class == Misconfigured {
			s.r.fail(err)
			return
		}
		if err == nil {
			s.install(l, c)
			return
		}
		if s.ctx.Err() == nil {
			s.r.cfg.Logger.Warn("partition not taken anew", "partition", s.assignment.Partition.String(), "error", err)
		}
	}
}

// take does not look at the group's commit again: what is known of it is from when the partition was assigned.
func (s *seat[Tx]) take(c change) (*lane[Tx], error) {
	if c.reopen {
		if err := s.r.open(s.ctx); err != nil {
			return nil, err
		}
	}
	bound := s.r.opened()
	start := c.to
	if start == GoOn {
		start = c.start
	}
	o, err := bound.Acquire(s.ctx, s.assignment.Partition, start)
	if err != nil {
		return nil, err
	}
	if c.to != GoOn && c.to != o.Next {
		if err := bound.Move(s.ctx, o, c.to); err != nil {
			return nil, err
		}
	}
	if c.answers != "" { // after the move: an answer that was not carried out is found again
		if err := bound.Clear(s.ctx, s.assignment.Partition, c.answers); err != nil {
			return nil, err
		}
	}
	return newLane(s, bound, o), nil
}

// install puts a lane in place once everything that was read for the old one has been handed over.
func (s *seat[Tx]) install(l *lane[Tx], c change) {
	p, epoch, next := s.assignment.Partition, l.owned.Epoch, l.owned.Next
	installed := make(chan struct{})
	s.assignment.Flow.Rewind(next, func() {
		s.r.mu.Lock()
		if s.r.seats[p] != s {
			s.r.mu.Unlock()
			return
		}
		if s.lane != nil {
			s.lane.cancel()
		}
		s.lane, s.halted = l, s.halted && c.answers == ""
		s.r.mu.Unlock()
		s.assignment.Flow.Resume() // the old lane may have been full
		close(installed)
	})
	select {
	case <-installed:
		s.r.cfg.Logger.Info("partition taken anew", "partition", p.String(), "epoch", epoch, "next", next)
		if h := s.r.cfg.Hooks.Cleared; h != nil && c.answers != "" {
			h(p, c.answers)
		}
	case <-s.ctx.Done():
		s.r.release(l) // never put in place
	}
}
