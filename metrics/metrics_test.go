package metrics_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/metrics"
)

// script is a source that does what a test tells it to.
type script struct {
	parts  []pawl.Partition
	do     chan func(pawl.Intake)
	refuse chan error // errors for commits to come
}

type still struct{}

func (still) Pause()               {}
func (still) Resume()              {}
func (still) Rewind(int64, func()) {}

func newScript(parts ...pawl.Partition) *script {
	return &script{parts: parts, do: make(chan func(pawl.Intake)), refuse: make(chan error, 1)}
}

func (s *script) Origin(context.Context) (pawl.Origin, error) {
	return pawl.Origin{Cluster: "c", Group: "g"}, nil
}

func (s *script) Run(ctx context.Context, _ []string, in pawl.Intake) error {
	as := make([]*pawl.Assignment, len(s.parts))
	for i, p := range s.parts {
		as[i] = &pawl.Assignment{Partition: p, End: 10, Committed: -1, Flow: still{}}
	}
	if _, err := in.Assign(ctx, as); err != nil {
		return err
	}
	for {
		select {
		case f := <-s.do:
			f(in)
		case <-ctx.Done():
			in.Revoke(ctx, s.parts)
			return ctx.Err()
		}
	}
}

func (s *script) Commit(context.Context, []pawl.Commit) error {
	select {
	case err := <-s.refuse:
		return err
	default:
		return nil
	}
}

// tell makes the source do something, and returns when it has.
func (s *script) tell(f func(pawl.Intake)) {
	done := make(chan struct{})
	s.do <- func(in pawl.Intake) { f(in); close(done) }
	<-done
}

var update = flag.Bool("update", false, "write what is found to testdata")

// Names, types, labels and texts are what others build dashboards on: a change shows here. Lint is Prometheus' own.
func TestNamesAndLabels(t *testing.T) {
	b := newBench(t)
	p := partition("first", 0)
	s := newScript(p)
	b.run(s)
	s.tell(func(in pawl.Intake) { in.Take(p, lay(p, time.Now(), everyFate("x")...)) })
	s.tell(func(in pawl.Intake) {
		in.Raise(pawl.Condition{Partition: p, State: pawl.StateLogFrozen, Reason: "r", Hint: "h", Next: pawl.NoStart})
	})
	b.until("all settled and committed", func() bool {
		return b.sum("pawl_outcomes_total") == len(everyFate("")) && b.sum("pawl_partition_offset", "kind=committed") > 0
	})
	b.metrics.WatchStore(gapped{b.store.Admin()})
	families, err := b.reg.Gather()
	b.must(err)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	b.must(err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	var got strings.Builder
	docs, err := os.ReadFile("../docs/signals.md")
	b.must(err)
	for _, f := range families {
		labels := map[string]bool{}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = true
			}
		}
		var names []string
		for l := range labels {
			names = append(names, l)
		}
		slices.Sort(names)
		fmt.Fprintf(&got, "%s %s {%s}\n\t%s\n", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(names, ", "), f.GetHelp())
		if !strings.Contains(string(docs), "`"+f.GetName()+"`") {
			t.Errorf("docs/signals.md does not tell of %s", f.GetName())
		}
		for _, m := range f.GetMetric() {
			if h := m.GetHistogram(); h != nil && f.GetName() != "pawl_event_to_effect_seconds" && h.Schema == nil {
				t.Errorf("%s is no native histogram", f.GetName())
			}
		}
	}
	const golden = "testdata/metrics.txt"
	if *update {
		b.must(os.WriteFile(golden, []byte(got.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	b.must(err)
	if got.String() != string(want) {
		t.Errorf("what is exposed has changed (go test -update):\n%s", got.String())
	}
}

func TestWhatIsToldOfAPartitionEndsWithIt(t *testing.T) {
	b := newBench(t)
	p0, p1 := partition("first", 0), partition("second", 1)
	s := newScript(p0, p1)
	b.run(s)
	raise := func(p pawl.Partition, state pawl.State) {
		s.tell(func(in pawl.Intake) {
			in.Raise(pawl.Condition{Partition: p, State: state, Reason: "r", Hint: "h", Next: pawl.NoStart})
		})
	}
	raise(p0, pawl.StateLogFrozen)
	raise(p1, pawl.StateLogFrozen)
	raise(pawl.Partition{Topic: "second", Index: pawl.AllPartitions}, pawl.StateTopicMissing)
	raise(p1, pawl.StateBelowLog)
	b.until("told", func() bool { return b.sum("pawl_condition") == 4 && b.sum("pawl_partition_halted") == 1 })
	if n := b.sum("pawl_consumer_state", "state=halted"); n != 1 {
		t.Errorf("states: %v", b.gather("pawl_consumer_state"))
	}
	if c := b.gather("pawl_condition"); c["partition=1,state=below_log,topic=second"] != 1 || c["partition=,state=topic_missing,topic=second"] != 1 {
		t.Errorf("conditions: %v", c)
	}
	s.tell(func(in pawl.Intake) { in.Clear(p0, pawl.StateLogFrozen) })
	if n := b.sum("pawl_condition", "topic=first"); n != 0 {
		t.Error("a condition that is over is told")
	}

	s.tell(func(in pawl.Intake) { in.Revoke(t.Context(), []pawl.Partition{p1}) })
	for _, line := range b.series("pawl_") {
		if strings.Contains(line, `value:"second"`) && !strings.Contains(line, "topic_missing") {
			t.Errorf("told of a partition that another member has: %s", line)
		}
	}
	if n := len(b.gather("pawl_consumer_lag_records")); n != 1 {
		t.Errorf("%d lags, want 1", n)
	}
	// It comes back: what was the matter before is not told again unless it is raised again.
	s.tell(func(in pawl.Intake) {
		if _, err := in.Assign(t.Context(), []*pawl.Assignment{{Partition: p1, End: 10, Committed: -1, Flow: still{}}}); err != nil {
			t.Error(err)
		}
	})
	if c := b.gather("pawl_condition"); len(c) != 1 || len(b.gather("pawl_consumer_lag_records")) != 2 {
		t.Errorf("conditions: %v", c)
	}
	s.tell(func(in pawl.Intake) { in.Lose([]pawl.Partition{p0, p1}) })
	if n := len(b.gather("pawl_consumer_lag_records")) + len(b.gather("pawl_partition_offset")); n != 0 {
		t.Errorf("%d series of partitions that are gone", n)
	}
	if b.sum("pawl_consumer_state", "state=idle") != 1 || b.sum("pawl_assignments_total", "change=ended") != 3 {
		t.Errorf("states: %v, assignments: %v", b.gather("pawl_consumer_state"), b.gather("pawl_assignments_total"))
	}
}

func TestLagIsOfTheOldestThatIsNotSettled(t *testing.T) {
	now := time.Unix(2_000_000_000, 0)
	reg := prometheus.NewPedanticRegistry()
	m, err := metrics.New(reg, metrics.Config{Consumer: "test", Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	m.Watch(fixed{
		{Partition: partition("waits", 0), Owned: true, Received: 8, Next: 5, Committed: 4, End: 20, Unsettled: 3, Oldest: now.Add(-90 * time.Second)},
		{Partition: partition("ahead", 0), Owned: true, Received: 9, Next: 9, Committed: -1, End: 20}, // what comes next is not known
		{Partition: partition("done", 0), Owned: true, Received: 9, Next: 9, Committed: 9, End: 9},
		{Partition: partition("halted", 0), Committed: -1, End: 20, Halted: true},
	})
	b := &bench{T: t, reg: reg}
	if got, want := fmt.Sprint(b.gather("pawl_consumer_lag_seconds")), fmt.Sprint(map[string]float64{"partition=0,topic=waits": 90, "partition=0,topic=done": 0}); got != want {
		t.Errorf("lag in seconds %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(b.gather("pawl_consumer_lag_records")), fmt.Sprint(map[string]float64{"partition=0,topic=waits": 15, "partition=0,topic=ahead": 11, "partition=0,topic=done": 0}); got != want {
		t.Errorf("lag %s, want %s", got, want)
	}
}

type fixed []pawl.LiveProgress

func (f fixed) Progress() []pawl.LiveProgress { return f }

func TestRestartsAndCommitsAreCountedByWhatTheyAre(t *testing.T) {
	b := newBench(t)
	h := b.metrics.Hooks()
	h.Restarted(partition("first", 0), fmt.Errorf("advance: %w", pawl.ErrFenced))
	h.Restarted(partition("first", 0), pawl.ErrStoreWentBack)
	h.Restarted(partition("first", 0), pawl.ErrStoreWentBack)
	h.Committed(make([]pawl.Commit, 3))
	h.CommitFailed(make([]pawl.Commit, 2), errors.New("not now"))
	h.Ended(partition("first", 9)) // without having been assigned
	whole := pawl.Partition{Index: pawl.AllPartitions}
	h.Raised(pawl.Condition{Partition: whole, State: pawl.StatePaused})
	if n := b.sum("pawl_consumer_state", "state=paused"); n != 1 {
		t.Errorf("states: %v", b.gather("pawl_consumer_state"))
	}
	h.Raised(pawl.Condition{Partition: whole, State: pawl.StateQuarantineBudget})
	for _, w := range []struct {
		name, label string
		n           int
	}{
		{"pawl_restarts_total", "cause=fenced", 1}, {"pawl_restarts_total", "cause=store_went_back", 2}, {"pawl_fenced_total", "", 1},
		{"pawl_offset_commits_total", "result=success", 3}, {"pawl_offset_commits_total", "result=failure", 2},
		{"pawl_assignments_total", "change=ended", 0}, {"pawl_consumer_state", "state=latched", 1},
	} {
		var labels []string
		if w.label != "" {
			labels = append(labels, w.label)
		}
		if n := b.sum(w.name, labels...); n != w.n {
			t.Errorf("%s{%s} is %d, want %d", w.name, w.label, n, w.n)
		}
	}
}

// asked counts how often a store is asked, and fails if told to.
type asked struct {
	pawl.Admin
	n   int
	err error
}

func (a *asked) QuarantineGroups(ctx context.Context, consumer string) ([]pawl.QuarantineGroup, error) {
	if a.n++; a.err != nil {
		return nil, a.err
	}
	return a.Admin.QuarantineGroups(ctx, consumer)
}

func TestTheStoreIsAskedForItsQuarantineNowAndThen(t *testing.T) {
	b := newBench(t)
	now := time.Now().Add(time.Minute)
	b.reg = prometheus.NewPedanticRegistry()
	m, err := metrics.New(b.reg, metrics.Config{Consumer: "test", Now: func() time.Time { return now }})
	b.must(err)
	b.metrics, b.cfg.Hooks = m, m.Hooks()
	p := partition("first", 0)
	s := newScript(p)
	b.run(s)
	s.tell(func(in pawl.Intake) {
		in.Take(p, lay(p, now, json("1", "reject", 0), json("2", "reject", 0), json("3", "poison", 0)))
	})
	b.until("settled", func() bool { return b.sum("pawl_outcomes_total") == 3 })

	admin := &asked{Admin: b.store.Admin()}
	m.WatchStore(admin)
	for range 3 {
		if n := b.sum("pawl_quarantine_entries", "route=a", "cause=validation"); n != 2 {
			t.Errorf("%d in quarantine, want 2", n)
		}
		if n := b.sum("pawl_quarantine_entries", "route=a", "cause=poison"); n != 1 {
			t.Errorf("%d in quarantine, want 1", n)
		}
	}
	if age := b.gather("pawl_quarantine_oldest_age_seconds")["cause=poison,route=a"]; age < 30 || age > 90 {
		t.Errorf("the oldest is %v s old", age)
	}
	if admin.n != 1 {
		t.Errorf("asked %d times within one moment", admin.n)
	}
	now, admin.err = now.Add(time.Minute), errors.New("not now")
	if n := len(b.gather("pawl_quarantine_entries")); n != 0 || b.sum("pawl_store_scrape_errors_total") != 1 {
		t.Errorf("%d series of a store that does not answer, errors %v", n, b.gather("pawl_store_scrape_errors_total"))
	}
}

// gapped is a store with gaps.
type gapped struct{ pawl.Admin }

func (gapped) GapGroups(context.Context, string) ([]pawl.GapGroup, error) {
	return []pawl.GapGroup{{Route: "a", Gaps: 3, Waiting: 17, Oldest: time.Now().Add(-time.Hour)}}, nil
}

func TestGapsAreTold(t *testing.T) {
	b := newBench(t)
	b.metrics.WatchStore(gapped{b.store.Admin()})
	if n := b.sum("pawl_gaps_open", "route=a"); n != 3 {
		t.Errorf("%d gaps, want 3", n)
	}
	if age := b.gather("pawl_gap_oldest_age_seconds")["route=a"]; age < 3500 || age > 3700 {
		t.Errorf("the oldest is %v s old, want an hour", age)
	}
}

func TestAnOffsetThatIsNotCommittedIsCounted(t *testing.T) {
	b := newBench(t)
	p := partition("first", 0)
	s := newScript(p)
	s.refuse <- errors.New("not now")
	b.run(s)
	s.tell(func(in pawl.Intake) { in.Take(p, lay(p, time.Now(), json("1", "", 0))) })
	b.until("tried again", func() bool {
		return b.sum("pawl_offset_commits_total", "result=failure") == 1 && b.sum("pawl_partition_offset", "kind=committed") == 1
	})
}

func TestConsumersShareARegistry(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	for _, c := range []string{"billing", "audit"} {
		m, err := metrics.New(reg, metrics.Config{Consumer: c})
		if err != nil {
			t.Fatal(err)
		}
		m.Hooks().Taken(partition("first", 0), 3)
	}
	if _, err := reg.Gather(); err != nil {
		t.Error(err)
	}
	if _, err := metrics.New(reg, metrics.Config{Consumer: "audit"}); err == nil || !strings.Contains(err.Error(), "audit") {
		t.Errorf("the same consumer twice: %v", err)
	}
	if _, err := metrics.New(reg, metrics.Config{}); err == nil {
		t.Error("no consumer, and no error")
	}
}

// What a producer or a handler writes is nobody's label.
func TestNoLabelComesFromTheData(t *testing.T) {
	const canary = "canary-7f3a"
	b := newBench(t)
	p := partition("first", 0)
	s := newScript(p)
	b.run(s)
	records := lay(p, time.Now(), json(canary, "fail", 0), json(canary+"2", "ignore", 0), pawl.Record{Key: []byte(canary), Value: []byte(canary)})
	s.tell(func(in pawl.Intake) {
		in.Take(p, records)
		in.Raise(pawl.Condition{Partition: p, State: pawl.StateLogFrozen, Reason: canary, Hint: canary, Next: pawl.NoStart})
	})
	b.until("settled", func() bool { return b.sum("pawl_outcomes_total") == 3 })
	h := b.metrics.Hooks()
	h.Restarted(p, errors.New(canary))
	h.Failed(pawl.Failure{Partition: p, Err: errors.New(canary)})
	h.Settled(pawl.Settled{Partition: p, Routes: []string{"a"}, Decisions: []*pawl.Decision{{Record: &records[0], Outcome: pawl.Quarantined, Cause: canary}}})
	for _, line := range b.series("") {
		if strings.Contains(line, canary) {
			t.Errorf("exposed: %s", line)
		}
	}
}

// A batch of the usual largest size: what metrics add to it.
func BenchmarkSettled(b *testing.B) {
	for _, kinds := range []string{"applied", "mixed"} {
		b.Run(kinds, func(b *testing.B) {
			m, err := metrics.New(prometheus.NewRegistry(), metrics.Config{Consumer: "bench"})
			if err != nil {
				b.Fatal(err)
			}
			s := pawl.Settled{Partition: partition("first", 0), Routes: []string{"a", "b"}, Took: 20 * time.Millisecond, Records: 2000}
			now := time.Now()
			for i := range 2000 {
				d := &pawl.Decision{Outcome: pawl.Applied, Mode: pawl.Live, Record: &pawl.Record{Timestamp: now.Add(-time.Duration(i) * time.Millisecond)}}
				if kinds == "mixed" {
					d.Outcome = []pawl.Outcome{pawl.Applied, pawl.Duplicate, pawl.WasStale, pawl.Ignored}[i%4]
					d.Route = i % 2
				}
				s.Decisions = append(s.Decisions, d)
			}
			h := m.Hooks()
			b.ReportAllocs()
			for b.Loop() {
				h.Taken(s.Partition, 2000)
				h.Settled(s)
			}
		})
	}
}
