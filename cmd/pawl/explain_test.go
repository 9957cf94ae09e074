package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
)

func TestWhatStillWaitsIsToldFromWhatIsSettled(t *testing.T) {
	p := pawl.Partition{Topic: "payments"}
	event := func(offset int64, key string, o pawl.Outcome, claim bool) pawl.Evidence {
		return pawl.Evidence{Partition: p, Offset: offset, Identity: pawl.Identity{Key: key}, Outcome: o, Claim: claim}
	}
	act := func(offset int64, o pawl.Outcome) pawl.AuditEntry {
		return pawl.AuditEntry{Partition: p, Offset: offset, Quarantine: 1, Outcome: o}
	}
	archive := pawl.AuditEntry{Partition: p, Offset: 1, Quarantine: 1, What: "archive"}
	for name, c := range map[string]struct {
		events []pawl.Evidence
		acts   []pawl.AuditEntry
		want   string
	}{
		"set aside":                      {[]pawl.Evidence{event(1, "a", pawl.Quarantined, false)}, nil, "; not decided: 1 quarantined"},
		"set aside, replayed":            {[]pawl.Evidence{event(1, "a", pawl.Quarantined, false), event(1, "a", pawl.Applied, true)}, nil, ""},
		"set aside, replayed in vain":    {[]pawl.Evidence{event(1, "a", pawl.Quarantined, false)}, []pawl.AuditEntry{act(1, pawl.Quarantined)}, "; not decided: 1 quarantined"},
		"two set aside, one archived":    {[]pawl.Evidence{event(1, "a", pawl.Quarantined, false), event(2, "b", pawl.Quarantined, false)}, []pawl.AuditEntry{archive}, "; archived: 1; not decided: 1 quarantined"},
		"archived, and sent again":       {[]pawl.Evidence{event(1, "a", pawl.Quarantined, false), event(2, "a", pawl.Applied, true)}, []pawl.AuditEntry{archive}, "; archived: 1"},
		"a conflict, skipped":            {[]pawl.Evidence{event(0, "a", pawl.Applied, true), event(1, "a", pawl.Quarantined, false)}, []pawl.AuditEntry{act(1, pawl.Skipped)}, ""},
		"a conflict of a decided key":    {[]pawl.Evidence{event(1, "a", pawl.Applied, true), event(2, "a", pawl.Quarantined, false)}, nil, "; not decided: 1 quarantined"},
		"held":                           {[]pawl.Evidence{event(1, "a", pawl.Held, false)}, nil, "; not decided: 1 held"},
		"held, released":                 {[]pawl.Evidence{event(1, "a", pawl.Held, false), event(1, "a", pawl.Applied, true)}, nil, ""},
		"held, released as a duplicate":  {[]pawl.Evidence{event(0, "a", pawl.Applied, true), event(1, "a", pawl.Held, false)}, nil, ""},
		"held, then set aside":           {[]pawl.Evidence{event(1, "a", pawl.Held, false), event(1, "a", pawl.Quarantined, false)}, nil, "; not decided: 1 quarantined"},
		"duplicates and stale ones idle": {[]pawl.Evidence{event(1, "a", pawl.Duplicate, false), event(2, "b", pawl.WasStale, true)}, nil, "; without effect: 1 duplicate, 1 stale"},
	} {
		if got := without(c.events, nil, c.acts); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// What records and errors say must not steer the terminal of who reads it.
func TestControlCharactersAreNotPrinted(t *testing.T) {
	for _, s := range []string{"\x1b[31mred", "a\rb", "bell\a", "\u202eright to left", "\x00", "bad \xff", "\u0085"} {
		got := printable(s)
		if strings.ContainsAny(got, "\x1b\r\a\x00\u202e\u0085") || !strings.Contains(got, "�") {
			t.Errorf("%q is printed as %q", s, got)
		}
	}
	if s := "línea uno\n\tzwei · три"; printable(s) != s {
		t.Errorf("%q is printed as %q", s, printable(s))
	}
}

// decided is a store that has decided about one stream: it answers for the latest, as stores do.
type decided struct {
	pawl.Admin
	events []pawl.Evidence
	asked  []int // limits
}

func (d *decided) Evidence(_ context.Context, _ string, q pawl.EvidenceQuery) ([]pawl.Evidence, error) {
	if q.Stream == "" {
		return nil, nil
	}
	d.asked = append(d.asked, q.Limit)
	return d.events[max(len(d.events)-q.Limit, 0):], nil
}

func (d *decided) Audit(context.Context, string, pawl.AuditQuery) ([]pawl.AuditEntry, error) {
	return nil, nil
}

// However many events changed nothing since, the one that made the row is looked for; where it is too far back, that is said.
func TestTheAnswerIsLookedForBehindWhatChangedNothing(t *testing.T) {
	of := func(applied, ignored int) []pawl.Evidence {
		var all []pawl.Evidence
		for i := range applied + ignored {
			e := pawl.Evidence{Route: "r", Offset: int64(i), Claim: true, Outcome: pawl.Applied, ProcessedAt: time.Unix(int64(i), 0),
				Identity: pawl.Identity{Key: fmt.Sprint("k", i), Stream: "s", Version: int64(i + 1)}}
			if i >= applied {
				e.Outcome = pawl.Ignored
			}
			all = append(all, e)
		}
		return all
	}
	for name, c := range map[string]struct {
		applied, ignored, limit int
		why                     string // contains
		listed, earlier         int
		more, whole             bool
		reads                   int
	}{
		"a few":                       {5, 0, explained, `at version 5, because "k4"`, 5, 0, false, true, 1},
		"as many as are listed":       {explained, 0, explained, `because "k99"`, explained, 0, false, true, 1},
		"one more":                    {explained + 1, 0, explained, `because "k100"`, explained, 0, true, false, 1},
		"many, and some listed":       {5000, 0, 3, `because "k4999"`, 3, explained - 3, true, false, 1},
		"made by one further back":    {5, 400, explained, `at version 5, because "k4" of /0@4 was applied at 1970-01-01T00:00:04Z; without effect: 400 ignored.`, explained, 305, false, false, 2},
		"made by one of very many":    {5000, 400, explained, `because "k4999" of /0@4999 was applied at 1970-01-01T01:23:19Z; of its latest 1000 records: without effect: 400 ignored.`, explained, 900, true, false, 2},
		"made by one too far back":    {5, 4000, explained, `has had no effect in its latest 1000 records (--all looks further): its latest record, /0@4004, was ignored`, explained, 900, true, false, 2},
		"all, and none had an effect": {0, 2000, mostExplained, `has had no effect: its latest record`, 2000, 0, false, true, 1},
	} {
		store := &decided{events: of(c.applied, c.ignored)}
		a := newApp(strings.NewReader(""), io.Discard, io.Discard)
		q := &question{asked: "s", limit: c.limit}
		v, err := a.explain(t.Context(), &storage{admin: store}, []pawl.BoundConsumer{{Name: "c"}}, q)
		if err != nil {
			t.Fatal(err)
		}
		if len(v.Why) != 1 || !strings.Contains(v.Why[0], c.why) || len(v.Events) != c.listed || v.earlier != c.earlier || v.more != c.more ||
			v.Whole != c.whole || len(store.asked) != c.reads {
			t.Errorf("%s: %q, %d listed, %d earlier, more %v, whole %v, %d reads", name, v.Why, len(v.Events), v.earlier, v.more, v.Whole, len(store.asked))
		}
		if n := len(v.Events); v.Events[n-1].Offset != int64(c.applied+c.ignored-1) {
			t.Errorf("%s: the last is %+v", name, v.Events[n-1])
		}
	}
}

// What came early takes effect with what it waited for, in one instant: the row is what the highest version made it.
func TestOfOneBatchTheHighestVersionIsTheAnswer(t *testing.T) {
	at := time.Unix(7, 0)
	event := func(offset, version int64) pawl.Evidence {
		return pawl.Evidence{Route: "r", Offset: offset, Claim: true, Outcome: pawl.Applied, ProcessedAt: at,
			Identity: pawl.Identity{Key: fmt.Sprint("v", version), Version: version}}
	}
	a := newApp(strings.NewReader(""), io.Discard, io.Discard)
	if got := a.sentence("s", []pawl.Evidence{event(1, 3), event(2, 2)}, nil, nil, false); !strings.Contains(got, `at version 3, because "v3" of`) {
		t.Error(got)
	}
}

// homonym is a store in which one text is a stream, and the id of an event of another stream.
type homonym struct{ pawl.Admin }

func (homonym) Evidence(_ context.Context, _ string, q pawl.EvidenceQuery) ([]pawl.Evidence, error) {
	event := func(offset int64, stream, key string) pawl.Evidence {
		return pawl.Evidence{Route: "r", Offset: offset, Claim: true, Outcome: pawl.Applied, ProcessedAt: time.Unix(offset, 0),
			Identity: pawl.Identity{Key: key, Stream: stream, Version: 10 + offset}}
	}
	if q.Stream != "" {
		return []pawl.Evidence{event(1, "4711", "a")}, nil
	}
	return []pawl.Evidence{event(2, "other", "4711")}, nil
}

func (homonym) Audit(_ context.Context, _ string, q pawl.AuditQuery) ([]pawl.AuditEntry, error) {
	if q.Stream != "" {
		return []pawl.AuditEntry{{ID: 1, What: "of the stream"}}, nil
	}
	return []pawl.AuditEntry{{ID: 1, What: "of the stream"}, {ID: 2, What: "of " + q.Key}}, nil
}

// What a stream is must not be put down to an event that is only called the same.
func TestEachSenseOfWhatIsAskedHasItsAnswer(t *testing.T) {
	a := newApp(strings.NewReader(""), io.Discard, io.Discard)
	a.utc = true
	v, err := a.explain(t.Context(), &storage{admin: homonym{}}, []pawl.BoundConsumer{{Name: "c"}}, &question{asked: "4711", limit: explained})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`c/r: stream "4711" is as it is, at version 11, because "a" of /0@1 was applied at 1970-01-01T00:00:01Z.`,
		`c/r: event "4711" is as it is, at version 12, because "4711" of /0@2 was applied at 1970-01-01T00:00:02Z.`,
	}
	if !slices.Equal(v.Why, want) || !slices.Equal(v.By, []string{"stream", "event"}) {
		t.Errorf("%q by %v", v.Why, v.By)
	}
	if len(v.Acts) != 2 {
		t.Errorf("acts: %+v", v.Acts)
	}
}

// What came early is listed behind what it waited for.
func TestOfOneBatchEventsAreListedAsTheyTookEffect(t *testing.T) {
	at := time.Unix(7, 0)
	event := func(offset, version int64, o pawl.Outcome, claim bool) pawl.Evidence {
		e := pawl.Evidence{Route: "r", Offset: offset, Claim: claim, Outcome: o, ProcessedAt: at, Identity: pawl.Identity{Key: fmt.Sprint("v", version)}}
		if claim {
			e.Identity.Version = version
		}
		return e
	}
	store := &decided{events: []pawl.Evidence{
		event(1, 3, pawl.Held, false), event(1, 3, pawl.Applied, true), event(2, 2, pawl.Applied, true), event(3, 2, pawl.Duplicate, false),
	}}
	a := newApp(strings.NewReader(""), io.Discard, io.Discard)
	v, err := a.explain(t.Context(), &storage{admin: store}, []pawl.BoundConsumer{{Name: "c"}}, &question{asked: "s", limit: explained})
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, e := range v.Events {
		got += fmt.Sprintf("%s %s, ", e.Key, e.Outcome)
	}
	if want := "v3 held, v2 applied, v3 applied, v2 duplicate, "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// corrected is a store in which an event was corrected by another one, later.
type corrected struct{ pawl.Admin }

func (corrected) Evidence(_ context.Context, _ string, q pawl.EvidenceQuery) ([]pawl.Evidence, error) {
	event := pawl.Evidence{Route: "r", Offset: 1, Claim: true, Outcome: pawl.Applied, ProcessedAt: time.Unix(1, 0), Identity: pawl.Identity{Key: "wrong"}}
	switch {
	case q.EventID == "wrong":
		event.SupersededBy = "right"
	case q.Key == "right" && (q.AsOf.IsZero() || !q.AsOf.Before(time.Unix(9, 0))):
		event.Offset, event.ProcessedAt, event.Identity.Key = 2, time.Unix(9, 0), "right"
	default:
		return nil, nil
	}
	return []pawl.Evidence{event}, nil
}

func (corrected) Audit(context.Context, string, pawl.AuditQuery) ([]pawl.AuditEntry, error) {
	return nil, nil
}

// Who asks for an event that was corrected is told, unless it was not at that moment.
func TestAnEventThatWasCorrectedSaysSo(t *testing.T) {
	for at, want := range map[int64]string{0: "right", 8: "", 9: "right"} {
		a := newApp(strings.NewReader(""), io.Discard, io.Discard)
		q := &question{asked: "wrong", limit: explained}
		if at > 0 {
			q.asOf = time.Unix(at, 0)
		}
		v, err := a.explain(t.Context(), &storage{admin: corrected{}}, []pawl.BoundConsumer{{Name: "c"}}, q)
		if err != nil {
			t.Fatal(err)
		}
		if len(v.Why) != 1 || strings.HasSuffix(v.Why[0], `, and was corrected by "right" since.`) != (want != "") || v.Events[0].SupersededBy != want {
			t.Errorf("as of %d: %q, %+v", at, v.Why, v.Events)
		}
	}
}

// A conflict may name another stream than the event that has its key: that event says nothing about this stream. Before the conflict
// came, there was nothing of this stream at all.
func TestAnEventOfAnotherStreamWithTheSameKeyExplainsNoRow(t *testing.T) {
	first := pawl.Evidence{Route: "r", Offset: 1, Claim: true, Outcome: pawl.Applied, ProcessedAt: time.Unix(1, 0),
		Identity: pawl.Identity{Key: "k", Stream: "other", Version: 7}}
	conflict := pawl.Evidence{Route: "r", Offset: 2, Outcome: pawl.Quarantined, ProcessedAt: time.Unix(2, 0), Reason: "other content",
		Identity: pawl.Identity{Key: "k", Stream: "s"}}
	a := newApp(strings.NewReader(""), io.Discard, io.Discard)
	a.utc = true
	for want, events := range map[string][]pawl.Evidence{
		`c/r: stream "s" has had no effect: its latest record, /0@2, was quarantined at 1970-01-01T00:00:02Z (other content)` +
			`; not decided: 1 quarantined; under the same keys, in other streams: 1 applied.`: {first, conflict},
		"": {first},
	} {
		v, err := a.explain(t.Context(), &storage{admin: &decided{events: events}}, []pawl.BoundConsumer{{Name: "c"}}, &question{asked: "s", limit: explained})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(v.Why, "\n"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A correction that came first leaves a mark in the place of the event that it corrects: no record of that event.
func TestAnEventThatHasNotComeIsNotCounted(t *testing.T) {
	mark := pawl.Evidence{Offset: 4, Claim: true, Outcome: pawl.Superseded, ProcessedAt: time.Unix(1, 0), SupersededBy: "right",
		Identity: pawl.Identity{Key: "wrong"}}
	late := pawl.Evidence{Offset: 5, Outcome: pawl.Superseded, ProcessedAt: time.Unix(2, 0), Reason: "corrected", Fingerprint: pawl.Fingerprint{1},
		Identity: pawl.Identity{Key: "wrong"}}
	a := newApp(strings.NewReader(""), io.Discard, io.Discard)
	a.utc = true
	for want, events := range map[string][]pawl.Evidence{
		`e has had no effect: it has not come, and "right" of /0@4 has corrected it at 1970-01-01T00:00:01Z.`:                             {mark},
		`e has had no effect: its latest record, /0@5, was superseded at 1970-01-01T00:00:02Z (corrected); without effect: 1 superseded.`: {mark, late},
	} {
		if got := a.sentence("e", events, nil, nil, false); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestWhatIsLeftOutIsCounted(t *testing.T) {
	for want, got := range map[string]string{
		"earlier ones": earlier(0, true), "7 earlier": earlier(7, false), "more than 7 earlier": earlier(7, true),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
