package pawl

import "time"

// Kept names a record that the store keeps beside the log: held behind its stream, or set aside in quarantine. When it is
// its turn it goes the way of any record, in the lane of the partition that it came from.
type Kept struct {
	Hold       int64 // id of the hold, or 0
	Quarantine int64 // id in quarantine, or 0
	Item       int64 // the item of the operation that asked for it; 0: its stream became free

	// Original is the fingerprint of the content as it came, where it could be decoded and was edited since: a later copy of
	// it is a duplicate, not a conflict.
	Original Fingerprint
}

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
}

// Orders are what an owner finds in the store to do, beside the log.
type Orders struct {
	Paused *Pause // nil: it works
	Tasks  []Task
}

// Pause is an operator's wish that a consumer settles nothing for a while.
type Pause struct {
	By  string
	Why string
	At  time.Time
}
