package pawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawlhq/pawl/internal/fault"
)

// step is one decision together with what is needed to reach it.
type step[Tx any] struct {
	Decision
	section section[Tx]
	at      int         // index of the record within its section
	stream  *stream[Tx] // where the order is OrderStream

	// fixed marks a decision reached before the transaction: undecodable bytes, or a record that isolation has found to
	// be the one that fails. Its handler is not called.
	fixed bool
	tries int  // failures for an unknown reason so far
	lent  bool // it is not of the batch: it waits in a gap that the batch may close
}

// decider gives the steps of one batch their outcomes, inside the transaction. It is policy only: which handler runs,
// what its answer means, and what must be undone.
type decider[Tx any] struct {
	given    []*step[Tx] // the batch
	steps    []*step[Tx] // and what it may set free: see meet
	routes   []boundRoute[Tx]
	blocked  map[blockedStream]bool // streams that were blocked by a record of this batch
	full     bool                   // no more may be held
	now      time.Time
	gaps     map[int]map[string]*Gap // by route and stream
	lent     map[section[Tx]]int     // how many records of the batch were in each section before meet
	alone    bool                    // what waits in gaps stays there
	careful  bool                    // a mark before each record, so that one can be undone alone
	suspect  bool                    // of one record: what fails at COMMIT must show which route is to blame
	timeout  time.Duration
	maxTries int
	class    func(error) Class
}

type blockedStream struct {
	route  int
	stream string
}

// waits decides what has to wait because its stream is blocked: in the store, or by a record before it in this batch.
func (d *decider[Tx]) waits(st *step[Tx]) (bool, error) {
	if !st.Sequenced || st.Identity.Stream == "" || st.Outcome != 0 || !st.Blocked && !d.blocked[blockedStream{st.Route, st.Identity.Stream}] {
		return false, nil
	}
	if d.full && st.Kept == nil {
		return false, &waitError{st.Record.Offset, holdsWait, errHoldsFull}
	}
	st.Outcome, st.Reason = Held, "its stream is blocked"
	return true, nil
}

// holdsWait is how long a record waits in front of a full store of held ones before it asks again.
const holdsWait = time.Second

var errHoldsFull = errors.New("its stream is blocked, and no more records may be held")

// block follows a decision: a record that was set aside may block its stream for what comes after it. A conflict is about
// its key, and one before a gap waits for a record that must be able to pass.
func (d *decider[Tx]) block(st *step[Tx]) {
	if st.Sequenced && st.Outcome == Quarantined && st.Cause != CauseConflict && st.Cause != CauseGap && st.Identity.Stream != "" {
		st.Blocks = true
		d.blocked[blockedStream{st.Route, st.Identity.Stream}] = true
	}
}

// Errors by which a decider tells the lane why a batch cannot be committed as it is. Everything was or will be undone.

// errNeedsCare: a record must be undone alone, and there is no mark to return to.
var errNeedsCare = errors.New("a record of the batch must be undone alone")

// waitError: the record at offset must be tried again later; what comes before it can be settled now.
type waitError struct {
	offset int64
	wait   time.Duration // 0: the lane's backoff
	err    error
}

func (e *waitError) Error() string { return e.err.Error() }
func (e *waitError) Unwrap() error { return e.err }

// splitError: the batch must end before offset, because what becomes of that record depends on what comes before it; or it must
// be tried without what it was lent, to which the batch's offsets say nothing.
type splitError struct {
	offset int64
	lent   bool
}

func (e *splitError) Error() string {
	if e.lent {
		return "the batch must be tried without what waits for it"
	}
	return fmt.Sprintf("the batch must end before offset %d", e.offset)
}

func (st *step[Tx]) splits() error { return &splitError{st.Record.Offset, st.lent} }

// batchError: a batch handler failed, and nobody knows for which record.
type batchError struct {
	route int
	err   error
}

func (e *batchError) Error() string { return e.err.Error() }
func (e *batchError) Unwrap() error { return e.err }

// run is the Work.Run of the batch.
func (d *decider[Tx]) run(ctx context.Context, s Session[Tx]) error {
	for _, st := range d.steps {
		if !st.fixed {
			st.Outcome, st.Reason, st.Cause, st.Repeat = 0, "", "", false
			st.Expected, st.Until, st.OfAnother = 0, time.Time{}, false
		}
		st.settleFromPrior() // also of what was set aside: its key may have been decided meanwhile
		st.Blocks = false
	}
	d.blocked = map[blockedStream]bool{}
	for rest := d.steps; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].Route == rest[0].Route {
			n++
		}
		var err error
		if rest[0].section.batched() {
			err = d.runBatch(ctx, s, rest[:n])
		} else {
			err = d.runRecords(ctx, s, rest[:n])
		}
		if err == nil && d.suspect {
			if err = s.Check(ctx); err != nil {
				err = &batchError{rest[0].Route, err}
			}
		}
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// settleFromPrior decides what needs no handler because the store has decided the key before.
func (st *step[Tx]) settleFromPrior() {
	p := st.Prior
	switch {
	case p == nil:
	case st.Outcome == Skipped: // by an operator, whatever its content
	case p.SupersededBy != "" && p.Fingerprint == Fingerprint{}:
		st.supersede(p.SupersededBy)
	case p.Accepts(st.Fingerprint):
		st.Outcome, st.Reason, st.Repeat = Duplicate, "already "+p.Outcome.String(), p.SamePosition
	default:
		st.conflict("the key was decided for other content (it was " + p.Outcome.String() + ")")
	}
}

// settleFromCopy decides a later copy within the batch from what became of the first. It reports false if that does not
// decide it: the first was set aside, and this one says something else.
func (st *step[Tx]) settleFromCopy(first *step[Tx]) bool {
	same := first.Fingerprint == st.Fingerprint
	switch {
	case first.Claims() && same:
		st.Outcome, st.Reason = Duplicate, "already "+first.Outcome.String()
	case first.Claims():
		st.conflict(fmt.Sprintf("the key was decided for other content at offset %d", first.Record.Offset))
	case first.Outcome == Held: // which of them it will be is decided when their turn comes
		st.Outcome, st.Reason, st.Expected, st.Until = Held, first.Reason, first.Expected, first.Until
	case same: // what is said of the first holds for its copy too
		st.Outcome, st.Cause, st.Reason, st.Tries = first.Outcome, first.Cause, first.Reason, first.Tries
	default:
		return false
	}
	return true
}

// waitedFor reports whether st, which is lent, is what a record of the batch is a copy of: it came before that one, and may stay
// where it is also where no more may be held.
func (st *step[Tx]) waitedFor(copy *step[Tx]) bool {
	return copy != nil && !copy.fixed && !copy.lent && copy.Kept == nil && copy.Fingerprint == st.Fingerprint && !st.Kept.Expired
}

// supersede decides an event that comes after its correction.
func (st *step[Tx]) supersede(by string) {
	st.Outcome, st.Reason = Superseded, clip(fmt.Sprintf("corrected by %q, which came before it", by))
}

func (st *step[Tx]) conflict(reason string) {
	st.Outcome, st.Cause, st.Reason = Quarantined, CauseConflict, reason
}

// runRecords calls a per-record handler for each undecided step, in order.
func (d *decider[Tx]) runRecords(ctx context.Context, s Session[Tx], steps []*step[Tx]) error {
	decided := make(map[KeyID]*step[Tx], len(steps))
	var corrected map[KeyID]*step[Tx]
	for _, st := range steps {
		held, err := d.waits(st)
		if err != nil {
			return err
		}
		if by := corrected[st.KeyID]; by != nil && st.Outcome == 0 && !held && decided[st.KeyID] == nil {
			st.supersede(by.Identity.Key)
		}
		if st.Outcome == 0 && !held {
			if first := decided[st.KeyID]; first == nil || !st.settleFromCopy(first) {
				if err := d.runRecord(ctx, s, st); err != nil {
					return err
				}
			}
		}
		d.block(st)
		if st.Claims() {
			decided[st.KeyID] = st
		}
		if st.Supersedes() {
			corrected = noteCorrection(corrected, st)
		}
	}
	return nil
}

// noteCorrection keeps who corrects a key.
func noteCorrection[Tx any](corrected map[KeyID]*step[Tx], by *step[Tx]) map[KeyID]*step[Tx] {
	if corrected == nil {
		corrected = map[KeyID]*step[Tx]{}
	}
	corrected[NewKeyID(by.Identity.Supersedes)] = by
	return corrected
}

func (d *decider[Tx]) runRecord(ctx context.Context, s Session[Tx], st *step[Tx]) error {
	if d.careful {
		if err := s.Mark(ctx); err != nil {
			return err
		}
	}
	before := s.Statements()
	err, slow := d.call(ctx, s, func(ctx context.Context) error { return st.section.call(ctx, s.Tx(), st.at) })
	if err == nil {
		st.Outcome = Applied
		return nil
	}

	class := d.class(err)
	if slow {
		d.blameSlow(st, err)
	}
	if class == Transient || class == Overload || class == Misconfigured {
		return err // no record is to blame
	}
	dirty := s.Statements() != before
	if dirty && !d.careful {
		return errNeedsCare
	}
	if wait := d.judge(st, class, err); wait != nil {
		return wait
	}
	if dirty {
		return s.Undo(ctx)
	}
	return nil
}

// runBatch calls a batch handler once, for the first copy of each undecided key.
func (d *decider[Tx]) runBatch(ctx context.Context, s Session[Tx], steps []*step[Tx]) error {
	firsts := make(map[KeyID]*step[Tx], len(steps))
	var corrected map[KeyID]*step[Tx]
	var fresh, copies, late []*step[Tx]
	for _, st := range steps {
		held, err := d.waits(st)
		switch {
		case err != nil:
			return err
		case held:
		case st.Outcome != 0:
			d.block(st)
			if st.fixed && st.Identity.Key != "" {
				firsts[st.KeyID] = st
			}
		case st.lent && corrected[st.KeyID] == nil && st.waitedFor(firsts[st.KeyID]):
			copy := firsts[st.KeyID]
			fresh = append(slices.DeleteFunc(fresh, func(f *step[Tx]) bool { return f == copy }), st)
			firsts[st.KeyID], copies = st, append(copies, copy)
		case firsts[st.KeyID] != nil:
			copies = append(copies, st)
		case corrected[st.KeyID] != nil:
			firsts[st.KeyID] = st
			late = append(late, st)
		default:
			firsts[st.KeyID] = st
			fresh = append(fresh, st)
		}
		if firsts[st.KeyID] == st && st.Identity.Supersedes != "" || st.Supersedes() {
			corrected = noteCorrection(corrected, st)
		}
	}
	if len(fresh) > 0 {
		if err := d.callBatch(ctx, s, fresh); err != nil {
			return err
		}
	}
	for _, st := range late {
		by := corrected[st.KeyID]
		if !by.Supersedes() { // what becomes of it is decided without
			return st.splits()
		}
		st.supersede(by.Identity.Key)
	}
	for _, st := range copies {
		if !st.settleFromCopy(firsts[st.KeyID]) {
			return st.splits()
		}
	}
	return d.blockBehind(steps)
}

// blockBehind follows a batch handler: where it rejected a record whose stream is to be blocked, nothing that comes after it
// in the stream must have been decided with it. It is left to the next batch, which finds the stream blocked.
func (d *decider[Tx]) blockBehind(steps []*step[Tx]) error {
	clear(d.blocked)
	for _, st := range steps {
		here := !st.fixed && st.Prior == nil && st.Outcome != Held
		if here && d.blocked[blockedStream{st.Route, st.Identity.Stream}] {
			return st.splits()
		}
		d.block(st)
	}
	return nil
}

func (d *decider[Tx]) callBatch(ctx context.Context, s Session[Tx], fresh []*step[Tx]) error {
	at := make([]int, len(fresh))
	h := &hearing{marks: make([]error, len(fresh)), steps: make([]*Decision, len(fresh)), gaps: d.gaps[fresh[0].Route], now: d.now, full: d.full}
	for i, st := range fresh {
		at[i], h.steps[i] = st.at, &st.Decision
	}
	err, slow := d.call(ctx, s, func(ctx context.Context) error { return fresh[0].section.callBatch(ctx, s, at, h) })
	if slow {
		d.blameSlow(fresh[0], err)
	}
	if err != nil {
		return &batchError{fresh[0].Route, err}
	}
	for i, st := range fresh {
		switch {
		case h.marks[i] != nil:
			d.judge(st, Unknown, h.marks[i])
		case h.verdicts != nil && h.verdicts[i].Outcome != 0:
			st.accept(&h.verdicts[i])
		default:
			st.Outcome = Applied
		}
	}
	return nil
}

// accept takes over what a declared effect decided.
func (st *step[Tx]) accept(v *Verdict) {
	st.Outcome, st.Reason, st.Cause = v.Outcome, clip(v.Reason), v.Cause
	st.VersionBefore, st.RowAffected, st.StateBefore, st.StateAfter = v.VersionBefore, v.RowAffected, v.StateBefore, v.StateAfter
	st.Expected, st.Until, st.OfAnother = v.Expected, v.Until, v.Outcome == Duplicate
	if v.Outcome == Held && st.Kept != nil && st.Kept.Quarantine != 0 { // an operator looks after it
		st.Outcome, st.Cause, st.Expected = Quarantined, CauseGap, 0
	}
	if st.Outcome == Quarantined {
		st.Tries = max(st.tries, 1)
	}
}

// call runs a handler within its time. slow reports that it used it up.
func (d *decider[Tx]) call(ctx context.Context, s Session[Tx], f func(context.Context) error) (err error, slow bool) {
	began := time.Now()
	hctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel() // not before Rest: ending the context of rows that are open ends the connection
	err = f(hctx)
	if ferr := fault.Hit(ctx, fault.Handled); ferr != nil {
		return ferr, false
	}
	if lost := s.Rest(ctx, err); lost != nil {
		err = &Error{Op: "handle", Class: Transient, Err: errors.Join(err, lost)}
	}
	return err, err != nil && ctx.Err() == nil && time.Since(began) >= d.timeout*9/10
}

// blameSlow counts against a record that used up its handler's time while it was alone: the transaction is gone, but next
// time it is set aside.
func (d *decider[Tx]) blameSlow(st *step[Tx], err error) {
	if d.given[0].Record != d.given[len(d.given)-1].Record {
		return
	}
	if st.tries++; st.tries >= d.maxTries {
		st.setAside(CauseFailure, err)
		st.fixed = true
	}
}

// judge turns what a handler returned for one record into a decision, or into a wait.
func (d *decider[Tx]) judge(st *step[Tx], class Class, err error) *waitError {
	var v *verb
	if errors.As(err, &v) {
		switch v.kind {
		case verbIgnore:
			st.Outcome, st.Reason = Ignored, clip(v.reason)
		case verbStale:
			st.Outcome, st.Reason = WasStale, clip(v.reason)
		case verbReject:
			st.setAside(CauseValidation, err)
		case verbLater:
			return &waitError{st.Record.Offset, max(v.wait, time.Millisecond), err}
		}
		return nil
	}
	switch class {
	case Validation:
		st.setAside(CauseValidation, err)
	case Poison:
		st.setAside(CausePoison, err)
	case Corruption:
		st.setAside(CauseCorruption, err)
	default:
		if st.tries++; st.tries < d.maxTries {
			return &waitError{st.Record.Offset, 0, err}
		}
		st.setAside(CauseFailure, err)
	}
	return nil
}

func (st *step[Tx]) setAside(cause string, err error) {
	st.Outcome, st.Cause, st.Reason, st.Tries = Quarantined, cause, clip(err.Error()), max(st.tries, 1)
}

// clip makes a reason fit for a text column: bounded, valid, without NUL.
func clip(s string) string {
	const most = 2000
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "�"), "\x00", "�")
	if len(s) <= most {
		return s
	}
	cut := most
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
