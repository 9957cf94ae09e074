package pawl

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Admin is what people and tools see of a store and do to it, beside the runners that work on it. Nothing here is on the
// path of a record.
type Admin interface {
	// Consumers lists the consumers that the store knows, by name.
	Consumers(ctx context.Context) ([]BoundConsumer, error)

	// Progress lists the partitions that a consumer has read, by topic and index.
	Progress(ctx context.Context, consumer string) ([]PartitionProgress, error)

	// Conditions lists the conditions that are not over, oldest first.
	Conditions(ctx context.Context, consumer string) ([]OpenCondition, error)

	// Resolve answers a condition. Where it halts a partition, its owner carries the answer out, within seconds if it is
	// running; any other is over at once. An answer that was not yet carried out can be replaced.
	Resolve(ctx context.Context, condition int64, r Resolution) error

	// Quarantine lists records that were set aside, by id from after on, without their bytes. A limit of 0 is MostListed.
	Quarantine(ctx context.Context, consumer string, f QuarantineFilter, limit int, after int64) ([]QuarantineItem, error)

	// QuarantineGroups counts what is open by route and cause, most first.
	QuarantineGroups(ctx context.Context, consumer string) ([]QuarantineGroup, error)

	// Waiting counts what waits for someone. It takes moments, however much there is: QuarantineGroups and BlockedStreams say more.
	Waiting(ctx context.Context, consumer string) (Waiting, error)

	// QuarantineItem is one of them, with its bytes and revisions.
	QuarantineItem(ctx context.Context, id int64) (*QuarantineItem, error)

	// BlockedStreams lists the streams that wait, those that wait longest first.
	BlockedStreams(ctx context.Context, consumer string, limit int) ([]BlockedStream, error)

	// Gaps lists the streams whose next event is missing, those that wait longest first.
	Gaps(ctx context.Context, consumer string, limit int) ([]OpenGap, error)

	// GapGroups counts them by route.
	GapGroups(ctx context.Context, consumer string) ([]GapGroup, error)

	// Plan is how many items an operation would have, were it started now.
	Plan(ctx context.Context, r OperationRequest) (count int, err error)

	// Start freezes the items of an operation, and lets the owners of their partitions carry it out. An archive is carried out
	// at once. An item is in one operation at a time: what another has that is not over is left out.
	Start(ctx context.Context, r OperationRequest) (*Operation, error)

	// Operations lists operations, the latest first.
	Operations(ctx context.Context, consumer string, limit int) ([]Operation, error)

	// Operation is one of them.
	Operation(ctx context.Context, id int64) (*Operation, error)

	// SetOperation pauses, resumes (running) or cancels an operation, or lets it go on after its canary (running). Once it has
	// returned, no item is carried out that the new state does not allow.
	SetOperation(ctx context.Context, id int64, state OperationState, by, why string, at time.Time) error

	// Pause has a consumer settle nothing until Resume. To pause what is paused changes by whom and why.
	Pause(ctx context.Context, consumer string, p Pause) error

	// Resume ends a pause.
	Resume(ctx context.Context, consumer, by, why string, at time.Time) error

	// Evidence lists what was decided and why, oldest first. It is found from its end, so that how long it takes depends on how
	// much is asked for, and not on how much there is.
	Evidence(ctx context.Context, consumer string, q EvidenceQuery) ([]Evidence, error)

	// Audit lists what operators did, oldest first.
	Audit(ctx context.Context, consumer string, q AuditQuery) ([]AuditEntry, error)

	// AuditTrail walks over what VerifyAudit looks at: first every seal, oldest first, then, as of one later moment, every row of
	// the audit, chain by chain, in order, those that are in no chain first. An error of row ends it.
	AuditTrail(ctx context.Context, consumer string, seal func(*AuditSeal), row func(*AuditLink) error) error

	// SealAudit seals the chains that have grown since the last seal, and returns the seal; where none has, it returns the
	// last one. Without any act there is none: its Number is 0.
	SealAudit(ctx context.Context, consumer string, at time.Time) (*AuditSeal, error)
}

// MostListed is how many a list has at most, where it is not asked for another number.
const MostListed = 1000

// NoSuch is what a store answers where there is no consumer, operation or record of that name or id.
func NoSuch(what string, id any) error {
	return &Error{
		Op: fmt.Sprintf("find %s %v", what, id), Class: Validation, Err: errors.New("there is none"), Hint: "list them again",
	}
}

// Validate refuses a pause that nobody asked for. Stores call it.
func (p Pause) Validate() error { return ValidateActor("pause a consumer", p.By, p.Why, p.At) }

// ValidateActor refuses an act without a name, a reason and a time: they are part of the history. Stores call it.
func ValidateActor(op, by, why string, at time.Time) error {
	var errs []error
	if by == "" {
		errs = append(errs, errors.New("By is empty: who asks for this?"))
	}
	if why == "" {
		errs = append(errs, errors.New("Why is empty: a reason is kept with it"))
	}
	if at.IsZero() {
		errs = append(errs, errors.New("At is zero: the time of the request"))
	}
	if len(errs) == 0 {
		return nil
	}
	return &Error{Op: op, Class: Validation, Err: errors.Join(errs...)}
}

// Waiting is how much of a consumer waits for someone.
type Waiting struct {
	Quarantined    int // records that are open in quarantine
	BlockedStreams int // streams that a record blocks, or whose records are still being released
}

// PartitionProgress is how far a partition has come in the store.
type PartitionProgress struct {
	Partition  Partition
	Next       int64 // every offset below it is settled
	Received   int64 // the offset after the last one that the owner had received, when it last settled something; at least Next
	Epoch      int64
	Owned      bool // taken and not given back: by a member that works, or one that crashed
	Crashes    int  // owners in a row that died without moving the position
	AcquiredAt time.Time
	AdvancedAt time.Time // zero: never
}

// OpenCondition is a condition as the store keeps it.
type OpenCondition struct {
	ID int64
	Condition
	Resolution *Resolution // given, and not yet carried out
}
