package metrics_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
	"github.com/pawlhq/pawl/internal/sqlitetest"
	"github.com/pawlhq/pawl/metrics"
	"github.com/pawlhq/pawl/pawltest"
	"github.com/pawlhq/pawl/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// event is what the records of these tests say; Do is what its handler does.
type event struct {
	ID string `json:"id"`
	Do string `json:"do,omitempty"`
	N  int    `json:"n,omitempty"`
}

func events() pawl.Decoder[event] {
	return decode.JSON(func(_ pawl.Meta, e event) pawl.Identity { return pawl.Identity{Key: e.ID} })
}

func handle(_ context.Context, _ pawl.SQLTx, e pawl.Envelope[event]) error {
	switch e.Body.Do {
	case "ignore":
		return pawl.Ignore("not ours")
	case "stale":
		return pawl.Stale("past it")
	case "reject":
		return pawl.Reject(errors.New("never"))
	case "corrupt":
		return &pawl.Error{Op: "test", Class: pawl.Corruption, Err: errors.New("contradicts itself")}
	case "poison":
		return &pawl.Error{Op: "test", Class: pawl.Poison, Err: errors.New("no database holds this")}
	case "fail":
		return errors.New("nobody knows why")
	}
	return nil
}

func openStore(t testing.TB) (*sqlite.Store, *sql.DB) {
	t.Helper()
	path := sqlitetest.Migrated(t)
	store, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store, store.DB()
}

// partition is one of a topic, both named by what tests say.
func partition(topic string, index int32) pawl.Partition {
	return pawl.Partition{Topic: topic, TopicID: pawl.TopicID{topic[0]}, Index: index}
}

// lay gives records their positions.
func lay(p pawl.Partition, at time.Time, records ...pawl.Record) []pawl.Record {
	for i := range records {
		records[i].Partition, records[i].Offset, records[i].Timestamp = p, int64(i), at
	}
	return records
}

// bench is a runner's store, what it has been asked to observe, and the registry.
type bench struct {
	*testing.T
	store   *sqlite.Store
	db      *sql.DB
	reg     *prometheus.Registry
	metrics *metrics.Metrics
	settled chan struct{} // something has happened
	cfg     pawl.Config
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, reg: prometheus.NewPedanticRegistry(), settled: make(chan struct{}, 1)}
	b.store, b.db = openStore(t)
	m, err := metrics.New(b.reg, metrics.Config{Consumer: "test"})
	b.must(err)
	b.metrics = m
	b.cfg = pawl.Config{
		Consumer: "test", Workers: 2, MaxTries: 2, CommitInterval: time.Millisecond, Budget: pawl.Budget{Records: 1 << 30, Share: 1},
		Logger: slog.New(slog.DiscardHandler),
		Hooks: pawl.JoinHooks(m.Hooks(), pawl.Hooks{
			Settled: func(pawl.Settled) { b.wake() }, Failed: func(pawl.Failure) { b.wake() },
			Raised: func(pawl.Condition) { b.wake() }, Cleared: func(pawl.Partition, pawl.State) { b.wake() },
			Committed: func([]pawl.Commit) { b.wake() }, CommitFailed: func([]pawl.Commit, error) { b.wake() },
		}),
	}
	return b
}

func (b *bench) wake() {
	select {
	case b.settled <- struct{}{}:
	default:
	}
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// until waits for what must become true, woken by each thing that happens.
func (b *bench) until(what string, ok func() bool) {
	b.Helper()
	deadline := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-b.settled:
		case <-time.After(5 * time.Millisecond):
		case <-deadline:
			b.Fatalf("not within 30 s: %s\n%s", what, strings.Join(b.series(""), "\n"))
		}
	}
}

// run starts a runner on a log with two routes: "a" reads both topics, "b" only the second.
func (b *bench) run(source pawl.Source) (r *pawl.Runner[pawl.SQLTx], stop func()) {
	b.Helper()
	r = pawl.NewRunner(b.store, source, b.cfg)
	pawl.Handle(r, pawl.Route{Name: "a", Topics: []string{"first", "second"}}, events(), handle)
	pawl.Handle(r, pawl.Route{Name: "b", Topics: []string{"second"}}, events(), handle)
	b.metrics.Watch(r)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	ended := false
	stop = func() {
		b.Helper()
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			b.Errorf("Run: %v", err)
		}
	}
	b.Cleanup(stop)
	return r, stop
}

// gather returns the values of a family by its labels but for consumer, as "k=v,k=v" in the order of names.
func (b *bench) gather(name string) map[string]float64 {
	b.Helper()
	all, err := b.reg.Gather()
	b.must(err)
	values := map[string]float64{}
	for _, f := range all {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				if l.GetName() != "consumer" {
					labels = append(labels, l.GetName()+"="+l.GetValue())
				}
			}
			v := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			values[strings.Join(labels, ",")] = v
		}
	}
	return values
}

// sum adds up the series of a family that have all of labels, such as "route=a".
func (b *bench) sum(name string, labels ...string) (n int) {
	b.Helper()
	for of, v := range b.gather(name) {
		has := true
		for _, l := range labels {
			has = has && strings.Contains(","+of+",", ","+l+",")
		}
		if has {
			n += int(v)
		}
	}
	return n
}

// series lists what is exposed of families with a prefix.
func (b *bench) series(prefix string) (list []string) {
	all, err := b.reg.Gather()
	b.must(err)
	for _, f := range all {
		if strings.HasPrefix(f.GetName(), prefix) {
			for _, m := range f.GetMetric() {
				list = append(list, f.GetName()+" "+m.String())
			}
		}
	}
	return list
}

func (b *bench) rows(query string, args ...any) (n int) {
	b.Helper()
	b.must(b.db.QueryRowContext(b.Context(), query, args...).Scan(&n))
	return n
}

func json(id, do string, n int) pawl.Record { return pawltest.JSON(event{id, do, n}) }
