package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pawlhq/pawl"
)

func sessionTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"undo takes back exactly what was written since the mark", undoOne[Tx]},
		{"undo recovers from a statement that failed", undoAfterFailure[Tx]},
		{"statements count what ran through the transaction", statementsCount[Tx]},
		{"a handler sees its own writes", handlerSeesWrites[Tx]},
		{"a handler cannot end the transaction by a method", endByMethod[Tx]},
		{"a handler that ends the transaction by text is found out", endByText[Tx]},
		{"a handler that begins another transaction is found out", endAndBegin[Tx]},
		{"a transaction that leaked is refused", leakedTx[Tx]},
	}
}

func (c *client[Tx]) write(ctx context.Context, s pawl.Session[Tx], key string) error {
	return c.h.Exec(ctx, s.Tx(), `insert into effect (scope, key) values (?, ?)`, "test", key)
}

func undoOne[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	batch := work[Tx](nil)
	batch.Next = 1
	batch.Run = func(ctx context.Context, s pawl.Session[Tx]) error {
		return errors.Join(
			c.write(ctx, s, "before any mark"),
			s.Mark(ctx), c.write(ctx, s, "kept"),
			s.Mark(ctx), c.write(ctx, s, "undone"), c.write(ctx, s, "undone"), s.Undo(ctx),
			c.write(ctx, s, "undone"), s.Undo(ctx), // the mark stays where it was
			c.write(ctx, s, "last"),
			s.Mark(ctx), s.Undo(ctx),
		)
	}
	if err := c.store.Apply(c.ctx, c.acquire(partition(0), 0), batch); err != nil {
		t.Fatalf("apply: %v", err)
	}
	if got, want := fmt.Sprint(w.lines(`select key from effect`)), "[before any mark kept last]"; got != want {
		t.Errorf("effects: got %s, want %s", got, want)
	}
}

func undoAfterFailure[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	reject := func(ctx context.Context, s pawl.Session[Tx], d *pawl.Decision) error {
		if d.Identity.Key != "bad" {
			return c.settle(ctx, s, d)
		}
		if err := errors.Join(s.Mark(ctx), c.effect(ctx, s, d)); err != nil {
			return err
		}
		err := c.h.Exec(ctx, s.Tx(), `insert into effect (scope, key) values (?, null)`, "test")
		if class := c.store.Classify(err); class != pawl.Validation {
			t.Errorf("class of %v: %s, want validation", err, class)
		}
		d.Outcome, d.Cause, d.Reason, d.Tries = pawl.Quarantined, pawl.CauseValidation, "null", 1
		return s.Undo(ctx)
	}
	ds := []*pawl.Decision{
		record(partition(0), 0, "a", "v"), record(partition(0), 1, "bad", "v"), record(partition(0), 2, "b", "v"),
	}
	if err := c.store.Apply(c.ctx, o, work(reject, ds...)); err != nil {
		t.Fatalf("apply: %v", err)
	}
	w.wantInt(2, `select count(*) from effect`)
	w.wantInt(2, `select count(*) from pawl_decision`)
	w.wantInt(1, `select count(*) from pawl_quarantine`)
	w.consistent()
}

func statementsCount[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	batch := work[Tx](nil)
	batch.Next = 1
	batch.Run = func(ctx context.Context, s pawl.Session[Tx]) error {
		if n := s.Statements(); n != 0 {
			t.Errorf("at the start: %d, want 0", n)
		}
		if err := s.Mark(ctx); err != nil {
			return err
		}
		if n := s.Statements(); n != 0 {
			t.Errorf("after a mark: %d, want 0", n)
		}
		for want := 1; want <= 3; want++ {
			if err := c.write(ctx, s, "k"); err != nil {
				return err
			}
			if n := s.Statements(); n != want {
				t.Errorf("after %d statements: %d", want, n)
			}
		}
		if _, err := c.h.Int(ctx, s.Tx(), `select count(*) from effect`); err != nil {
			return err
		}
		before := s.Statements()
		if before != 4 {
			t.Errorf("after 4 statements: %d", before)
		}
		// One that failed has run too: there may be something to undo.
		if err := c.h.Exec(ctx, s.Tx(), `insert into effect (scope, key) values (?, null)`, "test"); err == nil {
			t.Error("null went into a column that is not null")
		}
		if n := s.Statements(); n <= before {
			t.Errorf("after a statement that failed: %d, was %d", n, before)
		}
		return s.Undo(ctx)
	}
	if err := c.store.Apply(c.ctx, c.acquire(partition(0), 0), batch); err != nil {
		t.Fatalf("apply: %v", err)
	}
}

func handlerSeesWrites[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	var seen []int64
	look := func(ctx context.Context, s pawl.Session[Tx], d *pawl.Decision) error {
		if err := c.settle(ctx, s, d); err != nil {
			return err
		}
		n, err := c.h.Int(ctx, s.Tx(), `select count(*) from effect where scope = ?`, c.scope(0))
		seen = append(seen, n)
		return err
	}
	err := c.store.Apply(c.ctx, c.acquire(partition(0), 0),
		work(look, record(partition(0), 0, "a", "v"), record(partition(0), 1, "b", "v")))
	if err != nil || fmt.Sprint(seen) != "[1 2]" {
		t.Errorf("apply: %v, seen %v, want [1 2]", err, seen)
	}
}

func endByMethod[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	for i, end := range h.Enders {
		ending := func(ctx context.Context, s pawl.Session[Tx], d *pawl.Decision) error {
			if err := c.settle(ctx, s, d); err != nil {
				return err
			}
			if err := end(ctx, s.Tx()); !errors.Is(err, pawl.ErrTxEnded) {
				t.Errorf("ending it: got %v, want %v", err, pawl.ErrTxEnded)
			}
			return nil
		}
		// Refused means that nothing has happened: the batch goes on and commits.
		d := record(partition(0), int64(i), fmt.Sprintf("key %d", i), "v")
		if err := c.store.Apply(c.ctx, o, work(ending, d)); err != nil {
			t.Errorf("apply: %v", err)
		}
	}
	w.wantInt(int64(len(h.Enders)), `select count(*) from effect`)
	w.consistent()
}

// enders runs statements that end a transaction inside Run, which then claims that all is well.
func (c *client[Tx]) endBy(texts []string) {
	c.Helper()
	o := c.acquire(partition(0), 0)
	owned, before := *o, c.positions()
	ending := func(ctx context.Context, s pawl.Session[Tx], d *pawl.Decision) error {
		if err := c.settle(ctx, s, d); err != nil {
			return err
		}
		for _, text := range texts {
			_ = c.h.Exec(ctx, s.Tx(), text) // a handler that does not look at its errors
		}
		return nil
	}
	err := c.store.Apply(c.ctx, o, work(ending, record(partition(0), 0, "k", "v")))
	if !errors.Is(err, pawl.ErrTxEnded) {
		c.Errorf("apply: got %v, want %v", err, pawl.ErrTxEnded)
	}
	// What a handler commits by text may stay. No claim and no position may follow it.
	if *o != owned {
		c.Errorf("ownership moved on an error: %+v, was %+v", *o, owned)
	}
	if after := c.positions(); fmt.Sprint(before) != fmt.Sprint(after) {
		c.Errorf("positions: %q, were %q", after, before)
	}
	c.wantInt(0, `select count(*) from pawl_decision`)

	c.exec(`delete from effect`)
	d := record(partition(0), 0, "k", "v")
	c.apply(o, d)
	c.wantOutcome(d, pawl.Applied)
	c.consistent()
}

func endByText[Tx any](t *testing.T, h Harness[Tx]) {
	for _, text := range []string{"commit", "rollback", "end", "COMMIT;", "/* all */ rollback"} {
		t.Run(text, func(t *testing.T) {
			newWorld(t, h).client(binding()).endBy([]string{text})
		})
	}
}

func endAndBegin[Tx any](t *testing.T, h Harness[Tx]) {
	for _, text := range []string{"commit", "rollback"} {
		t.Run(text, func(t *testing.T) {
			newWorld(t, h).client(binding()).endBy([]string{text, "begin"})
		})
	}
}

func leakedTx[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	var leaked Tx
	leak := func(ctx context.Context, s pawl.Session[Tx], d *pawl.Decision) error {
		leaked = s.Tx()
		return c.settle(ctx, s, d)
	}
	if err := c.store.Apply(c.ctx, o, work(leak, record(partition(0), 0, "a", "v"))); err != nil {
		t.Fatalf("apply: %v", err)
	}
	write := func(when string) {
		if err := h.Exec(c.ctx, leaked, `insert into effect (scope, key) values (?, ?)`, "leak", "leak"); err == nil {
			t.Errorf("%s: a write through a transaction that has ended went well", when)
		}
		if _, err := h.Int(c.ctx, leaked, `select count(*) from effect`); err == nil {
			t.Errorf("%s: a read through a transaction that has ended went well", when)
		}
	}
	write("after it committed")
	during := func(ctx context.Context, s pawl.Session[Tx], d *pawl.Decision) error {
		write("inside the next one")
		return c.settle(ctx, s, d)
	}
	if err := c.store.Apply(c.ctx, o, work(during, record(partition(0), 1, "b", "v"))); err != nil {
		t.Fatalf("apply: %v", err)
	}
	boom := errors.New("boom")
	fail := func(_ context.Context, s pawl.Session[Tx], _ *pawl.Decision) error {
		leaked = s.Tx()
		return boom
	}
	c.refused(boom, o, work(fail, record(partition(0), 2, "c", "v")))
	write("after it was undone")
	w.wantInt(2, `select count(*) from effect`)
	w.consistent()
}
