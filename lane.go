package pawl

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// lane is the work of one assigned partition: records wait in it, are put in bundles in the order of their route, and are
// given to workers. Any free worker takes any lane that has work.
//
//	OrderPartition  one bundle at a time, cut from the head
//	OrderStream     bundles of several streams, each stream in one at a time
//	OrderNone       bundles side by side, cut from the head
type lane[Tx any] struct {
	r          *Runner[Tx]
	seat       *seat[Tx]
	assignment *Assignment
	bound      BoundStore[Tx]
	owned      *Ownership
	row        int64 // owned.Row
	routes     []int // indexes of the runner's routes that read this topic
	order      Order
	progress   *progress
	ctx        context.Context // ends when work in flight must be abandoned
	cancel     context.CancelFunc
	committing sync.Mutex // held by the batch whose turn it is to commit; with it, owned

	mu       sync.Mutex
	incoming []Record // received, not in a bundle and not in a stream
	bytes    int      // of everything that is not settled
	paused   bool
	queued   bool          // in the queue of ready lanes
	stopped  bool          // nothing is taken and nothing is begun any more
	idle     chan struct{} // closed when it is stopped and no worker is in it
	workers  int           // in it
	bundles  map[*bundle[Tx]]struct{}
	again    []*bundle[Tx]   // to be tried now
	tasks    []Task          // kept records whose turn it is
	tasked   map[keptID]bool // those, and the ones that are being tried
	drops    int             // how often kept records were dropped
	wary     int             // records still to be tried one at a time, because owners before us have died
	sorter[Tx]

	limit    int           // most records to try
	careful  int           // records still to be run with a mark each
	calm     int           // batches to settle before limit may grow again
	patience int           // what calm was last set to
	pace     time.Duration // what a record takes, as of late
	worked   bool          // a batch was settled
}

// longWait is from when on a partition that waits is not read meanwhile.
const longWait = time.Second

const (
	firstLimit   = 100     // records in a lane's first batch
	firstShare   = 20      // in the first batches that are tried side by side: others wait for what one has too much
	carefulLimit = 50      // records in a batch with marks: many marks in one transaction burden PostgreSQL
	carefulFor   = 1000    // records to stay careful for after one had to be undone
	batchBytes   = 8 << 20 // of raw records in one batch
)

func newLane[Tx any](s *seat[Tx], bound BoundStore[Tx], o *Ownership) *lane[Tx] {
	r, a := s.r, s.assignment
	ctx, cancel := context.WithCancel(r.workCtx) // not the seat's: on revoke, a batch in flight outlasts it
	l := &lane[Tx]{
		r: r, seat: s, assignment: a, bound: bound, owned: o, row: o.Row, routes: r.byTopic[a.Partition.Topic], progress: newProgress(o),
		ctx: ctx, cancel: cancel, idle: make(chan struct{}), bundles: map[*bundle[Tx]]struct{}{},
		limit: min(firstLimit, r.cfg.MaxBatch),
	}
	if l.order = r.routes[l.routes[0]].Order; l.order != OrderPartition {
		l.limit = min(firstShare, r.cfg.MaxBatch)
	}
	l.streams, l.tasked = map[string]*stream[Tx]{}, map[keptID]bool{}
	if o.Crashes > 0 { // small batches come close to what kills, so that the next owner is stopped by it at once
		l.calm = r.cfg.MaxBatch/l.limit + 1
	}
	if o.Crashes >= waryFrom && r.cfg.MaxDeaths > 0 {
		l.wary = l.waryFor()
		r.cfg.Logger.Warn("owners of this partition died in a row: its records are tried one at a time for a while",
			"partition", a.Partition.String(), "crashes", o.Crashes, "records", l.wary)
	}
	return l
}

// take queues records. It does not block: a full lane asks its source to pause.
func (l *lane[Tx]) take(records []Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return
	}
	l.incoming = slices.Grow(l.incoming, len(records))
	before := len(l.incoming)
	for i := range records {
		if l.progress.receive(&records[i]) {
			l.incoming = append(l.incoming, records[i])
			l.incoming[len(l.incoming)-1].Timestamp = storableTime(records[i].Timestamp)
			l.bytes += records[i].size()
		}
	}
	if h := l.r.cfg.Hooks.Taken; h != nil && len(l.incoming) > before {
		h(l.assignment.Partition, len(l.incoming)-before)
	}
	if !l.paused && l.full() {
		l.paused = true
		l.assignment.Flow.Pause()
	}
	l.makeReady()
}

// mostAhead bounds what may be settled behind a record that is not: each costs a few bytes until it is.
const mostAhead = 500_000

// full is called with mu held.
func (l *lane[Tx]) full() bool {
	return l.bytes > l.r.laneBytes() || l.progress.ahead() > mostAhead
}

// makeReady puts the lane in the queue if a worker would find something to do. It is called with mu held.
func (l *lane[Tx]) makeReady() {
	if !l.queued && !l.stopped && l.hasWork() {
		l.queued = true
		l.r.ready.push(l)
	}
}

func (l *lane[Tx]) hasWork() bool {
	fresh := len(l.incoming) > 0 || len(l.tasks) > 0
	switch {
	case l.order == OrderPartition:
		return l.workers == 0 && (len(l.again) > 0 || l.tasksFirst() || len(l.bundles) == 0 && fresh)
	case l.wary > 0 && l.workers > 0: // but what waits is not being tried: others may be what it waits for
		return false
	case len(l.again) > 0:
		return true
	case l.order == OrderStream:
		return len(l.free) > 0 || fresh && !l.sorting
	}
	return fresh
}

// turn is one worker's work on the lane: try a bundle, and say what is next.
func (l *lane[Tx]) turn() {
	l.mu.Lock()
	l.queued = false
	if l.stopped || !l.hasWork() {
		l.mu.Unlock()
		return
	}
	l.workers++
	var b *bundle[Tx]
	wait, err := time.Duration(0), error(errGoexit)
	defer func() { l.turned(b, wait, err) }() // a handler, or a decoder, may end the goroutine
	b = l.next()                              // gives up mu for a while
	l.makeReady()                             // for another worker
	l.mu.Unlock()

	if b == nil {
		err = nil
		return
	}
	wait, err = b.try(l.ctx)
}

// errGoexit: a handler has called runtime.Goexit, as t.FailNow does.
var errGoexit = errors.New("a handler or a decoder ended its goroutine (runtime.Goexit)")

// next returns a bundle to try. It is called with mu held, and decodes without it. nil: another worker was faster.
func (l *lane[Tx]) next() *bundle[Tx] {
	if len(l.again) > 0 && (l.order != OrderPartition || !l.tasksFirst()) {
		b := l.again[0]
		l.again = slices.Delete(l.again, 0, 1)
		return b
	}
	b := &bundle[Tx]{l: l}
	l.bundles[b] = struct{}{} // from here on the partition is taken, where that is the order
	if l.order == OrderStream {
		l.sort()
		if len(l.free) > 0 {
			var steps []*step[Tx]
			b.streams, steps = l.sorter.take(l.share(l.waiting, len(l.free)))
			l.mu.Unlock()
			l.gather(b, steps)
			l.mu.Lock()
		}
	} else if len(l.tasks) > 0 {
		b.kept = true
		tasks := l.cutTasks(l.most())
		l.mu.Unlock()
		l.decodeTasks(b, tasks)
		l.mu.Lock()
	} else {
		n := l.most()
		if l.order == OrderNone {
			n, _ = l.share(len(l.incoming), len(l.incoming))
		}
		cut := l.cut(n)
		l.mu.Unlock()
		l.decode(b, cut)
		l.mu.Lock()
	}
	if len(b.records) == 0 {
		delete(l.bundles, b)
		return nil
	}
	return b
}

// cut takes records from the head, at most n and not too large together. It is called with mu held.
func (l *lane[Tx]) cut(n int) []Record {
	k, bytes := 0, 0
	for k < len(l.incoming) && k < n && (k == 0 || bytes < batchBytes) {
		bytes += l.incoming[k].size()
		k++
	}
	cut := slices.Clone(l.incoming[:k])
	clear(l.incoming[:k]) // the array behind the slice must not keep the bytes
	l.incoming = l.incoming[k:]
	return cut
}

// most is how many records to put in a bundle. It is called with mu held.
func (l *lane[Tx]) most() int {
	if l.wary > 0 {
		return 1
	}
	return l.limit
}

// share is how many of the waiting records one worker takes, and of how many of the parts that can be tried side by side: as
// many as leave something for each worker that is idle, but no fewer than are worth a transaction. It is called with mu held.
func (l *lane[Tx]) share(waiting, parts int) (records, of int) {
	idle := max(l.r.cfg.Workers-l.workers+1, 1) // and the one who asks
	records, of = waiting/max(min(idle, parts), 1), parts/idle
	if l.pace > 0 { // until it is known, one stream that hangs must not have many others with it
		worth := int(worthwhile / l.pace)
		records, of = max(records, worth), max(of, worth)
	}
	return max(min(records, l.most()), 1), max(of, 1)
}

// worthwhile is what the records of a transaction should take together, compared with a commit, where they could also be
// tried by several.
const worthwhile = 10 * time.Millisecond

// sort decodes what has come and puts it in its streams, until there is a batch for every worker. It is called with mu
// held, and decodes without it. Kept records go before what waits of their streams: they are older.
func (l *lane[Tx]) sort() {
	if !l.sorting && len(l.tasks) > 0 {
		l.sorting = true
		tasks, drops := l.cutTasks(l.limit), l.drops
		l.mu.Unlock()
		var b bundle[Tx]
		l.decodeTasks(&b, tasks)
		l.mu.Lock()
		if l.stopped { // meanwhile: nothing is begun any more, and the streams are gone
			return
		}
		l.sorting = false
		if l.drops != drops { // one before them may have been dropped meanwhile
			l.forget(tasks)
			return
		}
		for _, st := range b.steps[0] {
			l.putKept(st)
		}
		for b := range l.bundles {
			if b.timer != nil && l.pull(b) && b.timer.Stop() {
				b.timer = nil
				l.again = append(l.again, b)
			}
		}
	}
	for !l.sorting && len(l.incoming) > 0 && (len(l.free) < l.r.cfg.Workers || l.waiting < l.r.cfg.Workers*l.limit) {
		l.sorting = true
		cut := l.cut(l.limit)
		l.mu.Unlock()
		var b bundle[Tx]
		l.decode(&b, cut)
		l.mu.Lock()
		if l.stopped {
			return
		}
		l.sorting = false
		for _, st := range b.steps[0] {
			l.put(st)
		}
	}
}

// decode fills a bundle. What cannot be decoded is decided here: it is quarantined with its bytes.
func (l *lane[Tx]) decode(b *bundle[Tx], records []Record) {
	n := len(records)
	b.records = make([]*Record, n)
	for i := range records {
		b.records[i] = &records[i]
	}
	for _, route := range l.routes {
		sec := l.r.routes[route].open(n)
		all, steps := make([]step[Tx], n), make([]*step[Tx], n)
		for i := range records {
			st := &all[i]
			st.Route, st.Record, st.Mode, st.section, st.at = route, &records[i], Live, sec, i
			l.r.routes[route].rules(&st.Decision)
			if err := sec.decode(st.Record, &st.Decision); err != nil {
				st.setAside(CausePoison, err)
				st.fixed = true
			}
			steps[i] = st
		}
		b.steps = append(b.steps, steps)
	}
}

// gather fills a bundle with steps that were decoded at different times.
func (l *lane[Tx]) gather(b *bundle[Tx], steps []*step[Tx]) {
	sec := l.r.routes[l.routes[0]].open(len(steps))
	for _, st := range steps {
		st.at = sec.adopt(st.section, st.at)
		st.section = sec
		b.add(st)
	}
}

// hand gives a bundle to whoever is free.
func (l *lane[Tx]) hand(b *bundle[Tx]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handLocked(b)
}

func (l *lane[Tx]) handLocked(b *bundle[Tx]) {
	l.bundles[b] = struct{}{}
	l.again = append(l.again, b)
	l.makeReady()
}

// turned says what is next for a bundle.
func (l *lane[Tx]) turned(b *bundle[Tx], wait time.Duration, err error) {
	if errors.Is(err, errGoexit) {
		l.r.fail(&Error{Op: "apply " + l.assignment.Partition.String(), Class: Misconfigured, Err: err})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.workers--
	if err != nil {
		l.stopLocked()
	}
	switch {
	case l.stopped:
		l.rest()
		return
	case b == nil:
	case len(b.records) == 0:
		delete(l.bundles, b)
		l.release(b.streams)
		l.readOn() // it may be over without having settled anything: given up
	case wait > 0 && l.order == OrderStream && l.pull(b):
		l.again = append(l.again, b)
	case wait > 0:
		b.timer = time.AfterFunc(wait, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			if !l.stopped {
				b.timer = nil
				l.handLocked(b)
			}
		})
		if wait >= longWait && l.order == OrderPartition && !l.paused {
			l.paused = true // until this one is over
			l.assignment.Flow.Pause()
		}
	default:
		l.again = append(l.again, b)
	}
	l.makeReady()
}

// stop ends intake at once; the returned channel is closed when no worker is in the lane any more.
func (l *lane[Tx]) stop() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopLocked()
	return l.idle
}

func (l *lane[Tx]) stopLocked() {
	if l.stopped {
		return
	}
	l.stopped = true
	for b := range l.bundles {
		if b.timer != nil {
			b.timer.Stop()
		}
	}
	l.incoming, l.again, l.tasks, l.sorter, l.bytes = nil, nil, nil, sorter[Tx]{}, 0
	l.rest()
}

// rest closes idle once a stopped lane has no worker.
func (l *lane[Tx]) rest() {
	if l.workers == 0 && !l.isIdle() {
		close(l.idle)
	}
}

// isIdle reports whether the lane is stopped and no worker is in it, for good.
func (l *lane[Tx]) isIdle() bool {
	select {
	case <-l.idle:
		return true
	default:
		return false
	}
}

// limits are how many records to try, and whether each gets a mark.
func (l *lane[Tx]) limits() (limit int, careful bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limit, l.careful > 0
}

// takeCare: from here on, for a while, each record can be undone alone.
func (l *lane[Tx]) takeCare() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.careful = carefulFor
}

// settled follows a commit of n records: memory, and the size of the next batch. It reports whether it was the lane's first.
func (l *lane[Tx]) settled(n, bytes int, took time.Duration) (first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wary = max(l.wary-n, 0)
	first, l.worked = !l.worked, true
	if l.pace == 0 {
		l.pace = took / time.Duration(n)
	}
	l.pace = (3*l.pace + took/time.Duration(n)) / 4
	full := n == l.limit
	l.careful = max(l.careful-n, 0)
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
	if !l.stopped {
		l.bytes -= bytes
		l.readOn()
	}
	return first
}

// readOn ends a pause, where there is room again. It is called with mu held.
func (l *lane[Tx]) readOn() {
	if l.paused && l.bytes < l.r.laneBytes()/2 && l.progress.ahead() <= mostAhead/2 {
		l.paused = false
		l.assignment.Flow.Resume()
	}
}

// shrink follows a transaction that got into another's way: a deadlock, a key that both decided, a lock not had in time. A
// smaller one holds fewer locks for a shorter time; at one record it holds what a consumer without batches would. It grows
// again only after a while that doubles with each such failure.
func (l *lane[Tx]) shrink(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = max(n/4, 1)
	l.patience = min(max(2*l.patience, 32), 4096)
	l.calm = l.patience
}

// class is the class of an error: Unknown for verbs, which are decisions and not failures.
func (l *lane[Tx]) class(err error) Class {
	if errors.As(err, new(*verb)) {
		return Unknown
	}
	return classify(err, l.r.cfg.Classify, l.bound.Classify)
}

// hurry tries again at once what waits for a dependency that is back.
func (l *lane[Tx]) hurry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return
	}
	for b := range l.bundles {
		if b.timer != nil && b.hopeful && b.timer.Stop() { // the timer first: without one it is its worker's
			b.timer = nil
			l.handLocked(b)
		}
	}
}
