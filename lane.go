package pawl

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/fault"
	"github.com/pawlhq/pawl/internal/retry"
)

// lane is the serial work of one assigned partition: records wait in it in order, and one worker at a time takes a batch
// from its head, settles it, and puts the lane back in the queue of ready lanes.
//
// Isolation of a failing record needs no second path: a lane only ever tries a number of records from its head, and a
// failure changes that number (see failed).
type lane[Tx any] struct {
	r          *Runner[Tx]
	seat       *seat[Tx]
	assignment *Assignment
	bound      BoundStore[Tx]
	routes     []int // indexes of the runner's routes that read this topic
	progress   *progress
	ctx        context.Context // ends when work in flight must be abandoned
	cancel     context.CancelFunc

	mu     sync.Mutex
	queue  []Record // received, not settled
	bytes  int      // of queue
	paused bool
	state  laneState
	timer  *time.Timer   // while waiting
	idle   chan struct{} // closed when a stopped lane has no worker

	// Below: of the worker that holds the lane.
	owned    *Ownership
	worked   bool           // a batch was settled
	open     *openBatch[Tx] // decoded records at the head of queue
	limit    int            // most records to try
	suspect  bool           // the record at the head fails, and it is not known on which route
	until    int64          // the next batch must end before this offset; 0: no such bound
	failing  int64          // below this offset is a record that fails its batch; 0: none is known
	careful  int            // records still to be run with a mark each
	failures int            // in a row
	calm     int            // batches to settle before limit may grow again
	patience int            // what calm was last set to
}

type laneState uint8

const (
	laneIdle    laneState = iota // nothing to do
	laneReady                    // in the queue of ready lanes
	laneRunning                  // a worker holds it
	laneWaiting                  // until its timer
	laneStopped
)

const (
	firstLimit   = 100     // records in a lane's first batch
	carefulLimit = 50      // records in a batch with marks: many marks in one transaction burden PostgreSQL
	carefulFor   = 1000    // records to stay careful for after one had to be undone
	batchBytes   = 8 << 20 // of raw records in one batch
)

func newLane[Tx any](s *seat[Tx], bound BoundStore[Tx], o *Ownership) *lane[Tx] {
	r, a := s.r, s.assignment
	ctx, cancel := context.WithCancel(r.workCtx) // not the seat's: on revoke, a batch in flight outlasts it
	return &lane[Tx]{
		r: r, seat: s, assignment: a, bound: bound, routes: r.byTopic[a.Partition.Topic], progress: newProgress(o), ctx: ctx, cancel: cancel,
		idle: make(chan struct{}), owned: o, limit: min(firstLimit, r.cfg.MaxBatch),
	}
}

// take queues records. It does not block: a full lane asks its source to pause.
func (l *lane[Tx]) take(records []Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == laneStopped {
		return
	}
	l.queue = slices.Grow(l.queue, len(records))
	for i := range records {
		if l.progress.receive(records[i].Offset, records[i].Control) {
			l.queue = append(l.queue, records[i])
			l.queue[len(l.queue)-1].Timestamp = storableTime(records[i].Timestamp)
			l.bytes += records[i].size()
		}
	}
	if !l.paused && l.bytes > l.r.laneBytes() {
		l.paused = true
		l.assignment.Flow.Pause()
	}
	if l.state == laneIdle && len(l.queue) > 0 {
		l.makeReady()
	}
}

// makeReady is called with mu held.
func (l *lane[Tx]) makeReady() {
	l.state = laneReady
	l.r.ready.push(l)
}

// turn is one worker's work on the lane: try a batch, and say what is next.
func (l *lane[Tx]) turn() {
	l.mu.Lock()
	if l.state != laneReady { // stopped while it waited for a worker
		l.mu.Unlock()
		return
	}
	l.state = laneRunning
	l.mu.Unlock()

	wait, err := time.Duration(0), error(errGoexit)
	defer func() { l.turned(wait, err) }() // a handler may end the goroutine
	wait, err = l.try(l.ctx)
}

// errGoexit: a handler has called runtime.Goexit, as t.FailNow does.
var errGoexit = errors.New("a handler ended its goroutine (runtime.Goexit)")

// turned says what is next for the lane.
func (l *lane[Tx]) turned(wait time.Duration, err error) {
	if errors.Is(err, errGoexit) {
		l.r.fail(&Error{Op: "apply " + l.assignment.Partition.String(), Class: Misconfigured, Err: err})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.state == laneStopped: // stop left it to this worker to say when it is done
		close(l.idle)
	case err != nil:
		l.stopLocked()
		close(l.idle)
	case wait > 0:
		l.state = laneWaiting
		l.timer = time.AfterFunc(wait, l.wake)
	case len(l.queue) > 0:
		l.makeReady()
	default:
		l.state = laneIdle
	}
}

func (l *lane[Tx]) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == laneWaiting {
		l.makeReady()
	}
}

// stop ends intake at once; the returned channel is closed when no worker holds the lane any more.
func (l *lane[Tx]) stop() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopLocked()
	return l.idle
}

// stopped reports whether no worker holds the lane any more, for good.
func (l *lane[Tx]) stopped() bool {
	select {
	case <-l.idle:
		return true
	default:
		return false
	}
}

func (l *lane[Tx]) stopLocked() {
	if l.timer != nil {
		l.timer.Stop()
	}
	if l.state != laneRunning && l.state != laneStopped {
		close(l.idle)
	}
	l.state = laneStopped
	l.queue, l.bytes = nil, 0
}

// try settles a batch from the head, or says how long to wait before the next try. An error means that the lane is over.
func (l *lane[Tx]) try(ctx context.Context) (time.Duration, error) {
	if err := fault.Hit(ctx, fault.Taken); err != nil {
		l.r.fail(err)
		return 0, err
	}
	steps, n := l.head()
	if n == 0 { // stopped meanwhile
		return 0, context.Canceled
	}
	if err := fault.Hit(ctx, fault.Decoded); err != nil {
		l.r.fail(err)
		return 0, err
	}
	first, last := steps[0].Record.Offset, l.open.records[n-1].Offset

	d := decider[Tx]{
		steps: steps, careful: l.careful > 0, suspect: l.suspect && n == 1, timeout: l.r.cfg.HandlerTimeout, maxTries: l.r.cfg.MaxTries,
		classify: l.bound.Classify,
	}
	decisions := make([]*Decision, len(steps))
	for i, st := range steps {
		st.Prior = nil
		decisions[i] = &st.Decision
	}
	began := time.Now()
	// However slow its handlers are, a transaction does not stay open without bound; the next one is smaller.
	bounded, cancel := context.WithTimeout(ctx, time.Duration(1+len(l.routes))*l.r.cfg.HandlerTimeout)
	defer cancel()
	err := l.bound.Apply(bounded, l.owned, &Work[Tx]{
		Decisions: decisions, Next: l.progress.after(last), Now: l.r.cfg.Now(), Run: d.run,
	})
	took := time.Since(began)
	if err == nil {
		l.settled(decisions, n, took)
		return 0, nil
	}
	return l.failed(ctx, err, first, steps, n)
}

// settled follows a commit: progress, memory, and the size of the next batch.
func (l *lane[Tx]) settled(decisions []*Decision, n int, took time.Duration) {
	offsets := make([]int64, n)
	for i := range offsets {
		offsets[i] = l.open.records[i].Offset
	}
	l.progress.settle(offsets, l.owned)
	last := offsets[n-1]

	full := n == l.limit
	l.failures, l.suspect = 0, false
	if !l.worked {
		l.worked = true
		l.seat.worked()
	}
	l.careful = max(l.careful-n, 0)
	if last+1 >= l.until {
		l.until = 0
	}
	if last+1 >= l.failing {
		l.failing = 0
	}
	switch {
	case took > l.r.cfg.BatchTime:
		l.limit = max(n/2, 1)
	case l.calm > 0:
		if l.calm--; l.calm == 0 {
			l.patience /= 2
		}
	case full && took < l.r.cfg.BatchTime/8:
		l.limit = min(4*l.limit, l.r.cfg.MaxBatch)
	case full && took < l.r.cfg.BatchTime/2:
		l.limit = min(2*l.limit, l.r.cfg.MaxBatch)
	}
	l.warnOfQuarantine(decisions)
	if h := l.r.cfg.Hooks.Settled; h != nil {
		h(Settled{l.assignment.Partition, l.r.routeNames, decisions, l.owned.Next, took})
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open.drop(n); len(l.open.records) == 0 {
		l.open = nil // an idle lane keeps nothing
	}
	if l.state == laneStopped {
		return
	}
	for i := range n {
		l.bytes -= l.queue[i].size()
		l.queue[i] = Record{} // the array behind the slice must not keep the bytes
	}
	l.queue = l.queue[n:]
	if l.paused && l.bytes < l.r.laneBytes()/2 {
		l.paused = false
		l.assignment.Flow.Resume()
	}
}

// warnOfQuarantine says that records were set aside: once per batch and cause, with an example.
func (l *lane[Tx]) warnOfQuarantine(decisions []*Decision) {
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
			l.r.cfg.Logger.Warn("records quarantined", "partition", l.assignment.Partition.String(), "route", l.r.routeNames[d.Route],
				"cause", d.Cause, "records", n, "first_offset", d.Record.Offset, "reason", reason)
		}
	}
}

// failed says what to try next. Nothing of the batch was committed.
func (l *lane[Tx]) failed(ctx context.Context, err error, first int64, steps []*step[Tx], n int) (time.Duration, error) {
	var wait *waitError
	var split *splitError
	var later *verb
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
		l.careful = carefulFor
		return 0, nil

	case errors.As(err, &split):
		l.until = split.offset
		return 0, nil

	case errors.As(err, &wait) && wait.offset > first: // settle what comes before it
		l.until = wait.offset
		return 0, nil

	case errors.As(err, &wait):
		return l.backoff(err, Unknown, first, n, wait.wait), nil

	case errors.As(err, &later) && later.kind == verbLater: // of a batch handler
		return l.backoff(err, Unknown, first, n, max(later.wait, time.Millisecond)), nil

	case errors.Is(err, ErrRaced), class == Transient:
		l.shrink(n)
		return l.backoff(err, Transient, first, n, 0), nil

	case class == Misconfigured:
		err = &Error{
			Op: "apply " + l.assignment.Partition.String(), Class: class, Err: err,
			Hint: "no record is to blame, so none is skipped: fix the database or the handler, and start again",
		}
		l.r.fail(err)
		return 0, err

	case n > 1: // one of them fails; next time only the first half is tried
		l.failing = l.open.records[n-1].Offset + 1
		l.report(err, class, first, n, 0)
		return 0, nil
	}
	return l.convict(err, class, first, steps), nil
}

// shrink follows a transaction that got into another's way: a deadlock, a key that both decided, a lock not had in time. A
// smaller one holds fewer locks for a shorter time; at one record it holds what a consumer without batches would. It grows
// again only after a while that doubles with each such failure.
func (l *lane[Tx]) shrink(n int) {
	l.limit = max(n/4, 1)
	l.patience = min(max(2*l.patience, 32), 4096)
	l.calm = l.patience
}

// convict decides about a record that fails alone, though its handler gave no answer for it alone: it is tried again a
// few times, or set aside.
func (l *lane[Tx]) convict(err error, class Class, first int64, steps []*step[Tx]) time.Duration {
	d := decider[Tx]{maxTries: l.r.cfg.MaxTries}
	blamed := -1 // every route, unless it is known which
	if b := (*batchError)(nil); errors.As(err, &b) {
		blamed = b.route
	}
	if blamed < 0 && len(steps) > 1 && !l.suspect {
		l.suspect = true // find out which
		return 0
	}
	convicted := false
	for _, st := range steps {
		if st.fixed || st.Prior != nil || blamed >= 0 && st.Route != blamed {
			continue
		}
		if wait := d.judge(st, class, err); wait != nil {
			return l.backoff(err, class, first, 1, wait.wait)
		}
		st.fixed, convicted = true, true
	}
	if !convicted { // not even setting it aside works: nothing is skipped, and the log says why
		return l.backoff(err, class, first, 1, 0)
	}
	return 0
}

// class is the class of a failed transaction as a whole.
func (l *lane[Tx]) class(err error) Class {
	d := decider[Tx]{classify: l.bound.Classify}
	return d.class(err)
}

// backoff reports a failure and returns how long to wait: as asked, or longer with each failure in a row.
func (l *lane[Tx]) backoff(err error, class Class, first int64, n int, wait time.Duration) time.Duration {
	l.failures++
	if wait == 0 {
		wait = retry.Delay(l.failures)
	}
	l.report(err, class, first, n, wait)
	return wait
}

func (l *lane[Tx]) report(err error, class Class, first int64, n int, wait time.Duration) {
	l.r.cfg.Logger.Warn("batch not applied", "partition", l.assignment.Partition.String(), "offset", first, "records", n,
		"class", class.String(), "retry_in", wait, "error", err)
	if h := l.r.cfg.Hooks.Failed; h != nil {
		h(Failure{l.assignment.Partition, first, n, err, class, wait})
	}
}
