package pawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// deadlyStore has seen owners die, and keeps the notes of attempts.
type deadlyStore struct {
	*deskStore
	crashes int
	ahead   int64

	mu    sync.Mutex
	notes map[string]int // by partition and offset
	slow  time.Duration  // what it takes to hear that one is noted
	lost  int            // answers to the next so many notes, taken or taken back; what is lost is noted, and not taken back
}

func (s *deadlyStore) Open(context.Context, Binding) (BoundStore[int], error) { return s, nil }
func (s *deadlyStore) Acquire(ctx context.Context, p Partition, start int64) (*Ownership, error) {
	o, err := s.deskStore.Acquire(ctx, p, start)
	o.Crashes, o.Ahead = s.crashes, s.ahead
	return o, err
}

func (s *deadlyStore) Attempt(ctx context.Context, o *Ownership, offset int64) (before int, err error) {
	s.mu.Lock()
	at := fmt.Sprint(o.Partition, offset)
	s.notes[at]++
	before, err = s.notes[at]-1, s.lose()
	s.mu.Unlock()
	select {
	case <-time.After(s.slow):
		return before, err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (s *deadlyStore) Survive(_ context.Context, o *Ownership, offset int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.lose(); err != nil {
		return err
	}
	s.notes[fmt.Sprint(o.Partition, offset)]--
	return nil
}

func (s *deadlyStore) lose() error {
	if s.lost--; s.lost >= 0 {
		return Classed(Transient, errors.New("the connection is gone"))
	}
	return nil
}

// atDeadlyDesk is atDesk after some deaths. It returns what became of the records, in the order they were settled.
func atDeadlyDesk(t *testing.T, store *deadlyStore, cfg Config, register func(*Runner[int]), body func(*desk)) (outcomes []string) {
	var mu sync.Mutex
	store.notes = map[string]int{}
	cfg.MaxDeaths = 3
	cfg.Hooks.Settled = func(s Settled) {
		mu.Lock()
		defer mu.Unlock()
		for _, d := range s.Decisions {
			outcomes = append(outcomes, fmt.Sprint(d.Record.Offset, " ", d.Outcome, d.Cause))
		}
	}
	atDesk(t, store.deskStore, cfg, func(r *Runner[int]) {
		r.store = store
		register(r)
	}, body)
	return outcomes
}

// After a death batches stay small for a while, so that the next owner is stopped by what kills at once; then records are tried
// one at a time: as many as were under way, and where that explained nothing, also what may have been settled ahead.
func TestOwnersAfterDeathsGoCarefully(t *testing.T) {
	alone := func(n int, then ...int) []int { return append(slices.Repeat([]int{1}, n), then...) }
	for _, c := range []struct {
		crashes int
		ahead   int64
		order   Order
		want    []int
	}{
		{0, 0, OrderPartition, []int{100, 200, 200, 200}},
		{1, 0, OrderPartition, []int{100, 100, 100, 100, 200, 100}},
		{2, 0, OrderPartition, alone(200, 100, 200, 200)},
		{9, 500, OrderPartition, alone(200, 100, 200, 200)},
		{2, 400, OrderNone, alone(200)},
		{4, 0, OrderNone, alone(200)},
		{4, 400, OrderNone, alone(600)},
	} {
		store := newDeskStore()
		var sizes []int
		store.before = func(_ context.Context, w *Work[int]) error {
			sizes = append(sizes, len(w.Decisions))
			return nil
		}
		atDeadlyDesk(t, &deadlyStore{deskStore: store, crashes: c.crashes, ahead: c.ahead}, Config{MaxBatch: 200, Workers: 1}, func(r *Runner[int]) {
			Handle(r, Route{Name: "r", Topics: []string{"t"}, Order: c.order}, Decoder[int64](offsetOf{}), func(context.Context, int, Envelope[int64]) error { return nil })
		}, func(d *desk) {
			p, _ := d.assign("t")
			d.in.Take(p, recordsOf(p, 0, 700))
			d.pass(time.Minute)
		})
		if c.order != OrderPartition { // the rest is shared among the workers
			sizes = sizes[:slices.IndexFunc(sizes, func(n int) bool { return n > 1 })]
		}
		if !slices.Equal(sizes, c.want) {
			t.Errorf("%+v: batches of %d", c, sizes)
		}
	}
}

// Who was wary began nothing while a record waited for its turn: that one could wait for what comes behind it, for ever.
func TestWhoIsWaryDoesNotWaitForWhatWaits(t *testing.T) {
	for _, order := range []Order{OrderStream, OrderNone} {
		var came sync.Map
		got := atDeadlyDesk(t, &deadlyStore{deskStore: newDeskStore(), crashes: 2}, Config{}, func(r *Runner[int]) {
			Handle(r, Route{Name: "r", Topics: []string{"t"}, Order: order}, Decoder[int64](offsetOf{}), func(_ context.Context, _ int, e Envelope[int64]) error {
				came.Store(e.Body, true)
				if _, ok := came.Load(int64(2)); !ok && e.Body == 0 {
					return Later(time.Second)
				}
				return nil
			})
		}, func(d *desk) {
			p, _ := d.assign("t")
			d.in.Take(p, recordsOf(p, 0, 3))
			d.pass(time.Minute)
		})
		if want := []string{"1 applied", "2 applied", "0 applied"}; !slices.Equal(got, want) {
			t.Errorf("order %d: %q, want %q", order, got, want)
		}
	}
}

// A process that lives was not killed by what it tries, also where the store could not be told so.
func TestANoteThatIsNotTakenBackIsNoDeathWhileItsProcessLives(t *testing.T) {
	for lost := range 4 {
		store, failures := &deadlyStore{deskStore: newDeskStore(), crashes: 2, lost: lost}, 3
		store.before = func(context.Context, *Work[int]) error {
			if failures--; failures >= 0 {
				return Classed(Transient, errors.New("the connection is gone"))
			}
			return nil
		}
		got := atDeadlyDesk(t, store, Config{}, func(r *Runner[int]) {
			Handle(r, routeT[0], Decoder[int64](offsetOf{}), func(context.Context, int, Envelope[int64]) error { return nil })
		}, func(d *desk) {
			p, _ := d.assign("t")
			d.in.Take(p, recordsOf(p, 0, 2))
			d.pass(time.Minute)
		})
		if want := []string{"0 applied", "1 applied"}; !slices.Equal(got, want) {
			t.Errorf("%d answers lost: %q, want %q", lost, got, want)
		}
	}
}

// What kills a process that is wary kills it with one note: records of other partitions that were noted beside it were blamed too.
func TestWhoIsWaryTriesOneRecordOfAllPartitions(t *testing.T) {
	store := &deadlyStore{deskStore: newDeskStore(), crashes: 2}
	most := 0
	got := atDeadlyDesk(t, store, Config{Workers: 4}, func(r *Runner[int]) {
		Handle(r, Route{Name: "r", Topics: []string{"t", "u", "v"}}, Decoder[int64](offsetOf{}), func(context.Context, int, Envelope[int64]) error {
			time.Sleep(time.Second)
			store.mu.Lock()
			defer store.mu.Unlock()
			noted := 0
			for _, n := range store.notes {
				noted += n
			}
			most = max(most, noted)
			clear(store.notes) // the position passes them
			return nil
		})
	}, func(d *desk) {
		for _, topic := range []string{"t", "u", "v"} {
			p, _ := d.assign(topic)
			d.in.Take(p, recordsOf(p, 0, 2))
		}
		d.pass(time.Minute)
	})
	if len(got) != 6 || most != 1 {
		t.Errorf("%q were settled, and up to %d were noted at once", got, most)
	}
}

// A lane that was taken away while a record was being noted left the note: the next owner blamed the record for a death.
func TestANoteIsTakenBackWhereItsLaneIsTakenAwayMeanwhile(t *testing.T) {
	store := &deadlyStore{deskStore: newDeskStore(), crashes: 2, slow: time.Second}
	atDeadlyDesk(t, store, Config{}, func(r *Runner[int]) {
		Handle(r, routeT[0], Decoder[int64](offsetOf{}), func(ctx context.Context, _ int, _ Envelope[int64]) error { return ctx.Err() })
	}, func(d *desk) {
		p, _ := d.assign("t")
		d.in.Take(p, recordsOf(p, 0, 1))
		d.pass(time.Second / 2)
		d.in.Lose([]Partition{p})
		d.pass(time.Minute)
	})
	for at, n := range store.notes {
		if n != 0 {
			t.Errorf("%d notes are left at %s", n, at)
		}
	}
	if len(store.notes) == 0 {
		t.Error("nothing was noted")
	}
}

// A partition whose record waits for that of another has nothing in flight: who takes it away need not wait for the other's.
func TestWhoIsWaryGivesBackWhatItHasNotBegun(t *testing.T) {
	var took time.Duration
	got := atDeadlyDesk(t, &deadlyStore{deskStore: newDeskStore(), crashes: 2}, Config{Workers: 4, ShutdownTimeout: time.Minute}, func(r *Runner[int]) {
		Handle(r, Route{Name: "r", Topics: []string{"t", "u"}}, Decoder[int64](offsetOf{}), func(context.Context, int, Envelope[int64]) error {
			time.Sleep(20 * time.Second)
			return nil
		})
	}, func(d *desk) {
		first, _ := d.assign("t")
		d.in.Take(first, recordsOf(first, 0, 1))
		d.pass(time.Second)
		second, _ := d.assign("u")
		d.in.Take(second, recordsOf(second, 0, 1))
		d.pass(time.Second)
		began := time.Now()
		d.in.Revoke(d.t.Context(), []Partition{second})
		took = time.Since(began)
		d.pass(time.Minute)
	})
	if took > time.Second || len(got) != 1 {
		t.Errorf("given back after %s, and %q were settled", took, got)
	}
}
