package pawl_test

import (
	"context"
	"errors"
	"strings"
	"testing"

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
		want      string // ids that are applied or met again, in order
		refused   string // or what the error says
		alarm     bool
	}{
		{name: "nothing anywhere", committed: none, want: "123456"},
		{name: "a commit and no store", committed: 2, refused: "the store has no position"},
		{name: "a commit of Pawl's and no store", committed: 2, metadata: "pawl/1 next=2 epoch=1 seq=2", refused: "the store has no position"},
		{name: "a commit and no store, asked for", committed: 2, start: pawl.StartCommitted, want: "3456"},
		{name: "nothing anywhere, commit asked for", committed: none, start: pawl.StartCommitted, want: "123456"},
		{name: "the former consumer's commit after a crash", stored: true, committed: 2, metadata: "former", start: pawl.StartCommitted, want: "456"},
		{name: "store alone", stored: true, committed: none, want: "456"},
		{name: "commit of Pawl's behind the store", stored: true, committed: 1, metadata: "pawl/1 next=1 epoch=1 seq=1", want: "456"},
		{name: "commit of Pawl's, equal", stored: true, committed: 3, metadata: "pawl/1 next=3 epoch=1 seq=1", want: "456"},
		{name: "commit of Pawl's past records without data", stored: true, committed: 5, metadata: "pawl/1 next=3 epoch=1 seq=1", want: "456"},
		{name: "the store lost commits", stored: true, committed: 5, metadata: "pawl/1 next=5 epoch=1 seq=9", want: "456", alarm: true},
		{name: "someone else's commit, equal", stored: true, committed: 3, metadata: "member-1", want: "456"},
		{name: "reset back", stored: true, committed: 0, refused: "to 0, and the store's position is 3"},
		{name: "reset forward", stored: true, committed: 5, refused: "to 5, and the store's position is 3"},
		{name: "reset back, refused", stored: true, committed: 0, reset: pawl.ResetRefuse, want: "456"},
		{name: "reset back, accepted", stored: true, committed: 1, reset: pawl.ResetAccept, want: "23456"},
		{name: "reset forward, accepted", stored: true, committed: 5, reset: pawl.ResetAccept, want: "6"},
	} {
		t.Run(c.name, func(t *testing.T) {
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
			if c.refused != "" {
				err := r.Run(t.Context())
				var e *pawl.Error
				if !errors.As(err, &e) || e.Class != pawl.Misconfigured || e.Hint == "" || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("got %v, want a refusal that says %q and what to do", err, c.refused)
				}
				return
			}
			stop := start(t, r)
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
