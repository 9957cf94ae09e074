//go:build unix

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/kafkatest"
	"github.com/pawlhq/pawl/internal/pgtest"
	"github.com/pawlhq/pawl/internal/pgtest/services"
)

// Proof (h), sessions: the members' sessions with PostgreSQL are terminated again and again, in the middle of
// transactions and of commits. No member ends, and the result is exact.
//
// It fails if a commit whose answer was lost is believed (the offset leads, the effect is lost), or if a cut connection is
// taken for the record's fault (a quarantined record that the model does not have). That such a commit is not repeated
// either shows in what a member reports, not in the rows: TestACommitWhoseAnswerIsLostIsResolvedAndNotRepeated.
func TestTerminatedSessionsLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	rounds := 60
	if long() {
		rounds = 600
	}
	outage(t, kafkatest.Real(t), pgtest.URL(t), func(w *world) {
		rnd := rand.New(rand.NewPCG(w.seed, 3))
		terminated := 0
		for range rounds {
			<-time.After(time.Duration(rnd.Int64N(int64(200 * time.Millisecond)))) // at random moments
			var n int
			w.must(w.pool.QueryRow(t.Context(), `
				select count(pg_terminate_backend(pid)) from pg_stat_activity
				where datname = current_database() and application_name like 'member %'`).Scan(&n))
			terminated += n
		}
		t.Logf("%d sessions terminated", terminated)
		if terminated < rounds {
			t.Errorf("%d sessions terminated in %d rounds: there was hardly one to terminate", terminated, rounds)
		}
	})
}

// Proof (h), database: PostgreSQL is stopped without a checkpoint, as by kill -9, and started again.
//
// It fails if a member gives up while the database is away, or does not find out what became of its last commit.
func TestACrashOfPostgresLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	rounds := 3
	if long() {
		rounds = 20
	}
	own := services.Start(t, "postgres")
	outage(t, kafkatest.Real(t), own.Address, func(w *world) {
		for range rounds {
			w.must(w.settles())
			own.Control(t, "kill")
			own.Control(t, "start")
			w.pool.Reset()
		}
	})
}

// Proof (h), broker: Kafka is killed with SIGKILL and started again.
//
// It fails if a member gives up while the broker is away, or if an offset that was committed before leads what is read
// after.
func TestACrashOfTheBrokerLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	rounds := 2
	if long() {
		rounds = 10
	}
	own := kafkatest.Own(t, 1)
	outage(t, own.Brokers, pgtest.URL(t), func(w *world) {
		for range rounds {
			w.must(w.settles())
			own.Kill(t, 1)
			own.Start(t, 1)
		}
	})
}

// outage runs three members, which nobody restarts, while strike does its worst.
func outage(t *testing.T, brokers []string, url string, strike func(w *world)) {
	t.Helper()
	began := time.Now()
	w := newWorld(t, brokers, url, worldConfig{partitions: 6, session: 2 * time.Second, handlerTimeout: 2 * time.Second})
	stopProducing := w.inBackground(func(ctx context.Context) error { return w.stream.run(ctx, 200) })
	stopSampling := w.inBackground(w.sample)
	for i := range 3 {
		_, err := w.start(memberConfig{Name: fmt.Sprint("stays-", i), Batch: i == 0}, "")
		w.must(err)
	}
	w.must(w.settles())
	strike(w)
	w.must(w.settles())
	w.finish(stopProducing, stopSampling)
	w.report(began)
}

// settles waits until every member has settled a batch from now on.
func (w *world) settles() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.members {
		if err := m.settles(1); err != nil {
			return err
		}
	}
	return nil
}
