package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/fault"
)

func raceTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"a copy that fails because of the first is not set aside", raceSetAside[Tx]},
		{"two owners that meet one new key make one effect", raceOneKey[Tx]},
		{"a key that is decided after the look undoes the batch", raceAfterLook[Tx]},
		{"two owners with many shared keys in opposite order get through", raceManyKeys[Tx]},
		{"the copy applies where the first was undone", raceFirstUndone[Tx]},
		{"new names are interned by several owners at once", raceNames[Tx]},
		{"a name that was undone is not remembered", raceNameUndone[Tx]},
		{"owners of different partitions do not disturb each other", racePartitions[Tx]},
	}
}

func isFenced(err error) bool { return errors.Is(err, pawl.ErrFenced) }

// until applies again for as long as the store says ErrRaced, and returns how often it did.
func (c *client[Tx]) until(o *pawl.Ownership, batch func() *pawl.Work[Tx]) (raced int, err error) {
	for {
		if err = c.store.Apply(c.ctx, o, batch()); !errors.Is(err, pawl.ErrRaced) || raced > 100 {
			return raced, err
		}
		raced++
	}
}

// barrier returns a function that blocks until n callers are in it. Later calls pass.
func barrier(n int) func() {
	var mu sync.Mutex
	open := make(chan struct{})
	return func() {
		mu.Lock()
		if n--; n == 0 {
			close(open)
		}
		mu.Unlock()
		<-open
	}
}

func raceOneKey[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	clients := []*client[Tx]{w.client(binding()), w.another(binding())}
	meet := barrier(len(clients))
	last := make([]*pawl.Decision, len(clients))
	raced := make([]int, len(clients))
	var wg sync.WaitGroup
	for i, c := range clients {
		p := partition(int32(i))
		o := c.acquire(p, 0)
		wg.Go(func() {
			if h.Serial {
				meet()
			}
			var err error
			raced[i], err = c.until(o, func() *pawl.Work[Tx] {
				last[i] = record(p, 0, "k", "v")
				return work(func(ctx context.Context, s pawl.Session[Tx], d *pawl.Decision) error {
					if !h.Serial {
						meet() // both have looked, and found nothing
					}
					return c.settle(ctx, s, d)
				}, last[i])
			})
			if err != nil {
				t.Errorf("owner %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if a, b := last[0].Outcome, last[1].Outcome; a+b != pawl.Applied+pawl.Duplicate {
		t.Errorf("outcomes: %s and %s, want one applied and one duplicate", a, b)
	}
	if n := raced[0] + raced[1]; !h.Serial && n != 1 {
		t.Errorf("%d times raced, want 1", n)
	}
	w.wantInt(1, `select count(*) from effect`)
	w.wantInt(1, `select count(*) from pawl_decision`)
	w.wantInt(2, `select count(*) from pawl_progress where next_offset = 1`)
	w.consistent()
}

// The row appears between the look and the claim, whatever the store does to keep others out: the handler writes it.
func raceAfterLook[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.apply(o, record(partition(0), 0, "k", "v"))
	decide := func(ctx context.Context, s pawl.Session[Tx], d *pawl.Decision) error {
		if err := c.settle(ctx, s, d); err != nil {
			return err
		}
		return c.h.Exec(ctx, s.Tx(), `
			insert into pawl_decision (
				key_id, fingerprint, position_offset, ingested_at, processed_at, scope_id, progress_id, code_id, key_form, outcome,
				mode, key)
			select d.key_id, d.fingerprint, d.position_offset, d.ingested_at, d.processed_at, s.id, d.progress_id, d.code_id,
			       d.key_form, d.outcome, d.mode, d.key
			from pawl_decision d
			join pawl_scope s on s.route = 'notify'`)
	}
	c.refused(pawl.ErrRaced, o, work(decide, onRoute(1, record(partition(0), 1, "k", "v"))))
	again := onRoute(1, record(partition(0), 1, "k", "v"))
	c.apply(o, again)
	w.wantOutcome(again, pawl.Applied)
	w.consistent()
}

func raceManyKeys[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	clients := []*client[Tx]{w.client(binding()), w.another(binding())}
	const batches, size = 8, 20
	var wg sync.WaitGroup
	for i, c := range clients {
		p := partition(int32(i))
		o := c.acquire(p, 0)
		wg.Go(func() {
			for b := range batches {
				_, err := c.until(o, func() *pawl.Work[Tx] {
					ds := make([]*pawl.Decision, size)
					for j := range ds {
						key := b*size + j
						if i == 1 {
							key = b*size + size - 1 - j
						}
						ds[j] = record(p, int64(b*size+j), fmt.Sprintf("key %d", key), "v")
					}
					return work(c.settle, ds...)
				})
				if err != nil {
					t.Errorf("owner %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	w.wantInt(batches*size, `select count(*) from effect`)
	w.wantInt(batches*size, `select count(*) from pawl_decision`)
	w.wantInt(batches*size, `select count(*) from pawl_redelivery`)
	w.consistent()
}

// The first to meet the key is undone while the second waits or has looked already: the second must apply.
func raceFirstUndone[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	one, two := w.client(binding()), w.another(binding())
	first, second := one.acquire(partition(0), 0), two.acquire(partition(1), 0)
	boom := errors.New("boom")
	looked, undone := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(undone)
		err := one.store.Apply(w.ctx, first, work(func(ctx context.Context, s pawl.Session[Tx], d *pawl.Decision) error {
			if err := one.settle(ctx, s, d); err != nil {
				return err
			}
			close(looked)
			return boom
		}, record(partition(0), 0, "k", "v")))
		if !errors.Is(err, boom) {
			t.Errorf("first: %v", err)
		}
	})
	<-looked
	d := record(partition(1), 0, "k", "v")
	two.apply(second, d)
	wg.Wait()
	w.wantOutcome(d, pawl.Applied)
	w.wantInt(1, `select count(*) from effect`)
	w.consistent()
}

func raceNames[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	clients := []*client[Tx]{w.client(binding()), w.another(binding()), w.another(binding())}
	meet := barrier(len(clients))
	var wg sync.WaitGroup
	for i, c := range clients {
		p := partition(int32(i))
		o := c.acquire(p, 0)
		wg.Go(func() {
			meet()
			for n := range 5 {
				d := record(p, int64(n), fmt.Sprintf("key %d of %d", n, i), "v")
				d.Identity.Type, d.Identity.StreamType = fmt.Sprintf("TYPE_%d", n), fmt.Sprintf("stream-%d", n)
				if err := c.store.Apply(c.ctx, o, work(c.settle, d)); err != nil {
					t.Errorf("owner %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	w.wantInt(5, `select count(*) from pawl_name where name like 'TYPE%'`)
	w.wantInt(15, `
		select count(*)
		from pawl_decision d
		join pawl_name t on t.id = d.type_id and t.name like 'TYPE%'
		join pawl_name s on s.id = d.stream_type_id and s.name like 'stream-%'`)
	w.consistent()
}

// Memory follows a commit: the id of a name whose insert was undone may by now be another's.
func raceNameUndone[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	one, two := w.client(binding()), w.another(binding())
	mine, other := one.acquire(partition(0), 0), two.acquire(partition(1), 0)
	typed := func(p pawl.Partition, offset int64, key, name string) *pawl.Decision {
		d := record(p, offset, key, "v")
		d.Identity.Type, d.Identity.StreamType = name, name
		return d
	}
	ctx := fault.With(w.ctx, func(p fault.Point) error {
		if p == fault.Advanced {
			return fault.ErrCrash
		}
		return nil
	})
	if err := one.store.Apply(ctx, mine, work(one.settle, typed(partition(0), 0, "a", "LOST"))); !errors.Is(err, fault.ErrCrash) {
		t.Fatalf("apply: got %v, want the crash", err)
	}
	two.apply(other, typed(partition(1), 0, "b", "OTHER"))
	one.apply(mine, typed(partition(0), 0, "a", "LOST"))
	for offset, name := range []string{"LOST", "OTHER"} {
		w.wantInt(1, `
			select count(*)
			from pawl_decision d
			join pawl_progress p on p.id = d.progress_id
			join pawl_name t on t.id = d.type_id
			join pawl_name s on s.id = d.stream_type_id
			where p.partition = ? and t.name = ? and s.name = t.name`, offset, name)
	}
}

// One store, several owners: what a runner does.
func racePartitions[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	const owners, batches = 4, 10
	var wg sync.WaitGroup
	for i := range int32(owners) {
		wg.Go(func() {
			o, err := c.store.Acquire(c.ctx, partition(i), 0)
			if err != nil {
				t.Errorf("acquire: %v", err)
				return
			}
			for n := range int64(batches) {
				d := record(partition(i), n, fmt.Sprintf("key %d of %d", n, i), "v")
				if err := c.store.Apply(c.ctx, o, work(c.settle, d)); err != nil {
					t.Errorf("owner %d: %v", i, err)
					return
				}
			}
			if o.Next != batches || o.Seq != batches {
				t.Errorf("owner %d: %+v, want position and seq %d", i, o, batches)
			}
		})
	}
	wg.Wait()
	w.wantInt(owners*batches, `select count(*) from effect`)
	w.consistent()
}

// Two copies of an event are tried at once, and the second fails because of what the first wrote: it is a duplicate.
func raceSetAside[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	one, two := w.client(binding()), w.another(binding())
	a, b := one.acquire(partition(0), 0), two.acquire(partition(1), 0)
	first := func() { one.apply(a, record(partition(0), 0, "k", "v")) }
	if h.Serial {
		first() // the second cannot begin before
	}
	refuse := func(_ context.Context, _ pawl.Session[Tx], d *pawl.Decision) error {
		if d.Prior != nil {
			d.Outcome, d.Reason = pawl.Duplicate, "decided before"
			return nil
		}
		first()
		d.Outcome, d.Cause, d.Reason, d.Tries = pawl.Quarantined, pawl.CauseValidation, "a broken constraint", 1
		return nil
	}
	copied := record(partition(1), 0, "k", "v")
	if !h.Serial {
		if err := two.store.Apply(w.ctx, b, work(refuse, copied)); !errors.Is(err, pawl.ErrRaced) {
			t.Errorf("apply: got %v, want raced", err)
		}
	}
	two.must(b, refuse, copied)
	w.wantOutcome(copied, pawl.Duplicate)
	w.wantInt(0, `select count(*) from pawl_quarantine`)
	w.consistent()
}
