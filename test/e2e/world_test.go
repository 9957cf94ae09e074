//go:build unix

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl/internal/fault"
	"github.com/pawlhq/pawl/internal/kafkatest"
	"github.com/pawlhq/pawl/internal/pgtest"
	"github.com/pawlhq/pawl/postgres"
)

// world is what one proof has to itself: a topic, a group, a database, a stream of events, and the members it starts.
type world struct {
	t       *testing.T
	seed    uint64
	base    memberConfig // of every member
	pool    *pgxpool.Pool
	admin   *kadm.Client
	stream  *stream
	sampler sampler

	mu      sync.Mutex
	members []*process // that have not ended
	all     []*process
	kills   int
	frozen  int
	fired   map[fault.Point]int
}

type worldConfig struct {
	partitions     int
	session        time.Duration
	handlerTimeout time.Duration
	unmigrated     bool // leave the first migration to a member
}

// newWorld makes a world on brokers and on the database at url.
func newWorld(t *testing.T, brokers []string, url string, cfg worldConfig) *world {
	t.Helper()
	w := &world{
		t: t, seed: seed(t), pool: pgtest.Open(t, url), fired: map[fault.Point]int{},
		base: memberConfig{
			Brokers: brokers, Topic: kafkatest.Topic(t, brokers, cfg.partitions), Group: kafkatest.Group(t), Database: url,
			Session: cfg.session, HandlerTimeout: cfg.handlerTimeout,
		},
	}
	if _, err := w.pool.Exec(t.Context(), ledgerSchema); err != nil {
		t.Fatal(err)
	}
	w.admin = kadm.NewClient(kafkatest.Client(t, brokers, kgo.MetadataMinAge(100*time.Millisecond)))
	w.stream = newStream(t, brokers, w.base.Topic, cfg.partitions, w.seed)
	if !cfg.unmigrated {
		w.must(postgres.New(w.pool).Migrate(t.Context()))
		w.watchOwners()
	}
	return w
}

// watchOwners is called once Pawl's tables exist and before a member works on them.
func (w *world) watchOwners() {
	w.t.Helper()
	_, err := w.pool.Exec(w.t.Context(), ownersSchema)
	w.must(err)
}

// seed is given by PAWL_SEED, to do again what a run did, or new.
func seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("PAWL_SEED")
	if text == "" {
		return uint64(time.Now().UnixNano())
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("PAWL_SEED: %v", err)
	}
	return n
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("seed %d: %v", w.seed, err)
	}
}

// inBackground runs f until stop is called, at the latest when the test ends, and returns what it returned.
func (w *world) inBackground(f func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	w.t.Cleanup(func() { stop() })
	return stop
}

// start starts a member. Cfg is what makes it differ from the others of this world.
func (w *world) start(cfg memberConfig, faults string) (*process, error) {
	cfg.Brokers, cfg.Topic, cfg.Group, cfg.Database = w.base.Brokers, w.base.Topic, w.base.Group, w.base.Database
	cfg.Session, cfg.HandlerTimeout = w.base.Session, w.base.HandlerTimeout
	w.mu.Lock()
	defer w.mu.Unlock()
	cfg.Name = fmt.Sprintf("member %d: %s", len(w.all), cfg.Name) // nobody has it again: see ownersSchema
	p, err := spawn(w.t, strings.TrimSpace(cfg.Name+" "+faults), "member", cfg, faults)
	if err != nil {
		return nil, err
	}
	p.app = cfg.Name
	w.members, w.all = append(w.members, p), append(w.all, p)
	return p, nil
}

// forget is for a member that has ended.
func (w *world) forget(p *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.members = slices.DeleteFunc(w.members, func(m *process) bool { return m == p })
}

// errStuck ends a poll; other errors are given time to pass.
var errStuck = errors.New("stuck")

// poll asks until ok.
func (w *world) poll(what string, within time.Duration, ok func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		is, err := ok(ctx)
		if errors.Is(err, errStuck) {
			return fmt.Errorf("%s: %w", what, err)
		}
		if is {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not within %s: %s (%v)", within.Round(time.Millisecond), what, err)
		case <-tick.C:
		}
	}
}

// positions are the store's, by partition.
func (w *world) positions(ctx context.Context) (map[int32]int64, error) {
	at := map[int32]int64{}
	var partition int32
	var next int64
	err := each(ctx, w.pool, `select partition, next_offset from pawl_progress`, []any{&partition, &next}, func() error {
		at[partition] = next
		return nil
	})
	return at, err
}

// committed are the group's offsets, by partition.
func (w *world) committed(ctx context.Context) (map[int32]int64, error) {
	all, err := w.admin.FetchOffsets(ctx, w.base.Group)
	if err != nil {
		return nil, err
	}
	at := map[int32]int64{}
	for partition, o := range all[w.base.Topic] {
		if o.Err != nil {
			return nil, o.Err
		}
		at[partition] = o.At
	}
	return at, nil
}

// drain waits until every record is settled and the group's offsets have followed, as long as there is progress.
func (w *world) drain() error {
	const stuckAfter = 30 * time.Second
	ends, err := w.stream.ends()
	if err != nil {
		return err
	}
	last, moved := "", time.Now()
	err = w.poll("everything settled and committed", 10*time.Minute, func(ctx context.Context) (bool, error) {
		at, err := w.positions(ctx)
		committed, kafkaErr := w.committed(ctx)
		if maps.Equal(at, ends) && maps.Equal(committed, ends) {
			return true, nil
		}
		if now := fmt.Sprint(at, committed); now != last {
			last, moved = now, time.Now()
		}
		if time.Since(moved) > stuckAfter {
			return false, errors.Join(fmt.Errorf("%w: nothing has moved for %s", errStuck, stuckAfter), err, kafkaErr)
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("%w\nends %v\n%s", err, ends, w.state())
	}
	return nil
}

// state is what there is to know about a world that does not go on.
func (w *world) state() string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var b strings.Builder
	at, err := w.positions(ctx)
	fmt.Fprintf(&b, "positions %v %v\n", at, err)
	committed, err := w.committed(ctx)
	fmt.Fprintf(&b, "committed %v %v\n", committed, err)
	groups, err := w.admin.DescribeGroups(ctx, w.base.Group)
	for _, g := range groups {
		fmt.Fprintf(&b, "group %s %v, %d members:\n", g.State, g.Err, len(g.Members))
		for _, m := range g.Members {
			fmt.Fprintf(&b, "  %s %v\n", m.MemberID, m.Assigned)
		}
	}
	if err != nil {
		fmt.Fprintf(&b, "group: %v\n", err)
	}
	var row string
	for _, query := range []string{
		`select p::text from pawl_progress as p order by partition`,
		`select concat_ws(' | ', pid, application_name, state, wait_event, now() - xact_start, left(query, 80))
		 from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
	} {
		if err := each(ctx, w.pool, query, []any{&row}, func() error { b.WriteString(row + "\n"); return nil }); err != nil {
			fmt.Fprintf(&b, "%v\n", err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.members {
		b.WriteString(m.dump())
	}
	return b.String()
}

// finish ends a proof: members that nothing is done to settle what is left, and leave in good order; then the database is
// compared with the model.
func (w *world) finish(stopProducing func() error, stopSampling func() error) {
	w.t.Helper()
	w.must(stopProducing())
	w.must(w.drain())
	w.must(stopSampling())
	w.mu.Lock()
	members := slices.Clone(w.members)
	w.mu.Unlock()
	for _, m := range members {
		w.must(m.stop())
		w.forget(m)
	}
	w.must(checkEnd(context.Background(), w.pool, w.stream))
}

// report prints what was done, for the record.
func (w *world) report(began time.Time) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stream.mu.Lock()
	defer w.stream.mu.Unlock()
	said := map[string]int{}
	for _, m := range w.all {
		m.mu.Lock()
		for _, n := range m.notes {
			switch n.What {
			case "restarted":
				said["restarted"]++
			case "failed":
				class, _, _ := strings.Cut(n.Err, ":")
				said["failed, "+class]++
			}
		}
		m.mu.Unlock()
	}
	w.t.Logf("seed %d: %d records of %d keys, %d members, %d kills, %d freezes, %d samples (%d could not be taken), fired %v, said %v, %s",
		w.seed, len(w.stream.records), len(w.stream.families), len(w.all), w.kills, w.frozen, w.sampler.taken, w.sampler.missed,
		w.fired, said, time.Since(began).Round(100*time.Millisecond))
}

// sampler compares the group's offsets with the store's positions, again and again (I4, I5).
type sampler struct {
	taken, missed int
}

// sample runs until ctx ends. The group is asked first: what it has must be in the store by the time that is asked.
func (w *world) sample(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	last := map[int32]int64{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		// One sample is bounded: the broker, or the database, may be down. It is not cut short by the end: on a busy machine, a
		// connection whose query was cancelled in the moment of its answer may fail the next one.
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		committed, err := w.committed(bounded)
		var at map[int32]int64
		if err == nil {
			at, err = w.positions(bounded)
		}
		cancel()
		if err != nil {
			w.sampler.missed++
			continue
		}
		for partition, offset := range committed {
			if offset > at[partition] {
				return fmt.Errorf("partition %d: the group's offset is %d, the store's position %d: it leads the effects", partition, offset, at[partition])
			}
			if offset < last[partition] {
				return fmt.Errorf("partition %d: the group's offset went back from %d to %d", partition, last[partition], offset)
			}
			last[partition] = offset
		}
		if len(committed) > 0 {
			w.sampler.taken++
		}
	}
}

// dies waits for a member to die of the fault that was asked for, and counts it. One that never fires is an error.
func (w *world) dies(m *process, p fault.Point) error {
	if err := m.ended(patience); err != nil {
		return fmt.Errorf("window %s was asked for and did not fire: %w", p, err)
	}
	if !m.killedItself() {
		return fmt.Errorf("window %s: %s ended with %v\n%s", p, m, m.cmd.ProcessState, m.tail())
	}
	m.mu.Lock()
	var last note
	for _, n := range m.notes {
		if n.What == "window" {
			last = n
		}
	}
	m.mu.Unlock()
	if last.Window != string(p) {
		return fmt.Errorf("window %s: %s died, and its last window was %q\n%s", p, m, last.Window, m.tail())
	}
	w.mu.Lock()
	w.kills++
	w.fired[p]++
	w.mu.Unlock()
	return w.afterDeath(m)
}

// dead kills a member and counts it.
func (w *world) dead(m *process) error {
	if !m.kill() {
		return fmt.Errorf("%s ended by itself, with %v\n%s", m, m.cmd.ProcessState, m.tail())
	}
	w.mu.Lock()
	w.kills++
	w.mu.Unlock()
	return w.afterDeath(m)
}

func (w *world) afterDeath(m *process) error {
	w.forget(m)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := checkMoment(ctx, w.pool); err != nil && !isUndefinedTable(err) {
		return fmt.Errorf("after the death of %s: %w", m, err)
	}
	return nil
}

// isUndefinedTable is true before the first migration.
func isUndefinedTable(err error) bool {
	var e interface{ SQLState() string }
	return errors.As(err, &e) && e.SQLState() == "42P01"
}
