package storetest

import (
	"context"
	"testing"

	"github.com/pawlhq/pawl"
)

func correctionTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"what a correction corrects is marked", correctionMarks[Tx]},
		{"an original that comes after its correction is told so", correctionFirst[Tx]},
		{"original and correction in one batch", correctionTogether[Tx]},
		{"a correction that is not applied marks nothing", correctionRefused[Tx]},
		{"the first correction of a key stands", correctionTwice[Tx]},
		{"a duplicate of another event is the decision for its key", duplicateOfAnother[Tx]},
	}
}

func correcting(d *pawl.Decision, key string) *pawl.Decision {
	d.Identity.Supersedes = key
	return d
}

func (w *world[Tx]) wantCorrected(key, by string, outcome pawl.Outcome) {
	w.Helper()
	var found []pawl.Evidence
	for _, e := range w.evidence(pawl.EvidenceQuery{Key: key}) {
		if e.Claim {
			found = append(found, e)
		}
	}
	if len(found) != 1 || found[0].SupersededBy != by || found[0].Outcome != outcome || found[0].Identity.Key != key {
		w.Errorf("evidence of %q: %+v, want %s, corrected by %q", key, found, outcome, by)
	}
}

func correctionMarks[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c, p := w.client(binding()), partition(0)
	o := c.acquire(p, 0)
	uuid := "0197f3d0-7f1c-7c3e-9c55-6d1f2a3b4c5d"
	c.apply(o, record(p, 0, "a", "1"), record(p, 1, uuid, "1"))
	c.apply(o, correcting(record(p, 2, "b", "2"), "a"), correcting(record(p, 3, "c", "2"), uuid))
	w.wantCorrected("a", "b", pawl.Applied)
	w.wantCorrected(uuid, "c", pawl.Applied)
	again := record(p, 4, "a", "1")
	c.apply(o, again)
	w.wantOutcome(again, pawl.Duplicate)
	w.consistent()
}

func correctionFirst[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c, p := w.client(binding()), partition(0)
	o := c.acquire(p, 0)
	c.apply(o, correcting(record(p, 0, "b", "2"), "a"))
	w.wantCorrected("a", "b", pawl.Superseded)
	late := record(p, 1, "a", "1")
	c.must(o, func(_ context.Context, _ pawl.Session[Tx], d *pawl.Decision) error {
		if d.Prior == nil || d.Prior.SupersededBy != "b" || d.Prior.Fingerprint != (pawl.Fingerprint{}) {
			t.Errorf("prior: %+v", d.Prior)
		}
		d.Outcome, d.Reason = pawl.Superseded, "too late"
		return nil
	}, late)
	w.wantInt(1, `select count(*) from pawl_redelivery where outcome = 5 and position_offset = 1`)
	w.wantInt(1, `select count(*) from effect`)
	w.consistent()
}

func correctionTogether[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c, p := w.client(binding()), partition(0)
	o := c.acquire(p, 0)
	late := record(p, 3, "c", "1")
	c.must(o, func(ctx context.Context, s pawl.Session[Tx], d *pawl.Decision) error {
		if d == late {
			d.Outcome, d.Reason = pawl.Superseded, "too late"
			return nil
		}
		return c.settle(ctx, s, d)
	}, record(p, 0, "a", "1"), correcting(record(p, 1, "b", "2"), "a"), correcting(record(p, 2, "d", "2"), "c"), late)
	w.wantCorrected("a", "b", pawl.Applied)
	w.wantCorrected("c", "d", pawl.Superseded)
	w.wantInt(4, `select count(*) from pawl_decision`)
	w.consistent()
}

func correctionRefused[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c, p := w.client(binding()), partition(0)
	o := c.acquire(p, 0)
	c.must(o, decide[Tx](pawl.Ignored), correcting(record(p, 0, "b", "2"), "a"))
	c.must(o, setAside[Tx](pawl.CauseValidation, "no", 1), correcting(record(p, 1, "c", "2"), "a"))
	w.wantInt(1, `select count(*) from pawl_decision`)
	late := record(p, 2, "a", "1")
	c.apply(o, late)
	w.wantOutcome(late, pawl.Applied)
	w.wantCorrected("a", "", pawl.Applied)
}

func correctionTwice[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c, p := w.client(binding()), partition(0)
	o := c.acquire(p, 0)
	c.apply(o, correcting(record(p, 0, "b", "2"), "a"))
	c.apply(o, correcting(record(p, 1, "c", "3"), "a"), correcting(record(p, 2, "d", "3"), "a"))
	w.wantCorrected("a", "b", pawl.Superseded)
}

func duplicateOfAnother[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c, p := w.client(binding()), partition(0)
	o := c.acquire(p, 0)
	same := record(p, 0, "b", "1")
	c.must(o, func(_ context.Context, _ pawl.Session[Tx], d *pawl.Decision) error {
		d.Outcome, d.Reason, d.OfAnother = pawl.Duplicate, "as version 1 is", true
		return nil
	}, same)
	w.wantCorrected("b", "", pawl.Duplicate)
	other := record(p, 1, "b", "2")
	c.apply(o, other)
	w.wantOutcome(other, pawl.Quarantined)
	w.consistent()
}
