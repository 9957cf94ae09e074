package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl"
)

// question is what is asked.
type question struct {
	asked, by string
	asOf      time.Time
	limit     int // events of each route that are listed
}

// history is what one consumer has to do with what is asked: as much as was read.
type history struct {
	kinds  []string // what it is there
	events []pawl.Evidence
	cut    map[string]bool // routes of which there is more
	acts   []pawl.AuditEntry
}

// spot is one piece of evidence.
type spot struct {
	route  string
	at     pawl.Partition
	offset int64
	claim  bool
}

// isOpen reports whether there is a route on which nothing of what was read has had an effect, and something earlier may have.
func (h *history) isOpen() bool {
	for route := range h.cut {
		if !slices.ContainsFunc(h.events, func(e pawl.Evidence) bool { return e.Route == route && e.Claim && e.Outcome == pawl.Applied }) {
			return true
		}
	}
	return false
}

// historyOf looks for what is asked in every sense, or in one. It reads so many events of each route, the latest.
func historyOf(ctx context.Context, s *storage, consumer string, q *question, read int) (*history, error) {
	h := &history{cut: map[string]bool{}}
	seen := map[spot]bool{}
	for _, kind := range []string{"stream", "event", "key"} {
		if q.by != "" && q.by != kind {
			continue
		}
		ask := pawl.EvidenceQuery{AsOf: q.asOf, Limit: read + 1} // one more tells whether there is more
		switch kind {
		case "stream":
			ask.Stream = q.asked
		case "event":
			ask.EventID = q.asked
		case "key":
			ask.Key = q.asked
		}
		found, err := s.admin.Evidence(ctx, consumer, ask)
		if err != nil {
			return nil, err
		}
		of := map[string]int{}
		for _, e := range found {
			of[e.Route]++
		}
		fresh := false
		for i := range found {
			e := &found[i]
			if of[e.Route] > read {
				of[e.Route]--
				h.cut[e.Route] = true
				continue
			}
			if at := (spot{e.Route, e.Partition, e.Offset, e.Claim}); !seen[at] {
				seen[at], fresh = true, true
				h.events = append(h.events, *e)
			}
		}
		if fresh {
			h.kinds = append(h.kinds, kind)
		}
	}
	slices.SortStableFunc(h.events, func(a, b pawl.Evidence) int {
		// A record is kept before it is decided, also where both happened in one instant.
		return cmp.Or(a.ProcessedAt.Compare(b.ProcessedAt), strings.Compare(a.Route, b.Route), strings.Compare(a.Partition.Topic, b.Partition.Topic),
			cmp.Compare(a.Partition.Index, b.Partition.Index), cmp.Compare(a.Offset, b.Offset), cmp.Compare(rank(&a), rank(&b)))
	})
	var err error
	h.acts, err = actsOn(ctx, s, consumer, q, h, read)
	return h, err
}

// latestOf are the last n of each route.
func latestOf(events []pawl.Evidence, n int) []pawl.Evidence {
	left := map[string]int{}
	for i := range events {
		left[events[i].Route]++
	}
	return slices.DeleteFunc(slices.Clone(events), func(e pawl.Evidence) bool {
		left[e.Route]--
		return left[e.Route] >= n
	})
}

func rank(e *pawl.Evidence) int {
	if e.Claim {
		return 1
	}
	return 0
}

// actsOn are the acts of operators on the records in question.
func actsOn(ctx context.Context, s *storage, consumer string, q *question, h *history, read int) ([]pawl.AuditEntry, error) {
	if slices.Contains(h.kinds, "stream") {
		return s.admin.Audit(ctx, consumer, pawl.AuditQuery{Stream: q.asked, AsOf: q.asOf, Limit: read + 1})
	}
	var all []pawl.AuditEntry
	seen := map[string]bool{}
	for _, e := range h.events {
		if e.Identity.Key == "" || seen[e.Identity.Key] {
			continue
		}
		seen[e.Identity.Key] = true
		found, err := s.admin.Audit(ctx, consumer, pawl.AuditQuery{Key: e.Identity.Key, AsOf: q.asOf, Limit: read + 1})
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, func(a, b pawl.AuditEntry) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}
