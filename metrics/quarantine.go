package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/pawlhq/pawl"
)

// Quarantine is what is asked of a store: a pawl.Admin.
type Quarantine interface {
	QuarantineGroups(ctx context.Context, consumer string) ([]pawl.QuarantineGroup, error)
}

const (
	askEvery   = 15 * time.Second // however often it is scraped
	askTimeout = 2 * time.Second
)

// WatchStore has the store asked for what is in quarantine, at most every 15 seconds. Every member that does so tells the
// same: on dashboards, take the greatest.
func (m *Metrics) WatchStore(q Quarantine) {
	m.store.Lock()
	defer m.store.Unlock()
	m.store.of, m.store.asked = q, time.Time{}
}

// store is what the store last said.
type store struct {
	sync.Mutex
	consumer string
	of       Quarantine
	asked    time.Time
	groups   []pawl.QuarantineGroup
	failures uint64
}

// read asks, unless it has been a moment ago. What cannot be asked for is not told, rather than as it was.
func (s *store) read(now time.Time) (groups []pawl.QuarantineGroup, failures uint64, ok bool) {
	s.Lock()
	defer s.Unlock()
	if s.of == nil {
		return nil, 0, false
	}
	if s.asked.IsZero() || now.Sub(s.asked) >= askEvery {
		ctx, cancel := context.WithTimeout(context.Background(), askTimeout) // a scrape has no context
		defer cancel()
		groups, err := s.of.QuarantineGroups(ctx, s.consumer)
		s.asked, s.groups = now, groups
		if err != nil {
			s.failures++
			s.groups = nil
		}
	}
	return s.groups, s.failures, true
}

// quarantine tells what waits for an operator.
func (s scrape) quarantine(groups []pawl.QuarantineGroup, failures uint64, now time.Time) {
	type of struct{ route, cause string }
	entries, oldest := map[of]int{}, map[of]time.Time{}
	for _, g := range groups {
		k := of{g.Route, knownCause(g.Cause)}
		entries[k] += g.Count
		if at, ok := oldest[k]; !ok || g.Oldest.Before(at) {
			oldest[k] = g.Oldest
		}
	}
	for k, n := range entries {
		s.gauge(s.descs.entries, float64(n), k.route, k.cause)
		s.gauge(s.descs.entriesAge, max(now.Sub(oldest[k]), 0).Seconds(), k.route, k.cause)
	}
	s.counter(s.descs.storeErrors, failures)
}
