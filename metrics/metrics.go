package metrics

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlhq/pawl"
)

// Config is what metrics say of a runner beside what they see.
type Config struct {
	// Consumer is the label of every series: the name in the runner's own Config. Required.
	Consumer string

	// Now is the clock that ages are measured by. Default: time.Now.
	Now func() time.Time
}

// Progress is what is asked at each scrape: a *pawl.Runner.
type Progress interface {
	Progress() []pawl.LiveProgress
}

// Metrics are the series of one consumer in this process. Several consumers may share a registry. It is a
// prometheus.Collector: to take it off a registry, Unregister it.
type Metrics struct {
	now        func() time.Time
	descs      descs
	duration   prometheus.Histogram
	size       prometheus.Histogram
	conditions conditions
	store      store

	mu       sync.Mutex
	runner   Progress
	received map[string]uint64  // records, by topic
	outcomes map[decided]uint64 // decisions
	effects  map[string]*ages   // of applied records, by route
	failures map[pawl.Class]uint64
	restarts map[string]uint64 // by cause
	changes  struct{ assigned, ended uint64 }
	commits  struct{ success, failure uint64 } // of a partition's offset
}

// New registers the metrics of a consumer.
func New(reg prometheus.Registerer, cfg Config) (*Metrics, error) {
	if cfg.Consumer == "" {
		return nil, errors.New("metrics: Config.Consumer is empty: it tells one consumer's series from another's")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	m := &Metrics{
		now: cfg.Now, descs: newDescs(cfg.Consumer), conditions: newConditions(),
		received: map[string]uint64{}, outcomes: map[decided]uint64{}, effects: map[string]*ages{},
		failures: map[pawl.Class]uint64{}, restarts: map[string]uint64{},
	}
	m.store.consumer = cfg.Consumer
	labels := prometheus.Labels{"consumer": cfg.Consumer}
	m.duration = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "pawl_apply_tx_duration_seconds", ConstLabels: labels,
		Help:                        "How long a batch that committed took from the begin of its transaction to its commit, its handlers included.",
		Buckets:                     []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
	})
	m.size = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "pawl_apply_batch_records", ConstLabels: labels,
		Help:                        "How many records a batch had that committed. Batches grow with what waits and shrink after failures.",
		Buckets:                     []float64{1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2000, 5000},
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
	})
	if err := reg.Register(m); err != nil {
		return nil, fmt.Errorf("metrics: register consumer %q: %w", cfg.Consumer, err)
	}
	return m, nil
}

// Watch sets the runner that is asked for its progress. Until then, what is told per partition is absent.
func (m *Metrics) Watch(p Progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.runner = p
}

// Hooks are what feeds the metrics, for pawl.Config.Hooks; pawl.JoinHooks joins them with others.
func (m *Metrics) Hooks() pawl.Hooks {
	return pawl.Hooks{
		Assigned: func(p pawl.Partition) {
			m.conditions.assigned(p)
			m.count(func() { m.changes.assigned++ })
		},
		Ended: func(p pawl.Partition) {
			if m.conditions.ended(p) {
				m.count(func() { m.changes.ended++ })
			}
		},
		Taken:   func(p pawl.Partition, n int) { m.count(func() { m.received[p.Topic] += uint64(n) }) },
		Settled: m.settled,
		Failed:  func(f pawl.Failure) { m.count(func() { m.failures[f.Class]++ }) },
		Restarted: func(_ pawl.Partition, err error) {
			m.count(func() { m.restarts[cause(err)]++ })
		},
		Raised:       m.conditions.raised,
		Cleared:      m.conditions.cleared,
		Committed:    func(cs []pawl.Commit) { m.count(func() { m.commits.success += uint64(len(cs)) }) },
		CommitFailed: func(cs []pawl.Commit, _ error) { m.count(func() { m.commits.failure += uint64(len(cs)) }) },
	}
}

func (m *Metrics) count(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// cause names why a partition was taken anew, in as many words as there are causes.
func cause(err error) string {
	switch {
	case errors.Is(err, pawl.ErrStoreWentBack):
		return causeWentBack
	case errors.Is(err, pawl.ErrFenced):
		return causeFenced
	}
	return "other"
}

const (
	causeFenced   = "fenced"
	causeWentBack = "store_went_back"
)

// settled counts a batch. It looks at each decision once, without the lock.
func (m *Metrics) settled(s pawl.Settled) {
	m.duration.Observe(s.Took.Seconds())
	m.size.Observe(float64(s.Records))
	t := newTally(s, m.now())
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range t.counts {
		m.outcomes[decided{s.Routes[n.route], n.outcome, n.mode, knownCause(n.cause), n.kept, n.repeat}] += n.n
	}
	for i := range t.ages {
		a := &t.ages[i]
		if a.count == 0 {
			continue
		}
		route := s.Routes[a.route]
		if m.effects[route] == nil {
			m.effects[route] = new(ages)
		}
		m.effects[route].add(a)
	}
}

// counts is a copy of what was counted, all at one moment.
type counts struct {
	runner   Progress
	received map[string]uint64
	outcomes map[decided]uint64
	effects  map[string]ages
	failures map[pawl.Class]uint64
	restarts map[string]uint64
	changes  struct{ assigned, ended uint64 }
	commits  struct{ success, failure uint64 }
}

func (m *Metrics) copy() counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := counts{
		runner: m.runner, received: maps.Clone(m.received), outcomes: maps.Clone(m.outcomes), effects: map[string]ages{},
		failures: maps.Clone(m.failures), restarts: maps.Clone(m.restarts), changes: m.changes, commits: m.commits,
	}
	for route, a := range m.effects {
		c.effects[route] = *a
	}
	return c
}

// version is that of this module in the binary.
func version() string {
	const module = "github.com/pawlhq/pawl"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, d := range append(info.Deps, &info.Main) {
		if d.Path == module && d.Version != "" {
			return d.Version
		}
	}
	return "unknown"
}

var goVersion = runtime.Version()
