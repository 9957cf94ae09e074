package pawl

import (
	"context"
	"slices"
	"testing"
	"time"
)

// A kept record that took effect moved the position past the same record of the log, where that was being read again for
// another route and had not taken effect there.
func TestAKeptRecordMovesNoPosition(t *testing.T) {
	store := newDeskStore()
	var nexts []int64
	store.before = func(_ context.Context, w *Work[int]) error {
		frontier := w.Frontier
		w.Frontier = func() (next, received int64) {
			next, received = frontier()
			nexts = append(nexts, next)
			return next, received
		}
		return nil
	}
	atDesk(t, store, Config{MaxBatch: 2}, func(r *Runner[int]) {
		for _, name := range []string{"r", "added"} {
			Handle(r, Route{Name: name, Topics: []string{"t"}}, Decoder[int64](offsetOf{}),
				func(context.Context, int, Envelope[int64]) error { time.Sleep(time.Second); return nil })
		}
	}, func(d *desk) {
		p, _ := d.assign("t")
		store.mu.Lock()
		store.tasks = []Task{{Act: ActReplay, Kept: Kept{Quarantine: 1, Item: 1}, Record: Record{Partition: p, Offset: 2}}}
		store.mu.Unlock()
		d.in.Take(p, recordsOf(p, 0, 4))
		d.pass(time.Minute)
		if want := []int64{2, 2, 3, 4}; !slices.Equal(nexts, want) {
			d.t.Errorf("positions %d, want %d", nexts, want)
		}
	})
}

// How far was received is told with each batch: status knows what an owner has in hand without asking it.
func TestTheStoreIsToldHowFarWasReceived(t *testing.T) {
	store := newDeskStore()
	var told [][2]int64
	store.before = func(_ context.Context, w *Work[int]) error {
		frontier := w.Frontier
		w.Frontier = func() (next, received int64) {
			next, received = frontier()
			told = append(told, [2]int64{next, received})
			return next, received
		}
		return nil
	}
	atDesk(t, store, Config{MaxBatch: 2}, func(r *Runner[int]) {
		Handle(r, Route{Name: "r", Topics: []string{"t"}}, Decoder[int64](offsetOf{}),
			func(context.Context, int, Envelope[int64]) error { time.Sleep(time.Second); return nil })
	}, func(d *desk) {
		p, _ := d.assign("t")
		d.in.Take(p, recordsOf(p, 0, 3))
		d.pass(time.Second)
		d.in.Take(p, recordsOf(p, 3, 2))
		d.pass(time.Minute)
		if want := [][2]int64{{2, 5}, {3, 5}, {4, 5}, {5, 5}}; !slices.Equal(told, want) {
			d.t.Errorf("told %d, want %d", told, want)
		}
	})
}

// A record that was kept for a route that has since been given other topics ended every process that got its partition.
func TestWhatIsKeptForARouteThatReadsOtherTopicsStays(t *testing.T) {
	for _, order := range []Order{OrderPartition, OrderStream} {
		store := newDeskStore()
		store.tasks = []Task{
			{Route: 1, Act: ActReplay, Kept: Kept{Hold: 1}, Record: Record{Partition: Partition{Topic: "t"}, Offset: 3}},
			{Route: 0, Act: ActReplay, Kept: Kept{Hold: 2}, Record: Record{Partition: Partition{Topic: "t"}, Offset: 4}},
		}
		atDesk(t, store, Config{}, func(r *Runner[int]) {
			h := func(context.Context, int, Envelope[int64]) error { return nil }
			Handle(r, Route{Name: "reads-it", Topics: []string{"t"}, Order: order}, Decoder[int64](offsetOf{}), h)
			Handle(r, Route{Name: "reads-another", Topics: []string{"u"}}, Decoder[int64](offsetOf{}), h)
		}, func(d *desk) {
			d.assign("t")
			d.pass(time.Minute)
			if !slices.Equal(store.applied, []int64{4}) || len(store.tasks) != 1 {
				d.t.Errorf("order %d: %d applied, %d left", order, store.applied, len(store.tasks))
			}
		})
	}
}

// A task that had waited long, and was then given up, left its partition paused for ever: nothing was there to be settled.
func TestAPartitionIsReadOnAfterATaskWasGivenUp(t *testing.T) {
	store := newDeskStore()
	store.tasks = []Task{{Act: ActReplay, Kept: Kept{Quarantine: 1, Item: 1}, Record: Record{Partition: Partition{Topic: "t"}, Offset: 3}}}
	atDesk(t, store, Config{}, func(r *Runner[int]) {
		Handle(r, routeT[0], Decoder[int64](offsetOf{}), func(context.Context, int, Envelope[int64]) error { return Later(5 * time.Second) })
	}, func(d *desk) {
		_, flow := d.assign("t")
		d.pass(2 * time.Second)
		if flow.is(false) {
			d.t.Fatal("the source is not paused meanwhile")
		}
		store.mu.Lock()
		store.tasks = nil // an operator has canceled the operation
		store.mu.Unlock()
		d.pass(time.Minute)
		if flow.is(true) {
			d.t.Errorf("the source is still paused: it was asked to %v", flow.asked)
		}
	})
}
