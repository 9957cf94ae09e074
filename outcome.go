package pawl

import (
	"fmt"
	"slices"
	"time"
)

// Outcome is what became of a record on a route. Numbers are stored: they never change meaning.
type Outcome uint8

const (
	// Applied: the handler's writes are committed.
	Applied Outcome = 1
	// Duplicate: the Key had its decision already, for the same content.
	Duplicate Outcome = 2
	// WasStale: the handler found that the state is already past this event.
	WasStale Outcome = 3
	// Ignored: a valid event that needs no effect here.
	Ignored Outcome = 4
	// Superseded: another event has made this one pointless before it was applied: its correction, or a state that already
	// contains it.
	Superseded Outcome = 5
	// Held: kept behind its stream, which is blocked; it claims nothing until its turn comes.
	Held Outcome = 6
	// Quarantined: set aside whole, with the cause; it claims nothing until an operator decides.
	Quarantined Outcome = 7
	// Skipped: an operator has decided that it takes no effect.
	Skipped Outcome = 8
)

func (o Outcome) String() string {
	switch o {
	case Applied:
		return "applied"
	case Duplicate:
		return "duplicate"
	case WasStale:
		return "stale"
	case Ignored:
		return "ignored"
	case Superseded:
		return "superseded"
	case Held:
		return "held"
	case Quarantined:
		return "quarantined"
	case Skipped:
		return "skipped"
	}
	return fmt.Sprintf("outcome(%d)", uint8(o))
}

// Claims reports whether the outcome is the terminal decision for its Key: a later copy is then a duplicate.
func (o Outcome) Claims() bool {
	switch o {
	case Applied, WasStale, Ignored, Superseded, Skipped:
		return true
	}
	return false
}

// Causes of quarantine. They are stored and shown to operators, so their spelling never changes.
const (
	CausePoison     = "poison"     // the bytes do not decode, or carry no usable identity
	CauseConflict   = "conflict"   // the Key was decided for other content
	CauseValidation = "validation" // the handler rejected it, or the data broke a constraint
	CauseCorruption = "corruption" // it contradicts what is stored
	CauseFailure    = "failure"    // it failed again and again for a reason Pawl does not know
	CauseCrash      = "crash"      // whoever tried it did not live to tell
	CauseGap        = "gap"        // it came early, and what is missing before it did not come in time
	CauseTransition = "transition" // the state that its stream is in does not allow it
)

// Decision is one record on one route, on its way through the transaction: first who it is, then what the store knows
// about its Key, then what was decided. Once committed, it is the evidence.
type Decision struct {
	Route  int // index in [Binding.Routes]
	Record *Record

	// Identity, KeyID and Fingerprint are zero where the record could not be decoded.
	Identity    Identity
	KeyID       KeyID
	Fingerprint Fingerprint
	Mode        Mode

	// Kept says where the store keeps the record; nil: it is a record of the log.
	Kept *Kept

	// Sequenced says that the route keeps its streams in order. Set by the runner.
	Sequenced bool

	// Gapped says that the effect holds what comes early. Set by the runner.
	Gapped bool

	// Prior is the decision that the store already had for this Key, found at the start of the transaction.
	Prior *Prior

	// Blocked says that the stream is blocked: a record of it is in quarantine and blocks it, or records are held. Set by the
	// store at the start of the transaction, for records of the log that are Sequenced and have a stream.
	Blocked bool

	Outcome Outcome
	Reason  string // why, for everything but Applied
	Cause   string // a Cause… constant, for Quarantined
	Tries   int    // how often it was tried before it was quarantined
	Blocks  bool   // of a Quarantined one: its stream is blocked from here on

	// Evidence, where the effect has any: see [Verdict].
	VersionBefore int64
	RowAffected   string
	StateBefore   string
	StateAfter    string

	// Expected is the version that the stream waits for, of one that is Held because it came early, until Until. Zero: it is
	// held behind its stream, which is blocked.
	Expected int64
	Until    time.Time

	// OfAnother marks a Duplicate of an event with another Key, as a declared effect finds them: it is the decision for its own.
	OfAnother bool

	// Repeat marks a delivery that was settled before, from this very position: nothing is written for it.
	Repeat bool
}

// Claims reports whether d is the terminal decision for its Key, and so gets the row that claims it. What has no key, or a
// key that is decided, may be skipped by an operator or come after its correction: then the position is settled, and there
// is nothing to claim.
func (d *Decision) Claims() bool {
	return (d.Outcome.Claims() || d.Outcome == Duplicate && d.OfAnother) && d.Identity.Key != "" && d.Prior == nil
}

// Supersedes reports whether d marks another key as superseded: also where d itself was, because its own correction came first.
func (d *Decision) Supersedes() bool {
	return (d.Outcome == Applied || d.Outcome == Superseded) && d.Identity.Supersedes != ""
}

// Prior is a decision found in the store.
type Prior struct {
	Outcome     Outcome
	Fingerprint Fingerprint
	Accepted    []Fingerprint // content that counts as the same, such as that before an edit; mostly nil
	// SamePosition says that it was decided from the very position that is being handled: this is a redelivery. Then it need not
	// have come to a claim: what was held or set aside ahead of the position stays so when that is read again.
	SamePosition bool
	SupersededBy string // the Key of the event that corrects it; with a zero Fingerprint: which came before it
}

// Accepts reports whether content with fingerprint f is what was decided: then it is a duplicate, and else a conflict.
func (p *Prior) Accepts(f Fingerprint) bool {
	return p.Fingerprint == f || slices.Contains(p.Accepted, f)
}

// Stands sets Prior to what became of d's position before, if it was this record: a log that was cut off has others there. Stores
// call it for what was settled ahead of the position, and is read again; key and fingerprint are nil of what did not decode.
func (d *Decision) Stands(outcome Outcome, key, fingerprint []byte) {
	same := len(key) == 0 && d.Identity.Key == ""
	if d.Identity.Key != "" {
		same = string(key) == string(d.KeyID.ID[:]) && string(fingerprint) == string(d.Fingerprint[:])
	}
	if same {
		d.Prior = &Prior{Outcome: outcome, Fingerprint: d.Fingerprint, SamePosition: true}
	}
}
