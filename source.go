package pawl

import "context"

// Source is a log whose partitions are handed out and taken away. kafka.Source is the one for production.
type Source interface {
	// Origin names the cluster and the group that positions belong to. It is called before Run.
	Origin(ctx context.Context) (Origin, error)

	// Run joins the group and feeds in until ctx ends; then it gives the partitions back (in.Revoke) and returns. It
	// returns early only for an error that it cannot recover from by itself.
	Run(ctx context.Context, topics []string, in Intake) error

	// Commit stores offsets with the group. A commit for an assignment that has ended is dropped without error.
	Commit(ctx context.Context, commits []Commit) error
}

// Origin is where records come from.
type Origin struct {
	Cluster string
	Group   string
}

// Intake is what a Source feeds: the runner. A source calls Take for a partition only between Assign and the Revoke or
// Lose that ends it, never concurrently for one partition, with offsets that ascend (gaps are normal).
type Intake interface {
	// Assign announces partitions and returns the offset to start each from, or Halted: such a partition is not read before
	// its Flow is rewound. After an error the source calls Lose for all of them.
	Assign(ctx context.Context, as []*Assignment) ([]int64, error)
	// Take hands over records. It does not block: when a lane is full it asks for a pause through Assignment.Flow.
	Take(p Partition, records []Record)
	// Revoke ends assignments in good order: when it returns, work in flight is done or abandoned, and what was settled has
	// been committed.
	Revoke(ctx context.Context, ps []Partition)
	// Lose ends assignments that may already be another's: nothing is committed for them.
	Lose(ps []Partition)
	// Seen tells where the readable part of a log ends, now and then, so that lag can be told.
	Seen(p Partition, end int64)
	// Raise tells of a condition. If its state halts, the source has stopped reading the partition, and does not read on
	// before its Flow is rewound. Neither Raise nor Clear blocks.
	Raise(c Condition)
	// Clear tells that a condition which halted nothing is over. Clearing what was never raised is harmless.
	Clear(p Partition, state State)
}

// Halted, as the answer to where a partition starts: nowhere yet.
const Halted int64 = -1

// Assignment is one ownership of a partition by this member, from assign to revoke. A partition that comes back is a new
// Assignment.
type Assignment struct {
	Partition Partition
	Start     int64  // the first offset of the log
	End       int64  // the offset after the last readable record
	Committed int64  // the offset that the group has committed; -1 is none
	Metadata  string // what was committed beside it
	Flow      Flow
}

// Flow steers one assignment. Its methods do nothing once the assignment has ended.
type Flow interface {
	// Pause and Resume are called from within Take as well as beside it: they must not wait for a Take to return.
	Pause()
	Resume()
	// Rewind makes the source read on from offset, also where the partition was halted. It calls then at the border: no record read before the call is taken
	// after then, and none read from offset on is taken before it. Where the assignment has ended, then is not called.
	Rewind(offset int64, then func())
}

// Commit is an offset to store for an assignment.
type Commit struct {
	Assignment *Assignment
	Next       int64  // resume here
	Metadata   string // Pawl's signature: which store position this offset follows
}
