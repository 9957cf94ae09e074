package storetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/fault"
)

func keptTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"what is decided leaves quarantine", keptDecided[Tx]},
		{"what is set aside again stays, and its stream stays blocked", keptAgain[Tx]},
		{"the content before an edit counts as the same from then on", keptEdited[Tx]},
		{"a skip of what has no key, or a key that is decided, claims nothing", keptSkipped[Tx]},
		{"a stream passes to the next record that blocks it", keptNextBlocker[Tx]},
		{"an archived record that is read again is seen again", keptArchivedAgain[Tx]},
		{"two that settle one record: one does", keptRace[Tx]},
		{"a crash in every window loses and doubles nothing", keptCrash[Tx]},
	}
}

func keptDecided[Tx any](t *testing.T, h Harness[Tx]) {
	for outcome, status := range map[pawl.Outcome]int{
		pawl.Applied: 2, pawl.WasStale: 2, pawl.Ignored: 2, pawl.Superseded: 2, pawl.Duplicate: 2, pawl.Skipped: 3,
	} {
		t.Run(outcome.String(), func(t *testing.T) {
			w := newWorld(t, h)
			c := w.client(binding())
			o := c.acquire(partition(0), 0)
			c.must(o, blocking, ordered(partition(0), 0, "s", "a"))
			again := c.aside(o, 0)
			switch outcome {
			case pawl.Applied:
				c.must(o, c.settle, again)
			case pawl.Duplicate:
				c.must(c.acquire(partition(1), 0), c.settle, ordered(partition(1), 0, "", "a"))
				again.Fingerprint = fingerprint("/a")
				c.must(o, c.settle, again)
			default:
				c.must(o, decide[Tx](outcome), again)
			}
			w.wantOutcome(again, outcome)
			w.wantInt(1, `select count(*) from pawl_quarantine where status = ? and settled_at is not null`, status)
			w.wantInt(0, `select count(*) from pawl_stream`)
			if outcome == pawl.Duplicate {
				w.wantInt(1, `select count(*) from pawl_redelivery where position_offset = 0 and outcome = 2`)
			} else {
				w.wantInt(1, `select count(*) from pawl_decision where position_offset = 0 and outcome = ?`, int(outcome))
			}
			twice := decoded(again.Record)
			twice.Kept = again.Kept
			c.refused(pawl.ErrNotKept, o, kept(o, decide[Tx](pawl.Duplicate), twice))
			w.consistent()
		})
	}
}

func keptAgain[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.must(o, blocking, ordered(partition(0), 0, "s", "a"))
	c.must(o, c.inOrder, ordered(partition(0), 1, "s", "b"))
	for range 2 {
		c.unblock(o, 0, setAside[Tx](pawl.CauseFailure, "still not", 3))
	}
	w.wantInt(1, `
		select count(*)
		from pawl_quarantine
		where status = 1 and cause = 'failure' and reason = 'still not' and tries = 3 and replays = 2 and blocks
		  and tried_at is not null and settled_at is null`)
	w.wantInt(1, `select count(*) from pawl_stream where blocked_by is not null`)
	w.wantInt(1, `select count(*) from pawl_redelivery where position_offset = 0 and outcome = 7 and reason = 'still not'`)
	if got := places(c.tasks(o)); got != "" {
		t.Errorf("released %s", got)
	}
	c.unblock(o, 0, c.settle)
	w.wantInt(1, `select count(*) from pawl_quarantine where status = 2 and replays = 3`)
	w.consistent()
}

func keptEdited[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	original := ordered(partition(0), 0, "s", "a wrong")
	c.must(o, blocking, original)
	edited := c.aside(o, 0)
	edited.Fingerprint, edited.Kept.Original = fingerprint("s/a right"), original.Fingerprint
	c.must(o, c.settle, edited)
	w.wantOutcome(edited, pawl.Applied)

	again, copied := ordered(partition(0), 0, "s", "a wrong"), ordered(partition(1), 0, "s", "a wrong")
	right, other := ordered(partition(1), 1, "s", "a right"), ordered(partition(1), 2, "s", "a third")
	c.must(o, c.settle, again)
	c.must(c.acquire(partition(1), 0), c.settle, copied, right, other)
	if p := again.Prior; p == nil || !p.SamePosition || !slices.Equal(p.Accepted, []pawl.Fingerprint{original.Fingerprint}) ||
		p.Fingerprint != fingerprint("s/a right") {
		t.Errorf("prior: %+v", p)
	}
	for _, d := range []*pawl.Decision{again, copied, right} {
		w.wantOutcome(d, pawl.Duplicate)
	}
	w.wantOutcome(other, pawl.Quarantined)
	if right.Prior == nil || !right.Prior.Accepts(original.Fingerprint) || right.Prior.Accepts(other.Fingerprint) {
		t.Errorf("prior: %+v", right.Prior)
	}
	w.consistent()
}

func keptSkipped[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.must(o, c.settle, ordered(partition(0), 0, "s", "a"))
	conflict, poison := ordered(partition(0), 1, "s", "a other"), undecoded(partition(0), 2, []byte("\xff"))
	c.must(o, setAside[Tx](pawl.CausePoison, "no", 1), conflict, poison)
	skip := decide[Tx](pawl.Skipped)
	c.unblock(o, 1, skip)
	nothing := undecoded(partition(0), 2, []byte("\xff"))
	nothing.Kept = &pawl.Kept{Quarantine: w.quarantined(2)}
	c.must(o, skip, nothing)
	w.wantInt(2, `select count(*) from pawl_quarantine where status = 3`)
	w.wantInt(2, `select count(*) from pawl_redelivery where outcome = 8`)
	w.wantInt(1, `select count(*) from pawl_decision`)
	w.consistent()
}

// Records of one stream are set aside in two partitions: both must be settled before what is behind them goes on.
func keptNextBlocker[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o, other := c.acquire(partition(0), 0), c.acquire(partition(1), 0)
	c.must(o, blocking, ordered(partition(0), 0, "s", "a"), ordered(partition(0), 1, "s", "a2"))
	c.must(other, blocking, ordered(partition(1), 7, "s", "b"))
	c.must(o, c.inOrder, ordered(partition(0), 2, "s", "c"))
	for _, step := range []struct {
		o      *pawl.Ownership
		offset int64
	}{{o, 0}, {other, 7}, {o, 1}} {
		if got := places(c.tasks(o)); got != "" {
			t.Errorf("before %d is settled: released %s", step.offset, got)
		}
		w.wantInt(1, `select count(*) from pawl_stream s join pawl_quarantine q on q.id = s.blocked_by and q.status = 1`)
		c.unblock(step.o, step.offset, c.settle)
	}
	if got := places(c.tasks(o)); got != "0@2" {
		t.Errorf("released %s", got)
	}
}

func keptArchivedAgain[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.must(o, setAside[Tx](pawl.CausePoison, "no", 1), ordered(partition(0), 0, "s", "a"))
	w.exec(`update pawl_quarantine set status = 4`)
	c.must(o, blocking, ordered(partition(0), 0, "s", "a"))
	w.wantInt(1, `select count(*) from pawl_quarantine where status = 1 and blocks and cause = 'validation'`)
	w.wantInt(1, `select count(*) from pawl_stream where blocked_by is not null`)
}

// Two transactions settle one quarantined record, as an operator's archive and a replay might.
func keptRace[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	one, two := w.client(binding()), w.another(binding())
	o, other := one.acquire(partition(0), 0), two.acquire(partition(1), 0)
	one.must(o, blocking, ordered(partition(0), 0, "s", "a"))
	first := one.aside(o, 0)
	meet := barrier(2)
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for i, c := range []*client[Tx]{one, two} {
		owned := []*pawl.Ownership{o, other}[i]
		wg.Go(func() {
			d := *first
			d.Identity.Key = owned.Partition.String() // two keys: only the quarantine is shared
			d.KeyID = pawl.NewKeyID(d.Identity.Key)
			if h.Serial {
				meet()
			}
			errs[i] = c.store.Apply(c.ctx, owned, kept(owned, func(ctx context.Context, s pawl.Session[Tx], d *pawl.Decision) error {
				if !h.Serial {
					meet()
				}
				return c.settle(ctx, s, d)
			}, &d))
		})
	}
	wg.Wait()
	if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs...), pawl.ErrNotKept) {
		t.Errorf("got %v and %v, want that one does it and the other is refused", errs[0], errs[1])
	}
	w.wantInt(1, `select count(*) from effect`)
}

func keptCrash[Tx any](t *testing.T, h Harness[Tx]) {
	for n := 1; ; n++ {
		crash := fault.NewCrash(n)
		w := newWorld(t, h)
		one, two := w.client(binding()), w.another(binding())
		p := partition(0)
		o := one.acquire(p, 0)
		held := one.heldBehind(o, 3)
		one.must(o, blocking, ordered(p, 10, "t", "t0"))
		// The first is released, the second set aside again and blocks, the third stays; the quarantined one of another stream is
		// settled; a new record of each stream is held or applied.
		batch := func(c *client[Tx], o *pawl.Ownership) *pawl.Work[Tx] {
			replay := decoded(&pawl.Record{Partition: p, Offset: 10, Timestamp: now, Value: []byte("t/t0")})
			replay.Kept = &pawl.Kept{Quarantine: w.int(`select id from pawl_quarantine where position_offset = 10`)}
			return work(func(ctx context.Context, s pawl.Session[Tx], d *pawl.Decision) error {
				if d.Record.Offset == 2 {
					return blocking[Tx](ctx, s, d)
				}
				return c.inOrder(ctx, s, d)
			}, task(held[0]), task(held[1]), replay, ordered(p, 11, "s", "s9"), ordered(p, 12, "u", "u0"))
		}
		err := one.store.Apply(fault.With(w.ctx, crash.Inject), o, batch(one, o))
		at, fired := crash.Fired()
		if fired && !errors.Is(err, fault.ErrCrash) || !fired && err != nil {
			t.Fatalf("crash at %s (%d): %v", at, n, err)
		}
		w.consistent()
		next := two.acquire(p, 0)
		if done := next.Next == 13; done != (at == fault.Committed || !fired) {
			t.Errorf("crash at %s (%d): the next owner starts at %d", at, n, next.Next)
		} else if done {
			if err := two.store.Apply(w.ctx, next, batch(two, next)); !errors.Is(err, pawl.ErrNotKept) {
				t.Errorf("crash at %s (%d): tasks that are done: %v, want that they are refused", at, n, err)
			}
		} else if err := two.store.Apply(w.ctx, next, batch(two, next)); err != nil {
			t.Errorf("crash at %s (%d): the next owner: %v", at, n, err)
		}
		w.wantInt(4, `select count(*) from effect`) // blocker, k0, t0, u0
		w.wantInt(2, `select count(*) from pawl_hold`)
		w.wantInt(1, `select count(*) from pawl_stream s join pawl_quarantine q on q.id = s.blocked_by where s.stream = 's' and q.position_offset = 2`)
		w.wantInt(1, `select count(*) from pawl_stream`)
		w.wantInt(1, `select count(*) from pawl_quarantine where status = 1`)
		w.consistent()
		if t.Failed() {
			t.Fatalf("crash at %s (%d)", at, n)
		}
		if !fired {
			break
		}
	}
}
