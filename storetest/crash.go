package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/fault"
)

func crashTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"in every window of an apply", crashApply[Tx]},
		{"in every window of an acquire", crashAcquire[Tx]},
		{"between migrations", crashMigrate[Tx]},
	}
}

// crashBatch has one of each: new, copy, conflict, rejected, poison.
func (c *client[Tx]) crashBatch() *pawl.Work[Tx] {
	p := partition(0)
	ds := []*pawl.Decision{
		record(p, 1, "new", "v"), record(p, 2, "old", "v"), record(p, 3, "old", "changed"), record(p, 4, "rejected", "v"),
		undecoded(p, 5, []byte("\xff")), onRoute(1, record(p, 6, "new", "v")),
	}
	return work(func(ctx context.Context, s pawl.Session[Tx], d *pawl.Decision) error {
		if err := fault.Hit(ctx, fault.Handled); err != nil {
			return err
		}
		if d.Identity.Key == "" || d.Identity.Key == "rejected" {
			d.Outcome, d.Cause, d.Reason = pawl.Quarantined, pawl.CausePoison, "bytes"
			return nil
		}
		return c.settle(ctx, s, d)
	}, ds...)
}

// checkCrashBatch checks that the batch took effect once, whole.
func (c *client[Tx]) checkCrashBatch() {
	c.Helper()
	c.wantInt(3, `select count(*) from pawl_decision`)
	c.wantInt(3, `select count(*) from effect`)
	c.wantInt(3, `select count(*) from pawl_quarantine`)
	c.wantInt(4, `select count(*) from pawl_redelivery`)
	c.wantInt(7, `select next_offset from pawl_progress`)
	c.consistent()
}

func crashApply[Tx any](t *testing.T, h Harness[Tx]) {
	seen := map[fault.Point]bool{}
	for n := 1; ; n++ {
		crash := fault.NewCrash(n)
		w := newWorld(t, h)
		one, two := w.client(binding()), w.another(binding())
		o := one.acquire(partition(0), 0)
		one.apply(o, record(partition(0), 0, "old", "v"))
		owned := *o

		err := one.store.Apply(fault.With(w.ctx, crash.Inject), o, one.crashBatch())
		at, fired := crash.Fired()
		if !fired {
			if err != nil {
				t.Fatalf("apply without a crash: %v", err)
			}
			one.checkCrashBatch()
			break
		}
		seen[at] = true
		if !errors.Is(err, fault.ErrCrash) {
			t.Fatalf("crash at %s (%d): apply returned %v", at, n, err)
		}
		if *o != owned {
			t.Errorf("crash at %s (%d): ownership moved to %+v", at, n, *o)
		}
		w.consistent()
		wantNext := int64(1)
		if at == fault.Committed {
			wantNext = 7
		}

		next := two.acquire(partition(0), 0)
		if next.Next != wantNext {
			t.Errorf("crash at %s (%d): the next owner starts at %d, want %d", at, n, next.Next, wantNext)
		}
		if err := two.store.Apply(w.ctx, next, two.crashBatch()); err != nil {
			t.Errorf("crash at %s (%d): the next owner: %v", at, n, err)
		}
		one.checkCrashBatch()
		if t.Failed() {
			t.Fatalf("crash at %s (%d)", at, n)
		}
	}
	for _, p := range []fault.Point{
		fault.Begun, fault.Looked, fault.Handled, fault.Effected, fault.Claimed, fault.Quarantined, fault.Advanced, fault.Committed,
	} {
		if !seen[p] {
			t.Errorf("the window %s was never hit", p)
		}
	}
}

func crashAcquire[Tx any](t *testing.T, h Harness[Tx]) {
	for n := 1; ; n++ {
		crash := fault.NewCrash(n)
		w := newWorld(t, h)
		one, two := w.client(binding()), w.another(binding())
		o, err := one.store.Acquire(fault.With(w.ctx, crash.Inject), partition(0), 5)
		at, fired := crash.Fired()
		if !fired {
			if err != nil || n == 1 {
				t.Fatalf("acquire without a crash: %v, after %d windows", err, n-1)
			}
			break
		}
		if !errors.Is(err, fault.ErrCrash) || o != nil {
			t.Fatalf("crash at %s (%d): acquire returned %+v, %v", at, n, o, err)
		}
		next := two.acquire(partition(0), 5)
		if next.Next != 5 {
			t.Errorf("crash at %s (%d): the next owner starts at %d, want 5", at, n, next.Next)
		}
		two.apply(next, record(partition(0), 5, "k", "v"))
		w.consistent()
	}
}

func crashMigrate[Tx any](t *testing.T, h Harness[Tx]) {
	for n := 1; ; n++ {
		crash := fault.NewCrash(n)
		w := &world[Tx]{TB: t, Fixture: h.Bare(t), h: h, ctx: t.Context()}
		err := w.Migrate(fault.With(w.ctx, crash.Inject))
		at, fired := crash.Fired()
		if fired && !errors.Is(err, fault.ErrCrash) {
			t.Fatalf("crash at %s (%d): migrate returned %v", at, n, err)
		}
		if err := w.Migrate(w.ctx); err != nil {
			t.Fatalf("crash at %s (%d): migrate again: %v", at, n, err)
		}
		w.exec(`create table effect (scope text not null, key text not null)`)
		c := w.client(binding())
		c.apply(c.acquire(partition(0), 0), record(partition(0), 0, fmt.Sprint(n), "v"))
		if !fired {
			break
		}
	}
}
