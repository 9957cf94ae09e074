package storetest

import (
	"context"
	"testing"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/fault"
)

func fenceTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"an older owner commits nothing, not even its effect", fenceOlderOwner[Tx]},
		{"an owner that was overtaken inside its transaction commits nothing", fenceInFlight[Tx]},
		{"the next owner starts where the last commit of the one before ended", fenceHandOver[Tx]},
		{"seq behind what was seen is a store that went back", wentBackSeq[Tx]},
		{"an epoch behind what was seen is a store that went back", wentBackEpoch[Tx]},
		{"a row that is gone is a store that went back", wentBackRow[Tx]},
		{"a row of another history is a store that went back", wentBackOtherHistory[Tx]},
		{"an owner works on after it was refused and acquired anew", fenceRecovers[Tx]},
	}
}

func fenceOlderOwner[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	one, two := w.client(binding()), w.another(binding())
	stale := one.acquire(partition(0), 0)
	one.apply(stale, record(partition(0), 0, "before", "v"))
	current := two.acquire(partition(0), 0)
	one.refused(pawl.ErrFenced, stale, work(one.settle, record(partition(0), 1, "k", "v")))
	d := record(partition(0), 1, "k", "v")
	two.apply(current, d)
	w.wantOutcome(d, pawl.Applied)
	one.refused(pawl.ErrFenced, stale, work(one.settle, record(partition(0), 2, "late", "v")))
	w.consistent()
}

// The new owner acquires while the old one is inside Run. Where both can be open at once, the old one must be fenced;
// where they cannot, the new one must have waited and see its commit.
func fenceInFlight[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	one, two := w.client(binding()), w.another(binding())
	old := one.acquire(partition(0), 0)
	acquired := make(chan *pawl.Ownership, 1)
	start := func() {
		go func() {
			o, err := two.store.Acquire(w.ctx, partition(0), 0)
			if err != nil {
				t.Errorf("acquire: %v", err)
			}
			acquired <- o
		}()
	}
	var next *pawl.Ownership
	overtaken := func(ctx context.Context, s pawl.Session[Tx], d *pawl.Decision) error {
		if err := one.settle(ctx, s, d); err != nil {
			return err
		}
		start()
		if !h.Serial {
			next = <-acquired
		}
		return nil
	}
	err := one.store.Apply(w.ctx, old, work(overtaken, record(partition(0), 0, "k", "v")))
	if h.Serial {
		next = <-acquired
	}
	if next == nil {
		t.FailNow()
	}
	one.checkHandOver(err, old, next, !h.Serial)
	two.apply(next, record(partition(0), 0, "k", "v"))
	w.wantInt(1, `select count(*) from effect`)
	w.consistent()
}

// checkHandOver compares what the old owner was told with what the next owner read.
func (c *client[Tx]) checkHandOver(err error, old, next *pawl.Ownership, fenced bool) {
	c.Helper()
	switch {
	case err == nil && fenced:
		c.Error("apply: committed, want that it was fenced")
	case err == nil && next.Next != old.Next:
		c.Errorf("the old owner committed up to %d, the next one starts at %d", old.Next, next.Next)
	case err != nil && !isFenced(err):
		c.Errorf("apply: got %v, want %v or a commit", err, pawl.ErrFenced)
	case err != nil && (next.Next != 0 || c.int(`select count(*) from effect`) != 0):
		c.Errorf("the old owner was fenced, and the next one starts at %d", next.Next)
	}
}

// Acquire starts when everything is written and nothing committed: it must not read a position that then changes.
func fenceHandOver[Tx any](t *testing.T, h Harness[Tx]) {
	for _, at := range []fault.Point{fault.Begun, fault.Looked, fault.Effected, fault.Claimed, fault.Advanced} {
		t.Run(string(at), func(t *testing.T) {
			w := newWorld(t, h)
			one, two := w.client(binding()), w.another(binding())
			old := one.acquire(partition(0), 0)
			acquired := make(chan *pawl.Ownership, 1)
			ctx := fault.With(w.ctx, func(p fault.Point) error {
				if p != at {
					return nil
				}
				started := make(chan struct{})
				go func() {
					close(started)
					o, err := two.store.Acquire(w.ctx, partition(0), 0)
					if err != nil {
						t.Errorf("acquire: %v", err)
					}
					acquired <- o
				}()
				<-started
				return nil
			})
			err := one.store.Apply(ctx, old, work(one.settle, record(partition(0), 0, "k", "v")))
			next := <-acquired
			if next == nil {
				t.FailNow()
			}
			if next.Next == 0 && err == nil {
				t.Errorf("the old owner committed up to %d, the next one starts at 0", old.Next)
			}
			one.checkHandOver(err, old, next, false)
			two.apply(next, record(partition(0), 0, "k", "v"))
			w.wantInt(1, `select count(*) from effect`)
			w.consistent()
		})
	}
}

func wentBackSeq[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.apply(o, record(partition(0), 0, "a", "v"))
	c.apply(o, record(partition(0), 1, "b", "v"))
	w.exec(`update pawl_progress set seq = seq - 1, next_offset = 1`)
	c.refused(pawl.ErrStoreWentBack, o, work(c.settle, record(partition(0), 2, "c", "v")))
}

func wentBackEpoch[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	w.exec(`update pawl_progress set epoch = epoch - 1`)
	c.refused(pawl.ErrStoreWentBack, o, work(c.settle, record(partition(0), 0, "a", "v")))
}

// A restored database gives out ids and epochs anew: the row that an owner knows may be another's.
func wentBackOtherHistory[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.apply(o, record(partition(0), 0, "a", "v"))
	w.exec(`update pawl_progress set partition = 7, owner = 'of another history', seq = 5`)
	c.refused(pawl.ErrStoreWentBack, o, work(c.settle, record(partition(0), 1, "b", "v")))
	w.wantInt(1, `select next_offset from pawl_progress`)
}

func wentBackRow[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	w.exec(`delete from pawl_progress`)
	c.refused(pawl.ErrStoreWentBack, o, work(c.settle, record(partition(0), 0, "a", "v")))
}

func fenceRecovers[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	one, two := w.client(binding()), w.another(binding())
	stale := one.acquire(partition(0), 0)
	two.acquire(partition(0), 0)
	one.refused(pawl.ErrFenced, stale, work(one.settle, record(partition(0), 0, "k", "v")))
	one.apply(one.acquire(partition(0), 0), record(partition(0), 0, "k", "v"))
	w.consistent()
}
