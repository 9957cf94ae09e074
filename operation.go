package pawl

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// OperationKind is what an operation does to each of its items.
type OperationKind string

const (
	// OperationReplay runs quarantined records again, as they came or as they were last edited.
	OperationReplay OperationKind = "replay"
	// OperationSkip settles quarantined records without their handlers, so that their streams go on.
	OperationSkip OperationKind = "skip"
	// OperationArchive takes quarantined records out of sight and settles nothing: their keys stay free.
	OperationArchive OperationKind = "archive"
	// OperationEdit gives one quarantined record other bytes, as a new revision, and runs it again. Its key stays.
	OperationEdit OperationKind = "edit"
)

// Act is what the kind has lanes do with each item.
func (k OperationKind) Act() Act {
	if k == OperationSkip {
		return ActSkip
	}
	return ActReplay
}

// OperationState is how far an operation has come.
type OperationState string

const (
	OperationRunning  OperationState = "running"
	OperationCanary   OperationState = "canary" // the first items are done: it waits for an operator to say that they are good
	OperationPaused   OperationState = "paused"
	OperationDone     OperationState = "done"
	OperationCanceled OperationState = "canceled"
)

// OperationRequest asks for an operation on the items that are in quarantine at this moment and match: their number is
// frozen, and what comes later is not part of it.
type OperationRequest struct {
	Consumer string
	Kind     OperationKind
	Filter   QuarantineFilter
	Limit    int     // at most this many items, oldest first; 0: all
	Rate     float64 // items a second; 0: as fast as it goes
	Canary   int     // wait for an operator after this many items; 0: do not
	Value    []byte  // OperationEdit: the new bytes
	By       string
	Why      string
	At       time.Time
}

// Validate reports everything that is wrong at once. Stores call it.
func (r *OperationRequest) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch r.Kind {
	case OperationReplay, OperationSkip, OperationArchive:
		if r.Value != nil {
			bad("Value is set: only an edit has one")
		}
	case OperationEdit:
		if len(r.Filter.IDs) != 1 {
			bad("an edit is of one record: Filter.IDs has %d", len(r.Filter.IDs))
		}
	default:
		bad("Kind is %q, which is none", r.Kind)
	}
	if r.Consumer == "" {
		bad("Consumer is empty")
	}
	if r.Limit < 0 || r.Rate < 0 || r.Canary < 0 {
		bad("Limit, Rate and Canary are at least 0")
	}
	if r.Filter.Status != "" && r.Filter.Status != QuarantineOpen {
		bad("Filter.Status is %q: only what is open can be worked on", r.Filter.Status)
	}
	var actor *Error
	if errors.As(ValidateActor("", r.By, r.Why, r.At), &actor) {
		errs = append(errs, actor.Err)
	}
	if len(errs) == 0 {
		return nil
	}
	return &Error{Op: "ask for an operation", Class: Validation, Err: errors.Join(errs...)}
}

// Operation is a durable act of an operator: it is carried out item by item in the lanes of the partitions that the items
// came from, and survives restarts.
type Operation struct {
	ID       int64
	Consumer string
	Kind     OperationKind
	State    OperationState
	Total    int // frozen when it was asked for
	Done     int // carried out: whatever became of them
	Failed   int // of these, set aside again
	Rate     float64
	Canary   int
	By       string
	Why      string
	At       time.Time
	EndedAt  time.Time // zero: it has not

	ResumedAt   time.Time // when it last began to run: Rate counts from here
	ResumedDone int       // what was done by then
}

// Due is how many items may be carried out by now: all that are left, or fewer where Canary or Rate say so.
func (o *Operation) Due(now time.Time) int {
	if o.State != OperationRunning {
		return 0
	}
	due := o.Total - o.Done
	if o.Done < o.Canary {
		due = min(due, o.Canary-o.Done)
	}
	if o.Rate > 0 {
		allowed := min(o.Rate*now.Sub(o.ResumedAt).Seconds(), float64(o.Total))
		due = min(due, int(allowed)-(o.Done-o.ResumedDone))
	}
	return max(due, 0)
}

// CanBecome reports whether an operator may have an operation in state s put into state to.
func (s OperationState) CanBecome(to OperationState) bool {
	switch s {
	case OperationRunning:
		return to == OperationPaused || to == OperationCanceled
	case OperationPaused, OperationCanary:
		return to == OperationRunning || to == OperationCanceled
	}
	return false
}

// NoSuchChange is what a store answers to a change of state that there is none of.
func NoSuchChange(id int64, from, to OperationState) error {
	return &Error{
		Op: fmt.Sprintf("set operation %d to %s", id, to), Class: Validation, Err: fmt.Errorf("it is %s", from),
		Hint: "one that runs can be paused or canceled; one that is paused, or waits after its canary, can be set running or canceled; one that is over stays so",
	}
}

// NothingToDo is what a store answers to a request that no item matches.
func NothingToDo() error {
	return &Error{
		Op: "choose items", Class: Validation, Err: errors.New("no open item matches that is in no other operation"),
		Hint: "list the quarantine and the operations: what another operation has can be worked on once that is over or canceled",
	}
}

// Where a record in quarantine is.
const (
	QuarantineOpen     = "open"
	QuarantineReplayed = "replayed"
	QuarantineSkipped  = "skipped"
	QuarantineArchived = "archived"
	QuarantineAny      = "any" // in a filter
)

// quarantineStatus are the names by number: numbers are what stores keep.
var quarantineStatus = []string{QuarantineAny, QuarantineOpen, QuarantineReplayed, QuarantineSkipped, QuarantineArchived}

// QuarantineStatus is the name of a number in a store.
func QuarantineStatus(n int) string {
	if n <= 0 || n >= len(quarantineStatus) {
		return fmt.Sprintf("status(%d)", n)
	}
	return quarantineStatus[n]
}

// StatusNumber is the number that the filter asks a store for; 0 is any.
func (f *QuarantineFilter) StatusNumber() (int, error) {
	if f.Status == "" {
		return 1, nil
	}
	if n := slices.Index(quarantineStatus, f.Status); n >= 0 {
		return n, nil
	}
	return 0, &Error{Op: "list the quarantine", Class: Validation, Err: fmt.Errorf("status %q is none", f.Status),
		Hint: "one of " + strings.Join(quarantineStatus, ", ")}
}

// QuarantineFilter picks items. Fields that are set must all match.
type QuarantineFilter struct {
	Status string // a Quarantine… constant; "" is QuarantineOpen
	IDs    []int64
	Route  string
	Cause  string
	Stream string
	Reason string    // contained in the reason
	Since  time.Time // set aside at or after
	Until  time.Time // set aside before
}

// QuarantineGroup is how many open items have one cause, on one route.
type QuarantineGroup struct {
	Route   string
	Cause   string
	Reason  string // the first line of the reason of the oldest
	Count   int
	Streams int // that they are of
	Oldest  time.Time
	Newest  time.Time
}

// QuarantineItem is a record that was set aside.
type QuarantineItem struct {
	ID        int64
	Route     string
	Status    string // open, replayed, skipped, archived
	Cause     string
	Reason    string
	Tries     int
	Replays   int // how often an operator had it run again
	Partition Partition
	Offset    int64
	Key       string // "" where it could not be decoded
	Stream    string
	Blocks    int // records held behind it
	At        time.Time
	// Of one that was asked for by id:
	Record    *Record
	Revisions []Revision
}

// Revision is other content that an operator has given a quarantined record. The bytes as they came are kept.
type Revision struct {
	Number int
	Value  []byte
	By     string
	Why    string
	At     time.Time
}

// BlockedStream is a stream that waits, and what waits in it.
type BlockedStream struct {
	Route        string
	Stream       string
	Quarantine   int64 // the item that blocks it; 0: nothing any more, its records are being released
	Held         int
	Since        time.Time
	OldestHeldAt time.Time
}
