package pawl

import (
	"context"
	"time"
)

// Admin is what people and tools see of a store and do to it, beside the runners that work on it. Nothing here is on the
// path of a record.
type Admin interface {
	// Progress lists the partitions that a consumer has read, by topic and index.
	Progress(ctx context.Context, consumer string) ([]PartitionProgress, error)

	// Conditions lists the conditions that are not over, oldest first.
	Conditions(ctx context.Context, consumer string) ([]OpenCondition, error)

	// Resolve answers a condition. Where it halts a partition, its owner carries the answer out, within seconds if it is
	// running; any other is over at once. An answer that was not yet carried out can be replaced.
	Resolve(ctx context.Context, condition int64, r Resolution) error
}

// PartitionProgress is how far a partition has come in the store.
type PartitionProgress struct {
	Partition  Partition
	Next       int64 // every offset below it is settled
	Epoch      int64
	Owned      bool // taken and not given back: by a member that works, or one that crashed
	Crashes    int  // owners in a row that ended without settling anything
	AcquiredAt time.Time
	AdvancedAt time.Time // zero: never
}

// OpenCondition is a condition as the store keeps it.
type OpenCondition struct {
	ID int64
	Condition
	Resolution *Resolution // given, and not yet carried out
}
