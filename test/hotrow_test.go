package test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlhq/pawl"
)

// deadlock is the SQLSTATE of a transaction that PostgreSQL ended because others waited for it, and it for them.
const deadlock = "40P01"

// Two members, each stream's events on every partition, and few rows that everything adds to: rows are locked and written in
// the order of their keys, so that members wait for each other and seldom more.
func TestHotRowsOverPartitionsDoNotDeadlockInALoop(t *testing.T) {
	for _, h := range houses[1:] {
		for name, effects := range map[string][]declared{
			"each event in every effect": {cases(), flow(), ledger(), counter(), audit(), latest(), commands()},
			"totals alone":               {counter()},
			"a projection alone":         {cases()},
		} {
			t.Run(h.name+", "+name, func(t *testing.T) {
				t.Parallel()
				const streams, versions, partitions = 25, 80, 6
				s := h.open(t).stage(partitions, pawl.Config{MaxBatch: 25, Workers: 4}, effects...)
				rnd := rand.New(rand.NewPCG(1, 2))
				model := newFoldModel()
				records := make([][][]byte, partitions)
				states := []string{"CLOSED", "OPEN", "HEARD", "HEARD"} // by version, along the machine
				for v := int64(1); v <= versions; v++ {
					for _, i := range rnd.Perm(streams) {
						stream := fmt.Sprintf("s%02d", i)
						f := fact{
							Key: fmt.Sprintf("%s.%d", stream, v), Stream: stream, Version: v, State: states[v%4], Fee: fmt.Sprint(rnd.IntN(9) + 1), Team: []string{"a", "b", "c"}[rnd.IntN(3)],
						}
						model.take(f)
						p := rnd.IntN(partitions)
						records[p] = append(records[p], f.bytes())
					}
				}
				for p := range partitions {
					s.group.add(p, records[p]...)
				}
				one, two := s.live(nil), s.live(nil)
				defer one.stop()
				defer two.stop()
				for p := range partitions {
					[]*life{one, two}[p%2].take(p)
				}
				began := time.Now()
				s.settle()
				s.await(0, gapCount)
				took := time.Since(began)
				one.stop()
				two.stop()
				for _, d := range effects {
					for _, table := range foldTables[d.Name] {
						if got, want := s.folded(table[0], table[1]), model.rows(table[0]); !slices.Equal(got, want) {
							t.Errorf("%s:\n got %q\nwant %q", table[0], got, want)
						}
					}
				}
				s.wantAside()
				n := 0
				for _, f := range s.failed() {
					if pg := (*pgconn.PgError)(nil); errors.As(f.Err, &pg) && pg.Code == deadlock {
						n++
					}
				}
				t.Logf("%d records and %d effects in %s, %d deadlocks, %d tries that failed", streams*versions, len(effects), took.Round(time.Millisecond), n, len(s.failed()))
				if n > 2 { // unsorted, it is one for every few batches, and most batches are tried several times
					t.Errorf("%d deadlocks in %d records", n, streams*versions)
				}
			})
		}
	}
}
