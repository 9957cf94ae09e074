package pawl

import (
	"errors"
	"time"
)

// EvidenceQuery asks what was decided. One of Key, EventID and Stream is set.
type EvidenceQuery struct {
	Key     string
	EventID string // of what was decided; a record that was only ever held or set aside is found by its key or stream
	Stream  string

	// AsOf leaves out what was decided after it. Zero: nothing.
	AsOf time.Time

	// Limit is how many are wanted of each route, the latest. Of a stream, that are its latest events, with the copies of them:
	// a copy of an event that is older than those is not looked for. 0: MostListed.
	Limit int
}

// Validate refuses a query that asks for nothing, or for several things. Stores call it.
func (q *EvidenceQuery) Validate() error {
	n := 0
	for _, s := range []string{q.Key, q.EventID, q.Stream} {
		if s != "" {
			n++
		}
	}
	if n == 1 && q.Limit >= 0 {
		return nil
	}
	return &Error{Op: "look for evidence", Class: Validation, Err: errors.New("ask by Key, by EventID or by Stream, with a Limit of at least 0")}
}

// Evidence is what was decided about one record on one route, and why.
type Evidence struct {
	Route     string
	Partition Partition
	Offset    int64

	// Identity is as far as it was kept: whole where Claim is set, else the Key and what the claim of that key says of the
	// stream. An EventID or MessageID that is the Key itself may be left out.
	Identity    Identity
	Fingerprint Fingerprint   // zero: it did not decode
	Accepted    []Fingerprint // content that counts as the same

	Outcome Outcome
	Reason  string
	Claim   bool // this is the decision for its key; else a later copy, or something that was held or set aside
	Mode    Mode
	Code    string // the version of the program

	VersionBefore int64  // of the stream, where the effect knows it
	RowAffected   string // and where the effect says so, what it changed
	StateBefore   string
	StateAfter    string

	SupersededBy string // the Key of the event that corrects it

	IngestedAt  time.Time // when the log took it
	ProcessedAt time.Time
}

// AsOf finds in the evidence of a stream what made it what it was at a moment: the last event of a route that had been
// applied by then. Its StateAfter is the state, where states are kept. It is false where nothing had been.
func AsOf(stream []Evidence, route string, at time.Time) (last Evidence, ok bool) {
	for _, e := range stream {
		if e.Route != route || e.Outcome != Applied || !e.Claim || e.ProcessedAt.After(at) {
			continue
		}
		if !ok || e.ProcessedAt.After(last.ProcessedAt) || e.ProcessedAt.Equal(last.ProcessedAt) && e.Identity.Version >= last.Identity.Version {
			last, ok = e, true
		}
	}
	return last, ok
}
