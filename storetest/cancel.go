package storetest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/pawlhq/pawl"
)

func cancelTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"a context that ends inside Run leaves the store usable", applyCancelled[Tx]},
		{"a context that has ended starts nothing", applyCancelledBefore[Tx]},
	}
}

func applyCancelled[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	cut := func(ctx context.Context, s pawl.Session[Tx], d *pawl.Decision) error {
		if err := c.settle(ctx, s, d); err != nil {
			return err
		}
		cancel()
		return nil
	}
	// Whether it still commits is the store's choice; half of it is not.
	if err := c.store.Apply(ctx, o, work(cut, record(partition(0), 0, "a", "v"))); err == nil {
		w.wantInt(1, `select count(*) from effect`)
	} else if o.Seq != 0 || o.Next != 0 {
		t.Errorf("ownership moved on an error: %+v", o)
	}
	w.consistent()

	ctx, cancel = context.WithCancel(c.ctx)
	defer cancel()
	abort := func(ctx context.Context, s pawl.Session[Tx], d *pawl.Decision) error {
		d.Outcome = pawl.Applied
		cancel()
		if err := c.effect(ctx, s, d); err == nil {
			t.Error("a statement ran under a context that has ended")
		}
		return ctx.Err()
	}
	before := c.state()
	if err := c.store.Apply(ctx, o, work(abort, record(partition(0), 1, "b", "v"))); !errors.Is(err, context.Canceled) {
		t.Errorf("apply: got %v, want that it was cancelled", err)
	}
	if after := c.state(); !slices.Equal(before, after) {
		t.Errorf("a cancelled apply left something:\nbefore %q\nafter  %q", before, after)
	}

	c.apply(o, record(partition(0), 0, "a", "v"), record(partition(0), 1, "b", "v"))
	w.wantInt(2, `select count(*) from effect`)
	w.consistent()
}

func applyCancelledBefore[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	ctx, cancel := context.WithCancel(c.ctx)
	cancel()
	ran := false
	err := c.store.Apply(ctx, o, work(func(context.Context, pawl.Session[Tx], *pawl.Decision) error {
		ran = true
		return nil
	}, record(partition(0), 0, "k", "v")))
	if !errors.Is(err, context.Canceled) || ran {
		t.Errorf("apply: got %v, ran %t; want that it was cancelled before Run", err, ran)
	}
	if c.store.Classify(err) != pawl.Transient {
		t.Errorf("class of %v: %s, want transient", err, c.store.Classify(err))
	}
	c.apply(o, record(partition(0), 0, "k", "v"))
}
