package pawl

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Kept names a record that the store keeps beside the log: held behind its stream, held because it came early, or set aside
// in quarantine. When it is its turn it goes the way of any record, in the lane of the partition that it came from. What Apply then does, beside the
// row of the decision:
//
//	held, and decided (or a duplicate)     it is held no longer; a stream without holds and blocker is free
//	held, and Quarantined                  it moves to quarantine, and blocks its stream if Blocks says so
//	in quarantine, and decided             it is closed; its stream has no blocker, or the next of its blockers
//	in quarantine, and Quarantined         it stays, with the new cause and one replay more
//	early, and decided                     it is held no longer; a stream without early records has no gap
//	early, and Quarantined                 it moves to quarantine
//	Held                                   nothing changes, but what its stream waits for
//
// What is no longer kept as the task said, or whose operation no longer runs, is refused with ErrNotKept.
type Kept struct {
	Hold       int64 // id of the hold, or 0
	Early      int64 // id among those that came early, or 0
	Row        int64 // of one that came early: Ownership.Row of its partition, which another may own by now
	Quarantine int64 // id in quarantine, or 0
	Item       int64 // the item of the operation that asked for it; 0: its stream became free

	// Stream is where an early one waits. Its content may name another stream by now: what decodes it may have changed.
	Stream string

	// Expired says of an early one that it has waited for as long as it was to.
	Expired bool

	// Original is the fingerprint of the content as it came, where it could be decoded and was edited since: a later copy of
	// it is a duplicate, not a conflict.
	Original Fingerprint

	// Key is the key of the content as it came, where it could be decoded and was edited since: an edit keeps it.
	Key string
}

// GapOf names the stream whose gap an early record waits in, or would.
func (d *Decision) GapOf() string {
	if d.Kept != nil && d.Kept.Early != 0 && d.Kept.Stream != "" {
		return d.Kept.Stream
	}
	return d.Identity.Stream
}

// ComesEarly reports whether d is Held because it came early, and not behind a stream that is blocked.
func (d *Decision) ComesEarly() bool { return d.Outcome == Held && d.Expected > 0 }

// ErrNotKept is an ErrRaced: the record of a task has been settled by someone else, its stream is blocked again, or its
// operation was stopped. Nothing was written. Drop the task and ask for Orders again.
var ErrNotKept = fmt.Errorf("%w: the record is no longer kept, or its turn is over", ErrRaced)

// Act is what is to be done with a kept record.
type Act uint8

const (
	// ActReplay runs the record's handler.
	ActReplay Act = 1
	// ActSkip settles it without: its key is claimed as Skipped.
	ActSkip Act = 2
)

// Task is a kept record whose turn it is.
type Task struct {
	Row    int64 // Ownership.Row of its partition
	Route  int
	Act    Act
	Kept   Kept
	Record Record // as it came, or as it was edited
	By     string // who asked for it, and why; empty where its stream became free
	Why    string
	Prior  *Prior // of one in [Gap].Early: what the store has decided for its key
}

// MergeTasks puts items of operations and records to release in the order of their partitions, for stores: at most limit,
// and neither kind crowds the other out.
func MergeTasks(items, holds []Task, limit int) []Task {
	n := min(len(items), max(limit-len(holds), (limit+1)/2))
	m := min(len(holds), limit-n)
	all := slices.Concat(items[:n], holds[:m])
	slices.SortStableFunc(all, func(a, b Task) int {
		return cmp.Or(cmp.Compare(a.Row, b.Row), cmp.Compare(a.Record.Offset, b.Record.Offset))
	})
	return all
}

// Orders are what an owner finds in the store to do, beside the log.
type Orders struct {
	Paused *Pause // nil: it works
	Held   int    // records that are held for this consumer, in all partitions
	Tasks  []Task
}

// Pause is an operator's wish that a consumer settles nothing for a while.
type Pause struct {
	By  string
	Why string
	At  time.Time
}
