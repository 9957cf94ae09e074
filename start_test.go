package pawl_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/pawltest"
)

// Where reading starts, by what the store has and what the group has committed: the table of start.go, row by row. The log
// has six records; the store, where it has a position, is at 3.
func TestWhereReadingStarts(t *testing.T) {
	const none = -1
	for _, c := range []struct {
		name      string
		stored    bool
		committed int64
		metadata  string
		start     pawl.Start
		reset     pawl.Reset
		state     pawl.State // in which it is halted first, until it is answered with to
		to        int64
		want      string // ids that are applied or met again, in order
		alarm     bool
	}{
		{name: "nothing anywhere", committed: none, want: "123456"},
		{name: "a commit and no store, from the beginning", committed: 2, state: pawl.StateNoPosition, to: pawl.GoOn, want: "123456"},
		{name: "a commit and no store, from the commit", committed: 2, state: pawl.StateNoPosition, to: 2, want: "3456"},
		{name: "a commit of Pawl's and no store", committed: 2, metadata: "pawl/1 next=2 epoch=1 seq=2", state: pawl.StateNoPosition, to: pawl.GoOn, want: "123456"},
		{name: "a commit and no store, asked for", committed: 2, start: pawl.StartCommitted, want: "3456"},
		{name: "nothing anywhere, commit asked for", committed: none, start: pawl.StartCommitted, want: "123456"},
		{name: "the former consumer's commit after a crash", stored: true, committed: 2, metadata: "former", start: pawl.StartCommitted, want: "456"},
		{name: "store alone", stored: true, committed: none, want: "456"},
		{name: "commit of Pawl's behind the store", stored: true, committed: 1, metadata: "pawl/1 next=1 epoch=1 seq=1", want: "456"},
		{name: "commit of Pawl's, equal", stored: true, committed: 3, metadata: "pawl/1 next=3 epoch=1 seq=1", want: "456"},
		{name: "commit of Pawl's past records without data", stored: true, committed: 5, metadata: "pawl/1 next=3 epoch=1 seq=1", want: "456"},
		{name: "the store lost commits", stored: true, committed: 5, metadata: "pawl/1 next=5 epoch=1 seq=9", want: "456", alarm: true},
		// It was taken for a store that had lost commits, when the member that moved it had not lived to commit an offset.
		{name: "an operator moved the position back", stored: true, committed: 5, metadata: "pawl/1 next=5 epoch=1 seq=2", want: "456"},
		{name: "someone else's commit, equal", stored: true, committed: 3, metadata: "member-1", want: "456"},
		{name: "reset back, then refused", stored: true, committed: 0, state: pawl.StateOffsetReset, to: pawl.GoOn, want: "456"},
		{name: "reset back, then accepted", stored: true, committed: 1, state: pawl.StateOffsetReset, to: 1, want: "23456"},
		{name: "reset forward, then refused", stored: true, committed: 5, state: pawl.StateOffsetReset, to: pawl.GoOn, want: "456"},
		{name: "reset forward, then accepted", stored: true, committed: 5, state: pawl.StateOffsetReset, to: 5, want: "6"},
		{name: "reset back, refused", stored: true, committed: 0, reset: pawl.ResetRefuse, want: "456"},
		{name: "reset back, accepted", stored: true, committed: 1, reset: pawl.ResetAccept, want: "23456"},
		{name: "reset forward, accepted", stored: true, committed: 5, reset: pawl.ResetAccept, want: "6"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store, db := openStore(t)
			var records []pawl.Record
			for _, id := range "123456" {
				records = append(records, pawltest.JSON(payment{ID: string(id)}))
			}
			p := pawl.Partition{Topic: pawltest.Topic, TopicID: pawl.TopicID{1}}
			h := func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[payment]) error {
				return apply(ctx, tx, e.Body)
			}
			runner := func(b *bench, seen *strings.Builder, alarmed *bool) *pawl.Runner[pawl.SQLTx] {
				cfg := b.config()
				cfg.MaxBatch, cfg.Start, cfg.Reset = 1, c.start, c.reset
				note := cfg.Hooks.Settled
				cfg.Hooks.Settled = func(s pawl.Settled) {
					for _, d := range s.Decisions {
						seen.WriteString(d.Identity.Key)
					}
					note(s)
				}
				cfg.Hooks.Restarted = func(_ pawl.Partition, err error) { *alarmed = errors.Is(err, pawl.ErrStoreWentBack) }
				r := pawl.NewRunner(store, b.log, cfg)
				pawl.Handle(r, pawl.Route{Name: "a", Topics: []string{pawltest.Topic}}, payments(), h)
				return r
			}
			if c.stored { // as a run of the first three leaves it
				var seen strings.Builder
				b := newBench(records[:3]...)
				stop := start(t, runner(b, &seen, new(bool)))
				b.until(t, "three decisions", func() bool { return len(b.outcomes["a"]) == 3 })
				if err := stop(); err != nil {
					t.Fatal(err)
				}
			}

			var seen strings.Builder
			alarmed := false
			b := newBench(records...)
			if c.committed != none {
				b.log.SetCommitted(p, c.committed, c.metadata)
			}
			r := runner(b, &seen, &alarmed)
			stop := start(t, r)
			if c.state != "" {
				resolve(t, b, store, c.state, c.to)
			}
			b.until(t, "all decisions", func() bool { return len(b.outcomes["a"]) == len(c.want) })
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if seen.String() != c.want || alarmed != c.alarm {
				t.Errorf("read %s, alarm %v, want %s, %v", seen.String(), alarmed, c.want, c.alarm)
			}
			if n := count(t, db, `select count(*) - count(distinct id) from effect`); n != 0 {
				t.Errorf("%d doubled effects", n)
			}
			if n := count(t, db, `select next_offset from pawl_progress`); n != 6 {
				t.Errorf("position %d, want 6", n)
			}
		})
	}
}

// resolve waits for the one condition there must be, and answers it.
func resolve(t *testing.T, b *bench, store pawl.Store[pawl.SQLTx], state pawl.State, to int64) {
	t.Helper()
	var open []pawl.OpenCondition
	b.until(t, "a condition", func() bool {
		var err error
		if open, err = store.Admin().Conditions(t.Context(), "test"); err != nil {
			t.Fatal(err)
		}
		return len(open) > 0
	})
	if len(open) != 1 || open[0].State != state || open[0].Reason == "" || open[0].Hint == "" {
		t.Fatalf("conditions %+v, want one, %s, that says what happened and what to do", open, state)
	}
	if err := store.Admin().Resolve(t.Context(), open[0].ID, pawl.Resolution{To: to, By: "a test", Why: "it is the answer", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
}

// Two that work under one consumer name without knowing of each other take the partition from each other, and each takes
// it back: nothing is doubled, and between them they get to the end.
func TestTwoUnderOneNameDoubleNothing(t *testing.T) {
	store, db := openStore(t)
	var records []pawl.Record
	for i := range 300 {
		records = append(records, pawltest.JSON(payment{ID: strconv.Itoa(i)}))
	}
	for range 2 {
		b := newBench(slices.Clone(records)...)
		cfg := b.config()
		cfg.MaxBatch = 1
		r := pawl.NewRunner(store, b.log, cfg)
		h := func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[payment]) error {
			return apply(ctx, tx, e.Body)
		}
		pawl.Handle(r, pawl.Route{Name: "a", Topics: []string{pawltest.Topic}}, payments(), h)
		start(t, r)
		b.until(t, "a record settled", func() bool { return len(b.outcomes["a"]) > 0 })
	}
	deadline := time.After(20 * time.Second)
	for count(t, db, `select count(*) from effect`) < len(records) {
		select {
		case <-deadline:
			t.Fatal("not all applied within 20 s")
		case <-time.After(5 * time.Millisecond):
		}
	}
	if n := count(t, db, `select count(*) - count(distinct id) from effect`); n != 0 {
		t.Errorf("%d doubled effects", n)
	}
}
