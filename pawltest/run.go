package pawltest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
)

// Handler is a per-record handler.
type Handler[Tx, T any] = func(ctx context.Context, tx Tx, e pawl.Envelope[T]) error

// BatchHandler is a batch handler.
type BatchHandler[Tx, T any] = func(ctx context.Context, tx Tx, b *pawl.Batch[T]) error

// Run delivers records, in order, to a handler on store, and returns what became of each. Every call is a new topic read
// by the same consumer: what an earlier call on the same store has decided stays decided.
func Run[Tx, T any](t testing.TB, store pawl.Store[Tx], dec pawl.Decoder[T], h Handler[Tx, T], records ...pawl.Record) *Result {
	t.Helper()
	return run(t, store, func(r *pawl.Runner[Tx]) { pawl.Handle(r, route, dec, h) }, records)
}

// RunBatch is Run for a batch handler.
func RunBatch[Tx, T any](t testing.TB, store pawl.Store[Tx], dec pawl.Decoder[T], h BatchHandler[Tx, T], records ...pawl.Record) *Result {
	t.Helper()
	return run(t, store, func(r *pawl.Runner[Tx]) { pawl.HandleBatch(r, route, dec, h) }, records)
}

// RunEffect is Run for a declared effect. What is held because it came early is as it was decided last.
func RunEffect[Tx, T any](t testing.TB, store pawl.Store[Tx], dec pawl.Decoder[T], e pawl.Effect[T], records ...pawl.Record) *Result {
	t.Helper()
	return run(t, store, func(r *pawl.Runner[Tx]) { pawl.Apply(r, route, dec, e) }, records)
}

var route = pawl.Route{Name: "handler", Topics: []string{Topic}}

func run[Tx any](t testing.TB, store pawl.Store[Tx], register func(*pawl.Runner[Tx]), records []pawl.Record) *Result {
	t.Helper()
	laid := lay(newTopicID(), records)
	w := newWatch(laid)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := until(ctx, w, store, NewLog(laid), config(), register)
	if err != nil {
		t.Fatalf("pawltest: %v", err)
	}
	if left := w.left(); len(left) > 0 {
		t.Fatalf("pawltest: not settled within %s: %s; last failure: %v", patience, strings.Join(left, ", "), w.lastFailure())
	}
	return w.result(t)
}

// patience bounds a run; what takes longer hangs.
const patience = 30 * time.Second

func newTopicID() (id pawl.TopicID) {
	rand.Read(id[:])
	return id
}

func config() pawl.Config {
	return pawl.Config{
		Consumer: "pawltest", Version: "test", Workers: 1, MaxTries: 2, CommitInterval: time.Hour, // at the end only
		Recreated: pawl.RecreatedAccept, // each run is a new topic
		Budget:    pawl.Budget{Records: 1 << 30, Share: 1},
		Logger:    slog.New(slog.DiscardHandler),
	}
}

// Result is what became of the records of a run.
type Result struct {
	t         testing.TB
	Decisions []pawl.Decision // in the order the records were given
}

// Want fails the test unless the outcomes are these, in the order the records were given.
func (r *Result) Want(want ...pawl.Outcome) *Result {
	r.t.Helper()
	if len(want) != len(r.Decisions) {
		r.t.Errorf("%d records, but %d outcomes are wanted", len(r.Decisions), len(want))
		return r
	}
	for i, d := range r.Decisions {
		if d.Outcome != want[i] {
			r.t.Errorf("record %d is %s (%s), want %s", i, d.Outcome, d.Reason, want[i])
		}
	}
	return r
}

// place is where a record is in the log.
type place struct {
	partition int32
	offset    int64
}

// watch follows a runner by its hooks, and ends it when every record is settled.
type watch struct {
	records []pawl.Record

	mu      sync.Mutex
	pending map[place]bool
	settled map[place]pawl.Decision
	failure error
	done    chan struct{}
}

func newWatch(records []pawl.Record) *watch {
	w := &watch{records: records, pending: map[place]bool{}, settled: map[place]pawl.Decision{}, done: make(chan struct{})}
	for _, r := range records {
		w.pending[place{r.Partition.Index, r.Offset}] = true
	}
	if len(records) == 0 {
		close(w.done)
	}
	return w
}

func (w *watch) onSettled(s pawl.Settled) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range s.Decisions {
		w.settled[place{d.Record.Partition.Index, d.Record.Offset}] = *d // which may have waited in another partition
	}
	w.passed(s.Partition, s.Next)
}

func (w *watch) onStarted(p pawl.Partition, from int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.passed(p, from)
}

// passed: everything below a position is settled, whether in this run or before a crash. It is called with mu held.
func (w *watch) passed(p pawl.Partition, next int64) {
	before := len(w.pending)
	for at := range w.pending {
		if at.partition == p.Index && at.offset < next {
			delete(w.pending, at)
		}
	}
	if before > 0 && len(w.pending) == 0 {
		close(w.done)
	}
}

func (w *watch) onFailed(f pawl.Failure) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failure = f.Err
}

func (w *watch) lastFailure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure
}

func (w *watch) left() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var left []string
	for i, r := range w.records {
		if w.pending[place{r.Partition.Index, r.Offset}] {
			left = append(left, fmt.Sprintf("record %d", i))
		}
	}
	return left
}

func (w *watch) result(t testing.TB) *Result {
	r := &Result{t: t}
	for _, rec := range w.records {
		r.Decisions = append(r.Decisions, w.settled[place{rec.Partition.Index, rec.Offset}])
	}
	return r
}

// until runs a runner until every record is settled, ctx ends, or it stops by itself.
func until[Tx any](ctx context.Context, w *watch, store pawl.Store[Tx], log *Log, cfg pawl.Config, register func(*pawl.Runner[Tx])) error {
	cfg.Hooks.Settled, cfg.Hooks.Failed = w.onSettled, w.onFailed
	halted := make(chan error, 1)
	cfg.Hooks.Raised = func(c pawl.Condition) {
		if c.State.Halts() { // nobody is there to answer
			select {
			case halted <- fmt.Errorf("%s: %s (%s)", c.State, c.Reason, c.Hint):
			default:
			}
		}
	}
	log.started = w.onStarted
	r := pawl.NewRunner(store, log, cfg)
	register(r)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	select {
	case <-w.done:
		cancel()
		return <-ended
	case err := <-halted:
		cancel()
		return errors.Join(err, <-ended)
	case err := <-ended:
		return err
	}
}
