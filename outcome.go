package pawl

import "fmt"

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
	// Quarantined: set aside whole, with the cause; it claims nothing until an operator decides.
	Quarantined Outcome = 7
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
	case Quarantined:
		return "quarantined"
	}
	return fmt.Sprintf("outcome(%d)", uint8(o))
}

// Claims reports whether the outcome is the terminal decision for its Key: a later copy is then a duplicate.
func (o Outcome) Claims() bool { return o == Applied || o == WasStale || o == Ignored }

// Causes of quarantine. They are stored and shown to operators, so their spelling never changes.
const (
	CausePoison     = "poison"     // the bytes do not decode, or carry no usable identity
	CauseConflict   = "conflict"   // the Key was decided for other content
	CauseValidation = "validation" // the handler rejected it, or the data broke a constraint
	CauseCorruption = "corruption" // it contradicts what is stored
	CauseFailure    = "failure"    // it failed again and again for a reason Pawl does not know
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

	// Prior is the decision that the store already had for this Key, found at the start of the transaction.
	Prior *Prior

	Outcome Outcome
	Reason  string // why, for everything but Applied
	Cause   string // a Cause… constant, for Quarantined
	Tries   int    // how often it was tried before it was quarantined

	// Repeat marks a delivery that was settled before, from this very position: nothing is written for it.
	Repeat bool
}

// Prior is a decision found in the store.
type Prior struct {
	Outcome      Outcome
	Fingerprint  Fingerprint
	SamePosition bool // decided from the very position that is being handled: this is a redelivery
}
