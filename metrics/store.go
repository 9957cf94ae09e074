package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/pawlhq/pawl"
)

// Store is what is asked of a store: a pawl.Admin.
type Store interface {
	QuarantineGroups(ctx context.Context, consumer string) ([]pawl.QuarantineGroup, error)
	GapGroups(ctx context.Context, consumer string) ([]pawl.GapGroup, error)
}

const (
	askEvery   = 15 * time.Second // however often it is scraped
	askTimeout = 2 * time.Second
)

// WatchStore has the store asked for what is in quarantine and which gaps are open, at most every 15 seconds. Every member that does so tells the
// same: on dashboards, take the greatest.
func (m *Metrics) WatchStore(s Store) {
	m.store.Lock()
	defer m.store.Unlock()
	m.store.of, m.store.asked = s, time.Time{}
}

// store is what the store last said.
type store struct {
	sync.Mutex
	consumer string
	of       Store
	asked    time.Time
	said     waiting
	failures uint64
}

// waiting is what waits in a store.
type waiting struct {
	quarantine []pawl.QuarantineGroup
	gaps       []pawl.GapGroup
}

// read asks, unless it has been a moment ago. What cannot be asked for is not told, rather than as it was.
func (s *store) read(now time.Time) (said waiting, failures uint64, ok bool) {
	s.Lock()
	defer s.Unlock()
	if s.of == nil {
		return waiting{}, 0, false
	}
	if s.asked.IsZero() || now.Sub(s.asked) >= askEvery {
		ctx, cancel := context.WithTimeout(context.Background(), askTimeout) // a scrape has no context
		defer cancel()
		quarantine, err := s.of.QuarantineGroups(ctx, s.consumer)
		var gaps []pawl.GapGroup
		if err == nil {
			gaps, err = s.of.GapGroups(ctx, s.consumer)
		}
		s.asked, s.said = now, waiting{quarantine, gaps}
		if err != nil {
			s.failures++
			s.said = waiting{}
		}
	}
	return s.said, s.failures, true
}

// waiting tells what waits for an operator, or for an event.
func (s scrape) waiting(w waiting, failures uint64, now time.Time) {
	type of struct{ route, cause string }
	entries, oldest := map[of]int{}, map[of]time.Time{}
	for _, g := range w.quarantine {
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
	for _, g := range w.gaps {
		s.gauge(s.descs.gaps, float64(g.Gaps), g.Route)
		s.gauge(s.descs.gapsAge, max(now.Sub(g.Oldest), 0).Seconds(), g.Route)
	}
	s.counter(s.descs.storeErrors, failures)
}
