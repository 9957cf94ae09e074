package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/pawlhq/pawl"
)

func applyTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"a key takes effect once, wherever it comes from again", applyOnce[Tx]},
		{"the same position again is told apart and writes nothing", applySamePosition[Tx]},
		{"a copy from another position is written down once", applyCopyOnce[Tx]},
		{"other content under a decided key is told by its fingerprint", applyOtherContent[Tx]},
		{"stale and ignored decide their key", applyClaims[Tx]},
		{"the evidence says what was decided", applyEvidence[Tx]},
		{"one record on two routes is decided twice", applyTwoRoutes[Tx]},
		{"two consumers never meet", applyTwoConsumers[Tx]},
		{"an error from Run is returned as it is and leaves nothing", applyRunError[Tx]},
		{"a decision without an outcome is refused", applyNoOutcome[Tx]},
		{"two claims on one key in a batch are refused", applyTwiceInBatch[Tx]},
		{"a batch without decisions moves the position", applyEmpty[Tx]},
		{"the position never goes back", applyPositionMonotone[Tx]},
		{"a batch of any size is one transaction", applyLarge[Tx]},
		{"a constraint that breaks at commit undoes everything", applyDeferredConstraint[Tx]},
	}
}

func applyOnce[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	first := record(partition(0), 0, "k", "v")
	c.apply(c.acquire(partition(0), 0), first)
	w.wantOutcome(first, pawl.Applied)

	copied := record(partition(1), 40, "k", "v")
	c.apply(c.acquire(partition(1), 40), copied)
	w.wantOutcome(copied, pawl.Duplicate)
	if p := copied.Prior; p == nil || p.Outcome != pawl.Applied || p.SamePosition {
		t.Errorf("prior of the copy: %+v, want applied, from another position", p)
	}
	w.wantInt(1, `select count(*) from effect`)
	w.wantInt(1, `select count(*) from pawl_redelivery where position_offset = 40 and outcome = ?`, int(pawl.Duplicate))
	w.consistent()
}

func applySamePosition[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.apply(o, record(partition(0), 0, "a", "v"), record(partition(0), 1, "b", "v"))
	before := slices.DeleteFunc(c.state(), func(l string) bool { return slices.Contains(c.positions(), l) })

	again := record(partition(0), 1, "b", "v")
	c.apply(o, again)
	if again.Prior == nil || !again.Prior.SamePosition {
		t.Errorf("prior: %+v, want the same position", again.Prior)
	}
	after := slices.DeleteFunc(c.state(), func(l string) bool { return slices.Contains(c.positions(), l) })
	if !slices.Equal(before, after) {
		t.Errorf("a redelivery wrote something:\nbefore %q\nafter  %q", before, after)
	}

	// The same offset of another partition is another position.
	other := record(partition(1), 1, "b", "v")
	c.apply(c.acquire(partition(1), 0), other)
	if other.Prior == nil || other.Prior.SamePosition {
		t.Errorf("prior: %+v, want another position", other.Prior)
	}
}

func applyCopyOnce[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.apply(o, record(partition(0), 0, "k", "v"), record(partition(0), 1, "other", "v"))
	for range 2 { // the copy itself is redelivered
		c.apply(o, record(partition(0), 2, "k", "v"))
	}
	w.wantInt(1, `select count(*) from pawl_redelivery`)
	w.wantInt(2, `select count(*) from effect`)
}

func applyOtherContent[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.apply(o, record(partition(0), 0, "k", "v"))
	conflict := record(partition(0), 1, "k", "changed")
	c.apply(o, conflict)
	if conflict.Prior == nil || conflict.Prior.Fingerprint != fingerprint("v") {
		t.Errorf("prior: %+v, want the first fingerprint", conflict.Prior)
	}
	w.wantOutcome(conflict, pawl.Quarantined)
	w.wantInt(1, `select count(*) from pawl_quarantine where cause = ?`, pawl.CauseConflict)
	w.wantInt(1, `select count(*) from effect`)
	w.consistent()
}

func applyClaims[Tx any](t *testing.T, h Harness[Tx]) {
	for _, outcome := range []pawl.Outcome{pawl.Applied, pawl.WasStale, pawl.Ignored} {
		t.Run(outcome.String(), func(t *testing.T) {
			w := newWorld(t, h)
			c := w.client(binding())
			decide := func(_ context.Context, _ pawl.Session[Tx], d *pawl.Decision) error {
				d.Outcome, d.Reason = outcome, "because"
				return nil
			}
			if err := c.store.Apply(c.ctx, c.acquire(partition(0), 0), work(decide, record(partition(0), 0, "k", "v"))); err != nil {
				t.Fatalf("apply: %v", err)
			}
			copied := record(partition(1), 0, "k", "v")
			c.apply(c.acquire(partition(1), 0), copied)
			if copied.Prior == nil || copied.Prior.Outcome != outcome {
				t.Errorf("prior: %+v, want %s", copied.Prior, outcome)
			}
			w.wantInt(0, `select count(*) from effect`)
		})
	}
}

func applyEvidence[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	full := record(partition(0), 4, "full", "v")
	full.Identity = pawl.Identity{
		Key: "full", EventID: "event", MessageID: "message", StreamType: "account", Stream: "a-1", Version: 12,
		Type: "PAID", SchemaVersion: 3, OccurredAt: now, CorrelationID: "correlation", CausationID: "causation",
	}
	sparse := record(partition(0), 5, "sparse", "v")
	sparse.Identity = pawl.Identity{Key: "sparse"}
	c.apply(c.acquire(partition(0), 4), full, sparse)

	w.wantInt(1, `
		select count(*)
		from pawl_decision d
		join pawl_name type on type.id = d.type_id
		join pawl_name stream_type on stream_type.id = d.stream_type_id
		join pawl_name code on code.id = d.code_id
		where d.position_offset = 4 and d.outcome = 1 and d.mode = 1 and type.name = 'PAID'
		  and stream_type.name = 'account' and code.name = 'v1' and d.stream = 'a-1' and d.version = 12
		  and d.schema_version = 3 and d.event_id = 'event' and d.message_id = 'message'
		  and d.correlation_id = 'correlation' and d.causation_id = 'causation' and d.key_form = 0 and d.key is not null
		  and d.occurred_at is not null and d.ingested_at < d.processed_at and d.occurred_at = d.processed_at`)
	w.wantInt(1, `
		select count(*)
		from pawl_decision
		where position_offset = 5 and type_id is null and stream_type_id is null and stream is null and version is null
		  and schema_version is null and event_id is null and message_id is null and correlation_id is null
		  and causation_id is null and occurred_at is null and reason is null`)
}

func applyTwoRoutes[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	ds := []*pawl.Decision{
		onRoute(0, record(partition(0), 0, "k", "v")),
		onRoute(1, record(partition(0), 0, "k", "v")),
	}
	c.apply(o, ds...)
	w.wantOutcome(ds[0], pawl.Applied)
	w.wantOutcome(ds[1], pawl.Applied)
	w.wantInt(2, `select count(*) from effect`)

	only := onRoute(1, record(partition(0), 1, "second", "v"))
	c.apply(o, only)
	other := onRoute(0, record(partition(0), 2, "second", "v"))
	c.apply(o, other)
	w.wantOutcome(other, pawl.Applied)
	w.consistent()
}

func applyTwoConsumers[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	billing := w.client(binding())
	b := binding()
	b.Consumer, b.Group = "shipping", "shipping-group"
	shipping := w.another(b)

	one := billing.acquire(partition(0), 0)
	two := shipping.acquire(partition(0), 5)
	if two.Next != 5 || two.Row == one.Row {
		t.Errorf("the second consumer's position: %+v, want its own at 5; the first has %+v", two, one)
	}
	first, second := record(partition(0), 0, "k", "v"), record(partition(0), 5, "k", "changed")
	billing.apply(one, first)
	shipping.apply(two, second)
	w.wantOutcome(first, pawl.Applied)
	w.wantOutcome(second, pawl.Applied)
	w.wantInt(2, `select count(*) from effect`)
	billing.apply(one, record(partition(0), 1, "more", "v")) // not fenced by the other's acquire
	w.consistent()
}

func applyRunError[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.apply(o, record(partition(0), 0, "before", "v"))

	boom := errors.New("boom")
	batch := work(c.settle, record(partition(0), 1, "a", "v"), record(partition(0), 2, "b", "v"))
	run := batch.Run
	batch.Run = func(ctx context.Context, s pawl.Session[Tx]) error {
		if err := run(ctx, s); err != nil {
			return err
		}
		return boom
	}
	c.refused(boom, o, batch)
	if err := c.store.Apply(c.ctx, o, batch); err != boom { //nolint:errorlint // as it is
		t.Errorf("apply: got %#v, want the very error of Run", err)
	}

	again := []*pawl.Decision{record(partition(0), 1, "a", "v"), record(partition(0), 2, "b", "v")}
	c.apply(o, again...)
	w.wantOutcome(again[0], pawl.Applied)
	w.wantOutcome(again[1], pawl.Applied)
	w.consistent()
}

func applyNoOutcome[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	undecided := func(ctx context.Context, s pawl.Session[Tx], d *pawl.Decision) error {
		if d.Identity.Key == "forgotten" {
			return c.effect(ctx, s, d)
		}
		return c.settle(ctx, s, d)
	}
	c.refused(nil, c.acquire(partition(0), 0),
		work(undecided, record(partition(0), 0, "decided", "v"), record(partition(0), 1, "forgotten", "v")))
}

// The engine decides copies within a batch; a batch that claims a key twice is its mistake, and must not commit.
func applyTwiceInBatch[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	c.refused(nil, c.acquire(partition(0), 0),
		work(c.settle, record(partition(0), 0, "k", "v"), record(partition(0), 1, "k", "v")))
}

func applyEmpty[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	batch := work[Tx](c.settle)
	batch.Next = 17 // control records alone
	if err := c.store.Apply(c.ctx, o, batch); err != nil {
		t.Fatalf("apply: %v", err)
	}
	if o.Next != 17 {
		t.Errorf("position of the owner: %d, want 17", o.Next)
	}
	w.wantInt(17, `select next_offset from pawl_progress`)
}

func applyPositionMonotone[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.apply(o, record(partition(0), 9, "a", "v"))
	seq := o.Seq
	c.apply(o, record(partition(0), 4, "b", "v"))
	if o.Next != 10 || o.Seq <= seq {
		t.Errorf("owner: %+v, want position 10 and a seq past %d", o, seq)
	}
	w.wantInt(10, `select next_offset from pawl_progress`)
	if got := c.acquire(partition(0), 0); got.Next != 10 || got.Seq != o.Seq {
		t.Errorf("next owner: %+v, want position 10 and seq %d", got, o.Seq)
	}
}

func applyLarge[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	const n = 3000
	batch := func(p pawl.Partition) []*pawl.Decision {
		ds := make([]*pawl.Decision, n)
		for i := range ds {
			ds[i] = record(p, int64(i), fmt.Sprintf("key %d", i), "v")
			ds[i].Identity.Type = fmt.Sprintf("TYPE_%d", i%7)
		}
		return ds
	}
	decide := func(_ context.Context, _ pawl.Session[Tx], d *pawl.Decision) error {
		d.Outcome = pawl.Ignored
		if d.Prior != nil {
			d.Outcome = pawl.Duplicate
		}
		if d.Record.Offset%3 == 0 && d.Prior == nil {
			d.Outcome, d.Cause, d.Reason = pawl.Quarantined, pawl.CauseValidation, "a third"
		}
		return nil
	}
	if err := c.store.Apply(c.ctx, c.acquire(partition(0), 0), work(decide, batch(partition(0))...)); err != nil {
		t.Fatalf("apply: %v", err)
	}
	w.wantInt(n/3, `select count(*) from pawl_quarantine`)
	w.wantInt(n/3, `select count(*) from pawl_redelivery`)
	w.wantInt(n-n/3, `select count(*) from pawl_decision`)

	again := batch(partition(1))
	if err := c.store.Apply(c.ctx, c.acquire(partition(1), 0), work(decide, again...)); err != nil {
		t.Fatalf("apply: %v", err)
	}
	for _, d := range again {
		if (d.Prior != nil) != (d.Record.Offset%3 != 0) {
			t.Fatalf("record %d: prior %+v", d.Record.Offset, d.Prior)
		}
	}
	w.wantInt(2*n/3, `select count(*) from pawl_quarantine`)
	w.wantInt(n-n/3, `select count(*) from pawl_decision`)
}

// COMMIT itself fails here: the answer must be "nothing", and the next transaction must work.
func applyDeferredConstraint[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	w.exec(`create table parent (id integer primary key)`)
	w.exec(`create table child (id integer references parent (id) deferrable initially deferred)`)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	orphan := func(ctx context.Context, s pawl.Session[Tx], d *pawl.Decision) error {
		if err := c.h.Exec(ctx, s.Tx(), `insert into child (id) values (1)`); err != nil {
			return err
		}
		return c.settle(ctx, s, d)
	}
	c.refused(nil, o, work(orphan, record(partition(0), 0, "k", "v")))
	w.wantInt(0, `select count(*) from child`)
	if err := c.store.Apply(c.ctx, o, work(orphan, record(partition(0), 0, "k", "v"))); c.store.Classify(err) != pawl.Validation {
		t.Errorf("class of %v: %s, want validation", err, c.store.Classify(err))
	}
	d := record(partition(0), 0, "k", "v")
	c.apply(o, d)
	w.wantOutcome(d, pawl.Applied)
	w.consistent()
}
