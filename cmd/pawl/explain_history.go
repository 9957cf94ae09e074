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

// history is what one consumer has to do with what is asked: as much as was read. One text may be a stream, and the id of an event
// of another one: each sense has an answer of its own.
type history struct {
	asked  string
	kinds  []string // what it is there
	events []pawl.Evidence
	by     map[spot]sense // as what each of them was found
	cut    map[sense]bool // of which there is more
	acts   []pawl.AuditEntry
}

// sense is what is asked for on one route: stream, event or key.
type sense struct{ route, kind string }

// spot is one piece of evidence.
type spot struct {
	route  string
	at     pawl.Partition
	offset int64
	claim  bool
}

func spotOf(e *pawl.Evidence) spot { return spot{e.Route, e.Partition, e.Offset, e.Claim} }

// isElsewhere reports whether a piece of evidence that a stream is asked for is of another one, which shares a key with it: a conflict
// may name another stream than the event that has the key, and an edit may move an event. It says nothing about the row.
func isElsewhere(e *pawl.Evidence, is sense, asked string) bool {
	return is.kind == "stream" && e.Identity.Stream != "" && e.Identity.Stream != asked
}

// isOpen reports whether there is a route on which nothing of what was read has had an effect, and something earlier may have.
func (h *history) isOpen() bool {
	for of := range h.cut {
		if !slices.ContainsFunc(h.events, func(e pawl.Evidence) bool {
			return h.by[spotOf(&e)] == of && !isElsewhere(&e, of, h.asked) && e.Claim && e.Outcome == pawl.Applied
		}) {
			return true
		}
	}
	return false
}

// historyOf looks for what is asked in every sense, or in one. It reads so many events of each route, the latest.
func historyOf(ctx context.Context, s *storage, consumer string, q *question, read int) (*history, error) {
	h := &history{asked: q.asked, by: map[spot]sense{}, cut: map[sense]bool{}}
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
		of, here := map[string]int{}, map[string]bool{}
		for i := range found {
			e := &found[i]
			of[e.Route]++
			here[e.Route] = here[e.Route] || !isElsewhere(e, sense{e.Route, kind}, q.asked)
		}
		fresh := false
		for i := range found {
			e := &found[i]
			if !here[e.Route] {
				continue // at that moment, the stream had nothing of the key yet
			}
			if of[e.Route] > read {
				of[e.Route]--
				h.cut[sense{e.Route, kind}] = true
				continue
			}
			if _, seen := h.by[spotOf(e)]; !seen {
				h.by[spotOf(e)], fresh = sense{e.Route, kind}, true
				h.events = append(h.events, *e)
			}
		}
		if fresh {
			h.kinds = append(h.kinds, kind)
		}
	}
	inOrder(h.events)
	if err := asCorrected(ctx, s, consumer, q, h.events); err != nil {
		return nil, err
	}
	var err error
	h.acts, err = actsOn(ctx, s, consumer, q, h, read)
	return h, err
}

// asCorrected leaves out the corrections that were decided after the moment in question: an event is marked when they are.
func asCorrected(ctx context.Context, s *storage, consumer string, q *question, events []pawl.Evidence) error {
	for i := range events {
		e := &events[i]
		if e.SupersededBy == "" || q.asOf.IsZero() {
			continue
		}
		found, err := s.admin.Evidence(ctx, consumer, pawl.EvidenceQuery{Key: e.SupersededBy, AsOf: q.asOf})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(found, func(by pawl.Evidence) bool { return by.Route == e.Route && by.Claim }) {
			e.SupersededBy = ""
		}
	}
	return nil
}

// inOrder sorts by what happened first. The events of a batch have one time: of those, the log tells, except that what came early is
// decided after what it waited for. A record is kept before it is decided.
func inOrder(events []pawl.Evidence) {
	type batch struct {
		route, stream string
		at            int64
		partition     pawl.Partition
	}
	claims := map[batch][]*pawl.Evidence{}
	for i := range events {
		if e := &events[i]; e.Claim {
			of := batch{e.Route, e.Identity.Stream, e.ProcessedAt.UnixMicro(), e.Partition}
			claims[of] = append(claims[of], e)
		}
	}
	after := map[spot]int64{} // the last offset that a claim had to wait for
	for _, all := range claims {
		slices.SortFunc(all, func(a, b *pawl.Evidence) int {
			return cmp.Or(cmp.Compare(a.Identity.Version, b.Identity.Version), cmp.Compare(a.Offset, b.Offset))
		})
		last := int64(0)
		for _, e := range all {
			last = max(last, e.Offset)
			after[spotOf(e)] = last
		}
	}
	turn := func(e *pawl.Evidence) int64 { return max(e.Offset, after[spotOf(e)]) }
	slices.SortStableFunc(events, func(a, b pawl.Evidence) int {
		return cmp.Or(a.ProcessedAt.Compare(b.ProcessedAt), strings.Compare(a.Route, b.Route), strings.Compare(a.Partition.Topic, b.Partition.Topic),
			cmp.Compare(a.Partition.Index, b.Partition.Index), cmp.Compare(turn(&a), turn(&b)), cmp.Compare(a.Identity.Version, b.Identity.Version),
			cmp.Compare(a.Offset, b.Offset), cmp.Compare(rank(&a), rank(&b)))
	})
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
	var all []pawl.AuditEntry
	ask := func(by pawl.AuditQuery) error {
		by.AsOf, by.Limit = q.asOf, read+1
		found, err := s.admin.Audit(ctx, consumer, by)
		all = append(all, found...)
		return err
	}
	if slices.Contains(h.kinds, "stream") {
		if err := ask(pawl.AuditQuery{Stream: q.asked}); err != nil {
			return nil, err
		}
	}
	seen := map[string]bool{}
	for i := range h.events {
		e := &h.events[i]
		key, is := e.Identity.Key, h.by[spotOf(e)]
		if key == "" || seen[key] || is.kind == "stream" && !isElsewhere(e, is, q.asked) {
			continue
		}
		seen[key] = true
		if err := ask(pawl.AuditQuery{Key: key}); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b pawl.AuditEntry) int { return cmp.Compare(a.ID, b.ID) })
	return slices.CompactFunc(all, func(a, b pawl.AuditEntry) bool { return a.ID == b.ID }), nil
}
