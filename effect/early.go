package effect

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl"
)

// Early says what becomes of an event that comes before its turn: an earlier version of its stream is missing. Within a batch
// it waits for what comes behind it; this is about what the batch leaves open.
//
// The zero value quarantines it.
type Early struct {
	// Hold keeps it in the store for so long: it takes effect in the transaction that closes the gap. 0: it is not held.
	Hold time.Duration

	// Most bounds how many events of a stream are held. Default: 1000. Config.MaxHeld bounds them all.
	Most int

	// Then is what becomes of an event that is not held, cannot be because of a bound, or was for long enough.
	Then Then

	// Source is asked where Then is Requery.
	Source Source
}

// Then is what becomes of an early event in the end.
type Then uint8

const (
	// Quarantine sets the event aside, with the cause "gap". It blocks nothing: replay it when what is missing has come.
	Quarantine Then = iota
	// Requery asks a source of truth, and moves the row forward to what it answers: events up to there are superseded, those
	// behind it take effect. An event that the answer leaves early is held if it may be, and else quarantined.
	Requery
	// Ignore decides that the event takes no effect, which the evidence keeps. Its stream waits on for what is missing, and
	// then for this very event: use it only where the source sends both again under new keys.
	Ignore
)

// defaultMost is how many events of a stream are held unless Early says otherwise.
const defaultMost = 1000

func (e *Early) check(p *problems, rule Rule) {
	if rule != Next && (e.Hold != 0 || e.Most != 0 || e.Then != Quarantine || e.Source != nil) {
		p.add("Early is about Rule Next: under %s no event is early", rule)
	}
	if e.Hold < 0 {
		p.add("Early.Hold is %s", e.Hold)
	}
	if e.Most < 0 {
		p.add("Early.Most is %d", e.Most)
	}
	if e.Most > 0 && e.Hold == 0 {
		p.add("Early.Most bounds what is held, but Early.Hold is 0: nothing is")
	}
	switch {
	case e.Then > Ignore:
		p.add("Early.Then is %d, which is none", e.Then)
	case e.Then == Requery && e.Source == nil:
		p.add("Early.Then is Requery, but there is no Early.Source to ask")
	case e.Then != Requery && e.Source != nil:
		p.add("Early.Source is only asked where Early.Then is Requery")
	}
	if v, ok := e.Source.(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			p.add("Early.Source: %w", err)
		}
	}
}

// hold decides an event that waits for version expected.
func (e *Early) hold(version, expected int64, now time.Time) pawl.Verdict {
	return pawl.Verdict{
		Outcome: pawl.Held, Expected: expected, Until: now.Add(e.Hold),
		Reason: outOfOrder(version, expected),
	}
}

// end decides an event that waits no longer. why says so.
func (e *Early) end(version, expected int64, why string) pawl.Verdict {
	reason := fmt.Sprintf("%s; %s", outOfOrder(version, expected), why)
	if e.Then == Ignore {
		return pawl.Verdict{Outcome: pawl.Ignored, Reason: reason}
	}
	return pawl.Verdict{Outcome: pawl.Quarantined, Cause: pawl.CauseGap, Reason: reason}
}

func outOfOrder(version, expected int64) string {
	if expected == 1 {
		return fmt.Sprintf("missing aggregate: there is no row, and version %d is not its first", version)
	}
	return fmt.Sprintf("out of order: version %d came, and version %d is missing", version, expected)
}

var (
	errNoStream  = errors.New("the event names no stream: its decoder must set Identity.Stream")
	errNoVersion = errors.New("the event has no version: its decoder must set Identity.Version, from 1")
	errNoTime    = errors.New("the event does not say when it occurred: its decoder must set Identity.OccurredAt")
)
