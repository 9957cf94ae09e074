package pawl

import "time"

// Hooks observe a Runner. They are called from its workers, after the fact, and must not block; nil fields are skipped.
type Hooks struct {
	// Assigned is called when this member gets a partition, and Ended when it has it no more; Ended may come without Assigned.
	Assigned func(Partition)
	Ended    func(Partition)
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
	// Committed is called after offsets were stored with the source.
	Committed func([]Commit)
}

// Settled is a committed batch. It is valid only during the call.
type Settled struct {
	Partition Partition
	Routes    []string // Decision.Route indexes it
	Decisions []*Decision
	Next      int64 // the position after it
	Took      time.Duration
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
