package test

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/pgtest"
	"github.com/pawlhq/pawl/pawltest"
	"github.com/pawlhq/pawl/storetest"
)

// Proof (d): COMMIT is applied and its answer cut off, or cut off before it arrives. Every record takes effect once, and
// an applied batch is known to be applied: it is not run again.
func TestACommitWhoseAnswerIsLostIsResolvedAndNotRepeated(t *testing.T) {
	for _, side := range []string{"answer", "request"} {
		t.Run("pgx/"+side, func(t *testing.T) {
			t.Parallel()
			direct := pgtest.Migrated(t)
			if side == "request" {
				direct += "&default_query_exec_mode=exec" // statements travel as text, so that commit can be seen coming
			}
			c, through := newCutter(t, direct)
			unknownCommits(t, c, side == "request", openPgx(t, through, ledgerSchema), execPgx)
		})
		t.Run("databasesql/"+side, func(t *testing.T) {
			t.Parallel()
			direct := pgtest.Migrated(t)
			c, through := newCutter(t, direct)
			unknownCommits(t, c, side == "request", openDatabaseSQL(t, through, ledgerSchema), execSQL(storetest.Dollar))
		})
	}
}

func unknownCommits[Tx any](t *testing.T, c *cutter, before bool, s *opened[Tx], exec execTx[Tx]) {
	const records = 200
	var in []pawl.Record
	var sum int64
	for i := range records {
		in = append(in, pawl.Record{
			Partition: pawl.Partition{Topic: pawltest.Topic, TopicID: pawl.TopicID{1}}, Offset: int64(i), Timestamp: time.Unix(1, 0),
			Value: pawltest.JSON(entry{ID: fmt.Sprint(i), Account: "a", Amount: int64(i)}).Value,
		})
		sum += int64(i)
	}
	var mu sync.Mutex
	outcomes := map[pawl.Outcome]int{}
	settled := make(chan int64, records)
	r := pawl.NewRunner(s.Store, pawltest.NewLog(in), pawl.Config{
		Consumer: "test", MaxBatch: 7, CommitInterval: time.Hour, Logger: slog.New(slog.DiscardHandler),
		Hooks: pawl.Hooks{Settled: func(b pawl.Settled) {
			mu.Lock()
			defer mu.Unlock()
			for _, d := range b.Decisions {
				outcomes[d.Outcome]++
			}
			settled <- b.Next
		}},
	})
	pawl.Handle(r, pawl.Route{Name: "ledger", Topics: []string{pawltest.Topic}}, entries(), ledgerHandler(exec))
	c.arm(3, before)
	stop := running(t, r.Run)
	for next := int64(0); next < records; {
		select {
		case next = <-settled:
		case <-time.After(60 * time.Second):
			t.Fatalf("stuck at %d", next)
		}
	}
	c.arm(0, false)
	if err := stop(); err != nil {
		t.Fatal(err)
	}

	if c.fired() < 5 {
		t.Fatalf("only %d commits were cut: nothing was tested", c.fired())
	}
	if n := s.int(t, `select count(*) from ledger`); n != records {
		t.Errorf("%d effects, want %d", n, records)
	}
	if n := s.int(t, `select balance from account where id = 'a'`); n != sum {
		t.Errorf("balance %d, want %d", n, sum)
	}
	mu.Lock()
	defer mu.Unlock()
	if outcomes[pawl.Applied] != records || len(outcomes) != 1 {
		t.Errorf("outcomes %v, want %d applied and nothing else: a commit that happened was taken for one that did not", outcomes, records)
	}
}
