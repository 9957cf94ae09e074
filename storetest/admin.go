package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
)

func adminTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"the quarantine is listed as it is asked for", adminQuarantine[Tx]},
		{"the quarantine is grouped by route and cause", adminGroups[Tx]},
		{"a record in quarantine is shown whole", adminItem[Tx]},
		{"blocked streams are listed with what waits in them", adminBlocked[Tx]},
		{"a pause reaches the owners, and ends", adminPause[Tx]},
		{"attempts are counted until the position passes them", attemptCounted[Tx]},
		{"an attempt that was survived is taken back, and no other", attemptSurvived[Tx]},
		{"an attempt proves the fence", attemptFenced[Tx]},
		{"crashes in a row are told to the next owner", crashesTold[Tx]},
		{"evidence is found by key, event and stream", adminEvidence[Tx]},
		{"evidence of what was held or set aside tells both", adminEvidenceKept[Tx]},
		{"evidence is the latest of each route, as of a moment", adminEvidenceLatest[Tx]},
		{"evidence as of a moment has what was held then", adminEvidenceHeldThen[Tx]},
		{"what waits is counted, however much it is", adminWaiting[Tx]},
		{"a question for evidence must ask for one thing", adminEvidenceRefused[Tx]},
	}
}

// aside sets one record aside with a cause and a reason, at a time.
func (c *client[Tx]) asideAt(o *pawl.Ownership, d *pawl.Decision, cause, reason string, at time.Time) {
	c.Helper()
	w := work(setAside[Tx](cause, reason, 2), d)
	w.Now = at
	if err := c.store.Apply(c.ctx, o, w); err != nil {
		c.Fatalf("apply: %v", err)
	}
}

func adminQuarantine[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	uuid := "0197f3d0-7f1c-7c3e-9c55-6d1f2a3b4c5d"
	c.asideAt(o, ordered(partition(0), 0, "s", "a"), pawl.CauseValidation, "100% wrong_", now)
	c.asideAt(o, ordered(partition(0), 1, "s", uuid), pawl.CauseFailure, "no answer", now.Add(time.Minute))
	c.asideAt(o, onRoute(1, ordered(partition(0), 2, "t", "c")), pawl.CauseValidation, "1000 wrong", now.Add(2*time.Minute))
	c.asideAt(o, undecoded(partition(0), 3, []byte("x")), pawl.CausePoison, "bytes", now.Add(3*time.Minute))
	c.unblock(o, 1, decide[Tx](pawl.Skipped))
	first := w.quarantined(0)
	for _, want := range []struct {
		f       pawl.QuarantineFilter
		limit   int
		after   int64
		offsets string
	}{
		{pawl.QuarantineFilter{}, 0, 0, "0 2 3"},
		{pawl.QuarantineFilter{}, 2, 0, "0 2"},
		{pawl.QuarantineFilter{}, 2, first, "2 3"},
		{pawl.QuarantineFilter{Status: pawl.QuarantineAny}, 0, 0, "0 1 2 3"},
		{pawl.QuarantineFilter{Status: pawl.QuarantineSkipped}, 0, 0, "1"},
		{pawl.QuarantineFilter{Status: pawl.QuarantineArchived}, 0, 0, ""},
		{pawl.QuarantineFilter{Route: "charge"}, 0, 0, "0 3"},
		{pawl.QuarantineFilter{Cause: pawl.CauseValidation}, 0, 0, "0 2"},
		{pawl.QuarantineFilter{Stream: "t"}, 0, 0, "2"},
		{pawl.QuarantineFilter{Reason: "0% wrong_"}, 0, 0, "0"}, // as text, not as a pattern
		{pawl.QuarantineFilter{Reason: "wrong"}, 0, 0, "0 2"},
		{pawl.QuarantineFilter{Since: now.Add(2 * time.Minute)}, 0, 0, "2 3"},
		{pawl.QuarantineFilter{Until: now.Add(2 * time.Minute)}, 0, 0, "0"},
		{pawl.QuarantineFilter{IDs: []int64{first, first + 1, first + 99}}, 0, 0, "0"},
		{pawl.QuarantineFilter{IDs: []int64{}}, 0, 0, ""},
		{pawl.QuarantineFilter{Route: "charge", Cause: pawl.CauseValidation, Stream: "s", Reason: "wrong"}, 0, 0, "0"},
		{pawl.QuarantineFilter{Route: "x' or '1'='1"}, 0, 0, ""},
	} {
		items, err := w.Store.Admin().Quarantine(w.ctx, "billing", want.f, want.limit, want.after)
		var got []string
		for _, i := range items {
			got = append(got, fmt.Sprint(i.Offset))
		}
		if err != nil || strings.Join(got, " ") != want.offsets {
			t.Errorf("%+v: %v, %v, want %s", want.f, got, err, want.offsets)
		}
	}
	all, err := w.Store.Admin().Quarantine(w.ctx, "billing", pawl.QuarantineFilter{Status: pawl.QuarantineAny}, 0, 0)
	if err != nil || len(all) != 4 {
		t.Fatalf("%+v, %v", all, err)
	}
	if i := all[0]; i.ID != first || i.Route != "charge" || i.Status != "open" || i.Cause != "validation" || i.Reason != "100% wrong_" ||
		i.Tries != 2 || i.Partition != partition(0) || i.Key != "a" || i.Stream != "s" || i.Blocks != 0 || !i.At.Equal(now) || i.Record != nil {
		t.Errorf("item: %+v", i)
	}
	if all[1].Key != uuid || all[3].Key != "" || all[3].Stream != "" {
		t.Errorf("keys %q and %q", all[1].Key, all[3].Key)
	}
	if none, err := w.Store.Admin().Quarantine(w.ctx, "nobody", pawl.QuarantineFilter{}, 0, 0); err != nil || len(none) > 0 {
		t.Errorf("of another: %+v, %v", none, err)
	}
	if _, err := w.Store.Admin().Quarantine(w.ctx, "billing", pawl.QuarantineFilter{Status: "gone"}, 0, 0); err == nil || !strings.Contains(err.Error(), "archived") {
		t.Errorf("a status that there is none of: %v", err)
	}
}

func adminGroups[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	for i := range int64(3) {
		c.asideAt(o, ordered(partition(0), i, fmt.Sprint("s", i%2), fmt.Sprint("k", i)), pawl.CauseFailure, fmt.Sprintf("reason %d\nmore", i), now.Add(time.Duration(i)*time.Minute))
	}
	c.asideAt(o, undecoded(partition(0), 3, []byte("x")), pawl.CausePoison, "bytes", now)
	c.asideAt(o, ordered(partition(0), 4, "s", "gone"), pawl.CauseFailure, "settled", now)
	c.unblock(o, 4, decide[Tx](pawl.Skipped))
	got, err := w.Store.Admin().QuarantineGroups(w.ctx, "billing")
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if g := got[0]; g.Route != "charge" || g.Cause != "failure" || g.Reason != "reason 0" || g.Count != 3 || g.Streams != 2 ||
		!g.Oldest.Equal(now) || !g.Newest.Equal(now.Add(2*time.Minute)) {
		t.Errorf("first group: %+v", g)
	}
	if g := got[1]; g.Cause != "poison" || g.Count != 1 || g.Streams != 0 {
		t.Errorf("second group: %+v", g)
	}
}

func adminItem[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	d := ordered(partition(0), 0, "s", "a")
	d.Record.Value, d.Record.Key = []byte("\x00\xff"), nil
	d.Record.Headers = []pawl.Header{{Key: "trace", Value: []byte("one")}}
	c.must(o, blocking, d)
	c.must(o, c.inOrder, ordered(partition(0), 1, "s", "b"), ordered(partition(0), 2, "s", "c"))
	item, err := w.Store.Admin().QuarantineItem(w.ctx, w.quarantined(0))
	if err != nil {
		t.Fatal(err)
	}
	r := item.Record
	if item.Blocks != 2 || item.Stream != "s" || r == nil || r.Partition != partition(0) || r.Offset != 0 || r.LeaderEpoch != 7 || r.Key != nil ||
		!bytes.Equal(r.Value, d.Record.Value) || len(r.Headers) != 1 || !r.Timestamp.Equal(d.Record.Timestamp) || item.Revisions != nil {
		t.Errorf("item: %+v, %+v", item, r)
	}
	if _, err := w.Store.Admin().QuarantineItem(w.ctx, item.ID+1000); err == nil || !strings.Contains(err.Error(), "there is none") {
		t.Errorf("one that does not exist: %v", err)
	}
}

func adminBlocked[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.heldBehind(o, 2) // s: nothing blocks it any more
	c.must(o, blocking, ordered(partition(0), 3, "t", "x"))
	later := work(blocking[Tx], ordered(partition(0), 4, "u", "y"))
	later.Now = now.Add(time.Minute)
	if err := c.store.Apply(w.ctx, o, later); err != nil {
		t.Fatal(err)
	}
	got, err := w.Store.Admin().BlockedStreams(w.ctx, "billing", 0)
	if err != nil || len(got) != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	if b := got[0]; b.Route != "charge" || b.Stream != "s" || b.Quarantine != 0 || b.Held != 2 || !b.Since.Equal(now) || !b.OldestHeldAt.Equal(now) {
		t.Errorf("s: %+v", b)
	}
	if b := got[1]; b.Stream != "t" || b.Quarantine != w.quarantined(3) || b.Held != 0 || !b.OldestHeldAt.IsZero() {
		t.Errorf("t: %+v", b)
	}
	if got[2].Stream != "u" {
		t.Errorf("last: %+v", got[2])
	}
	if got, err := w.Store.Admin().BlockedStreams(w.ctx, "billing", 1); err != nil || len(got) != 1 || got[0].Stream != "s" {
		t.Errorf("one: %+v, %v", got, err)
	}
}

func adminPause[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	admin := w.Store.Admin()
	if p := c.orders(1, o).Paused; p != nil {
		t.Errorf("paused by %+v", p)
	}
	err := errors.Join(admin.Pause(w.ctx, "billing", pawl.Pause{By: "one", Why: "first", At: now}),
		admin.Pause(w.ctx, "billing", pawl.Pause{By: "two", Why: "second", At: now.Add(time.Hour)}))
	if err != nil {
		t.Fatal(err)
	}
	if p := c.orders(1, o).Paused; p == nil || p.By != "two" || p.Why != "second" || !p.At.Equal(now.Add(time.Hour)) {
		t.Errorf("paused by %+v", p)
	}
	if p := c.orders(0).Paused; p == nil {
		t.Error("an owner of nothing is not told")
	}
	b := binding()
	b.Consumer, b.Group = "shipping", "shipping-group"
	if p := w.client(b).orders(1).Paused; p != nil {
		t.Errorf("another consumer is paused by %+v", p)
	}
	if err := admin.Resume(w.ctx, "billing", "two", "done", now); err != nil {
		t.Fatal(err)
	}
	if p := c.orders(1, o).Paused; p != nil {
		t.Errorf("still paused by %+v", p)
	}
	w.wantInt(2, `select count(*) from pawl_audit where what = 'pause' and operation_id is null`)
	w.wantInt(1, `select count(*) from pawl_audit where what = 'resume' and actor = 'two' and why = 'done'`)
	for what, err := range map[string]error{
		"there is none":        admin.Resume(w.ctx, "billing", "two", "again", now),
		"find consumer nobody": admin.Pause(w.ctx, "nobody", pawl.Pause{By: "a", Why: "b", At: now}),
		"find consumer no one": admin.Resume(w.ctx, "no one", "a", "b", now),
		"By is empty":          admin.Pause(w.ctx, "billing", pawl.Pause{}),
		"Why is empty":         admin.Resume(w.ctx, "billing", "a", "", now),
	} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want it to say %q", err, what)
		}
	}
	w.wantInt(3, `select count(*) from pawl_audit`)
}

func (c *client[Tx]) wantAttempts(o *pawl.Ownership, offset int64, want int) {
	c.Helper()
	got, err := c.store.Attempt(c.ctx, o, offset)
	if err != nil || got != want {
		c.Errorf("attempt at %d: %d before, %v, want %d", offset, got, err, want)
	}
}

func attemptCounted[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	one, two := w.client(binding()), w.another(binding())
	o := one.acquire(partition(0), 0)
	one.wantAttempts(o, 0, 0)
	one.wantAttempts(o, 0, 1)
	o = two.acquire(partition(0), 0) // whoever tried it did not live to tell
	two.wantAttempts(o, 0, 2)
	two.wantAttempts(o, 1, 0)
	two.wantAttempts(two.acquire(partition(1), 0), 0, 0)
	two.apply(o, record(partition(0), 0, "k", "v"))
	two.wantAttempts(o, 1, 1)
	w.wantInt(1, `select count(*) from pawl_attempt where progress_id = ?`, o.Row) // what was passed is forgotten
	if err := two.store.Move(w.ctx, o, 0); err != nil {
		t.Fatal(err)
	}
	two.wantAttempts(o, 0, 0)
	two.wantAttempts(o, 1, 0)
}

func attemptSurvived[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	one, two := w.client(binding()), w.another(binding())
	o := one.acquire(partition(0), 0)
	one.wantAttempts(o, 0, 0) // this one dies of it
	o = two.acquire(partition(0), 0)
	two.wantAttempts(o, 0, 1)
	if err := two.store.Survive(w.ctx, o, 7); err != nil {
		t.Fatalf("survive what was never tried: %v", err)
	}
	if err := two.store.Survive(w.ctx, o, 0); err != nil {
		t.Fatal(err)
	}
	two.wantAttempts(o, 0, 1) // the death of the first is still known
}

func attemptFenced[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	one, two := w.client(binding()), w.another(binding())
	stale := one.acquire(partition(0), 0)
	current := two.acquire(partition(0), 0)
	if _, err := one.store.Attempt(w.ctx, stale, 0); !errors.Is(err, pawl.ErrFenced) {
		t.Errorf("an owner that was overtaken: %v", err)
	}
	two.apply(current, record(partition(0), 0, "k", "v"))
	w.exec(`update pawl_progress set seq = 0`)
	if _, err := two.store.Attempt(w.ctx, current, 1); !errors.Is(err, pawl.ErrStoreWentBack) {
		t.Errorf("a store that went back: %v", err)
	}
	w.wantInt(0, `select count(*) from pawl_attempt`)
}

func crashesTold[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	for want := range 3 {
		if o := c.acquire(partition(0), 0); o.Crashes != want {
			t.Errorf("owner %d: %+v", want, o)
		}
	}
	o := c.acquire(partition(0), 0)
	c.apply(o, record(partition(0), 0, "k", "v"))
	if o := c.acquire(partition(0), 0); o.Crashes != 1 {
		t.Errorf("after one that advanced: %+v", o)
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

func adminEvidence[Tx any](t *testing.T, h Harness[Tx]) {
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

func adminEvidenceKept[Tx any](t *testing.T, h Harness[Tx]) {
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

func adminEvidenceLatest[Tx any](t *testing.T, h Harness[Tx]) {
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

func adminEvidenceHeldThen[Tx any](t *testing.T, h Harness[Tx]) {
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

func adminWaiting[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	want := func(quarantined, blocked int) {
		t.Helper()
		got, err := w.Store.Admin().Waiting(w.ctx, "billing")
		if err != nil || got.Quarantined != quarantined || got.BlockedStreams != blocked {
			t.Errorf("%+v, %v, want %d and %d", got, err, quarantined, blocked)
		}
	}
	want(0, 0)
	c.must(o, blocking, ordered(partition(0), 0, "s", "a"))
	c.must(o, blocking, onRoute(1, ordered(partition(0), 1, "s", "b")))
	c.must(o, setAside[Tx](pawl.CauseFailure, "no", 1), undecoded(partition(0), 2, []byte("x")))
	want(3, 2)
	c.unblock(o, 0, c.settle)
	want(2, 1)
	if got, err := w.Store.Admin().Waiting(w.ctx, "nobody"); err != nil || got != (pawl.Waiting{}) {
		t.Errorf("of another: %+v, %v", got, err)
	}
}

func adminEvidenceRefused[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	for _, q := range []pawl.EvidenceQuery{{}, {Key: "a", Stream: "b"}, {Key: "a", Limit: -1}} {
		if _, err := w.Store.Admin().Evidence(w.ctx, "billing", q); err == nil || !strings.Contains(err.Error(), "ask by Key") {
			t.Errorf("%+v: %v", q, err)
		}
	}
}
