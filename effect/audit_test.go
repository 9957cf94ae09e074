package effect_test

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/effect"
)

func audit() *effect.Audit[doc] {
	return &effect.Audit[doc]{Table: "audit", Key: "event_key", Columns: casesOf(nil).Columns[:3]}
}

func TestAnAuditHasOneRowPerEvent(t *testing.T) {
	w := newWorld(t, audit())
	want(t, w.fold(keyed("a", ev("", 0, st("A"))), keyed("b", ev("c1", 5, doc{Status: "B", Fee: "1.5", Tags: 1})), keyed("c", ev("c1", 4, doc{Status: "C", Keep: true})), keyed("d", ev("c1", 4, doc{Fail: "error"})),
		keyed(strings.Repeat("k", 1025), ev("c1", 4, st("C")))),
		"applied", "applied", "applied", `quarantined validation: column "status": made by the test`, "quarantined validation: the key is 1025 bytes long")
	w.wantTable("audit", "a A - -", "b B 1.5 1", "c C - -")
	if calls := strings.Join(w.rows.calls, ", "); calls != "insert audit" {
		t.Errorf("calls: %s", calls)
	}
	want(t, w.fold(keyed("e", ev("c1", 4, doc{Fail: "panic"}))), "quarantined validation")
	if len(w.rows.calls) > 0 {
		t.Errorf("calls for nothing: %s", w.rows.calls)
	}
	if _, err := w.try([]pawl.Envelope[doc]{keyed("a", ev("", 0, st("A")))}, nil); err == nil {
		t.Error("a row was written twice")
	}
}

func TestAnAuditIsChecked(t *testing.T) {
	_, err := (&effect.Audit[doc]{Columns: []effect.Column[doc]{{}}}).Tables()
	wantError(t, err, "Table is empty", "Key is empty", "has no function")
}
