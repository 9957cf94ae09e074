//go:build unix

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/fault"
	"github.com/pawlhq/pawl/internal/kafkatest"
	"github.com/pawlhq/pawl/internal/pgtest"
)

// Proof (f): members are killed with SIGKILL, at random moments and in every window that the code names, while others
// join, leave and freeze. Each event takes effect once, each record has one outcome, marker and effect agree after every
// death, and the group's offset leads the effects at no sampled moment.
//
// It fails if the claim is not written (a redelivery takes effect again), if it is not in the transaction of the effect
// (markers without effects, or effects without markers, after a death), if the position is written before the effects, if
// the offset is committed at dispatch (it leads), or if a member reads on from the group's offset plus one.
func TestKilledMembersLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	began := time.Now()
	kills, slots := 30, 5
	if long() {
		kills = 200
	}
	w := newWorld(t, kafkatest.Real(t), pgtest.URL(t), worldConfig{
		partitions: 10, session: 1500 * time.Millisecond, handlerTimeout: 2 * time.Second, unmigrated: true,
	})
	stopProducing := w.inBackground(func(ctx context.Context) error { return w.stream.run(ctx, 200) })

	// The first to start dies between two migrations; the next goes on from there.
	m, err := w.start(memberConfig{Name: "migrating"}, "migration-step:1=kill")
	w.must(err)
	w.must(w.dies(m, fault.MigrationStep))
	w.watchOwners()
	stopSampling := w.inBackground(w.sample)

	jobs := make(chan job)
	var work sync.WaitGroup
	errs := make(chan error, slots)
	failed, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range slots {
		s := slot{w: w, n: i, rnd: rand.New(rand.NewPCG(w.seed, uint64(100+i)))}
		work.Go(func() {
			for j := range jobs {
				if err := s.do(j); err != nil {
					errs <- fmt.Errorf("%s: %w", j, err)
					cancel()
					return
				}
			}
		})
	}
	for _, j := range plan(rand.New(rand.NewPCG(w.seed, 2)), kills) {
		select {
		case jobs <- j:
		case <-failed.Done():
		}
	}
	close(jobs)
	work.Wait()
	close(errs)
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	w.must(errors.Join(all...))

	for i := range 2 {
		_, err := w.start(memberConfig{Name: fmt.Sprintf("last-%d", i), Batch: i == 0}, "")
		w.must(err)
	}
	w.finish(stopProducing, stopSampling)
	w.report(began)

	for _, p := range fault.Points() {
		if w.fired[p] == 0 {
			t.Errorf("window %s did not fire", p)
		}
	}
	if w.kills < kills {
		t.Errorf("%d kills, want %d", w.kills, kills)
	}
	if w.sampler.taken < 10*kills {
		t.Errorf("%d samples, want %d at least", w.sampler.taken, 10*kills)
	}
}

// job is something to do to a member.
type job struct {
	what string      // window, random, early, freeze, leave
	at   fault.Point // of window
	n    int         // of window: which hit; of random: after how many batches
}

func (j job) String() string { return fmt.Sprintf("%s %s %d", j.what, j.at, j.n) }

// plan is every window, and as many others as it takes, in random order. Every job but leave is a kill.
func plan(rnd *rand.Rand, kills int) []job {
	var jobs []job
	for n := 1; n < kills; { // one has been killed already, in a migration
		for _, p := range fault.Points() {
			if p == fault.MigrationStep {
				continue
			}
			hit := 1 + rnd.IntN(4)
			if inShutdown(p) || p == fault.Acquired { // it may be met no more than once
				hit = 1
			}
			jobs = append(jobs, job{"window", p, hit})
			n++
		}
		for range 8 {
			jobs = append(jobs, job{what: "random", n: rnd.IntN(12)})
			n++
		}
		for range 3 {
			jobs = append(jobs, job{what: "early"}, job{what: "freeze"}, job{what: "leave"})
			n += 2
		}
	}
	rnd.Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
	return jobs
}

func inShutdown(p fault.Point) bool {
	return slices.Contains([]fault.Point{fault.Revoking, fault.Drained, fault.Released}, p)
}

// slot runs one member after the other.
type slot struct {
	w   *world
	n   int
	rnd *rand.Rand
}

func (s *slot) do(j job) error {
	cfg := memberConfig{Name: fmt.Sprintf("slot-%d", s.n), Batch: s.rnd.IntN(2) == 0}
	if s.n == 0 {
		cfg.Instance = "static" // comes back as who it was, without a rebalance
	}
	if j.what == "window" {
		return s.dieAt(cfg, j)
	}
	m, err := s.w.start(cfg, "")
	if err != nil {
		return err
	}
	if j.what == "early" { // anywhere in its start, its join, its first batch
		s.idle(time.Second)
		return s.w.dead(m)
	}
	if err := m.settles(1 + j.n); err != nil {
		return err
	}
	switch j.what {
	case "leave":
		defer s.w.forget(m)
		return m.stop()
	case "freeze":
		m.signal(syscall.SIGSTOP)
		s.idle(2 * s.w.base.Session)
		m.signal(syscall.SIGCONT)
		s.w.mu.Lock()
		s.w.frozen++
		s.w.mu.Unlock()
	}
	s.idle(200 * time.Millisecond)
	return s.w.dead(m)
}

// dieAt starts a member that kills itself in a window.
func (s *slot) dieAt(cfg memberConfig, j job) error {
	if j.at == fault.Handled {
		cfg.Batch = false
	}
	for try := 1; ; try++ {
		m, err := s.w.start(cfg, fmt.Sprintf("%s:%d=kill", j.at, j.n))
		if err != nil {
			return err
		}
		if inShutdown(j.at) {
			if err := m.settles(1); err != nil && !errors.Is(err, errGone) { // a rebalance may have come first
				return err
			}
			m.signal(syscall.SIGTERM)
			// One that has just lost its partitions has none to give back: another is asked.
			if err := m.ended(patience); err == nil && m.status().Exited() && m.status().ExitStatus() == 0 && try < 5 {
				s.w.forget(m)
				continue
			}
		}
		return s.w.dies(m, j.at)
	}
}

// idle lets a random part of a time go by: the moment of what follows is to be random, nothing is waited for.
func (s *slot) idle(most time.Duration) {
	<-time.After(time.Duration(s.rnd.Int64N(int64(most))))
}
