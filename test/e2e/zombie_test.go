//go:build unix

package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/fault"
	"github.com/pawlhq/pawl/internal/kafkatest"
	"github.com/pawlhq/pawl/internal/pgtest"
)

// takeoverLimit: a frozen owner is replaced within its session and this. The promise is five seconds, on a machine that has
// nothing else to do; make proof holds us to it.
func takeoverLimit() time.Duration {
	if os.Getenv("PAWL_PROOF") == "long" {
		return 5 * time.Second
	}
	return 25 * time.Second
}

// Proof (g): a member freezes inside its transaction, past its session. Others take its partitions over while it is
// still frozen, whatever rows it has locked: the position (window advanced), keys (claimed), rows of the handler
// (effected), or nothing yet (begun). When it wakes it is fenced, and nothing took effect twice.
//
// Without idle_in_transaction_session_timeout in the transaction (postgres/sql/apply.sql: begin) the takeover waits as
// long as the owner is frozen. Without the epoch in pawl_advance a woken owner commits in its successor's time.
func TestAFrozenMemberIsReplacedWhileItIsFrozen(t *testing.T) {
	t.Parallel()
	for _, at := range []fault.Point{fault.Begun, fault.Effected, fault.Claimed, fault.Advanced} {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			w := newZombieWorld(t, time.Second)
			zombie, err := w.start(memberConfig{Name: "zombie"}, fmt.Sprintf("%s:20=stop", at))
			w.must(err)
			w.must(w.freezesItself(zombie, at, 20))
			w.replaced(zombie, time.Now(), func() {
				_, err := w.start(memberConfig{Name: "successor"}, "")
				w.must(err)
			})
		})
	}
	t.Run("handler", func(t *testing.T) { // from outside, and beside a member that has its share already
		t.Parallel()
		w := newZombieWorld(t, time.Second)
		zombie, err := w.start(memberConfig{Name: "zombie", Linger: 20 * time.Millisecond}, "")
		w.must(err)
		other, err := w.start(memberConfig{Name: "other"}, "")
		w.must(err)
		w.must(zombie.settles(1))
		w.must(other.settles(1))
		w.replaced(zombie, w.freezeInHandler(zombie), func() {})
	})
}

// A member freezes behind its claims, and its transaction outlives the takeover. When it wakes it cannot hear from the
// group, and there is nothing left to do but to commit; its successor, itself frozen, has done nothing yet. Only the fence
// can refuse it.
//
// Without the epoch in pawl_advance the position moves, by the hand of a member that is not its owner any more.
func TestAMemberThatWakesInItsTransactionIsFenced(t *testing.T) {
	t.Parallel()
	began := time.Now()
	w := newZombieWorld(t, 20*time.Second)
	network := newRelay(t, w.base.Brokers[0])
	// One worker: a second transaction might hold its position's row, for which the successor would wait.
	zombie, err := w.start(memberConfig{Name: "zombie", Workers: 1, Via: network.listener.Addr().String()}, "claimed:20=stop")
	w.must(err)
	w.must(w.freezesItself(zombie, fault.Claimed, 20))
	successor, err := w.start(memberConfig{Name: "successor"}, "taken:1=stop")
	w.must(err)
	w.must(w.freezesItself(successor, fault.Taken, 1))

	before, err := w.positions(t.Context())
	w.must(err)
	network.pause()
	from := zombie.said()
	zombie.signal(syscall.SIGCONT)
	_, err = zombie.wait("fence", from, patience, func(n note) bool {
		return n.What == "restarted" && n.Err == pawl.ErrFenced.Error() || n.What == "settled" && n.Next > before[n.Partition]
	})
	w.must(err)
	after, err := w.positions(t.Context())
	w.must(err)
	if !maps.Equal(before, after) {
		t.Errorf("positions were %v and are %v: who moved them, while the owner was frozen?", before, after)
	}
	w.must(checkMoment(t.Context(), w.pool))

	network.resume()
	successor.signal(syscall.SIGCONT)
	w.end()
	t.Log(whatBecameOf(zombie, from))
	w.report(began)
}

// zombieWorld is a world with a stream and a sampler that run.
type zombieWorld struct {
	*world
	end func()
}

func newZombieWorld(t *testing.T, handlerTimeout time.Duration) *zombieWorld {
	t.Helper()
	w := newWorld(t, kafkatest.Real(t), pgtest.URL(t), worldConfig{
		partitions: 4, session: 2 * time.Second, handlerTimeout: handlerTimeout,
	})
	produce := w.inBackground(func(ctx context.Context) error { return w.stream.run(ctx, 200) })
	sample := w.inBackground(w.sample)
	return &zombieWorld{w, func() { t.Helper(); w.finish(produce, sample) }}
}

// freezesItself waits for the fault that was asked for.
func (w *zombieWorld) freezesItself(m *process, at fault.Point, n int) error {
	met := func(o note) bool { return o.What == "window" && o.Window == string(at) && o.N == n }
	if _, err := m.wait("window "+string(at), 0, patience, met); err != nil {
		return err
	}
	return w.untilFrozen(m)
}

func (w *zombieWorld) untilFrozen(m *process) error {
	err := w.poll(m.name+" frozen", patience, func(context.Context) (bool, error) { return m.frozen() })
	if err == nil {
		w.mu.Lock()
		w.frozen++
		w.mu.Unlock()
	}
	return err
}

// freezeInHandler stops a member from outside until it is caught with a transaction open and rows locked by its handler.
func (w *zombieWorld) freezeInHandler(m *process) time.Time {
	w.t.Helper()
	var stopped time.Time
	w.must(w.poll(m.name+" frozen in its handler", patience, func(ctx context.Context) (bool, error) {
		stopped = time.Now()
		m.signal(syscall.SIGSTOP)
		if err := w.untilFrozen(m); err != nil {
			return false, err
		}
		var caught bool
		err := w.pool.QueryRow(ctx, `
			select exists (
			    select from pg_stat_activity join pg_locks using (pid)
			    where application_name = $1 and state = 'idle in transaction' and relation = 'account'::regclass and mode = 'RowExclusiveLock'
			)`, m.app).Scan(&caught)
		if !caught {
			m.signal(syscall.SIGCONT)
		}
		return caught, err
	}))
	return stopped
}

// replaced asserts that every partition moves on although zombie is frozen, wakes it, and sees it join in again.
func (w *zombieWorld) replaced(zombie *process, stopped time.Time, start func()) {
	w.t.Helper()
	began := time.Now()
	frozenAt, err := w.positions(w.t.Context())
	w.must(err)
	start()
	limit := w.base.Session + takeoverLimit() - time.Since(stopped)
	err = w.poll("every partition moves on", limit, func(ctx context.Context) (bool, error) {
		at, err := w.positions(ctx)
		for partition, was := range frozenAt {
			if at[partition] <= was {
				return false, err
			}
		}
		return true, err
	})
	took := time.Since(stopped)
	if err != nil {
		w.t.Fatalf("seed %d: %v\nwere %v\n%s", w.seed, err, frozenAt, w.state())
	}
	if still, err := zombie.frozen(); !still {
		w.t.Fatalf("the zombie was not frozen all the time: %v", err)
	}
	w.must(checkMoment(w.t.Context(), w.pool))

	from := w.wakes(zombie)
	w.must(checkMoment(w.t.Context(), w.pool))
	w.end()
	w.t.Logf("taken over %s after the freeze (limit %s); then %s", took.Round(10*time.Millisecond), w.base.Session+takeoverLimit(), whatBecameOf(zombie, from))
	w.report(began)
}

// wakes lets a zombie go on, and waits until it works again, as an owner: it settles what nobody has settled before. From
// the note that it returns on, the zombie is awake.
func (w *zombieWorld) wakes(zombie *process) int {
	w.t.Helper()
	before, err := w.positions(w.t.Context())
	w.must(err)
	from := zombie.said()
	zombie.signal(syscall.SIGCONT)
	_, err = zombie.wait("settled batch", from, patience, func(n note) bool {
		return n.What == "settled" && n.Next > before[n.Partition]
	})
	w.must(err)
	w.must(checkMoment(w.t.Context(), w.pool))
	return from
}

// whatBecameOf says how a member noticed that it was replaced.
func whatBecameOf(m *process, from int) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	causes := map[string]bool{}
	for _, n := range m.notes[from:] {
		if n.What == "restarted" || n.What == "failed" {
			causes[n.What+": "+n.Err] = true
		}
	}
	if len(causes) == 0 {
		return "it heard from the group first"
	}
	return strings.Join(slices.Sorted(maps.Keys(causes)), "; ")
}
