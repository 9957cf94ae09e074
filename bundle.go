package pawl

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/fault"
	"github.com/pawlhq/pawl/internal/retry"
)

// bundle is some records of a lane, by offset, decoded once, that one worker at a time tries until all of them are
// settled.
//
// Isolation of a failing record needs no second path: a bundle only ever tries a number of records from its head, and a
// failure changes that number (see failed).
type bundle[Tx any] struct {
	l       *lane[Tx]
	records []*Record
	steps   [][]*step[Tx] // per route that reads the topic: one step a record; nil: not for this route
	streams []*stream[Tx] // that nobody else works on meanwhile

	trying   int   // records that are being tried
	suspect  bool  // the record at the head fails, and it is not known on which route
	until    int64 // the next try must end before this offset; 0: no such bound
	failing  int64 // below this offset is a record that fails its batch; 0: none is known
	failures int   // in a row
	timer    *time.Timer
}

// head returns the steps to try, route by route, and how many records they are of.
func (b *bundle[Tx]) head() ([]*step[Tx], int) {
	limit, careful := b.l.limits()
	n := min(len(b.records), limit)
	if careful {
		n = min(n, carefulLimit)
	}
	if b.until > 0 {
		n = min(n, b.below(b.until))
	}
	if b.failing > 0 {
		n = min(n, max(b.below(b.failing)/2, 1))
	}
	steps := make([]*step[Tx], 0, n*len(b.steps))
	for _, of := range b.steps {
		for _, st := range of[:n] {
			if st != nil {
				steps = append(steps, st)
			}
		}
	}
	return steps, n
}

// below counts the records before offset, and at least one.
func (b *bundle[Tx]) below(offset int64) int {
	n := 0
	for n < len(b.records) && b.records[n].Offset < offset {
		n++
	}
	return max(n, 1)
}

// drop removes n records from the head.
func (b *bundle[Tx]) drop(n int) {
	b.records = b.records[n:]
	for i := range b.steps {
		b.steps[i] = b.steps[i][n:]
	}
}

// try settles records from the head, or says how long to wait before the next try. An error means that the lane is over.
func (b *bundle[Tx]) try(ctx context.Context) (time.Duration, error) {
	l := b.l
	if err := fault.Hit(ctx, fault.Taken); err != nil {
		l.r.fail(err)
		return 0, err
	}
	steps, n := b.head()
	b.trying = n
	if err := fault.Hit(ctx, fault.Decoded); err != nil {
		l.r.fail(err)
		return 0, err
	}
	_, careful := l.limits()
	d := decider[Tx]{
		steps: steps, careful: careful, suspect: b.suspect && n == 1, timeout: l.r.cfg.HandlerTimeout, maxTries: l.r.cfg.MaxTries,
		classify: l.bound.Classify,
	}
	decisions := make([]*Decision, len(steps))
	for i, st := range steps {
		st.Prior = nil
		decisions[i] = &st.Decision
	}
	offsets := make([]int64, n)
	for i, rec := range b.records[:n] {
		offsets[i] = rec.Offset
	}
	began := time.Now()
	// However slow its handlers are, a transaction does not stay open without bound; the next one is smaller.
	bounded, cancel := context.WithTimeout(ctx, time.Duration(1+len(l.routes))*l.r.cfg.HandlerTimeout)
	defer cancel()
	err := l.bound.Apply(bounded, l.owned, &Work[Tx]{
		Decisions: decisions, Now: l.r.cfg.Now(), Run: d.run,
		Beside: l.order != OrderPartition, Turn: &l.committing,
		Frontier: func() int64 { return l.progress.after(offsets) },
		Settled:  func() { l.progress.settle(offsets, l.owned) },
	})
	took := time.Since(began)
	if err == nil {
		b.settled(decisions, n, took)
		return 0, nil
	}
	return b.failed(ctx, err, steps, n)
}

// settled follows a commit: progress, memory, and the size of the next batch.
func (b *bundle[Tx]) settled(decisions []*Decision, n int, took time.Duration) {
	last := b.records[n-1].Offset
	b.failures, b.suspect = 0, false
	if last+1 >= b.until {
		b.until = 0
	}
	if last+1 >= b.failing {
		b.failing = 0
	}
	b.warnOfQuarantine(decisions)
	if h := b.l.r.cfg.Hooks.Settled; h != nil {
		h(Settled{b.l.assignment.Partition, b.l.r.routeNames, decisions, b.l.progress.position(), took})
	}
	bytes := 0
	for _, rec := range b.records[:n] {
		bytes += rec.size()
	}
	b.drop(n)
	b.l.settled(n, bytes, took)
}

// warnOfQuarantine says that records were set aside: once per batch and cause, with an example.
func (b *bundle[Tx]) warnOfQuarantine(decisions []*Decision) {
	counts := map[string]int{}
	for _, d := range decisions {
		if d.Outcome == Quarantined {
			counts[d.Cause]++
		}
	}
	for _, d := range decisions {
		if n := counts[d.Cause]; d.Outcome == Quarantined && n > 0 {
			counts[d.Cause] = 0
			reason, _, _ := strings.Cut(d.Reason, "\n")
			b.l.r.cfg.Logger.Warn("records quarantined", "partition", b.l.assignment.Partition.String(), "route", b.l.r.routeNames[d.Route],
				"cause", d.Cause, "records", n, "first_offset", d.Record.Offset, "reason", reason)
		}
	}
}

// failed says what to try next. Nothing of the batch was committed.
func (b *bundle[Tx]) failed(ctx context.Context, err error, steps []*step[Tx], n int) (time.Duration, error) {
	var wait *waitError
	var split *splitError
	var later *verb
	l, first := b.l, steps[0].Record.Offset
	class := l.class(err)
	switch {
	case errors.Is(err, fault.ErrCrash):
		l.r.fail(err)
		return 0, err

	case ctx.Err() != nil: // the lane is being taken away
		return 0, ctx.Err()

	case errors.Is(err, ErrFenced), errors.Is(err, ErrStoreWentBack):
		l.seat.restart(l, err)
		return 0, err

	case errors.Is(err, errNeedsCare):
		l.takeCare()
		return 0, nil

	case errors.As(err, &split):
		b.until = split.offset
		return 0, nil

	case errors.As(err, &wait) && b.leave(wait.offset): // the others need not wait for its stream
		return 0, nil

	case errors.As(err, &wait) && wait.offset > first: // settle what comes before it
		b.until = wait.offset
		return 0, nil

	case errors.As(err, &wait):
		return b.backoff(err, Unknown, first, n, wait.wait), nil

	case errors.As(err, &later) && later.kind == verbLater: // of a batch handler
		return b.backoff(err, Unknown, first, n, max(later.wait, time.Millisecond)), nil

	case errors.Is(err, ErrRaced), class == Transient:
		l.shrink(n)
		return b.backoff(err, Transient, first, n, 0), nil

	case class == Misconfigured:
		err = &Error{
			Op: "apply " + l.assignment.Partition.String(), Class: class, Err: err,
			Hint: "no record is to blame, so none is skipped: fix the database or the handler, and start again",
		}
		l.r.fail(err)
		return 0, err

	case n > 1: // one of them fails; next time only the first half is tried
		b.failing = b.records[n-1].Offset + 1
		b.report(err, class, first, n, 0)
		return 0, nil
	}
	return b.convict(err, class, first, steps), nil
}

// leave moves the stream of the record at offset, which has to wait, to a bundle of its own. It reports false where there
// is nothing to part: the order is that of the partition, or there is no other stream.
func (b *bundle[Tx]) leave(offset int64) bool {
	if len(b.streams) < 2 {
		return false
	}
	i := slices.IndexFunc(b.records, func(r *Record) bool { return r.Offset == offset })
	at := slices.IndexFunc(b.streams, func(s *stream[Tx]) bool { return s == b.steps[0][i].stream })
	own := &bundle[Tx]{l: b.l, streams: []*stream[Tx]{b.streams[at]}}
	b.streams = slices.Delete(b.streams, at, at+1)
	var rest []*step[Tx]
	for _, st := range b.steps[0] {
		if st.stream == own.streams[0] {
			own.add(st)
		} else {
			rest = append(rest, st)
		}
	}
	b.records, b.steps = nil, nil
	for _, st := range rest {
		b.add(st)
	}
	b.until, b.failing = 0, 0
	b.l.hand(own)
	return true
}

// add appends the step of a lane that has one route.
func (b *bundle[Tx]) add(st *step[Tx]) {
	if b.steps == nil {
		b.steps = [][]*step[Tx]{nil}
	}
	b.records = append(b.records, st.Record)
	b.steps[0] = append(b.steps[0], st)
}

// convict decides about a record that fails alone, though its handler gave no answer for it alone: it is tried again a
// few times, or set aside.
func (b *bundle[Tx]) convict(err error, class Class, first int64, steps []*step[Tx]) time.Duration {
	d := decider[Tx]{maxTries: b.l.r.cfg.MaxTries}
	blamed := -1 // every route, unless it is known which
	if e := (*batchError)(nil); errors.As(err, &e) {
		blamed = e.route
	}
	if blamed < 0 && len(steps) > 1 && !b.suspect {
		b.suspect = true // find out which
		return 0
	}
	convicted := false
	for _, st := range steps {
		if st.fixed || st.Prior != nil || blamed >= 0 && st.Route != blamed {
			continue
		}
		if wait := d.judge(st, class, err); wait != nil {
			return b.backoff(err, class, first, 1, wait.wait)
		}
		st.fixed, convicted = true, true
	}
	if !convicted { // not even setting it aside works: nothing is skipped, and the log says why
		return b.backoff(err, class, first, 1, 0)
	}
	return 0
}

// backoff reports a failure and returns how long to wait: as asked, or longer with each failure in a row.
func (b *bundle[Tx]) backoff(err error, class Class, first int64, n int, wait time.Duration) time.Duration {
	b.failures++
	if wait == 0 {
		wait = retry.Delay(b.failures)
	}
	b.report(err, class, first, n, wait)
	return wait
}

func (b *bundle[Tx]) report(err error, class Class, first int64, n int, wait time.Duration) {
	b.l.r.cfg.Logger.Warn("batch not applied", "partition", b.l.assignment.Partition.String(), "offset", first, "records", n,
		"class", class.String(), "retry_in", wait, "error", err)
	if h := b.l.r.cfg.Hooks.Failed; h != nil {
		h(Failure{b.l.assignment.Partition, first, n, err, class, wait})
	}
}
