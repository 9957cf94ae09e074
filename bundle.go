package pawl

import (
	"context"
	"errors"
	"fmt"
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

	suspect  bool  // the record at the head fails, and it is not known on which route
	until    int64 // the next try must end before this offset; 0: no such bound
	failing  int64 // below this offset is a record that fails its batch; 0: none is known
	alone    bool  // what waits in gaps stays there: the last try failed with some of it
	borrowed bool  // the last try had some of it
	failures int   // in a row
	kept     bool  // it is of kept records
	hopeful  bool  // it waits for a dependency
	timer    *time.Timer
}

// head returns the steps to try, route by route, and how many records they are of: at most most.
func (b *bundle[Tx]) head(most int) ([]*step[Tx], int) {
	limit, careful := b.l.limits()
	n := min(most, limit)
	if careful {
		n = min(n, carefulLimit)
	}
	if b.until > 0 {
		n = min(n, b.below(b.until))
	}
	if b.failing > 0 {
		n = min(n, max(b.below(b.failing)/2, 1))
	}
	n = b.l.r.budget.most(n, len(b.steps))
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
	wait, probe := l.r.down.admit(l.routes, time.Now())
	if b.hopeful = wait > 0; b.hopeful {
		return wait, nil
	}
	most := len(b.records)
	if probe {
		most = 1
		defer l.r.down.gaveUp(l.routes) // if it has not found out
	}
	noted := false
	if l.isWary() {
		select {
		case l.r.alone <- struct{}{}:
			defer func() { <-l.r.alone }()
		case <-l.seat.ctx.Done(): // nothing is in flight: who takes the lane away need not wait
			return 0, l.seat.ctx.Err()
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		var err error
		if noted, err = b.attempt(ctx); err != nil {
			return b.failed(ctx, err, b.at(0), 1)
		}
		most = 1
	}
	steps, n := b.head(most)
	if err := fault.Hit(ctx, fault.Decoded); err != nil {
		l.r.fail(err)
		return 0, err
	}
	_, careful := l.limits()
	now := l.r.cfg.Now()
	d := decider[Tx]{
		given: steps, routes: l.r.routes, now: now, careful: careful, suspect: b.suspect && n == 1, timeout: l.r.cfg.HandlerTimeout, maxTries: l.r.cfg.MaxTries,
		class: l.class, full: l.r.holdsFull.Load(),
		alone: b.alone || noted, // one that is noted is blamed for whatever kills
	}
	decisions := make([]*Decision, len(steps))
	for i, st := range steps {
		st.Prior = nil
		decisions[i] = &st.Decision
	}
	offsets := make([]int64, 0, n)
	for i, rec := range b.records[:n] {
		if b.keptAt(i) == nil { // what is kept moves no position: where it came from is being read again, others may not have it
			offsets = append(offsets, rec.Offset)
		}
	}
	began := time.Now()
	// However slow its handlers are, a transaction does not stay open without bound; the next one is smaller.
	bound := time.Duration(1+len(l.routes)) * l.r.cfg.HandlerTimeout
	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	over := make(chan struct{})
	defer close(over)
	stuck := time.AfterFunc(bound+l.r.cfg.HandlerTimeout, func() {
		select {
		case <-over:
		case <-time.After(l.r.cfg.HandlerTimeout): // once more: a process that was frozen wakes up with all its time used
			l.r.fail(l.stuck())
		}
	})
	defer stuck.Stop()
	w := &Work[Tx]{
		Decisions: decisions, Now: now,
		Beside: l.order != OrderPartition, Turn: &l.committing,
		Frontier: func() (next, received int64) { return l.progress.after(offsets) },
		Settled:  func() { l.progress.settle(offsets, l.owned) },
	}
	w.Run = func(ctx context.Context, s Session[Tx]) error {
		w.Decisions = d.meet(w.Gaps)
		if err := d.run(ctx, s); err != nil {
			return err
		}
		return l.r.mayQuarantine(w.Decisions)
	}
	err := l.apply(bounded, n, w)
	b.borrowed = d.borrows()
	d.part()
	took := time.Since(began)
	if noted && !errors.Is(err, fault.ErrCrash) {
		l.survived(ctx, b.records[0].Offset)
	}
	if err == nil {
		l.r.isBack(l.r.down.succeeded(l.routes))
		b.settled(w.Decisions, n, took)
		return 0, nil
	}
	return b.failed(ctx, err, steps, n)
}

// stuck is the end of a process whose handler does not heed its context: its partitions are given up, so that others can
// have them.
func (l *lane[Tx]) stuck() error {
	return &Error{
		Op: "apply " + l.assignment.Partition.String(), Class: Misconfigured,
		Err:  fmt.Errorf("a handler does not return although its context ended %s ago", l.r.cfg.HandlerTimeout),
		Hint: "its transaction is not committed; a handler must pass its context on to everything that waits",
	}
}

// settled follows a commit: progress, memory, and the size of the next batch.
func (b *bundle[Tx]) settled(decisions []*Decision, n int, took time.Duration) {
	last := b.records[n-1].Offset
	b.failures, b.suspect, b.alone = 0, false, false
	if last+1 >= b.until {
		b.until = 0
	}
	if last+1 >= b.failing {
		b.failing = 0
	}
	b.warnOfQuarantine(decisions)
	if h := b.l.r.cfg.Hooks.Settled; h != nil {
		h(Settled{b.l.assignment.Partition, b.l.r.routeNames, decisions, b.l.progress.position(), took, n})
	}
	bytes := 0
	var kept []Kept
	for i, rec := range b.records[:n] {
		if k := b.keptAt(i); k != nil {
			kept = append(kept, *k)
		} else {
			bytes += rec.size()
		}
	}
	b.drop(n)
	if b.l.settled(n, bytes, took) {
		b.l.seat.worked() // which calls hooks
	}
	if len(kept) > 0 {
		b.l.dropped(kept)
	}
}

// keptAt says where record i is kept; nil: it is a record of the log. Every step of a record says the same.
func (b *bundle[Tx]) keptAt(i int) *Kept {
	for _, of := range b.steps {
		if of[i] != nil {
			return of[i].Kept
		}
	}
	return nil
}

// at returns the steps of record i, one for each route that it is for.
func (b *bundle[Tx]) at(i int) (steps []*step[Tx]) {
	for _, of := range b.steps {
		if of[i] != nil {
			steps = append(steps, of[i])
		}
	}
	return steps
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
				"cause", d.Cause, "records", n, "offset", d.Record.Offset, "reason", reason)
		}
	}
}

// failed says what to try next. Nothing of the batch was committed.
func (b *bundle[Tx]) failed(ctx context.Context, err error, steps []*step[Tx], n int) (time.Duration, error) {
	var wait *waitError
	var split *splitError
	var ask *askError
	var later *verb
	var latched *latchError
	l, first := b.l, steps[0].Record.Offset
	class := l.class(err)
	switch {
	case errors.Is(err, fault.ErrCrash):
		l.r.fail(err)
		return 0, err

	case ctx.Err() != nil: // the lane is being taken away
		if errors.Is(err, ErrFenced) || errors.Is(err, ErrStoreWentBack) {
			l.progress.end() // whom the store has refused commits nothing, also where another handler of the lane does not return
		}
		return 0, ctx.Err()

	case errors.Is(err, ErrFenced), errors.Is(err, ErrStoreWentBack):
		l.seat.restart(l, err)
		return 0, err

	case errors.Is(err, ErrNotKept):
		b.dropKept()
		return 0, nil

	case errors.Is(err, errNeedsCare):
		l.takeCare()
		return 0, nil

	case errors.As(err, &ask) && ctx.Err() == nil:
		if err := b.ask(ctx, ask.streams, err); err != nil {
			return b.failed(ctx, err, steps, n)
		}
		return 0, nil

	case errors.As(err, &split) && split.lent:
		b.alone = true
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

	case errors.As(err, &latched):
		l.r.latch(latched.state, latched.reason, latched.hint)
		return time.Millisecond, nil

	case errors.Is(err, ErrRaced), class == Transient, class == Overload:
		l.shrink(n)
		l.r.isDown(dependencyOf(err, l.bound.Classify, l.routesText()), l.routes, err)
		b.hopeful = true
		return b.backoff(err, class, first, n, 0), nil

	case class == Misconfigured:
		l.r.latch(StateLatched, fmt.Sprintf("apply %s: %v", l.assignment.Partition, err),
			"no record is to blame, so none is skipped: repair the database or the handler, and answer this, or start again")
		return time.Millisecond, nil

	case n > 1: // one of them fails; next time only the first half is tried
		b.failing = b.records[n-1].Offset + 1
		b.report(err, class, first, n, 0)
		return 0, nil

	case b.borrowed: // it may be one of those that it sets free; each of them is tried when its own turn comes
		b.alone = true
		b.report(err, class, first, n, 0)
		return 0, nil
	}
	return b.convict(err, class, first, steps), nil
}

// ask has the source of truth asked that a declared effect needs, outside any transaction.
func (b *bundle[Tx]) ask(ctx context.Context, streams []string, needs error) error {
	var of *batchError
	errors.As(needs, &of)
	ctx, cancel := context.WithTimeout(ctx, b.l.r.cfg.HandlerTimeout)
	defer cancel()
	for _, steps := range b.steps {
		if i := slices.IndexFunc(steps, func(st *step[Tx]) bool { return st != nil && st.Route == of.route }); i >= 0 {
			if err := steps[i].section.ask(ctx, streams); err != nil {
				return &batchError{of.route, fmt.Errorf("ask the source of truth: %w", err)}
			}
		}
	}
	return nil
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
	var leaves, rest []*step[Tx]
	for _, st := range b.steps[0] {
		if st.stream == own.streams[0] {
			leaves = append(leaves, st)
		} else {
			rest = append(rest, st)
		}
	}
	b.l.gather(own, leaves) // two workers must not have one section
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
