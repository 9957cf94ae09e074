package pawl_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/pawltest"
)

func TestRunReportsEverythingThatIsWrongAtOnce(t *testing.T) {
	store, _ := openStore(t)
	h := func(context.Context, pawl.SQLTx, pawl.Envelope[payment]) error { return nil }
	r := pawl.NewRunner(store, pawltest.NewLog(nil), pawl.Config{Workers: -1})
	pawl.Handle(r, pawl.Route{Name: "a", Topics: []string{"t"}}, payments(), h)
	pawl.Handle(r, pawl.Route{Name: "a", Topics: []string{"t", "t"}}, payments(), h)
	pawl.Handle(r, pawl.Route{Name: "no spaces"}, payments(), h)
	pawl.Handle[pawl.SQLTx, payment](r, pawl.Route{Name: "b", Topics: []string{"t"}}, nil, nil)
	err := r.Run(t.Context())
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"Consumer is empty", "Workers is negative", `"a" is registered twice`, "listed twice", "no topics", "character ' '", "is nil"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
}

// bench is a log, and what a runner on it has settled.
type bench struct {
	log      *pawltest.Log
	mu       sync.Mutex
	outcomes map[string][]pawl.Outcome // by route
	restarts []error
	settled  chan struct{} // one per batch
}

func newBench(records ...pawl.Record) *bench {
	for i := range records {
		records[i].Partition = pawl.Partition{Topic: pawltest.Topic, TopicID: pawl.TopicID{1}}
		records[i].Offset = int64(i)
		records[i].Timestamp = time.Unix(1, 0)
	}
	return &bench{log: pawltest.NewLog(records), outcomes: map[string][]pawl.Outcome{}, settled: make(chan struct{}, 1000)}
}

func (b *bench) config() pawl.Config {
	return pawl.Config{
		Consumer: "test", Logger: slog.New(slog.DiscardHandler), CommitInterval: time.Millisecond,
		Hooks: pawl.Hooks{
			Settled: func(s pawl.Settled) {
				b.mu.Lock()
				for _, d := range s.Decisions {
					name := s.Routes[d.Route]
					b.outcomes[name] = append(b.outcomes[name], d.Outcome)
				}
				b.mu.Unlock()
				b.settled <- struct{}{}
			},
			Restarted: func(_ pawl.Partition, err error) {
				b.mu.Lock()
				b.restarts = append(b.restarts, err)
				b.mu.Unlock()
			},
		},
	}
}

// until waits for what must become true, woken by each batch that is settled.
func (b *bench) until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		b.mu.Lock()
		done := ok()
		b.mu.Unlock()
		if done {
			return
		}
		select {
		case <-b.settled:
		case <-time.After(5 * time.Millisecond):
		case <-deadline:
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func start(t testing.TB, r interface{ Run(context.Context) error }) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(20 * time.Second):
			return errors.New("Run did not return")
		}
	}
	t.Cleanup(func() { stop() })
	return stop
}

func TestTwoRoutesOnOneTopicDecideEachForItself(t *testing.T) {
	store, db := openStore(t)
	b := newBench(pawltest.JSON(payment{ID: "1", Amount: 1}), pawltest.JSON(payment{ID: "1", Amount: 1}), pawltest.JSON(payment{ID: "2", Amount: 2, Do: "reject"}))
	r := pawl.NewRunner(store, b.log, b.config())
	pawl.Handle(r, pawl.Route{Name: "strict", Topics: []string{pawltest.Topic}}, payments(),
		func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[payment]) error {
			if e.Body.Do == "reject" {
				return pawl.Reject(errors.New("no"))
			}
			return apply(ctx, tx, e.Body)
		})
	pawl.HandleBatch(r, pawl.Route{Name: "lenient", Topics: []string{pawltest.Topic}}, payments(),
		func(ctx context.Context, tx pawl.SQLTx, b *pawl.Batch[payment]) error {
			for _, e := range b.All() {
				if err := apply(ctx, tx, e.Body); err != nil {
					return err
				}
			}
			return nil
		})
	stop := start(t, r)
	b.until(t, "three decisions each", func() bool { return len(b.outcomes["strict"]) == 3 && len(b.outcomes["lenient"]) == 3 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if got := b.outcomes["strict"]; got[0] != pawl.Applied || got[1] != pawl.Duplicate || got[2] != pawl.Quarantined {
		t.Errorf("strict: %v", got)
	}
	if got := b.outcomes["lenient"]; got[0] != pawl.Applied || got[1] != pawl.Duplicate || got[2] != pawl.Applied {
		t.Errorf("lenient: %v", got)
	}
	if n := count(t, db, `select count(*) from effect`); n != 3 {
		t.Errorf("%d effects, want 3", n)
	}
}

// What no record is to blame for latches the consumer: it keeps its partitions and its offsets, says why, and goes on when
// an operator has repaired it and says so.
func TestAMissingTableLatchesTheConsumerAndLosesNothing(t *testing.T) {
	store, db := openStore(t)
	b := newBench(pawltest.JSON(payment{ID: "1"}), pawltest.JSON(payment{ID: "2"}))
	h := func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[payment]) error {
		_, err := tx.ExecContext(ctx, `insert into missing values (1)`)
		return err
	}
	r := pawl.NewRunner(store, b.log, b.config())
	pawl.Handle(r, pawl.Route{Name: "a", Topics: []string{pawltest.Topic}}, payments(), h)
	stop := start(t, r)
	b.until(t, "a condition", func() bool { return count(t, db, `select count(*) from pawl_condition`) > 0 })
	if n := count(t, db, `select count(*) from pawl_decision`) + count(t, db, `select count(*) from pawl_quarantine`); n != 0 {
		t.Errorf("%d rows for a record that is not to blame", n)
	}
	if n := count(t, db, `select next_offset from pawl_progress`); n != 0 {
		t.Errorf("position %d, want 0", n)
	}
	if _, err := db.Exec(`create table missing (n integer)`); err != nil {
		t.Fatal(err)
	}
	resolve(t, b, store, pawl.StateLatched, pawl.GoOn)
	b.until(t, "both applied", func() bool { return len(b.outcomes["a"]) == 2 })
	b.until(t, "the condition to be over", func() bool { return count(t, db, `select count(*) from pawl_condition where ended = 0`) == 0 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// A handler in flight when the runner is told to stop gets to finish: its batch commits, and the offset follows.
func TestStoppingLetsTheBatchInFlightCommit(t *testing.T) {
	store, db := openStore(t)
	b := newBench(pawltest.JSON(payment{ID: "1"}))
	inside, goOn := make(chan struct{}), make(chan struct{})
	h := func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[payment]) error {
		close(inside)
		<-goOn
		if ctx.Err() != nil {
			t.Error("the handler's context ended with Run's")
		}
		return apply(ctx, tx, e.Body)
	}
	r := pawl.NewRunner(store, b.log, b.config())
	pawl.Handle(r, pawl.Route{Name: "a", Topics: []string{pawltest.Topic}}, payments(), h)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	<-inside
	cancel()
	close(goOn)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := count(t, db, `select count(*) from effect`); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
	if got := b.log.Committed(pawl.Partition{Topic: pawltest.Topic, TopicID: pawl.TopicID{1}}); got != 1 {
		t.Errorf("committed offset %d, want 1", got)
	}
}

// Past the timeout the handler is cancelled; its work is undone, and left to the next owner.
func TestStoppingCancelsWhatTakesTooLong(t *testing.T) {
	store, db := openStore(t)
	b := newBench(pawltest.JSON(payment{ID: "1"}))
	inside := make(chan struct{})
	h := func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[payment]) error {
		if err := apply(ctx, tx, e.Body); err != nil {
			return err
		}
		close(inside)
		<-ctx.Done()
		return ctx.Err()
	}
	cfg := b.config()
	cfg.ShutdownTimeout = 20 * time.Millisecond
	r := pawl.NewRunner(store, b.log, cfg)
	pawl.Handle(r, pawl.Route{Name: "a", Topics: []string{pawltest.Topic}}, payments(), h)
	stop := start(t, r)
	<-inside
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if n := count(t, db, `select count(*) from effect`) + count(t, db, `select next_offset from pawl_progress`); n != 0 {
		t.Error("cancelled work left something behind")
	}
}

// Someone else has raised the epoch, yet the partition is still ours: take it again and go on, without a second effect.
func TestAFencedOwnerThatStillOwnsThePartitionTakesItAnew(t *testing.T) {
	store, db := openStore(t)
	b := newBench(pawltest.JSON(payment{ID: "1"}), pawltest.JSON(payment{ID: "2"}), pawltest.JSON(payment{ID: "3"}))
	first := true
	h := func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[payment]) error {
		if e.Key == "2" && first {
			first = false
			if _, err := tx.ExecContext(ctx, `update pawl_progress set epoch = epoch + 1`); err != nil {
				return err
			}
		}
		return apply(ctx, tx, e.Body)
	}
	cfg := b.config()
	cfg.MaxBatch = 1
	cfg.Start = pawl.StartCommitted // from a commit that is not Pawl's: it must not be taken for a reset later
	b.log.SetCommitted(pawl.Partition{Topic: pawltest.Topic, TopicID: pawl.TopicID{1}}, 0, "someone else's")
	r := pawl.NewRunner(store, b.log, cfg)
	pawl.Handle(r, pawl.Route{Name: "a", Topics: []string{pawltest.Topic}}, payments(), h)
	stop := start(t, r)
	b.until(t, "three decisions", func() bool { return len(b.outcomes["a"]) == 3 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if len(b.restarts) != 1 || !errors.Is(b.restarts[0], pawl.ErrFenced) {
		t.Errorf("restarts %v, want one for ErrFenced", b.restarts)
	}
	if n := count(t, db, `select count(*) from effect`); n != 3 {
		t.Errorf("%d effects, want 3", n)
	}
}

// The database was restored to an earlier state under a running owner: it notices, says so, and reads on from there.
func TestAStoreThatWentBackIsReadFromItsPosition(t *testing.T) {
	store, db := openStore(t)
	b := newBench(pawltest.JSON(payment{ID: "1"}), pawltest.JSON(payment{ID: "2"}), pawltest.JSON(payment{ID: "3"}))
	h := func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[payment]) error {
		return apply(ctx, tx, e.Body)
	}
	cfg := b.config()
	cfg.MaxBatch = 1
	note, restored := cfg.Hooks.Settled, false
	cfg.Hooks.Settled = func(s pawl.Settled) {
		note(s)
		if s.Next != 2 || restored {
			return
		}
		restored = true // between two transactions: the second commit is gone, effect and all
		for _, q := range []string{
			`update pawl_progress set seq = seq - 1, next_offset = 1`, `delete from effect where id = '2'`,
			`delete from pawl_decision where position_offset = 1`,
		} {
			if _, err := db.Exec(q); err != nil {
				t.Error(err)
			}
		}
	}
	log := &watchedLog{b.log, func(c pawl.Commit) {
		b.mu.Lock()
		noticed := len(b.restarts) > 0
		b.mu.Unlock()
		if stored := count(t, db, `select next_offset from pawl_progress`); noticed && c.Next > int64(stored) {
			t.Errorf("offset %d is committed, though the store was seen to have gone back to %d", c.Next, stored)
		}
	}}
	r := pawl.NewRunner(store, log, cfg)
	pawl.Handle(r, pawl.Route{Name: "a", Topics: []string{pawltest.Topic}}, payments(), h)
	stop := start(t, r)
	b.until(t, "four decisions, one of them twice", func() bool { return len(b.outcomes["a"]) == 4 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if len(b.restarts) != 1 || !errors.Is(b.restarts[0], pawl.ErrStoreWentBack) {
		t.Errorf("restarts %v, want one for ErrStoreWentBack", b.restarts)
	}
	if n := count(t, db, `select count(distinct id) from effect`); n != 3 {
		t.Errorf("%d effects, want 3: what was lost is done again", n)
	}
	if n := count(t, db, `select count(*) from effect`); n != 3 {
		t.Errorf("%d effects, want 3", n)
	}
}

// watchedLog looks at the store whenever an offset is committed to the source.
type watchedLog struct {
	*pawltest.Log
	check func(pawl.Commit)
}

func (l *watchedLog) Commit(ctx context.Context, commits []pawl.Commit) error {
	for _, c := range commits {
		l.check(c)
	}
	return l.Log.Commit(ctx, commits)
}

// The source's offset follows the store's position and never leads it, though later records are already in memory.
func TestTheCommittedOffsetNeverLeadsTheEffects(t *testing.T) {
	store, db := openStore(t)
	b := newBench(pawltest.JSON(payment{ID: "1"}), pawltest.JSON(payment{ID: "2"}), pawltest.JSON(payment{ID: "3"}), pawltest.JSON(payment{ID: "4"}))
	committed := make(chan int64, 100)
	log := &watchedLog{b.log, func(c pawl.Commit) {
		if stored := count(t, db, `select next_offset from pawl_progress`); c.Next > int64(stored) {
			t.Errorf("offset %d is committed, and the effects are only at %d", c.Next, stored)
		}
		if effects := count(t, db, `select count(*) from effect`); c.Next > int64(effects) {
			t.Errorf("offset %d is committed with %d effects", c.Next, effects)
		}
		committed <- c.Next
	}}
	goOn := make(chan struct{})
	h := func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[payment]) error {
		if e.Key == "3" {
			<-goOn
		}
		return apply(ctx, tx, e.Body)
	}
	cfg := b.config()
	cfg.MaxBatch = 1
	r := pawl.NewRunner(store, log, cfg)
	pawl.Handle(r, pawl.Route{Name: "a", Topics: []string{pawltest.Topic}}, payments(), h)
	stop := start(t, r)
	for next := int64(0); next < 2; { // while the third is being handled
		next = <-committed
	}
	close(goOn)
	b.until(t, "four decisions", func() bool { return len(b.outcomes["a"]) == 4 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if got := b.log.Committed(pawl.Partition{Topic: pawltest.Topic, TopicID: pawl.TopicID{1}}); got != 4 {
		t.Errorf("in the end offset %d is committed, want 4", got)
	}
}
