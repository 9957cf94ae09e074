package test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
)

// ticking is a clock that a test moves on.
type ticking struct {
	mu  sync.Mutex
	now time.Time
}

func (c *ticking) tell() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *ticking) tick(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	return c.now
}

// What evidence says a stream was at a moment is what folding from scratch gives, with the events that had come by then.
func TestAsOfIsAFoldUpToThatMoment(t *testing.T) {
	inEveryHouse(t, func(t *testing.T, open func(testing.TB) *house) {
		clock := &ticking{now: storyTime}
		s := open(t).stage(1, pawl.Config{MaxBatch: 10, Now: clock.tell}, cases(), latest())
		s.up()
		story := [][]fact{ // each at its moment: some late, some early, some twice, some several at once
			{at(1, "OPEN")}, {at(3, "HEARD")}, {at(1, "OPEN"), keyed("again", at(1, "OPEN"))}, {at(2, "CLOSED")}, {at(5, "v5"), at(4, "v4")}, {keyed("old", at(2, "x"))},
			{at(7, "v7")}, {keyed("d1", fact{Stream: "c2", Version: 1, State: "OPEN"})}, {at(6, "v6"), at(8, "v8")},
		}
		var moments []time.Time
		type state struct {
			Version int64  `json:"version"`
			State   string `json:"state"`
		}
		var should []map[string]state
		come := map[string]map[int64]string{}
		for i, facts := range story {
			moments = append(moments, clock.tick(time.Minute))
			s.batch(facts...)
			for _, f := range facts {
				if come[f.Stream] == nil {
					come[f.Stream] = map[int64]string{}
				}
				if _, there := come[f.Stream][f.Version]; !there {
					come[f.Stream][f.Version] = f.State
				}
			}
			now := map[string]state{} // from scratch, with what has come
			for stream, versions := range come {
				for v := int64(1); versions[v] != ""; v++ {
					now[stream] = state{v, versions[v]}
				}
			}
			should = append(should, now)
			if n := s.int(`select count(*) from cases`); n != int64(len(now)) {
				t.Fatalf("moment %d: %d rows, want %d", i, n, len(now))
			}
		}
		before := storyTime.Add(time.Second)
		for _, stream := range []string{"c1", "c2"} {
			all, err := s.admin.Evidence(t.Context(), "effects", pawl.EvidenceQuery{Stream: stream})
			if err != nil {
				t.Fatal(err)
			}
			if e, ok := pawl.AsOf(all, "cases", before); ok {
				t.Errorf("%s, before anything came: %+v", stream, e)
			}
			for i, moment := range moments {
				for _, when := range []time.Time{moment, moment.Add(59 * time.Second)} {
					e, ok := pawl.AsOf(all, "cases", when)
					want, there := should[i][stream]
					if ok != there {
						t.Errorf("%s at moment %d: found %v, want %v", stream, i, ok, there)
						continue
					}
					if !ok {
						continue
					}
					var got state
					if err := json.Unmarshal([]byte(e.StateAfter), &got); err != nil {
						t.Fatalf("%s at moment %d: %q: %v", stream, i, e.StateAfter, err)
					}
					if got != want || e.Identity.Version != want.Version {
						t.Errorf("%s at moment %d is %+v, by version %d; want %+v", stream, i, got, e.Identity.Version, want)
					}
				}
			}
		}
		s.wantRows("cases", "c1 8 v8 - e8", "c2 1 OPEN - d1")
		if last := should[len(should)-1]["c1"]; fmt.Sprint(last) != "{8 v8}" {
			t.Errorf("the fold ends with %v", last)
		}
	})
}
