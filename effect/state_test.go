package effect_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/effect"
)

func state(version string) *effect.State[doc] {
	return &effect.State[doc]{
		Table: "state", Stream: "id", Version: version, Columns: casesOf(nil).Columns[:2],
		Tombstone: func(e *pawl.Envelope[doc]) bool { return e.Body.Status == "" },
	}
}

var tombstone = doc{}

func TestAStateIsTheLatestValue(t *testing.T) {
	w := newWorld(t, state(""))
	want(t, w.fold(ev("a", 0, st("1")), ev("b", 0, st("1")), ev("a", 0, st("2")), ev("b", 0, tombstone), ev("c", 0, tombstone), ev("", 0, st("1")), ev("d", 0, doc{Status: "x", Fail: "error"})),
		"applied", "applied", "applied", "applied", "ignored: there is no row to delete", "quarantined validation: the event names no stream", "quarantined validation")
	w.wantTable("state", "a 2 -")
	if calls := strings.Join(w.rows.calls, ", "); calls != "read state, put state" {
		t.Errorf("calls: %s", calls)
	}
	want(t, w.fold(ev("a", 0, tombstone), ev("b", 0, st("3")), ev("b", 0, tombstone), ev("b", 0, st("4"))), "applied", "applied", "applied", "applied")
	w.wantTable("state", "b 4 -")
	if calls := strings.Join(w.rows.calls, ", "); calls != "read state, put state, delete state" {
		t.Errorf("calls: %s", calls)
	}
	want(t, w.fold(ev("b", 0, tombstone), ev("b", 0, doc{Status: "5", Keep: true})), "applied", "applied")
	w.wantTable("state", "b 5 -")
}

func TestAStateWithAVersionDoesNotGoBack(t *testing.T) {
	w := newWorld(t, state("version"))
	got := w.fold(ev("a", 3, st("3")), ev("a", 5, st("5")), ev("a", 4, st("4")), ev("a", 5, st("5")), ev("a", 5, st("other")), ev("a", 4, tombstone), ev("a", 5, tombstone), ev("a", 0, st("x")))
	want(t, got, "applied", "applied", "stale: it is version 4, and the row is at version 5", "duplicate", "quarantined conflict", "stale", "quarantined conflict",
		"quarantined validation: the event has no version")
	if got[1].VersionBefore != 3 {
		t.Errorf("version before: %d", got[1].VersionBefore)
	}
	w.wantTable("state", "a 5 5 -")
	want(t, w.fold(ev("a", 6, tombstone), ev("a", 2, st("2"))), "applied", "applied")
	w.wantTable("state", "a 2 2 -")
	want(t, w.fold(ev("a", 0, tombstone)), "applied") // whatever is there
	w.wantTable("state")
}

func TestStatesOfAStateAreEvidence(t *testing.T) {
	e := state("")
	e.States = true
	w := newWorld(t, e)
	got := w.fold(ev("a", 0, st("1")), ev("a", 0, tombstone))
	if one := `{"id":"a","status":"1","fee":null}`; got[0].StateBefore != "" || got[0].StateAfter != one || got[1].StateBefore != one || got[1].StateAfter != "" {
		t.Errorf("states: %+v", got)
	}
}

func TestAStateIsChecked(t *testing.T) {
	_, err := (&effect.State[doc]{Columns: []effect.Column[doc]{{}}}).Tables()
	wantError(t, err, "Table is empty", "Stream is empty", "Tombstone is nil", "has no function")
}

func TestReadingACompactedTopicAgainEndsTheSame(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var all []pawl.Envelope[doc]
		last := map[string]string{}
		for i := range rapid.IntRange(1, 20).Draw(rt, "events") {
			s, v := fmt.Sprint("s", rapid.IntRange(0, 2).Draw(rt, "stream")), rapid.SampledFrom([]string{"", "A", "B"}).Draw(rt, "value")
			last[s] = v
			all = append(all, keyed(fmt.Sprint("k", i), ev(s, 0, st(v))))
		}
		w := newWorld(t, state(""))
		for range 2 {
			for _, b := range batches(rt, all) {
				w.fold(b...)
			}
			var lines []string
			for _, s := range []string{"s0", "s1", "s2"} {
				if last[s] != "" {
					lines = append(lines, s+" "+last[s]+" -")
				}
			}
			if got := w.table("state"); got != strings.Join(lines, "\n") {
				rt.Fatalf("rows:\n%s\nmodel:\n%s", got, strings.Join(lines, "\n"))
			}
		}
	})
}
