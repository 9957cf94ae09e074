package storetest

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pawlhq/pawl"
)

func quarantineTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"a quarantined record claims nothing", quarantineClaimsNothing[Tx]},
		{"a quarantined record is kept whole", quarantineKeepsRecord[Tx]},
		{"a nil value is not an empty one", quarantineNilOrEmpty[Tx]},
		{"headers are kept in order, with any bytes", quarantineKeepsHeaders[Tx]},
		{"the same position again writes nothing", quarantineOnce[Tx]},
		{"a reason of any bytes is kept as text", quarantineReason[Tx]},
		{"a record that did not decode has no key", quarantineUndecoded[Tx]},
	}
}

// setAside is the handler that quarantines.
func setAside[Tx any](cause, reason string, tries int) handler[Tx] {
	return func(_ context.Context, _ pawl.Session[Tx], d *pawl.Decision) error {
		d.Outcome, d.Cause, d.Reason, d.Tries = pawl.Quarantined, cause, reason, tries
		return nil
	}
}

func (c *client[Tx]) quarantine(o *pawl.Ownership, h handler[Tx], ds ...*pawl.Decision) {
	c.Helper()
	if err := c.store.Apply(c.ctx, o, work(h, ds...)); err != nil {
		c.Fatalf("apply: %v", err)
	}
}

func quarantineClaimsNothing[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.quarantine(o, setAside[Tx](pawl.CauseValidation, "no", 1), record(partition(0), 0, "k", "v"))
	w.wantInt(0, `select count(*) from pawl_decision`)
	w.wantInt(1, `select count(*) from pawl_redelivery where outcome = ?`, int(pawl.Quarantined))
	corrected := record(partition(0), 1, "k", "corrected")
	c.apply(o, corrected)
	w.wantOutcome(corrected, pawl.Applied)
	w.consistent()
}

func quarantineKeepsRecord[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	d := record(partition(3), 41, "a key\x00", "v")
	d.Record.Key, d.Record.Value, d.Record.LeaderEpoch = []byte("\x00\xffrk"), []byte("\x00\xff\xfevalue"), 9
	d.Route = 1
	c.quarantine(c.acquire(partition(3), 41), setAside[Tx](pawl.CauseFailure, "again and again", 5), d)
	w.wantInt(1, `
		select count(*)
		from pawl_quarantine q
		join pawl_scope s on s.id = q.scope_id
		join pawl_progress p on p.id = q.progress_id
		where s.route = 'notify' and p.partition = 3 and q.position_offset = 41 and q.leader_epoch = 9 and q.status = 1
		  and q.cause = 'failure' and q.reason = 'again and again' and q.tries = 5 and q.mode = 1 and q.stream = 'a-1'
		  and q.key_form = 0 and q.key_id is not null and q.key = ? and q.record_key = ? and q.value = ?
		  and q.headers is null and q.ingested_at < q.quarantined_at and q.sealed_by is null and q.erased_at is null`,
		[]byte("a key\x00"), []byte("\x00\xffrk"), []byte("\x00\xff\xfevalue"))
}

func quarantineNilOrEmpty[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	tombstone, empty := undecoded(partition(0), 0, nil), undecoded(partition(0), 1, []byte{})
	tombstone.Record.Key, empty.Record.Key = []byte{}, nil
	c.quarantine(c.acquire(partition(0), 0), setAside[Tx](pawl.CausePoison, "bytes", 0), tombstone, empty)
	w.wantInt(1, `select count(*) from pawl_quarantine where position_offset = 0 and value is null and record_key = ?`, []byte{})
	w.wantInt(1, `select count(*) from pawl_quarantine where position_offset = 1 and record_key is null and value = ?`, []byte{})
}

func quarantineKeepsHeaders[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	want := []pawl.Header{
		{Key: "trace", Value: []byte("one")}, {Key: "trace", Value: []byte("two")}, {Key: "\xff\x00key", Value: []byte("\x00\xff")},
		{Key: "", Value: nil}, {Key: "empty", Value: []byte{}}, {Key: "a\x00b <&>", Value: []byte("three")},
	}
	d := undecoded(partition(0), 0, []byte("v"))
	d.Record.Headers = want
	c.quarantine(c.acquire(partition(0), 0), setAside[Tx](pawl.CausePoison, "bytes", 0), d)

	var text string
	if err := w.DB.QueryRowContext(w.ctx, `select headers from pawl_quarantine`).Scan(&text); err != nil {
		t.Fatalf("read headers: %v", err)
	}
	got, err := pawl.DecodeHeaders(text)
	if err != nil {
		t.Fatalf("headers %s: %v", text, err)
	}
	same := func(a, b pawl.Header) bool {
		return a.Key == b.Key && bytes.Equal(a.Value, b.Value) && (a.Value == nil) == (b.Value == nil)
	}
	if !slices.EqualFunc(got, want, same) {
		t.Errorf("headers %s:\ngot  %#v\nwant %#v", text, got, want)
	}
}

func quarantineOnce[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	for _, reason := range []string{"first", "second"} {
		c.quarantine(o, setAside[Tx](pawl.CausePoison, reason, 0), undecoded(partition(0), 0, []byte("v")))
	}
	w.wantInt(1, `select count(*) from pawl_quarantine`)
	w.wantInt(1, `select count(*) from pawl_quarantine where reason = 'first'`)
	w.wantInt(1, `select count(*) from pawl_redelivery`)
	w.wantInt(1, `select next_offset from pawl_progress`)
}

// A decoder's error may quote the bytes it choked on; that must not make the record impossible to set aside.
func quarantineReason[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	c.quarantine(c.acquire(partition(0), 0), setAside[Tx](pawl.CausePoison, "bad byte \x00 then \xff end", 0),
		undecoded(partition(0), 0, []byte("v")))
	var reason string
	if err := w.DB.QueryRowContext(w.ctx, `select reason from pawl_quarantine`).Scan(&reason); err != nil {
		t.Fatalf("read reason: %v", err)
	}
	if !utf8.ValidString(reason) || !strings.HasPrefix(reason, "bad byte ") || !strings.HasSuffix(reason, " end") {
		t.Errorf("reason %q: want the text around the bytes", reason)
	}
}

func quarantineUndecoded[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.quarantine(o, setAside[Tx](pawl.CausePoison, "bytes", 0),
		undecoded(partition(0), 0, []byte("v")), undecoded(partition(0), 1, []byte("v")))
	w.wantInt(2, `select count(*) from pawl_quarantine where key_form is null and key_id is null and key is null and stream is null`)
	w.wantInt(2, `select count(*) from pawl_redelivery where key_form is null and key_id is null and fingerprint is null`)
}
