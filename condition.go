package pawl

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// State names what is the matter with a partition, where a consumer less careful would go on and lose records, or try the
// same thing for ever.
type State string

// States that halt a partition: it is not read until an operator has answered with a [Resolution].
const (
	// StateBelowLog: the log begins after the position. Records in between were deleted before they were read.
	StateBelowLog State = "below_log"
	// StateAboveLog: the log ends before the position. It was cut off or restored; were reading to go on once it has grown,
	// the new records below the position would never be read.
	StateAboveLog State = "above_log"
	// StateDataLoss: the log was cut off under the reader, as by an unclean leader election.
	StateDataLoss State = "data_loss"
	// StateRecreated: the topic was deleted and made again. Its offsets start over, and the position is of the old one.
	StateRecreated State = "topic_recreated"
	// StateOffsetReset: someone has set the group's offset, and the store's position is another. See Config.Reset.
	StateOffsetReset State = "offset_reset"
	// StateNoPosition: the group has an offset and the store has none: someone has read this without the store. See
	// Config.Start.
	StateNoPosition State = "no_position"
	// StateUnreadable: the log has bytes that cannot be read: corrupt, or larger than any batch may become.
	StateUnreadable State = "unreadable"
	// StateUnauthorized: the right to read was taken away. Reading is tried again by itself, ever more rarely.
	StateUnauthorized State = "unauthorized"
)

// States that latch the whole consumer: nothing is settled until an operator has answered.
const (
	// StateLatched: something is missing that no record is to blame for: a table, a right, a setting. The next start tries
	// again.
	StateLatched State = "latched"
	// StateQuarantineBudget: more was to be quarantined than Config.Budget allows. It lasts over restarts.
	StateQuarantineBudget State = "quarantine_budget"
	// StatePoison: a record was to be quarantined, and Config.OnPoison is PoisonStop. The next start tries again.
	StatePoison State = "poison"
)

// States that halt nothing and are told all the same.
const (
	// StateTopicMissing: the topic does not exist, or no longer.
	StateTopicMissing State = "topic_missing"
	// StateLogFrozen: a transaction of some producer stays open, and nothing after its first record can be read.
	StateLogFrozen State = "log_frozen"
	// StateStoreWentBack: the database lost commits. Reading went back to the store's position by itself; what followed from
	// the lost commits outside this database did not.
	StateStoreWentBack State = "store_went_back"
	// StateDependencyDown: something that handlers need, or the store itself, fails again and again. One record at a time asks
	// whether it is back.
	StateDependencyDown State = "dependency_down"
	// StateHoldsFull: as many records are held behind blocked streams as Config.MaxHeld allows. Partitions that have more of
	// them wait.
	StateHoldsFull State = "holds_full"
	// StatePaused: an operator wants the consumer to settle nothing for a while.
	StatePaused State = "paused"
	// StateFenced: the partition is taken from this member again and again, though the group says that it is its owner. Does
	// another group's member, or a tool, use the same consumer name?
	StateFenced State = "fenced"
)

// HaltingStates lists the states that halt a partition or latch a consumer.
func HaltingStates() []State {
	return []State{
		StateBelowLog, StateAboveLog, StateDataLoss, StateRecreated, StateOffsetReset, StateNoPosition, StateUnreadable,
		StateUnauthorized, StateLatched, StateQuarantineBudget, StatePoison,
	}
}

// Halts reports whether a partition in this state is not read, or a consumer settles nothing.
func (s State) Halts() bool { return slices.Contains(HaltingStates(), s) }

// lasting are the states that do not pass by themselves. A log that was cut off looks sound again once it has grown, and
// what a store that went back had caused stays caused: only a person ends these.
var lasting = []State{StateAboveLog, StateDataLoss, StateStoreWentBack}

// AllPartitions is the index of a Partition that stands for its whole topic, or, without a topic, for the whole group.
const AllPartitions int32 = -1

// Condition is a partition in a named state. It is kept in the store until it is over.
type Condition struct {
	Partition Partition
	State     State
	Reason    string    // what happened
	Hint      string    // what to do
	Next      int64     // where reading goes on, if it just goes on; NoStart where there is no such place
	Start     int64     // the first offset of the log, as far as known
	End       int64     // the offset after its last record, as far as known
	Since     time.Time // filled in by the runner
}

// Resolution is an operator's answer to a condition.
type Resolution struct {
	To  int64  // the offset to read on from, or GoOn
	By  string // who decided
	Why string
	At  time.Time
}

// GoOn reads on from Condition.Next. If that is still not possible, the partition is halted again.
const GoOn int64 = -1

// Validate refuses an answer that says nothing: who decides, and why, is part of the history. Stores call it.
func (r Resolution) Validate() error {
	var errs []error
	if r.To < GoOn {
		errs = append(errs, fmt.Errorf("offset %d: an offset is at least 0, and GoOn is %d", r.To, GoOn))
	}
	if r.By == "" {
		errs = append(errs, errors.New("By is empty: who decides this?"))
	}
	if r.Why == "" {
		errs = append(errs, errors.New("Why is empty: a reason is kept with the decision"))
	}
	if r.At.IsZero() {
		errs = append(errs, errors.New("At is zero: the time of the decision"))
	}
	if len(errs) == 0 {
		return nil
	}
	return &Error{Op: "resolve a condition", Class: Validation, Err: errors.Join(errs...)}
}

// NoSuchCondition is what a store answers to the resolution of a condition that does not exist or is over.
func NoSuchCondition(id int64) error {
	return &Error{
		Op: fmt.Sprintf("resolve condition %d", id), Class: Validation, Err: errors.New("there is none, or it is over"),
		Hint: "list the conditions again",
	}
}
