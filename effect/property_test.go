package effect_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/effect"
)

// model is what a projection promises, one event at a time, with no batches.
type model struct {
	next    bool
	version map[string]int64
	content map[string]doc
	key     map[string]string
	early   map[string]map[int64][]pawl.Envelope[doc]
	outcome map[string]string
}

func newModel(next bool) *model {
	return &model{next, map[string]int64{}, map[string]doc{}, map[string]string{}, map[string]map[int64][]pawl.Envelope[doc]{}, map[string]string{}}
}

func (m *model) take(e pawl.Envelope[doc]) {
	if m.next && e.Version > m.version[e.Stream]+1 {
		if m.early[e.Stream] == nil {
			m.early[e.Stream] = map[int64][]pawl.Envelope[doc]{}
		}
		m.early[e.Stream][e.Version] = append(m.early[e.Stream][e.Version], e)
		m.outcome[e.Key] = "held"
		return
	}
	m.apply(e)
	for free := m.early[e.Stream][m.version[e.Stream]+1]; len(free) > 0; free = m.early[e.Stream][m.version[e.Stream]+1] {
		at := m.version[e.Stream] + 1
		m.early[e.Stream][at] = nil
		for _, f := range free {
			m.apply(f)
		}
	}
}

func (m *model) apply(e pawl.Envelope[doc]) {
	switch at := m.version[e.Stream]; {
	case e.Version < at:
		m.outcome[e.Key] = "stale"
	case e.Body.Fail != "":
		m.outcome[e.Key] = "quarantined validation"
	case e.Version == at && m.content[e.Stream] == e.Body:
		m.outcome[e.Key] = "duplicate"
	case e.Version == at:
		m.outcome[e.Key] = "quarantined conflict"
	default:
		m.version[e.Stream], m.content[e.Stream], m.key[e.Stream] = e.Version, e.Body, e.Key
		m.outcome[e.Key] = "applied"
	}
}

func (m *model) rows() string {
	var lines []string
	for _, s := range slices.Sorted(maps.Keys(m.key)) {
		fee := m.content[s].Fee
		if fee == "" {
			fee = "-"
		}
		lines = append(lines, fmt.Sprintf("%s %d %s %s - %s", s, m.version[s], m.content[s].Status, fee, m.key[s]))
	}
	return strings.Join(lines, "\n")
}

// events draws the events of a few streams: some twice under other keys, some of them with other content, some that fail, some
// missing, in any order.
func events(rt *rapid.T) []pawl.Envelope[doc] {
	var all []pawl.Envelope[doc]
	for s := range rapid.IntRange(1, 3).Draw(rt, "streams") {
		for v := range rapid.Int64Range(1, 7).Draw(rt, "versions") {
			for range rapid.SampledFrom([]int{1, 1, 1, 1, 2, 3, 0}).Draw(rt, "copies") {
				e := pawl.Envelope[doc]{Identity: pawl.Identity{Stream: fmt.Sprint("s", s), Version: v + 1}}
				e.Body.Status = rapid.SampledFrom([]string{"A", "A", "A", "B"}).Draw(rt, "status")
				e.Body.Fee = rapid.SampledFrom([]string{"", "1.5"}).Draw(rt, "fee")
				e.Body.Fail = rapid.SampledFrom([]string{"", "", "", "", "", "", "error"}).Draw(rt, "fail")
				all = append(all, e)
			}
		}
	}
	all = rapid.Permutation(all).Draw(rt, "order")
	for i := range all {
		all[i].Key = fmt.Sprint("k", i)
	}
	return all
}

// batches cuts events into batches.
func batches[T any](rt *rapid.T, events []pawl.Envelope[T]) (cut [][]pawl.Envelope[T]) {
	for len(events) > 0 {
		n := rapid.IntRange(1, len(events)).Draw(rt, "batch")
		cut = append(cut, events[:n])
		events = events[n:]
	}
	return cut
}

func TestAProjectionIsTheModelHoweverItIsCut(t *testing.T) {
	for _, rule := range []effect.Rule{effect.Next, effect.Newer} {
		t.Run(rule.String(), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				m := newModel(rule == effect.Next)
				w := newWorld(t, casesOf(func(p *effect.Projection[doc]) {
					if p.Rule = rule; rule == effect.Next {
						p.Early.Hold = time.Hour
					}
				}))
				for _, b := range batches(rt, events(rt)) {
					for _, e := range b {
						m.take(e)
					}
					w.fold(b...)
				}
				if got := w.table("cases"); got != m.rows() {
					rt.Fatalf("rows:\n%s\nmodel:\n%s", got, m.rows())
				}
				for key, should := range m.outcome {
					if is := said(w.said[key]); !strings.HasPrefix(is, should) {
						rt.Fatalf("%s is %q, want %q", key, is, should)
					}
				}
			})
		})
	}
}
