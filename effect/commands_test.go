package effect_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/effect"
)

func commands() *effect.Commands[doc] {
	return &effect.Commands[doc]{
		Table: "alerts", ID: "alert_id", Columns: casesOf(nil).Columns,
		Identify: func(e *pawl.Envelope[doc]) (string, error) {
			switch e.Body.Status {
			case "quiet":
				return "", nil
			case "bad":
				return "", errMade
			}
			return fmt.Sprintf("escalation:%s:%d", e.Stream, e.Version), nil
		},
	}
}

func TestACommandExistsOnce(t *testing.T) {
	w := newWorld(t, commands())
	got := w.fold(keyed("a", ev("c1", 1, doc{Status: "A", Fee: "1.50", Tags: []int{1}})), keyed("b", ev("c1", 1, doc{Status: "A", Fee: "1.5", Tags: []int{1}})), ev("c1", 1, st("B")), ev("c2", 1, st("quiet")),
		ev("c2", 1, st("bad")), keyed("e", ev("c2", 1, doc{Status: "A", Keep: true})))
	want(t, got, "applied", "ignored: it exists already", "quarantined conflict: it exists already, and is something else", "ignored: it asks for nothing", "quarantined validation: made by the test", "applied")
	w.wantTable("alerts", "escalation:c1:1 A 1.50 [1] a", "escalation:c2:1 A - - e")
	if got[0].RowAffected != "alert_id=escalation:c1:1" {
		t.Errorf("row affected: %q", got[0].RowAffected)
	}
	if calls := strings.Join(w.rows.calls, ", "); calls != "read alerts, put alerts" {
		t.Errorf("calls: %s", calls)
	}
	want(t, w.fold(ev("c1", 1, doc{Status: "A", Fee: "1.500", Tags: []int{1}}), ev("c1", 1, st("B"))), "ignored: it exists already", "quarantined conflict")
	if calls := strings.Join(w.rows.calls, ", "); calls != "read alerts" {
		t.Errorf("calls: %s", calls)
	}
}

func TestACommandIsKnownByItsKeyUnlessItSaysOtherwise(t *testing.T) {
	c := commands()
	c.Identify = nil
	w := newWorld(t, c)
	want(t, w.fold(keyed("a", ev("c1", 1, st("A"))), keyed("a\x00", ev("c1", 1, st("A")))), "applied", "quarantined validation: what it asks for: the key: the text holds a NUL")
	w.wantTable("alerts", "a A - - a")
}

func TestCommandsAreChecked(t *testing.T) {
	_, err := (&effect.Commands[doc]{Columns: []effect.Column[doc]{{}}}).Tables()
	wantError(t, err, "Table is empty", "ID is empty", "has no function")
}
