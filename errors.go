package pawl

import (
	"errors"
	"fmt"
	"time"
)

// A handler returns nil for "applied", an error for "that did not work", or one of the verbs below for a decision. Every
// non-nil return undoes what the handler wrote for that record.

// Ignore is returned by a handler for a valid event that needs no effect. The Key is decided: later copies are duplicates.
func Ignore(reason string) error { return &verb{kind: verbIgnore, reason: reason} }

// Stale is returned by a handler that finds the state already past this event. The Key is decided.
func Stale(reason string) error { return &verb{kind: verbStale, reason: reason} }

// Reject is returned by a handler for an event that can never apply as it is: it is quarantined at once, without retries.
func Reject(err error) error {
	if err == nil {
		err = errors.New("rejected by the handler")
	}
	return &verb{kind: verbReject, reason: err.Error(), err: err}
}

// Later is returned by a handler to be asked again after d, at most [MaxLater]. Records behind it in the same lane wait.
func Later(d time.Duration) error {
	return &verb{kind: verbLater, wait: min(max(d, 0), MaxLater), reason: fmt.Sprintf("later, in %s", d)}
}

// MaxLater bounds [Later]: a lane that waits longer holds back everything behind it.
const MaxLater = 30 * time.Second

type verbKind uint8

const (
	verbIgnore verbKind = iota + 1
	verbStale
	verbReject
	verbLater
)

// verb is a decision dressed as an error, so that a handler has one return.
type verb struct {
	kind   verbKind
	reason string
	wait   time.Duration
	err    error
}

func (v *verb) Error() string { return v.reason }
func (v *verb) Unwrap() error { return v.err }

// Class says what an error makes Pawl do. See docs/design.md for the whole table.
type Class uint8

const (
	// Unknown errors are retried a few times, then the record is quarantined.
	Unknown Class = iota
	// Transient errors are retried with backoff for as long as it takes; nothing is committed meanwhile.
	Transient
	// Validation errors are broken constraints: the record is quarantined.
	Validation
	// Poison errors are data that the database cannot hold: the record is quarantined with its bytes.
	Poison
	// Misconfigured errors (a missing table, right or setting) latch the consumer: no record is to blame.
	Misconfigured
	// Overload errors are retried as transient ones are, together with all that needs the same dependency. See [Overloaded].
	Overload
	// Corruption errors say that the data contradicts itself: the record is quarantined as such.
	Corruption
)

func (c Class) String() string {
	switch c {
	case Transient:
		return "transient"
	case Validation:
		return "validation"
	case Poison:
		return "poison"
	case Misconfigured:
		return "misconfigured"
	case Overload:
		return "overload"
	case Corruption:
		return "corruption"
	}
	return "unknown"
}

// Errors that a [Store] returns. Compare with errors.Is.
var (
	// ErrFenced means that another owner has taken the partition since: drop everything of this ownership.
	ErrFenced = errors.New("fenced: another owner has taken this partition")
	// ErrStoreWentBack means that the database has lost commits that this owner has seen (a failover or a restore):
	// raise an alarm and read on from the store's position.
	ErrStoreWentBack = errors.New("store went back: the database lost commits that had been acknowledged")
	// ErrRaced means that another transaction decided one of the keys, or wrote one of the rows, meanwhile: nothing was written,
	// apply again.
	ErrRaced = errors.New("raced: another transaction was first")
	// ErrNoPosition means that the store has never seen this partition, and was not told where it starts.
	ErrNoPosition = errors.New("no position: the store has never seen this partition")
	// ErrOtherTopic is an ErrNoPosition: it has a position for a topic of the same name with another id.
	ErrOtherTopic = fmt.Errorf("%w, but one of a topic of the same name", ErrNoPosition)
	// ErrTxEnded is returned by Commit and Rollback of a handler's transaction, and when a handler ended it by SQL text.
	ErrTxEnded = errors.New("the transaction belongs to pawl: a handler returns an error to undo its writes, and nil to keep them")
	// ErrNoKey is the poison of a record whose decoder found no Key.
	ErrNoKey = errors.New("the key is empty: every event needs an idempotency key (Meta.PositionKey makes one from the position)")
)

// Error is an error that an operator may meet: what was tried, what happened, what to do.
type Error struct {
	Op    string // what was tried
	Class Class
	Err   error
	Hint  string // what to do about it
}

func (e *Error) Error() string {
	s := e.Op + ": " + e.Err.Error()
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }
