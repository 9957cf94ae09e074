package pawl

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// deskStore is a gateStore whose gate is open, and which keeps conditions and has orders.
type deskStore struct {
	gateStore

	mu         sync.Mutex
	down       bool          // nothing can be written
	slow       time.Duration // what it takes to end a condition
	conditions map[State]*Resolution
	tasks      []Task // a task is there until it was applied
	applied    []int64
	moved      []int64
	before     func(ctx context.Context, w *Work[int]) error // of Apply
}

func newDeskStore() *deskStore {
	s := &deskStore{conditions: map[State]*Resolution{}}
	s.gate = make(chan struct{})
	close(s.gate)
	return s
}

func (s *deskStore) Open(context.Context, Binding) (BoundStore[int], error) { return s, nil }

func (s *deskStore) Raise(_ context.Context, c Condition) (*Resolution, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, context.DeadlineExceeded
	}
	if _, ok := s.conditions[c.State]; !ok {
		s.conditions[c.State] = nil
	}
	return s.conditions[c.State], nil
}

func (s *deskStore) Clear(_ context.Context, _ Partition, states ...State) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return context.DeadlineExceeded
	}
	if s.slow > 0 {
		s.mu.Unlock()
		time.Sleep(s.slow)
		s.mu.Lock()
	}
	for _, state := range states {
		delete(s.conditions, state)
	}
	return nil
}

func (s *deskStore) Standing(_ context.Context, p Partition) (all []Condition, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for state := range s.conditions {
		whole := state == StateLatched || state == StatePoison || state == StateQuarantineBudget || state == StateDependencyDown
		if whole == (p.Index == AllPartitions) {
			all = append(all, Condition{Partition: p, State: state, Next: NoStart})
		}
	}
	return all, nil
}

func (s *deskStore) Acquire(_ context.Context, p Partition, _ int64) (*Ownership, error) {
	return &Ownership{Partition: p}, nil
}

func (s *deskStore) Move(_ context.Context, o *Ownership, next int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moved = append(s.moved, next)
	o.Next = next
	return nil
}

// answer is an operator's; it reports whether there was anything to answer.
func (s *deskStore) answer(state State) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.conditions[state]
	if ok {
		s.conditions[state] = &Resolution{To: GoOn, By: "a", Why: "b"}
	}
	return ok
}

func (s *deskStore) stands(state State) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.conditions[state]
	return ok
}

func (s *deskStore) Orders(context.Context, []int64, time.Time, int) (*Orders, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Orders{Tasks: slices.Clone(s.tasks)}, nil
}

func (s *deskStore) Apply(ctx context.Context, o *Ownership, w *Work[int]) error {
	if s.before != nil {
		if err := s.before(ctx, w); err != nil {
			return err
		}
	}
	for _, d := range w.Decisions {
		if d.Kept != nil && s.find(d.Kept) < 0 {
			return ErrNotKept
		}
	}
	if err := s.gateStore.Apply(ctx, o, w); err != nil {
		return err
	}
	for _, d := range w.Decisions {
		s.mu.Lock()
		s.applied = append(s.applied, d.Record.Offset)
		s.tasks = slices.DeleteFunc(s.tasks, func(t Task) bool { return d.Kept != nil && t.Kept == *d.Kept })
		s.mu.Unlock()
	}
	return nil
}

// find returns the index of a task, or -1.
func (s *deskStore) find(k *Kept) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.IndexFunc(s.tasks, func(t Task) bool { return k != nil && t.Kept == *k })
}

// desk is a runner on a deskStore, in fake time, whose source is the test.
type desk struct {
	t  *testing.T
	r  *Runner[int]
	in Intake
}

func atDesk(t *testing.T, store *deskStore, cfg Config, register func(*Runner[int]), body func(*desk)) {
	synctest.Test(t, func(t *testing.T) {
		store.gate = make(chan struct{})
		close(store.gate)
		source := &handSource{in: make(chan Intake), stop: make(chan struct{})}
		close(source.stop)
		cfg.Consumer, cfg.Logger = "c", slog.New(slog.DiscardHandler)
		d := &desk{t: t, r: NewRunner[int](store, source, cfg)}
		register(d.r)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.r.Run(ctx) }()
		d.in = <-source.in
		body(d)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// assign gives the runner partition 0 of a topic.
func (d *desk) assign(topic string) (Partition, *noteFlow) {
	d.t.Helper()
	p, flow := Partition{Topic: topic}, &noteFlow{}
	if _, err := d.in.Assign(d.t.Context(), []*Assignment{{Partition: p, Committed: -1, Flow: flow}}); err != nil {
		d.t.Fatal(err)
	}
	return p, flow
}

// pass lets time pass, until everything is idle.
func (d *desk) pass(t time.Duration) {
	time.Sleep(t)
	synctest.Wait()
}

// recordsOf are the n records of p from offset on.
func recordsOf(p Partition, offset int64, n int) []Record {
	all := make([]Record, n)
	for i := range all {
		all[i] = Record{Partition: p, Offset: offset + int64(i)}
	}
	return all
}
