package pawl

import (
	"context"
	"time"
)

// Hooks observe a Runner. They are called from its workers, after the fact (but for Trying), and must not block; nil fields
// are skipped. [JoinHooks] makes one of several.
type Hooks struct {
	// Assigned is called when this member gets a partition, and Ended when it has it no more; Ended may come without Assigned.
	Assigned func(Partition)
	Ended    func(Partition)
	// Taken is called when records have come, with how many were not received before. Each of them is settled, or given up
	// together with the ownership and then received again by the next. The partition waits for it: it must not call the Runner.
	Taken func(p Partition, records int)
	// Trying is called before a batch is tried. Handlers get the context that it returns, which must be derived from the one
	// it is given; what else it returns is called when the try is over, and may be nil.
	Trying func(context.Context, Try) (context.Context, func(Tried))
	// Settled is called after a batch has committed, with every decision of it.
	Settled func(Settled)
	// Failed is called when a batch did not commit and will be tried again.
	Failed func(Failure)
	// Restarted is called when a partition is taken anew because the store refused its owner (ErrFenced,
	// ErrStoreWentBack).
	Restarted func(Partition, error)
	// Raised is called when a partition gets into a named state, and Cleared when it is out of it; Cleared may also name
	// states that the partition was not in.
	Raised  func(Condition)
	Cleared func(Partition, State)
	// Committed is called after offsets were stored with the source, and CommitFailed when they were not: that is tried again,
	// and the store's position stands.
	Committed    func([]Commit)
	CommitFailed func([]Commit, error)
}

// Try is a batch that is about to be tried. It is valid until the try is over.
type Try struct {
	Partition Partition
	Routes    []string // Decision.Route indexes it
	Decisions []*Decision
	Records   int // that they are of
}

// Tried is how a try ended. The decisions have outcomes where it committed.
type Tried struct {
	Committed bool
	// Err is why it did not commit. It is nil also where that is no failure: the batch is cut or run otherwise, a handler has
	// asked for time, or the partition is being taken away.
	Err   error
	Class Class // of Err
}

// Settled is a committed batch. It is valid only during the call.
type Settled struct {
	Partition Partition
	Routes    []string // Decision.Route indexes it
	Decisions []*Decision
	Next      int64 // the position after it
	Took      time.Duration
	Records   int // that the decisions are of
}

// Failure is a batch that did not commit.
type Failure struct {
	Partition Partition
	First     int64 // offset of the batch's first record
	Records   int
	Err       error
	Class     Class
	RetryIn   time.Duration
}

// JoinHooks returns hooks that call those of each of all, in order. What Trying returns is called in the reverse order.
func JoinHooks(all ...Hooks) Hooks {
	var j Hooks
	for _, h := range all {
		j.Assigned = join(j.Assigned, h.Assigned)
		j.Ended = join(j.Ended, h.Ended)
		j.Taken = join2(j.Taken, h.Taken)
		j.Trying = joinTrying(j.Trying, h.Trying)
		j.Settled = join(j.Settled, h.Settled)
		j.Failed = join(j.Failed, h.Failed)
		j.Restarted = join2(j.Restarted, h.Restarted)
		j.Raised = join(j.Raised, h.Raised)
		j.Cleared = join2(j.Cleared, h.Cleared)
		j.Committed = join(j.Committed, h.Committed)
		j.CommitFailed = join2(j.CommitFailed, h.CommitFailed)
	}
	return j
}

func join[A any](f, g func(A)) func(A) {
	switch {
	case f == nil:
		return g
	case g == nil:
		return f
	}
	return func(a A) { f(a); g(a) }
}

func join2[A, B any](f, g func(A, B)) func(A, B) {
	switch {
	case f == nil:
		return g
	case g == nil:
		return f
	}
	return func(a A, b B) { f(a, b); g(a, b) }
}

func joinTrying(f, g func(context.Context, Try) (context.Context, func(Tried))) func(context.Context, Try) (context.Context, func(Tried)) {
	switch {
	case f == nil:
		return g
	case g == nil:
		return f
	}
	return func(ctx context.Context, t Try) (context.Context, func(Tried)) {
		ctx, outer := f(ctx, t)
		ctx, inner := g(ctx, t)
		return ctx, join(inner, outer)
	}
}
