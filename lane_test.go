package pawl

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// gateStore is a store without a database: Apply waits for its gate. It is for what the engine does around a store.
type gateStore struct {
	gate   chan struct{}
	refuse atomic.Int32 // this many times Apply is refused
	down   atomic.Int32 // this many times, before that, Apply does not reach the database
	known  atomic.Bool  // the partition has a position
}

// nobody operates: there is nothing to seal.
type nobody struct{ Admin }

func (nobody) SealAudit(context.Context, string, time.Time) (*AuditSeal, error) {
	return &AuditSeal{}, nil
}

func (s *gateStore) Open(context.Context, Binding) (BoundStore[int], error) { return s, nil }
func (s *gateStore) Admin() Admin                                           { return nobody{} }
func (s *gateStore) Acquire(_ context.Context, p Partition, start int64) (*Ownership, error) {
	if start == NoStart && !s.known.Load() {
		return nil, ErrNoPosition
	}
	s.known.Store(true)
	return &Ownership{Partition: p, Next: max(start, 0)}, nil
}
func (s *gateStore) Move(context.Context, *Ownership, int64) error            { return nil }
func (s *gateStore) Release(context.Context, *Ownership) error                { return nil }
func (s *gateStore) Raise(context.Context, Condition) (*Resolution, error)    { return nil, nil }
func (s *gateStore) Standing(context.Context, Partition) ([]Condition, error) { return nil, nil }
func (s *gateStore) Clear(context.Context, Partition, ...State) error         { return nil }
func (s *gateStore) Survive(context.Context, *Ownership, int64) error         { return nil }
func (s *gateStore) Attempt(context.Context, *Ownership, int64) (int, error)  { return 0, nil }
func (s *gateStore) Orders(context.Context, []int64, time.Time, int) (*Orders, error) {
	return &Orders{}, nil
}
func (s *gateStore) Classify(error) Class { return Unknown }
func (s *gateStore) Apply(ctx context.Context, o *Ownership, w *Work[int]) error {
	select {
	case <-s.gate:
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.down.Add(-1) >= 0 {
		return errors.New("the connection is gone")
	}
	if s.refuse.Add(-1) >= 0 {
		return ErrFenced
	}
	if w.Run != nil {
		if err := w.Run(ctx, nopSession{}); err != nil {
			return err
		}
	}
	return w.Commit(func() error {
		o.Seq++
		o.Next = w.Next
		return nil
	})
}

// nopSession is a transaction without a database.
type nopSession struct{}

func (nopSession) Rows() Rows                        { return nil }
func (nopSession) Tx() int                           { return 0 }
func (nopSession) Statements() int                   { return 0 }
func (nopSession) Mark(context.Context) error        { return nil }
func (nopSession) Undo(context.Context) error        { return nil }
func (nopSession) Rest(context.Context, error) error { return nil }
func (nopSession) Check(context.Context) error       { return nil }

// noteFlow records what it was asked.
type noteFlow struct {
	mu     sync.Mutex
	asked  []string
	paused bool
}

func (f *noteFlow) Pause()                      { f.note("pause", true) }
func (f *noteFlow) Resume()                     { f.note("resume", false) }
func (f *noteFlow) Rewind(_ int64, then func()) { then() }
func (f *noteFlow) note(s string, paused bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked, f.paused = append(f.asked, s), paused
}

func (f *noteFlow) is(paused bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.paused == paused
}

// handSource gives the test the intake, and lets it play the source.
type handSource struct {
	in   chan Intake
	stop chan struct{}
}

func (s *handSource) Origin(context.Context) (Origin, error) { return Origin{"c", "g"}, nil }
func (s *handSource) Commit(context.Context, []Commit) error { return nil }
func (s *handSource) Run(ctx context.Context, _ []string, in Intake) error {
	s.in <- in
	<-s.stop
	<-ctx.Done()
	return nil
}

type keyByOffset struct{}

func (keyByOffset) Decode(m Meta, _ []byte) (Decoded[int], error) {
	return Decoded[int]{Identity: Identity{Key: m.PositionKey()}, Fingerprint: Fingerprint{1}}, nil
}

// A lane whose records take more than its share of memory pauses its source, and resumes it once half is free.
func TestAFullLanePausesItsSource(t *testing.T) {
	store := &gateStore{gate: make(chan struct{})}
	source := &handSource{in: make(chan Intake), stop: make(chan struct{})}
	r := NewRunner[int](store, source, Config{
		Consumer: "c", MaxBuffered: 1 << 20, MaxBatch: 100, Logger: slog.New(slog.DiscardHandler),
	})
	Handle(r, Route{Name: "r", Topics: []string{"t"}}, Decoder[int](keyByOffset{}), func(context.Context, int, Envelope[int]) error { return nil })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	in := <-source.in
	flow := &noteFlow{}
	p := Partition{Topic: "t"}
	if _, err := in.Assign(ctx, []*Assignment{{Partition: p, Committed: -1, Flow: flow}}); err != nil {
		t.Fatal(err)
	}
	value := make([]byte, 10_000)
	for o := int64(0); flow.is(false); o++ {
		if o > 200 {
			t.Fatal("2 MB are waiting and the source was not paused")
		}
		in.Take(p, []Record{{Partition: p, Offset: o, Value: value}})
	}
	for range 1000 {
		select {
		case store.gate <- struct{}{}:
		case <-time.After(time.Millisecond):
		}
		if flow.is(false) {
			break
		}
	}
	if want := []string{"pause", "resume"}; !slices.Equal(flow.asked, want) {
		t.Errorf("the source was asked to %v, want %v", flow.asked, want)
	}
	close(store.gate)
	cancel()
	close(source.stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// An owner that the store refuses again and again, though the group says that the partition is its own, says so until it
// has settled a batch.
func TestWhoIsFencedAgainAndAgainSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &gateStore{gate: make(chan struct{})}
		close(store.gate)
		store.refuse.Store(5)
		source := &handSource{in: make(chan Intake), stop: make(chan struct{})}
		var mu sync.Mutex
		var told []string
		note := func(what string, state State) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, what+" "+string(state))
		}
		r := NewRunner[int](store, source, Config{Consumer: "c", Logger: slog.New(slog.DiscardHandler), Hooks: Hooks{
			Restarted: func(Partition, error) { note("restarted", "") },
			Raised:    func(c Condition) { note("raised", c.State) },
			Cleared:   func(_ Partition, s State) { note("cleared", s) },
		}})
		Handle(r, Route{Name: "r", Topics: []string{"t"}}, Decoder[int](keyByOffset{}), func(context.Context, int, Envelope[int]) error { return nil })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		in := <-source.in
		p := Partition{Topic: "t"}
		if _, err := in.Assign(ctx, []*Assignment{{Partition: p, Committed: -1, Flow: &noteFlow{}}}); err != nil {
			t.Fatal(err)
		}
		for range 6 {
			in.Take(p, []Record{{Partition: p, Offset: 0}})
			time.Sleep(time.Minute) // fake: until everything is idle
		}
		cancel()
		close(source.stop)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		want := []string{
			"restarted ", "restarted ", "restarted ", "raised fenced", "restarted ", "raised fenced", "restarted ", "raised fenced",
			"cleared fenced",
		}
		if !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

// A member that had lost its partition, and had not heard of it, met the deleted records behind the position, and asked an
// operator what to do about them. It also did when the database did not answer at once whose the partition is.
func TestWhoIsNoLongerTheOwnerRaisesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &gateStore{gate: make(chan struct{})}
		close(store.gate)
		source := &handSource{in: make(chan Intake), stop: make(chan struct{})}
		var mu sync.Mutex
		var told []string
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, what)
		}
		r := NewRunner[int](store, source, Config{Consumer: "c", Logger: slog.New(slog.DiscardHandler), Hooks: Hooks{
			Restarted: func(Partition, error) { note("restarted") },
			Raised:    func(c Condition) { note(string(c.State)) },
		}})
		Handle(r, Route{Name: "r", Topics: []string{"t"}}, Decoder[int](keyByOffset{}), func(context.Context, int, Envelope[int]) error { return nil })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		in := <-source.in
		p := Partition{Topic: "t"}
		if _, err := in.Assign(ctx, []*Assignment{{Partition: p, Committed: -1, Flow: &noteFlow{}}}); err != nil {
			t.Fatal(err)
		}
		below := Condition{Partition: p, State: StateBelowLog, Reason: "records were deleted", Hint: "move"}
		store.down.Store(3)
		store.refuse.Store(1)
		in.Raise(below)
		time.Sleep(time.Minute) // fake: until everything is idle
		in.Raise(below)         // and who is the owner does
		time.Sleep(time.Minute)
		cancel()
		close(source.stop)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if want := []string{"restarted", "below_log"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

// An owner that was refused while its lane was being taken away committed its offset all the same.
func TestWhoIsRefusedWhileItsLaneIsTakenAwayCommitsNothing(t *testing.T) {
	for _, refusal := range []error{ErrFenced, ErrStoreWentBack} {
		store := newDeskStore()
		store.before = func(ctx context.Context, _ *Work[int]) error {
			<-ctx.Done()
			return refusal
		}
		atDesk(t, store, Config{ShutdownTimeout: time.Second}, func(r *Runner[int]) {
			Handle(r, routeT[0], Decoder[int64](offsetOf{}), func(context.Context, int, Envelope[int64]) error { return nil })
		}, func(d *desk) {
			p, _ := d.assign("t")
			d.in.Take(p, recordsOf(p, 0, 1))
			d.pass(time.Millisecond)
			l := d.r.lanes()[0]
			d.in.Revoke(t.Context(), []Partition{p})
			if n := l.progress.committed; n != -1 {
				t.Errorf("%v: it has committed %d", refusal, n)
			}
		})
	}
}
