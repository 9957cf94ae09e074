package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/pawlhq/pawl"
)

func acquireTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"a partition without a position gets the start, durably", acquireStart[Tx]},
		{"without a start, a partition without a position is left alone", acquireNoStart[Tx]},
		{"the owner moves the position, forward and back, and nobody else", moveByOwner[Tx]},
		{"each acquire raises the epoch and reads the position", acquireRaises[Tx]},
		{"partitions and topics made anew have positions of their own", acquireApart[Tx]},
		{"owners that do not give back are counted until one advances", acquireCountsCrashes[Tx]},
		{"releasing is for the current owner only", releaseByStaleOwner[Tx]},
		{"releasing twice is not an error", releaseTwice[Tx]},
		{"how far was received is kept with the position, and lost with its owner", receivedIsKept[Tx]},
		{"what was settled ahead of the position stands when it is read again, unless the position was moved", aheadStands[Tx]},
	}
}

func acquireStart[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	if o := c.acquire(partition(0), 42); o.Next != 42 || o.Seq != 0 || o.Partition != partition(0) {
		t.Errorf("ownership: %+v, want the start 42 and nothing seen", o)
	}
	w.wantInt(42, `select next_offset from pawl_progress`)
	if o := w.another(binding()).acquire(partition(0), 7); o.Next != 42 {
		t.Errorf("next owner: %+v, want the position 42, not its own start", o)
	}
}

func acquireRaises[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	one, two := w.client(binding()), w.another(binding())
	first := one.acquire(partition(0), 0)
	one.apply(first, record(partition(0), 0, "k", "v"))
	second := two.acquire(partition(0), 0)
	if second.Epoch <= first.Epoch || second.Next != 1 || second.Seq != first.Seq || second.Row != first.Row {
		t.Errorf("second owner %+v, after %+v", second, first)
	}
	if third := one.acquire(partition(0), 0); third.Epoch <= second.Epoch {
		t.Errorf("third owner %+v, after %+v", third, second)
	}
}

func acquireApart[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	one := c.acquire(partition(0), 0)
	c.apply(one, record(partition(0), 9, "k", "v"))
	anew := partition(0)
	anew.TopicID[0]++
	for _, p := range []pawl.Partition{partition(1), anew} {
		o := c.acquire(p, 3)
		if o.Next != 3 || o.Row == one.Row {
			t.Errorf("%+v: %+v, want a position of its own", p, o)
		}
	}
	c.apply(one, record(partition(0), 10, "more", "v"))
	w.wantInt(3, `select count(*) from pawl_progress`)
}

func acquireCountsCrashes[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	one, two := w.client(binding()), w.another(binding())
	crashes := func(want int64, when string) {
		t.Helper()
		if got := w.int(`select crashes from pawl_progress`); got != want {
			t.Errorf("%s: %d crashes, want %d", when, got, want)
		}
	}
	one.acquire(partition(0), 0)
	crashes(0, "first owner")
	two.acquire(partition(0), 0)
	crashes(1, "taken from an owner that did not give back")
	o := one.acquire(partition(0), 0)
	crashes(2, "and again")
	if err := one.store.Release(w.ctx, o); err != nil {
		t.Fatalf("release: %v", err)
	}
	o = two.acquire(partition(0), 0)
	crashes(2, "after a release without an advance")
	ahead := work(two.settle, record(partition(0), 1, "later", "v"))
	ahead.Next = 0
	if err := two.store.Apply(w.ctx, o, ahead); err != nil {
		t.Fatal(err)
	}
	crashes(2, "after something was settled ahead of the position")
	two.apply(o, record(partition(0), 0, "k", "v"))
	crashes(0, "after an advance")
	if err := two.store.Release(w.ctx, o); err != nil {
		t.Fatalf("release: %v", err)
	}
	one.acquire(partition(0), 0)
	crashes(0, "after a release")
}

func releaseByStaleOwner[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	one, two := w.client(binding()), w.another(binding())
	stale := one.acquire(partition(0), 0)
	current := two.acquire(partition(0), 0)
	if err := one.store.Release(w.ctx, stale); err != nil {
		t.Errorf("release of what another has taken: %v", err)
	}
	w.wantInt(1, `select count(*) from pawl_progress where owner is not null`)
	two.apply(current, record(partition(0), 0, "k", "v"))
	if err := two.store.Release(w.ctx, current); err != nil {
		t.Errorf("release: %v", err)
	}
	w.wantInt(1, `select count(*) from pawl_progress where owner is null`)
}

func releaseTwice[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	for range 2 {
		if err := c.store.Release(w.ctx, o); err != nil {
			t.Errorf("release: %v", err)
		}
	}
}

func acquireNoStart[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	if o, err := c.store.Acquire(w.ctx, partition(0), pawl.NoStart); !errors.Is(err, pawl.ErrNoPosition) {
		t.Fatalf("acquire: got %v, %v, want %v", o, err, pawl.ErrNoPosition)
	}
	w.wantInt(0, `select count(*) from pawl_progress`)
	c.acquire(partition(0), 42)
	if o := c.acquire(partition(0), pawl.NoStart); o.Next != 42 {
		t.Errorf("ownership: %+v, want the position 42", o)
	}
}

func moveByOwner[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	one, two := w.client(binding()), w.another(binding())
	two.acquire(partition(0), 5) // and dies
	o := one.acquire(partition(0), 5)
	one.apply(o, record(partition(0), 5, "a", "v"))
	for _, next := range []int64{100, 3} {
		if err := one.store.Move(w.ctx, o, next); err != nil || o.Next != next || o.Crashes != 0 {
			t.Fatalf("move to %d: %v, and the owner is %+v", next, err, o)
		}
		w.wantInt(next, `select next_offset from pawl_progress`)
	}
	one.apply(o, record(partition(0), 3, "b", "v")) // seq moved along
	w.wantInt(4, `select next_offset from pawl_progress`)

	two.acquire(partition(0), 0)
	if err := one.store.Move(w.ctx, o, 50); !errors.Is(err, pawl.ErrFenced) {
		t.Errorf("move by an earlier owner: got %v, want %v", err, pawl.ErrFenced)
	}
	w.wantInt(4, `select next_offset from pawl_progress`)
}

func receivedIsKept[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	received := func(want int64, when string) {
		t.Helper()
		all, err := w.Store.Admin().Progress(w.ctx, "billing")
		if err != nil || len(all) != 1 || all[0].Received != want {
			t.Errorf("%s: %+v, %v, want %d received", when, all, err, want)
		}
	}
	o := c.acquire(partition(0), 5)
	received(5, "at the start")
	batch := work(c.settle, record(partition(0), 5, "a", "v"))
	batch.Received = 40
	if err := c.store.Apply(w.ctx, o, batch); err != nil {
		t.Fatal(err)
	}
	received(40, "with more in hand than was settled")
	batch = work(c.settle, record(partition(0), 6, "b", "v"))
	batch.Frontier = func() (next, received int64) { return 7, 50 }
	if err := c.store.Apply(w.ctx, o, batch); err != nil {
		t.Fatal(err)
	}
	received(50, "as of the turn to commit")
	c.refused(nil, o, work(func(context.Context, pawl.Session[Tx], *pawl.Decision) error { return errors.New("no") }, record(partition(0), 7, "c", "v")))
	received(50, "after a batch that failed")
	if err := c.store.Release(w.ctx, o); err != nil {
		t.Fatal(err)
	}
	o = c.acquire(partition(0), 0)
	received(7, "by the next owner: it has to read again what was in hand")
	c.apply(o, record(partition(0), 7, "c", "v"))
	received(8, "where a store is not told")
	if err := c.store.Move(w.ctx, o, 3); err != nil {
		t.Fatal(err)
	}
	received(3, "after a move back")
	w.exec(`update pawl_progress set next_offset = 9`)
	received(9, "where a member of an earlier version, which knows nothing of it, has moved on")
}

func aheadStands[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	batch := func(h handler[Tx]) *pawl.Work[Tx] {
		b := work(h, ordered(partition(0), 3, "s", "a"), ordered(partition(0), 4, "u", "b"), undecoded(partition(0), 5, []byte("x")))
		b.Beside, b.Frontier = true, func() (next, received int64) { return 0, 6 }
		return b
	}
	if err := c.store.Apply(w.ctx, o, batch(func(ctx context.Context, s pawl.Session[Tx], d *pawl.Decision) error {
		if d.Identity.Key == "b" {
			return c.settle(ctx, s, d)
		}
		return blocking(ctx, s, d)
	})); err != nil {
		t.Fatal(err)
	}
	stands := func(o *pawl.Ownership, b *pawl.Work[Tx], want int) {
		t.Helper()
		found := 0
		c.refused(nil, o, &pawl.Work[Tx]{Decisions: b.Decisions, Next: b.Next, Now: b.Now, Beside: b.Beside, Frontier: b.Frontier, Run: func(context.Context, pawl.Session[Tx]) error {
			for _, d := range b.Decisions {
				if d.Prior != nil && d.Prior.SamePosition && d.Prior.Accepts(d.Fingerprint) {
					found++
				}
			}
			return errors.New("seen enough")
		}})
		if found != want {
			t.Errorf("%d of what was settled ahead stand, want %d", found, want)
		}
	}
	for range 2 { // also where an owner between has settled nothing
		o = c.acquire(partition(0), 0)
		if o.Next != 0 || o.Ahead != 6 {
			t.Errorf("%+v, want position 0, and up to 6 ahead of it", o)
		}
		stands(o, batch(nil), 3)
	}
	other := batch(nil) // the log was cut off, and has others there
	other.Decisions[0], other.Decisions[2] = ordered(partition(0), 3, "s", "a other"), ordered(partition(0), 5, "s", "c")
	stands(o, other, 1)
	alone := batch(nil) // who settles in order has settled nothing ahead: it is read again because someone wants it to be
	alone.Beside = false
	stands(o, alone, 1)
	if err := c.store.Move(w.ctx, o, 2); err != nil { // forward: nothing is read again that would not be
		t.Fatal(err)
	}
	stands(o, batch(nil), 3)
	o = c.acquire(partition(0), 0)
	stands(o, batch(nil), 3)
	if err := c.store.Move(w.ctx, o, 0); err != nil {
		t.Fatal(err)
	}
	stands(o, batch(nil), 1) // what has a claim
	stands(c.acquire(partition(0), 0), batch(nil), 1)
	// Who was about to try them again had them in hand, and died: what they came to before the move stands no more than before.
	o = c.acquire(partition(0), 0)
	ahead := work(c.settle, ordered(partition(0), 2, "v", "d"))
	ahead.Beside, ahead.Frontier = true, func() (next, received int64) { return 0, 6 }
	if err := c.store.Apply(w.ctx, o, ahead); err != nil {
		t.Fatal(err)
	}
	o = c.acquire(partition(0), 0)
	stands(o, batch(nil), 1)
	beyond := work[Tx](blocking[Tx], ordered(partition(0), 7, "s", "e")) // was never settled before the move
	beyond.Beside, beyond.Frontier = true, func() (next, received int64) { return 0, 8 }
	if err := c.store.Apply(w.ctx, o, beyond); err != nil {
		t.Fatal(err)
	}
	again := work[Tx](nil, ordered(partition(0), 7, "s", "e"))
	again.Beside, again.Frontier = true, beyond.Frontier
	stands(c.acquire(partition(0), 0), again, 1)
}
