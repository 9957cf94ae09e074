package pawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/internal/fault"
)

// Runner takes records from a Source, settles them through a Store, and commits offsets behind it.
type Runner[Tx any] struct {
	store  Store[Tx]
	source Source
	cfg    Config
	errs   []error // of registration

	routes     []boundRoute[Tx]
	routeNames []string
	byTopic    map[string][]int
	tables     []*Table // of declared effects

	binding   Binding
	ready     *readyQueue[Tx]
	gate      *gate
	budget    *spending
	down      breakers
	wanted    chan struct{} // there may be orders in the store
	tried     attempts
	alone     chan struct{} // has one in it while a lane that is wary tries a record
	notes     notes
	holdsFull atomic.Bool
	workCtx   context.Context // ends when work in flight must be abandoned: later than Run's own
	stop      context.CancelCauseFunc

	mu    sync.Mutex
	bound BoundStore[Tx]          // the store, opened
	seats map[Partition]*seat[Tx] // the current assignments
	work  sync.WaitGroup          // workers, and what changes seats

	commits sync.Mutex // one offset commit at a time, so that an older one does not overtake a newer
}

type boundRoute[Tx any] struct {
	Route
	open func(n int) section[Tx]
	gaps bool // its effect holds what comes early
}

// rules tells a decision how its route wants it.
func (rt *boundRoute[Tx]) rules(d *Decision) {
	d.Sequenced = rt.Quarantine == QuarantineStream
	d.Gapped = rt.gaps
}

// NewRunner joins a store to a source. Register routes with [Handle], [HandleBatch] and [Apply], then call Run. What is wrong with
// cfg or a route is reported by Run, all of it at once.
func NewRunner[Tx any](store Store[Tx], source Source, cfg Config) *Runner[Tx] {
	return &Runner[Tx]{store: store, source: source, cfg: cfg.withDefaults(), byTopic: map[string][]int{}}
}

func (r *Runner[Tx]) register(route Route, incomplete bool, open func(n int) section[Tx]) {
	if err := route.validate(); err != nil {
		r.errs = append(r.errs, err)
	}
	if incomplete {
		r.errs = append(r.errs, fmt.Errorf("route %q: decoder or handler is nil", route.Name))
	}
	if slices.Contains(r.routeNames, route.Name) {
		r.errs = append(r.errs, fmt.Errorf("route %q is registered twice: a name is the scope of its claims", route.Name))
	}
	for _, t := range route.Topics {
		r.byTopic[t] = append(r.byTopic[t], len(r.routes))
	}
	r.routes = append(r.routes, boundRoute[Tx]{Route: route, open: open})
	r.routeNames = append(r.routeNames, route.Name)
}

// declare adds what a declared effect needs to the route that was registered last.
func (r *Runner[Tx]) declare(tables []*Table, gaps bool, err error) {
	route := &r.routes[len(r.routes)-1]
	route.gaps = gaps
	r.tables = append(r.tables, tables...)
	for _, t := range tables {
		err = errors.Join(err, t.Validate())
	}
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("route %q: %w", route.Name, err))
	}
}

// Run works until ctx ends or something stops it that waiting would not mend, and returns nil in the first case. At the
// start, a store or a source that cannot be reached is an error too. It can be called once.
//
// When ctx ends, reading stops first; batches in flight get Config.ShutdownTimeout to commit; then offsets are committed
// and partitions given back.
func (r *Runner[Tx]) Run(ctx context.Context) error {
	errs := append([]error{r.cfg.validate()}, r.errs...)
	if r.store == nil || r.source == nil {
		errs = append(errs, errors.New("NewRunner was given a nil store or source"))
	}
	if len(r.routes) == 0 {
		errs = append(errs, errors.New("no route is registered"))
	}
	for topic, of := range r.byTopic {
		for _, i := range of {
			if rt := r.routes[i]; rt.Order != OrderPartition && len(of) > 1 {
				errs = append(errs, fmt.Errorf("topic %q is read by %d routes, and route %q is not in the order of partitions: such a topic is read by one route, others read it under another consumer", topic, len(of), rt.Name))
			}
		}
	}
	for _, rt := range r.routes {
		if rt.RenamedFrom != "" && slices.Contains(r.routeNames, rt.RenamedFrom) {
			errs = append(errs, fmt.Errorf("route %q is renamed from %q, which is a route too: whose claims are they?", rt.Name, rt.RenamedFrom))
		}
	}
	if r.workCtx != nil {
		errs = append(errs, errors.New("Run was called before"))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := r.bind(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}

	readCtx, stop := context.WithCancelCause(ctx)
	workCtx, abandon := context.WithCancel(context.WithoutCancel(ctx)) // work outlives ctx, until the drain is over
	r.workCtx, r.stop = workCtx, stop
	r.seats = map[Partition]*seat[Tx]{}
	r.ready, r.gate, r.wanted, r.alone = newReadyQueue[Tx](), newGate(), make(chan struct{}, 1), make(chan struct{}, 1)
	r.budget = &spending{Budget: r.cfg.Budget, now: r.cfg.Now}
	if err := r.unlatched(ctx); err != nil {
		abandon()
		r.work.Wait()
		stop(nil)
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("look for conditions that stand: %w", err)
	}
	for range r.cfg.Workers {
		r.work.Go(r.worker)
	}
	r.work.Go(func() { r.commitLoop(readCtx) })
	r.work.Go(func() { r.ordersLoop(readCtx) })
	r.work.Go(func() { r.sealLoop(readCtx) })

	topics := make([]string, 0, len(r.byTopic))
	for t := range r.byTopic {
		topics = append(topics, t)
	}
	slices.Sort(topics)
	err := r.source.Run(readCtx, topics, (*intake[Tx])(r))

	stop(context.Canceled)
	abandon()
	r.loseAll()
	r.ready.close()
	if err := r.awaitWork(); err != nil {
		return err
	}
	if cause := context.Cause(readCtx); ctx.Err() == nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// awaitWork waits for the workers. A handler that never returns is left behind.
func (r *Runner[Tx]) awaitWork() error {
	done := make(chan struct{})
	go func() {
		r.work.Wait()
		close(done)
	}()
	timeout := time.NewTimer(max(r.cfg.ShutdownTimeout, time.Second))
	defer timeout.Stop()
	select {
	case <-done:
		return nil
	case <-timeout.C:
		return &Error{
			Op: "stop", Err: errors.New("a handler does not return although its context ended"),
			Hint: "its transaction is not committed; end the process, so that its partition's next owner is not held up",
		}
	}
}

// bind introduces this consumer to the store.
func (r *Runner[Tx]) bind(ctx context.Context) error {
	origin, err := r.source.Origin(ctx)
	if err != nil {
		return fmt.Errorf("ask the source who it is: %w", err)
	}
	r.binding = Binding{
		Consumer: r.cfg.Consumer, Cluster: origin.Cluster, Group: origin.Group, Version: r.cfg.Version,
		HandlerTimeout: r.cfg.HandlerTimeout, Tables: r.tables,
	}
	for _, rt := range r.routes {
		r.binding.Routes = append(r.binding.Routes, RouteName{rt.Name, rt.RenamedFrom})
	}
	return r.open(ctx)
}

// open opens the store: at the start, and again when it has gone back, because what it called this consumer may be gone.
func (r *Runner[Tx]) open(ctx context.Context) error {
	bound, err := r.store.Open(ctx, r.binding)
	if err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bound = bound
	return nil
}

func (r *Runner[Tx]) opened() BoundStore[Tx] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bound
}

// fail stops the runner for a reason that waiting would not mend.
func (r *Runner[Tx]) fail(err error) { r.stop(err) }

func (r *Runner[Tx]) worker() {
	returned := false
	defer func() {
		if !returned { // a handler ended the goroutine
			r.work.Go(r.worker)
		}
	}()
	for {
		l := r.ready.pop()
		if l == nil {
			returned = true
			return
		}
		r.gate.pass(r.workCtx)
		l.turn()
	}
}

// lanes are those that have work at the moment.
func (r *Runner[Tx]) lanes() []*lane[Tx] {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*lane[Tx], 0, len(r.seats))
	for _, s := range r.seats {
		if s.lane != nil {
			all = append(all, s.lane)
		}
	}
	return all
}

// laneBytes is one lane's share of the memory for records that wait.
func (r *Runner[Tx]) laneBytes() int {
	r.mu.Lock()
	n := len(r.seats)
	r.mu.Unlock()
	return max(r.cfg.MaxBuffered/max(n, 1), 64<<10)
}

// commitLoop stores offsets with the source by time.
func (r *Runner[Tx]) commitLoop(ctx context.Context) {
	tick := time.NewTicker(r.cfg.CommitInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := r.commit(ctx, r.lanes()); err != nil && ctx.Err() == nil {
			if errors.Is(err, fault.ErrCrash) {
				r.fail(err)
				return
			}
			r.cfg.Logger.Warn("offsets not committed: tried again later, the store's position stands", "error", err)
		}
	}
}

// commit stores what is settled with the source. The store has it already: this offset may lag, and never leads.
func (r *Runner[Tx]) commit(ctx context.Context, lanes []*lane[Tx]) error {
	r.commits.Lock()
	defer r.commits.Unlock()
	var commits []Commit
	var of []*lane[Tx]
	for _, l := range lanes {
		if next, metadata, ok := l.progress.due(); ok {
			commits = append(commits, Commit{l.assignment, next, metadata})
			of = append(of, l)
		}
	}
	if len(commits) == 0 {
		return nil
	}
	if err := fault.Hit(ctx, fault.Settled); err != nil {
		return err
	}
	if err := r.source.Commit(ctx, commits); err != nil {
		if h := r.cfg.Hooks.CommitFailed; h != nil {
			h(commits, err)
		}
		return err
	}
	if err := fault.Hit(ctx, fault.OffsetStored); err != nil {
		return err
	}
	for i, l := range of {
		l.progress.commit(commits[i].Next)
	}
	if h := r.cfg.Hooks.Committed; h != nil {
		h(commits)
	}
	return nil
}
