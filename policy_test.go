package pawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// bubble is a runner on a store without a database, in fake time, whose source is the test.
type bubble struct {
	t       *testing.T
	in      Intake
	stopped chan error
	cancel  context.CancelFunc
	source  *handSource
	applied atomic.Int64
	aside   atomic.Int64

	mu   sync.Mutex
	told []string
}

func inBubble(t *testing.T, cfg Config, routes []Route, h func(ctx context.Context, offset int64) error, body func(*bubble)) {
	synctest.Test(t, func(t *testing.T) {
		store := &gateStore{gate: make(chan struct{})}
		close(store.gate)
		b := &bubble{t: t, source: &handSource{in: make(chan Intake), stop: make(chan struct{})}, stopped: make(chan error, 1)}
		cfg.Consumer, cfg.Logger = "c", slog.New(slog.DiscardHandler)
		cfg.Hooks = Hooks{
			Settled: func(s Settled) {
				for _, d := range s.Decisions {
					if d.Outcome == Quarantined {
						b.aside.Add(1)
					} else {
						b.applied.Add(1)
					}
				}
			},
			Raised:  func(c Condition) { b.note("raised " + string(c.State) + ": " + c.Reason) },
			Cleared: func(_ Partition, s State) { b.note("cleared " + string(s)) },
		}
		r := NewRunner[int](store, b.source, cfg)
		for _, route := range routes {
			Handle(r, route, Decoder[int64](offsetOf{}), func(ctx context.Context, _ int, e Envelope[int64]) error { return h(ctx, e.Body) })
		}
		ctx, cancel := context.WithCancel(t.Context())
		b.cancel = cancel
		go func() { b.stopped <- r.Run(ctx) }()
		b.in = <-b.source.in
		body(b)
		cancel()
		select {
		case <-b.source.stop:
		default:
			close(b.source.stop)
		}
		if err := <-b.stopped; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func (b *bubble) note(s string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told = append(b.told, s)
}

// hasTold counts what was told that begins so.
func (b *bubble) hasTold(prefix string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.told {
		if strings.HasPrefix(s, prefix) {
			n++
		}
	}
	return n
}

// deliver assigns partitions of t and hands over n records of each.
func (b *bubble) deliver(topic string, partitions, n int) {
	b.t.Helper()
	for p := range partitions {
		at := Partition{Topic: topic, Index: int32(p)}
		if _, err := b.in.Assign(b.t.Context(), []*Assignment{{Partition: at, Committed: -1, Flow: &noteFlow{}}}); err != nil {
			b.t.Fatal(err)
		}
		var records []Record
		for o := range n {
			records = append(records, Record{Partition: at, Offset: int64(o)})
		}
		b.in.Take(at, records)
	}
}

// offsetOf decodes a record to its offset.
type offsetOf struct{}

func (offsetOf) Decode(m Meta, _ []byte) (Decoded[int64], error) {
	var offset int64
	key := m.PositionKey()
	fmt.Sscanf(key[strings.LastIndexAny(key, "/:@ ")+1:], "%d", &offset)
	return Decoded[int64]{Identity: Identity{Key: key, Stream: fmt.Sprint(offset % 10)}, Fingerprint: Fingerprint{1}, Body: offset}, nil
}

var routeT = []Route{{Name: "r", Topics: []string{"t"}}}

// A dependency that is down for ten minutes is asked a few times, with one record; when it is back, everything goes on at
// once.
func TestADependencyThatIsDownIsSpared(t *testing.T) {
	down, calls := atomic.Bool{}, atomic.Int64{}
	down.Store(true)
	inBubble(t, Config{}, routeT, func(context.Context, int64) error {
		calls.Add(1)
		if down.Load() {
			return Overloaded("payments-api", errors.New("503"))
		}
		return nil
	}, func(b *bubble) {
		b.deliver("t", 20, 100)
		time.Sleep(10 * time.Minute)
		if n := calls.Load(); n > 150 {
			t.Errorf("%d calls in ten minutes of a dependency that is down, for 20 partitions", n)
		}
		if b.hasTold("raised dependency_down: payments-api") != 1 || b.applied.Load() > 0 {
			t.Errorf("told %q, %d applied", b.told, b.applied.Load())
		}
		down.Store(false)
		time.Sleep(20 * time.Second) // at most one wait of the probe
		if b.applied.Load() != 2000 || b.hasTold("cleared dependency_down") != 1 {
			t.Errorf("%d applied, told %q", b.applied.Load(), b.told)
		}
	})
}

// What does not need the dependency goes on meanwhile.
func TestADependencyThatIsDownHoldsUpOnlyWhatNeedsIt(t *testing.T) {
	routes := []Route{{Name: "needs", Topics: []string{"t"}}, {Name: "other", Topics: []string{"u"}}}
	for name, down := range map[string]error{
		"named": Overloaded("payments-api", errors.New("503")),
		// These were held against the store, which everything needs.
		"by its status": fmt.Errorf("call: %w", statusError(503)),
		"by its class":  Classed(Transient, errors.New("no route to host")),
	} {
		t.Run(name, func(t *testing.T) {
			var needs atomic.Bool
			inBubble(t, Config{}, routes, func(context.Context, int64) error {
				if needs.Load() {
					return down
				}
				return nil
			}, func(b *bubble) {
				needs.Store(true)
				b.deliver("t", 3, 10)
				time.Sleep(time.Minute)
				needs.Store(false)
				b.deliver("u", 3, 10)
				time.Sleep(100 * time.Millisecond)
				if n := b.applied.Load(); n < 30 || b.hasTold("raised dependency_down") != 1 {
					t.Errorf("%d applied, want those of the other route at once; told %q", n, b.told)
				}
			})
		})
	}
}

// A deploy that fails every record latches the consumer while quarantine is still small.
func TestABadDeployLatches(t *testing.T) {
	for name, bad := range map[string]error{"rejects": Reject(errors.New("unknown field")), "fails": errors.New("nil pointer")} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{MaxTries: 2}, routeT, func(context.Context, int64) error { return bad }, func(b *bubble) {
				b.deliver("t", 4, 5000)
				time.Sleep(time.Hour)
				if n := b.aside.Load(); n > BudgetFrom || b.hasTold("raised quarantine_budget") != 1 {
					t.Errorf("%d set aside, told %q", n, b.told)
				}
			})
		})
	}
}

// Less poison than the budget allows is set aside, and what is sound is applied.
func TestAThirdOfPoisonIsSetAside(t *testing.T) {
	inBubble(t, Config{Budget: Budget{Records: 100_000}}, routeT, func(_ context.Context, offset int64) error {
		if offset%10 < 3 {
			return Reject(errors.New("no"))
		}
		return nil
	}, func(b *bubble) {
		b.deliver("t", 4, 5000)
		time.Sleep(time.Minute)
		if b.aside.Load() != 6000 || b.applied.Load() != 14000 || len(b.told) > 0 {
			t.Errorf("%d set aside, %d applied, told %q", b.aside.Load(), b.applied.Load(), b.told)
		}
	})
}

// Every partition headed by poison: each goes on behind it.
func TestPoisonAtTheHeadOfEachPartition(t *testing.T) {
	inBubble(t, Config{}, routeT, func(_ context.Context, offset int64) error {
		if offset == 0 {
			return errors.New("always")
		}
		return nil
	}, func(b *bubble) {
		b.deliver("t", 50, 100)
		time.Sleep(time.Minute)
		if b.aside.Load() != 50 || b.applied.Load() != 50*99 {
			t.Errorf("%d set aside, %d applied", b.aside.Load(), b.applied.Load())
		}
	})
}

func TestPoisonStopsWhereItShould(t *testing.T) {
	inBubble(t, Config{OnPoison: PoisonStop}, routeT, func(_ context.Context, offset int64) error {
		if offset == 7 {
			return Reject(errors.New("no such account"))
		}
		return nil
	}, func(b *bubble) {
		b.deliver("t", 1, 20)
		time.Sleep(time.Minute)
		if b.aside.Load() != 0 || b.hasTold("raised poison") != 1 || !strings.Contains(b.told[0], "offset 7 cannot take effect: validation: no such account") {
			t.Errorf("%d set aside, told %q", b.aside.Load(), b.told)
		}
		if n := b.applied.Load(); n != 7 {
			t.Errorf("%d were applied, want the 7 in front of it", n)
		}
	})
}

// A handler that does not heed its context costs the process its partitions, and nobody else.
func TestAHandlerThatIgnoresItsContextEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &gateStore{gate: make(chan struct{})}
		close(store.gate)
		source := &handSource{in: make(chan Intake), stop: make(chan struct{})}
		close(source.stop)
		r := NewRunner[int](store, source, Config{Consumer: "c", Logger: slog.New(slog.DiscardHandler)})
		release := make(chan struct{})
		Handle(r, routeT[0], Decoder[int64](offsetOf{}), func(context.Context, int, Envelope[int64]) error { <-release; return nil })
		done := make(chan error, 1)
		go func() { done <- r.Run(t.Context()) }()
		in := <-source.in
		p := Partition{Topic: "t"}
		if _, err := in.Assign(t.Context(), []*Assignment{{Partition: p, Committed: -1, Flow: &noteFlow{}}}); err != nil {
			t.Fatal(err)
		}
		in.Take(p, []Record{{Partition: p}})
		began := time.Now()
		err := <-done
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "does not return") || took > 3*time.Minute {
			t.Errorf("after %s: %v", took, err)
		}
		close(release)
	})
}

func TestErrorsAreClassedByWhoKnowsBest(t *testing.T) {
	unknown := func(error) Class { return Unknown }
	store := func(error) Class { return Validation }
	for _, c := range []struct {
		name  string
		err   error
		user  func(error) Class
		store func(error) Class
		want  Class
	}{
		{"marked", fmt.Errorf("wrapped: %w", Classed(Corruption, errors.New("x"))), func(error) Class { return Poison }, store, Corruption},
		{"overloaded", Overloaded("api", errors.New("x")), nil, unknown, Overload},
		{"the user's classifier", errors.New("x"), func(error) Class { return Poison }, store, Poison},
		{"the store", errors.New("x"), unknown, store, Validation},
		{"429", statusError(429), nil, unknown, Overload},
		{"503", fmt.Errorf("call: %w", statusError(503)), nil, unknown, Overload},
		{"502", statusError(502), nil, unknown, Transient},
		{"403", statusError(403), nil, unknown, Misconfigured},
		{"422", statusError(422), nil, unknown, Validation},
		{"404", statusError(404), nil, unknown, Unknown},
		{"anything", errors.New("x"), nil, unknown, Unknown},
		{"the transaction was ended", ErrTxEnded, nil, store, Misconfigured},
	} {
		if got := classify(c.err, c.user, c.store); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

type statusError int

func (e statusError) Error() string   { return fmt.Sprint("status ", int(e)) }
func (e statusError) StatusCode() int { return int(e) }

// Slow handlers in the order of streams keep as many workers busy as there are streams: within a tenth of the ideal, in fake
// time and without a database. `make bench BENCH_ARGS=-order` measures it with one.
func TestSlowStreamsKeepTheWorkersBusy(t *testing.T) {
	const workers = 16
	for _, work := range []time.Duration{time.Millisecond, 10 * time.Millisecond} {
		for _, streams := range []int{1, 5, 20, 1000, 10_000} {
			if work > time.Millisecond && streams != 20 {
				continue // the same in larger steps
			}
			n := 4000 * min(streams, workers) // long enough for the end, where some workers find nothing any more, not to count
			ideal := time.Duration(n) * work / time.Duration(min(streams, workers))
			var took time.Duration
			synctest.Test(t, func(t *testing.T) {
				store := &gateStore{gate: make(chan struct{})}
				close(store.gate)
				source := &handSource{in: make(chan Intake), stop: make(chan struct{})}
				close(source.stop)
				ctx, cancel := context.WithCancel(t.Context())
				settled := 0
				var mu sync.Mutex
				began := time.Now()
				r := NewRunner[int](store, source, Config{
					Consumer: "c", Workers: workers, Logger: slog.New(slog.DiscardHandler),
					Hooks: Hooks{Settled: func(s Settled) {
						mu.Lock()
						defer mu.Unlock()
						if settled += len(s.Decisions); settled == n {
							took = time.Since(began)
							cancel()
						}
					}},
				})
				Handle(r, Route{Name: "r", Topics: []string{"t"}, Order: OrderStream}, Decoder[int](inStreams(streams)),
					func(context.Context, int, Envelope[int]) error { time.Sleep(work); return nil })
				done := make(chan error, 1)
				go func() { done <- r.Run(ctx) }()
				in := <-source.in
				p := Partition{Topic: "t"}
				if _, err := in.Assign(ctx, []*Assignment{{Partition: p, Committed: -1, Flow: &noteFlow{}}}); err != nil {
					t.Fatal(err)
				}
				records := make([]Record, n)
				for i := range records {
					records[i] = Record{Partition: p, Offset: int64(i)}
				}
				in.Take(p, records)
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			})
			if share := float64(ideal) / float64(took); share < 0.9 {
				t.Errorf("%s, %d streams: %s, and the ideal is %s: %.0f %%", work, streams, took, ideal, 100*share)
			}
		}
	}
}

// inStreams decodes a record to the stream of its offset.
type inStreams int

func (n inStreams) Decode(m Meta, _ []byte) (Decoded[int], error) {
	d, err := offsetOf{}.Decode(m, nil)
	d.Identity.Stream = fmt.Sprint(d.Body % int64(n))
	return Decoded[int]{Identity: d.Identity, Fingerprint: d.Fingerprint}, err
}
