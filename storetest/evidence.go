package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
)

func evidenceTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"evidence is found by key, event and stream", evidenceFound[Tx]},
		{"evidence of what was held or set aside tells both", evidenceKept[Tx]},
		{"evidence is the latest of each route, as of a moment", evidenceLatest[Tx]},
		{"evidence as of a moment has what was held then", evidenceHeldThen[Tx]},
		{"evidence as of a moment has what was held then and came to nothing", evidencePast[Tx]},
		{"a question for evidence must ask for one thing", evidenceRefused[Tx]},
		{"an effect's evidence is kept", evidenceTold[Tx]},
	}
}

func (w *world[Tx]) evidence(q pawl.EvidenceQuery) []pawl.Evidence {
	w.Helper()
	all, err := w.Store.Admin().Evidence(w.ctx, "billing", q)
	if err != nil {
		w.Fatal(err)
	}
	return all
}

func evidenceFound[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	full := record(partition(0), 4, "full", "v")
	full.Identity = pawl.Identity{
		Key: "full", EventID: "event", MessageID: "message", StreamType: "account", Stream: "a-7", Version: 12,
		Type: "PAID", SchemaVersion: 3, OccurredAt: now, CorrelationID: "correlation", CausationID: "causation",
	}
	o := c.acquire(partition(0), 4)
	c.apply(o, full, record(partition(0), 5, "other", "v"))
	later := work(c.settle, record(partition(0), 6, "full", "v"), record(partition(0), 7, "full", "changed"))
	later.Now = now.Add(time.Minute)
	if err := c.store.Apply(w.ctx, o, later); err != nil {
		t.Fatal(err)
	}
	b := binding()
	b.Consumer, b.Group = "shipping", "shipping-group"
	shipping := w.client(b)
	shipping.apply(shipping.acquire(partition(0), 0), record(partition(0), 0, "full", "v"))

	for _, q := range []pawl.EvidenceQuery{{Key: "full"}, {EventID: "event"}, {Stream: "a-7"}} {
		got := w.evidence(q)
		if len(got) != 3 {
			t.Errorf("%+v: %+v", q, got)
			continue
		}
		e := got[0]
		if !e.Identity.OccurredAt.Equal(now) {
			t.Errorf("%+v: occurred at %s", q, e.Identity.OccurredAt)
		}
		e.Identity.OccurredAt = full.Identity.OccurredAt
		if e.Route != "charge" || e.Partition != partition(0) || e.Offset != 4 || e.Identity != full.Identity || e.Fingerprint != full.Fingerprint ||
			e.Outcome != pawl.Applied || !e.Claim || e.Mode != pawl.Live || e.Code != "v1" || !e.IngestedAt.Equal(now.Add(-time.Second)) || !e.ProcessedAt.Equal(now) {
			t.Errorf("%+v: the claim: %+v", q, e)
		}
		if e := got[1]; e.Offset != 6 || e.Outcome != pawl.Duplicate || e.Claim || e.Identity.Key != "full" || e.Reason == "" {
			t.Errorf("%+v: the copy: %+v", q, e)
		}
		if e := got[2]; e.Offset != 7 || e.Outcome != pawl.Quarantined || e.Fingerprint != fingerprint("changed") || e.Identity.Key != "full" {
			t.Errorf("%+v: the conflict: %+v", q, e)
		}
	}
	if got := w.evidence(pawl.EvidenceQuery{Key: "full", Limit: 2}); len(got) != 2 || got[0].Offset != 6 || got[1].Offset != 7 {
		t.Errorf("the latest two: %+v", got)
	}
	for _, q := range []pawl.EvidenceQuery{{Key: "none"}, {EventID: "none"}, {Stream: "none"}, {Key: "\x00\xff"}} {
		if got := w.evidence(q); len(got) > 0 {
			t.Errorf("%+v: %+v", q, got)
		}
	}
	same := record(partition(0), 8, "id", "v") // the event is its own key
	same.Identity.EventID = "id"
	c.apply(o, same)
	if got := w.evidence(pawl.EvidenceQuery{EventID: "id"}); len(got) != 1 || got[0].Offset != 8 {
		t.Errorf("by an event id that is the key: %+v", got)
	}
	for i, key := range []string{"part 1", "part 2", "part 3"} { // one event, several keys
		part := record(partition(0), int64(9+i), key, "v")
		part.Identity.EventID = "parts"
		batch := work(c.settle, part)
		batch.Now = now.Add(time.Duration(i) * time.Hour)
		if err := c.store.Apply(w.ctx, o, batch); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.evidence(pawl.EvidenceQuery{EventID: "parts", AsOf: now.Add(time.Minute), Limit: 2}); len(got) != 1 || got[0].Offset != 9 {
		t.Errorf("as of a moment before as many as are wanted: %+v", got)
	}

	var many []*pawl.Decision // held at the moment, and decided later
	for i := range int64(120) {
		r := record(partition(0), 100+i, fmt.Sprint("late ", i), "v")
		r.Identity.Stream = "late"
		many = append(many, r)
	}
	batch := work(c.settle, many...)
	batch.Now = now.Add(24 * time.Hour)
	if err := c.store.Apply(w.ctx, o, batch); err != nil {
		t.Fatal(err)
	}
	w.exec(`insert into pawl_redelivery (scope_id, progress_id, position_offset, key_form, key_id, fingerprint, outcome, mode, code_id, ingested_at, processed_at)
		select scope_id, progress_id, position_offset, key_form, key_id, fingerprint, 6, mode, code_id, ingested_at, (select min(processed_at) from pawl_decision)
		from pawl_decision where stream = 'late'`)
	for limit, want := range map[int]int{110: 110, 200: 120} {
		if got := w.evidence(pawl.EvidenceQuery{Stream: "late", AsOf: now.Add(time.Minute), Limit: limit}); len(got) != want {
			t.Errorf("of 120 that were held at the moment, %d are wanted and %d found", limit, len(got))
		}
	}
}

func evidenceKept[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.must(o, blocking, ordered(partition(0), 0, "s", "a"))
	c.must(o, c.inOrder, ordered(partition(0), 1, "s", "b"))
	outcomes := func(q pawl.EvidenceQuery) string {
		var all []string
		for _, e := range w.evidence(q) {
			if e.Identity.Stream != "s" || e.Identity.Key == "" {
				t.Errorf("%+v: %+v", q, e)
			}
			all = append(all, fmt.Sprintf("%d %s", e.Offset, e.Outcome))
		}
		return strings.Join(all, ", ")
	}
	if got := outcomes(pawl.EvidenceQuery{Stream: "s"}); got != "0 quarantined, 1 held" {
		t.Errorf("while they are kept: %s", got)
	}
	if got := outcomes(pawl.EvidenceQuery{Key: "b"}); got != "1 held" {
		t.Errorf("by key: %s", got)
	}
	c.unblock(o, 0, c.settle)
	c.must(o, c.inOrder, task(c.tasks(o)[0]))
	if got := outcomes(pawl.EvidenceQuery{Key: "b"}); got != "1 held, 1 applied" {
		t.Errorf("by key, in the end: %s", got)
	}
	if got := outcomes(pawl.EvidenceQuery{Stream: "s"}); got != "0 quarantined, 1 held, 0 applied, 1 applied" {
		t.Errorf("in the end: %s", got)
	}
}

func evidenceLatest[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	offset := int64(0)
	batch := func(after time.Duration, ds ...*pawl.Decision) {
		t.Helper()
		for _, d := range ds {
			d.Record.Offset = offset
			offset++
		}
		b := work(c.settle, ds...)
		b.Now = now.Add(after)
		if err := c.store.Apply(w.ctx, o, b); err != nil {
			t.Fatal(err)
		}
	}
	event := func(route int, key string, version int64) *pawl.Decision {
		d := onRoute(route, ordered(partition(0), 0, "s", key))
		d.Identity.Version, d.Identity.EventID = version, "of "+key
		return d
	}
	batch(0, event(0, "e", 1), event(1, "rare", 1))
	// One batch has one time, and its keys are in another order than its versions.
	batch(time.Minute, event(0, "d", 2), event(0, "c", 3), event(0, "a", 4), event(0, "b", 5))
	batch(2*time.Minute, event(0, "e", 1)) // a copy of the first
	b := binding()
	b.Consumer, b.Group = "shipping", "shipping-group"
	shipping := w.client(b)
	later := work(shipping.settle, ordered(partition(0), 0, "s", "theirs"))
	later.Now = now.Add(time.Hour)
	if err := shipping.store.Apply(w.ctx, shipping.acquire(partition(0), 0), later); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		q     pawl.EvidenceQuery
		found string
	}{
		{pawl.EvidenceQuery{Stream: "s", Limit: 2}, "rare 1, a 4, b 5"}, // and not the copy of one that is older than those
		{pawl.EvidenceQuery{Stream: "s", Limit: 1}, "rare 1, b 5"},
		{pawl.EvidenceQuery{Stream: "s", Limit: 5}, "rare 1, d 2, c 3, a 4, b 5, e duplicate"},
		{pawl.EvidenceQuery{Stream: "s"}, "e 1, rare 1, d 2, c 3, a 4, b 5, e duplicate"},
		{pawl.EvidenceQuery{Stream: "s", AsOf: now.Add(time.Minute)}, "e 1, rare 1, d 2, c 3, a 4, b 5"},
		{pawl.EvidenceQuery{Stream: "s", AsOf: now.Add(time.Minute), Limit: 1}, "rare 1, b 5"},
		{pawl.EvidenceQuery{Stream: "s", AsOf: now.Add(time.Minute - time.Microsecond)}, "e 1, rare 1"},
		{pawl.EvidenceQuery{Stream: "s", AsOf: now.Add(-time.Microsecond)}, ""},
		{pawl.EvidenceQuery{Key: "e"}, "e 1, e duplicate"},
		{pawl.EvidenceQuery{Key: "e", Limit: 1}, "e duplicate"},
		{pawl.EvidenceQuery{Key: "e", AsOf: now.Add(time.Minute)}, "e 1"},
		{pawl.EvidenceQuery{EventID: "of e"}, "e 1, e duplicate"},
		{pawl.EvidenceQuery{EventID: "of e", Limit: 1}, "e duplicate"},
		{pawl.EvidenceQuery{EventID: "of e", AsOf: now}, "e 1"},
		{pawl.EvidenceQuery{EventID: "of e", AsOf: now.Add(-time.Second)}, ""},
	} {
		var all []string
		for _, e := range w.evidence(want.q) {
			if e.Claim {
				all = append(all, fmt.Sprintf("%s %d", e.Identity.Key, e.Identity.Version))
			} else {
				all = append(all, fmt.Sprintf("%s %s", e.Identity.Key, e.Outcome))
			}
		}
		if got := strings.Join(all, ", "); got != want.found {
			t.Errorf("%+v: %s, want %s", want.q, got, want.found)
		}
	}
}

func evidenceHeldThen[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.must(o, blocking, ordered(partition(0), 0, "s", "a"))
	c.must(o, c.inOrder, ordered(partition(0), 1, "s", "b"))
	c.unblock(o, 0, c.settle)
	b := work(c.inOrder, task(c.tasks(o)[0]))
	b.Now = now.Add(time.Hour)
	if err := c.store.Apply(w.ctx, o, b); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range w.evidence(pawl.EvidenceQuery{Stream: "s", AsOf: now.Add(time.Minute)}) {
		if e.Offset == 1 {
			all = append(all, e.Outcome.String())
		}
	}
	if got := strings.Join(all, ", "); got != "held" {
		t.Errorf("the one that was held: %s", got)
	}
}

// What was held and came to no claim has one row by position, which says what came of it: at a moment before, it was held.
func evidencePast[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.must(o, blocking, ordered(partition(0), 0, "s", "a"))
	c.must(o, c.inOrder, ordered(partition(0), 1, "s", "b"))
	c.must(o, c.inOrder, ordered(partition(0), 2, "s", "c"))
	c.apply(o, ordered(partition(0), 3, "s", "c")) // the key is taken meanwhile, elsewhere
	c.unblock(o, 0, c.settle)
	for i, h := range []handler[Tx]{setAside[Tx](pawl.CauseFailure, "no", 1), c.settle} {
		b := work(h, task(c.tasks(o)[0]))
		b.Now = now.Add(time.Duration(1+i) * time.Hour)
		if err := c.store.Apply(w.ctx, o, b); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []struct {
		q     pawl.EvidenceQuery
		found string
	}{
		{pawl.EvidenceQuery{Stream: "s"}, "1 quarantined, 2 duplicate"},
		{pawl.EvidenceQuery{Stream: "s", AsOf: now.Add(time.Minute)}, "1 held, 2 held"},
		{pawl.EvidenceQuery{Stream: "s", AsOf: now.Add(time.Hour)}, "2 held, 1 quarantined"},
		{pawl.EvidenceQuery{Key: "b"}, "1 quarantined"},
		{pawl.EvidenceQuery{Key: "b", AsOf: now.Add(time.Hour - time.Microsecond)}, "1 held"},
		{pawl.EvidenceQuery{Key: "c", AsOf: now.Add(time.Hour)}, "2 held"},
		{pawl.EvidenceQuery{Key: "c", AsOf: now.Add(-time.Microsecond)}, ""},
	} {
		var all []string
		for _, e := range w.evidence(want.q) {
			if !e.Claim && e.Offset > 0 {
				all = append(all, fmt.Sprint(e.Offset, " ", e.Outcome))
			}
		}
		if got := strings.Join(all, ", "); got != want.found {
			t.Errorf("%+v: %s, want %s", want.q, got, want.found)
		}
	}
}

func evidenceRefused[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	for _, q := range []pawl.EvidenceQuery{{}, {Key: "a", Stream: "b"}, {Key: "a", Limit: -1}} {
		if _, err := w.Store.Admin().Evidence(w.ctx, "billing", q); err == nil || !strings.Contains(err.Error(), "ask by Key") {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

func evidenceTold[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c, p := w.client(binding()), partition(0)
	o := c.acquire(p, 0)
	c.must(o, func(ctx context.Context, s pawl.Session[Tx], d *pawl.Decision) error {
		d.VersionBefore = 41
		if d.Record.Offset > 0 {
			d.RowAffected, d.StateBefore, d.StateAfter = "account a-1", `{"n":1}`, `{"n":2}`
		}
		return c.settle(ctx, s, d)
	}, record(p, 0, "a", "1"), record(p, 1, "b", "1"))
	a, b := w.evidence(pawl.EvidenceQuery{Key: "a"}), w.evidence(pawl.EvidenceQuery{Key: "b"})
	if len(a) != 1 || a[0].VersionBefore != 41 || a[0].RowAffected != "" || a[0].StateAfter != "" || len(a[0].Accepted) != 0 {
		t.Errorf("evidence of a: %+v", a)
	}
	plain := func(s string) string { return strings.ReplaceAll(s, " ", "") } // a database may write JSON its own way
	if len(b) != 1 || b[0].RowAffected != "account a-1" || plain(b[0].StateBefore) != `{"n":1}` || plain(b[0].StateAfter) != `{"n":2}` ||
		len(b[0].Accepted) != 0 {
		t.Errorf("evidence of b: %+v", b)
	}
}
