package effect_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/effect"
)

// doc is the body of a case event.
type doc struct {
	Status string
	Fee    string
	Tags   any
	Keep   bool
	Fail   string
}

func casesOf(change func(*effect.Projection[doc])) *effect.Projection[doc] {
	p := &effect.Projection[doc]{
		Table: "cases", Stream: "case_id", Version: "version",
		Columns: []effect.Column[doc]{
			effect.NotNull(effect.Column[doc]{Name: "status", Kind: pawl.KindText, Value: func(e *pawl.Envelope[doc]) (any, error) {
				switch e.Body.Fail {
				case "error":
					return nil, errMade
				case "panic":
					panic(errMade)
				case "null":
					return nil, nil
				}
				return e.Body.Status, nil
			}}),
			{Name: "fee", Kind: pawl.KindDecimal, Value: func(e *pawl.Envelope[doc]) (any, error) {
				switch {
				case e.Body.Keep:
					return effect.Keep, nil
				case e.Body.Fee == "":
					return nil, nil
				case e.Body.Fee == "float":
					return 1.5, nil
				}
				return e.Body.Fee, nil
			}},
			effect.JSON("tags", func(e *pawl.Envelope[doc]) any { return e.Body.Tags }),
			effect.Note(effect.Text("event_id", func(e *pawl.Envelope[doc]) string { return e.Key })),
		},
	}
	if change != nil {
		change(p)
	}
	return p
}

func hold(p *effect.Projection[doc]) { p.Early.Hold = time.Minute }

var serial int

// ev is an event with a key of its own.
func ev(stream string, version int64, body doc) pawl.Envelope[doc] {
	serial++
	return pawl.Envelope[doc]{
		Identity: pawl.Identity{Key: fmt.Sprintf("k%d", serial), Stream: stream, Version: version, OccurredAt: noon}, Body: body,
	}
}

func keyed(key string, e pawl.Envelope[doc]) pawl.Envelope[doc] {
	e.Key = key
	return e
}

func st(status string) doc { return doc{Status: status} }

func TestAProjectionMovesFromVersionToVersion(t *testing.T) {
	w := newWorld(t, casesOf(nil))
	got := w.fold(keyed("a", ev("c1", 1, doc{Status: "OPEN", Fee: "1.50", Tags: []int{1}})), keyed("b", ev("c1", 2, st("HEARD"))), keyed("c", ev("c2", 1, st("OPEN"))))
	want(t, got, "applied", "applied", "applied")
	if got[1].VersionBefore != 1 || got[0].VersionBefore != 0 {
		t.Errorf("versions before: %+v", got)
	}
	w.wantTable("cases", "c1 2 HEARD - - b", "c2 1 OPEN - - c")
	want(t, w.fold(keyed("d", ev("c1", 3, st("CLOSED")))), "applied")
	w.wantTable("cases", "c1 3 CLOSED - - d", "c2 1 OPEN - - c")
}

func TestABatchIsOneReadAndOnePut(t *testing.T) {
	w := newWorld(t, casesOf(hold))
	var events []pawl.Envelope[doc]
	for i := range int64(50) {
		events = append(events, ev(fmt.Sprint("c", i%7), i/7+1, st("x")))
	}
	w.fold(events...)
	if got := strings.Join(w.rows.calls, ", "); got != "read cases, put cases" {
		t.Errorf("calls: %s", got)
	}
	w.fold(ev("c1", 1, st("old")))
	if got := strings.Join(w.rows.calls, ", "); got != "read cases" {
		t.Errorf("calls for what changes nothing: %s", got)
	}
	w.fold(ev("", 1, st("x")))
	if len(w.rows.calls) > 0 {
		t.Errorf("calls for what has no stream: %s", w.rows.calls)
	}
}

func TestTheSameVersionAgainIsADuplicateOrAConflict(t *testing.T) {
	body := doc{Status: "OPEN", Fee: "1.50", Tags: map[string]any{"a": 1.0, "b": []any{"x", nil}}}
	for name, c := range map[string]struct {
		again doc
		want  string
	}{
		"equal":                {body, "duplicate: the row has version 2 already, and says the same"},
		"decimal respelled":    {doc{"OPEN", "01.500", body.Tags, false, ""}, "duplicate"},
		"json respelled":       {doc{"OPEN", "1.5", json.RawMessage(`{"b":["x",null], "a":1.00e0}`), false, ""}, "duplicate"},
		"a column kept":        {doc{"OPEN", "9", body.Tags, true, ""}, "duplicate"},
		"other text":           {doc{"SHUT", "1.50", body.Tags, false, ""}, "quarantined conflict: the row has version 2 already, and says something else"},
		"other decimal":        {doc{"OPEN", "1.51", body.Tags, false, ""}, "quarantined conflict"},
		"no decimal":           {doc{"OPEN", "", body.Tags, false, ""}, "quarantined conflict"},
		"other json number":    {doc{"OPEN", "1.50", map[string]any{"a": 2, "b": []any{"x", nil}}, false, ""}, "quarantined conflict"},
		"other json length":    {doc{"OPEN", "1.50", map[string]any{"a": 1, "b": []any{"x"}}, false, ""}, "quarantined conflict"},
		"other json name":      {doc{"OPEN", "1.50", map[string]any{"c": 1, "b": []any{"x", nil}}, false, ""}, "quarantined conflict"},
		"json with more names": {doc{"OPEN", "1.50", map[string]any{"a": 1, "b": []any{"x", nil}, "c": 1}, false, ""}, "quarantined conflict"},
		"json of other kinds":  {doc{"OPEN", "1.50", []any{}, false, ""}, "quarantined conflict"},
		"no json":              {doc{"OPEN", "1.50", nil, false, ""}, "quarantined conflict"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, casesOf(nil))
			w.fold(ev("c1", 1, st("NEW")))
			want(t, w.fold(ev("c1", 2, body)), "applied")
			before := w.table("cases")
			want(t, w.fold(ev("c1", 2, c.again)), c.want)
			w.wantTable("cases", before)

			w = newWorld(t, casesOf(nil)) // the same within a batch
			want(t, w.fold(ev("c1", 1, st("NEW")), ev("c1", 2, body), ev("c1", 2, c.again)), "applied", "applied", c.want)
		})
	}
}

func TestWhatTheRowIsPastIsStale(t *testing.T) {
	w := newWorld(t, casesOf(nil))
	w.fold(ev("c1", 1, st("A")), ev("c1", 2, st("B")), ev("c1", 3, st("C")))
	want(t, w.fold(ev("c1", 1, st("late")), ev("c1", 2, doc{Fail: "error"})),
		"stale: it is version 1, and the row is at version 3", "stale")
	if !strings.HasPrefix(w.table("cases"), "c1 3 C") {
		t.Errorf("the row went back: %s", w.table("cases"))
	}
}

func TestWhatAnEventDoesNotSayIsKept(t *testing.T) {
	w := newWorld(t, casesOf(nil))
	w.fold(keyed("a", ev("c1", 1, doc{Status: "A", Fee: "7"})), keyed("b", ev("c1", 2, doc{Status: "B", Keep: true})), keyed("c", ev("c2", 1, doc{Status: "A", Keep: true})))
	w.wantTable("cases", "c1 2 B 7 - b", "c2 1 A - - c")
}

func TestAnEventThatCannotBeMappedIsSetAsideAlone(t *testing.T) {
	for fail, reason := range map[string]string{
		"error": `column "status": made by the test`, "panic": `column "status": panic: made by the test`, "null": `column "status": has no value`,
	} {
		t.Run(fail, func(t *testing.T) {
			w := newWorld(t, casesOf(hold))
			got := w.fold(ev("c1", 1, st("A")), ev("c1", 2, doc{Fail: fail}), ev("c1", 3, st("C")), ev("c2", 1, st("A")))
			want(t, got, "applied", "quarantined validation: "+reason, "held: out of order: version 3 came, and version 2 is missing", "applied")
			want(t, w.fold(ev("c1", 2, st("B"))), "applied", "applied")
		})
	}
	for name, c := range map[string]struct {
		body   doc
		reason string
	}{
		"a float for a decimal": {doc{Fee: "float"}, `column "fee": 1.5 is a float`},
		"not a number":          {doc{Fee: "NaN"}, `column "fee": "NaN" is no decimal number`},
		"a huge exponent":       {doc{Fee: "1e99999"}, `column "fee": "1e99999" has an exponent beyond`},
		"broken text":           {doc{Status: "a\xff"}, `column "status": the text is not valid UTF-8`},
		"a NUL":                 {doc{Status: "a\x00"}, `column "status": the text holds a NUL`},
		"a NUL in JSON":         {doc{Tags: "a\x00"}, `column "tags": the JSON holds the character \u0000`},
		"JSON that cannot be":   {doc{Tags: func() {}}, `column "tags": json: unsupported type`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, casesOf(nil))
			want(t, w.fold(ev("c1", 1, c.body)), "quarantined validation: "+c.reason)
		})
	}
	w := newWorld(t, casesOf(nil))
	want(t, w.fold(ev("c1", 1, doc{Tags: `a\u0000 that is text`})), "applied")
	want(t, w.fold(ev("", 1, st("x")), ev("c1", 0, st("x"))), "quarantined validation: the event names no stream", "quarantined validation: the event has no version")
}

func TestEarlyEventsOfABatchWaitForThoseBehindThem(t *testing.T) {
	w := newWorld(t, casesOf(nil))
	got := w.fold(ev("c1", 3, st("C")), ev("c1", 2, st("B")), ev("c1", 3, st("C")), ev("c1", 1, st("A")), ev("c1", 4, st("D")), ev("c1", 3, st("other")))
	want(t, got, "applied", "applied", "duplicate", "applied", "applied", "stale")
	if got[0].VersionBefore != 2 || got[4].VersionBefore != 3 {
		t.Errorf("versions before: %+v", got)
	}
	if !strings.HasPrefix(w.table("cases"), "c1 4 D") {
		t.Errorf("got %s", w.table("cases"))
	}
}

func TestEarlyEventsAreHeldUntilTheGapCloses(t *testing.T) {
	w := newWorld(t, casesOf(hold))
	got := w.fold(ev("c1", 1, st("A")), ev("c1", 4, st("D")))
	want(t, got, "applied", "held: out of order: version 4 came, and version 2 is missing")
	if got[1].Expected != 2 || !got[1].Until.Equal(noon.Add(time.Minute)) {
		t.Errorf("held for %d until %s", got[1].Expected, got[1].Until)
	}
	want(t, w.fold(ev("c1", 3, st("C")), ev("c2", 2, st("B"))), "held", "held: missing aggregate: there is no row, and version 2 is not its first", "held")
	want(t, w.fold(ev("c1", 2, st("B"))), "applied", "applied", "applied")
	if len(w.held) != 1 || !strings.HasPrefix(w.table("cases"), "c1 4 D") {
		t.Errorf("held %d, rows %s", len(w.held), w.table("cases"))
	}
}

func TestWhatWasHeldCameFirst(t *testing.T) {
	w := newWorld(t, casesOf(hold))
	w.fold(ev("c1", 1, st("A")), ev("c1", 3, st("held")))
	want(t, w.fold(ev("c1", 2, st("B")), ev("c1", 3, st("new"))), "applied", "quarantined conflict", "applied")
}

func TestEarlyEventsThatMayNotBeHeldAreDecided(t *testing.T) {
	bounded := func(p *effect.Projection[doc]) { p.Early = effect.Early{Hold: time.Minute, Most: 2} }
	t.Run("not at all", func(t *testing.T) {
		w := newWorld(t, casesOf(nil))
		want(t, w.fold(ev("c1", 2, st("B"))), "quarantined gap: missing aggregate: there is no row, and version 2 is not its first; nothing is held here")
	})
	t.Run("ignored", func(t *testing.T) {
		w := newWorld(t, casesOf(func(p *effect.Projection[doc]) { p.Early.Then = effect.Ignore }))
		want(t, w.fold(ev("c1", 1, st("A")), ev("c1", 3, st("C"))), "applied", "ignored: out of order: version 3 came, and version 2 is missing; nothing is held here")
	})
	t.Run("too many of a stream", func(t *testing.T) {
		w := newWorld(t, casesOf(bounded))
		got := w.fold(ev("c1", 1, st("A")), ev("c1", 5, st("E")), ev("c1", 3, st("C")), ev("c1", 4, st("D")))
		want(t, got, "applied", "quarantined gap: out of order: version 5 came, and version 2 is missing; 2 events of its stream are held", "held", "held")
		want(t, w.fold(ev("c1", 6, st("F")), ev("c2", 2, st("B"))), "quarantined gap", "held", "held", "held")
		want(t, w.fold(ev("c1", 2, st("B")), ev("c1", 6, st("F")), ev("c1", 7, st("G")), ev("c1", 8, st("H"))),
			"applied", "held", "held", "quarantined gap", "applied", "applied") // two were set free
	})
	t.Run("too many in all", func(t *testing.T) {
		w := newWorld(t, casesOf(bounded))
		w.fold(ev("c1", 1, st("A")), ev("c1", 3, st("C")))
		w.full = true
		want(t, w.fold(ev("c1", 4, st("D"))), "quarantined gap: out of order: version 4 came, and version 2 is missing; as many records are held as may be (Config.MaxHeld; in a file: limits.held)", "held")
	})
	t.Run("for too long", func(t *testing.T) {
		w := newWorld(t, casesOf(hold))
		w.fold(ev("c1", 1, st("A")), ev("c1", 3, st("C")))
		w.now = w.now.Add(30 * time.Second)
		w.fold(ev("c1", 5, st("E")))
		w.now = w.now.Add(30 * time.Second)
		want(t, w.expire(), "quarantined gap: out of order: version 3 came, and version 2 is missing; it was held for 1m0s", "held")
		want(t, w.fold(ev("c1", 2, st("B"))), "applied", "held") // which still waits, now for version 3
		if v := w.said[w.held[0].event.Key]; v.Expected != 3 {
			t.Errorf("waits for version %d", v.Expected)
		}
	})
}

func TestNewerAcceptsAnyVersionAbove(t *testing.T) {
	w := newWorld(t, casesOf(func(p *effect.Projection[doc]) { p.Rule = effect.Newer }))
	want(t, w.fold(ev("c1", 5, st("E")), ev("c1", 9, st("I")), ev("c1", 7, st("G")), ev("c1", 9, st("I")), ev("c1", 9, st("other"))),
		"applied", "applied", "stale", "duplicate", "quarantined conflict")
	want(t, w.fold(ev("c1", 10, st("J"))), "applied")
	if !strings.HasPrefix(w.table("cases"), "c1 10 J") {
		t.Error(w.table("cases"))
	}
}

func TestNewerTimeComparesInstants(t *testing.T) {
	w := newWorld(t, casesOf(func(p *effect.Projection[doc]) { p.Rule = effect.NewerTime }))
	at := func(d time.Duration, s string) pawl.Envelope[doc] {
		e := ev("c1", 0, st(s))
		e.OccurredAt = noon.Add(d).In(time.FixedZone("far", 7*3600))
		return e
	}
	got := w.fold(at(0, "A"), at(2*time.Second, "B"), at(time.Second, "late"), at(2*time.Second+300*time.Nanosecond, "B"), at(2*time.Second, "other"))
	want(t, got, "applied", "applied", "stale: it occurred at 2026-07-01T12:00:01Z, and the row is of 2026-07-01T12:00:02Z", "duplicate: the row has this time already",
		"quarantined conflict")
	if got[1].VersionBefore != 0 {
		t.Error("a time is no version")
	}
	if !strings.HasPrefix(w.table("cases"), "c1 12:00:02 B") {
		t.Error(w.table("cases"))
	}
	want(t, w.fold(at(3*time.Second, "C"), pawl.Envelope[doc]{Identity: pawl.Identity{Key: "x", Stream: "c1"}}), "applied", "quarantined validation: the event does not say when")
	w = newWorld(t, casesOf(func(p *effect.Projection[doc]) { p.Rule = effect.NewerTime }))
	want(t, w.fold(at(-100*365*24*time.Hour, "before 1970")), "applied")
}

func TestARowWithoutAVersionIsCorrupt(t *testing.T) {
	for _, version := range []any{nil, int64(-1)} {
		e := casesOf(hold)
		w := newWorld(t, e)
		tables, _ := e.Tables()
		w.rows.seed(tables[0], pawl.Row{"c1", version, "A", nil, nil, nil})
		want(t, w.fold(ev("c1", 1, st("A")), ev("c1", 3, st("C"))), "quarantined corruption: corruption: the row has", "quarantined corruption")
	}
	e := casesOf(nil)
	w := newWorld(t, e)
	tables, _ := e.Tables()
	w.rows.seed(tables[0], pawl.Row{"c1", int64(0), "made beforehand", nil, nil, nil})
	want(t, w.fold(ev("c1", 1, st("A"))), "applied")
}

func TestStatesAreEvidence(t *testing.T) {
	w := newWorld(t, casesOf(func(p *effect.Projection[doc]) { p.States = true }))
	got := w.fold(keyed("a", ev("c1", 1, doc{Status: "<A>", Fee: "1.50", Tags: []int{1}})), keyed("b", ev("c1", 2, st("B"))))
	first := `{"case_id":"c1","version":1,"status":"<A>","fee":"1.50","tags":[1],"event_id":"a"}`
	if got[0].StateBefore != "" || got[0].StateAfter != first || got[1].StateBefore != first ||
		got[1].StateAfter != `{"case_id":"c1","version":2,"status":"B","fee":null,"tags":null,"event_id":"b"}` {
		t.Errorf("states: %+v", got)
	}
}

func TestADeclarationSaysAllThatIsWrongWithIt(t *testing.T) {
	_, err := (&effect.Projection[doc]{
		Version: "v", Rule: 9, Columns: []effect.Column[doc]{{Name: "v", Kind: pawl.KindInt}, {Name: "x"}},
		Early: effect.Early{Hold: -1, Most: -2, Then: 7},
	}).Tables()
	wantError(t, err, "Table is empty", "Stream is empty", "Rule(9) is no rule", "Early.Hold", "Early.Most", "Early.Then is 7", `column 1 ("v") has no function`)
	_, err = casesOf(func(p *effect.Projection[doc]) {
		p.Rule = effect.Newer
		p.Early.Most = 3
		p.Early.Source = effect.HTTPSource{URL: "ftp://x"}
		p.Columns = append(p.Columns, effect.Text("status", func(*pawl.Envelope[doc]) string { return "" }), effect.Text[doc]("nil", nil))
	}).Tables()
	wantError(t, err, "under Newer no event is early", "Early.Hold is 0: nothing is", "only asked where Early.Then is Requery", "does not say {stream}",
		`column "status" is there twice`, `("nil") has no function`)
	_, err = casesOf(func(p *effect.Projection[doc]) { p.Early.Then = effect.Requery }).Tables()
	wantError(t, err, "no Early.Source to ask")

	bad := casesOf(func(p *effect.Projection[doc]) { p.Table = "" })
	if err := bad.Fold(context.Background(), newMemory(), nil); err == nil {
		t.Error("a declaration that is wrong folds")
	}
}

func TestTheTablesAreKnownByTheirPointers(t *testing.T) {
	p := casesOf(nil)
	a, _ := p.Tables()
	b, _ := p.Tables()
	if a[0] != b[0] {
		t.Error("another table each time")
	}
	if a[0].Key != 1 || len(a[0].Columns) != 6 || !a[0].Columns[2].NotNull || a[0].Columns[5].NotNull {
		t.Errorf("%+v", a[0])
	}
}
