package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
)

func auditTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"consumers are listed with their routes and pauses", auditConsumers[Tx]},
		{"what operators did is listed by operation, key and stream", auditListed[Tx]},
	}
}

func auditConsumers[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	admin := w.Store.Admin()
	if got, err := admin.Consumers(w.ctx); err != nil || len(got) > 0 {
		t.Fatalf("of an empty store: %+v, %v", got, err)
	}
	other := binding()
	other.Consumer, other.Group, other.Routes = "audit", "audit-group", nil
	w.client(binding())
	w.client(other)
	if err := admin.Pause(w.ctx, "billing", pawl.Pause{By: "ada", Why: "moving", At: now}); err != nil {
		t.Fatal(err)
	}
	got, err := admin.Consumers(w.ctx)
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if c := got[0]; c.Name != "audit" || c.Paused != nil || len(c.Routes) != 0 || c.Since.IsZero() {
		t.Errorf("first: %+v", c)
	}
	c := got[1]
	if c.Name != "billing" || c.Cluster != "cluster-1" || c.Group != "billing-group" || !slices.Equal(c.Routes, []string{"charge", "notify"}) ||
		c.Paused == nil || c.Paused.By != "ada" || c.Paused.Why != "moving" || !c.Paused.At.Equal(now) {
		t.Errorf("second: %+v, paused %+v", c, c.Paused)
	}
}

func auditListed[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	admin := w.Store.Admin()
	o := c.acquire(partition(0), 0)
	uuid := "0197f3d0-7f1c-7c3e-9c55-6d1f2a3b4c5d"
	c.asideAt(o, ordered(partition(0), 0, "s", "a"), pawl.CauseFailure, "no answer", now)
	c.asideAt(o, ordered(partition(0), 1, "t", uuid), pawl.CauseFailure, "no answer", now)
	op := w.start(request(pawl.OperationReplay))
	tasks := c.tasks(o)
	c.must(o, c.settle, task(tasks[0]))
	c.must(o, setAside[Tx](pawl.CauseFailure, "still not", 2), task(tasks[1]))
	if err := admin.Pause(w.ctx, "billing", pawl.Pause{By: "ada", Why: "moving", At: now}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		q    pawl.AuditQuery
		acts []string
	}{
		{pawl.AuditQuery{}, []string{"start replay", "replay 0 applied", "replay 1 quarantined", "pause"}},
		{pawl.AuditQuery{Limit: 2}, []string{"replay 1 quarantined", "pause"}},
		{pawl.AuditQuery{Operation: op.ID}, []string{"start replay", "replay 0 applied", "replay 1 quarantined"}},
		{pawl.AuditQuery{Operation: op.ID + 1}, nil},
		{pawl.AuditQuery{Key: "a"}, []string{"replay 0 applied"}},
		{pawl.AuditQuery{Key: uuid}, []string{"replay 1 quarantined"}},
		{pawl.AuditQuery{Stream: "t"}, []string{"replay 1 quarantined"}},
		{pawl.AuditQuery{Stream: "u"}, nil},
		{pawl.AuditQuery{AsOf: now.Add(-time.Second)}, nil},
		{pawl.AuditQuery{Key: "a", AsOf: now.Add(-time.Second)}, nil},
		{pawl.AuditQuery{Stream: "t", AsOf: now.Add(-time.Second)}, nil},
		{pawl.AuditQuery{Stream: "t", AsOf: now.Add(time.Hour), Limit: 1}, []string{"replay 1 quarantined"}},
	} {
		entries, err := admin.Audit(w.ctx, "billing", want.q)
		var got []string
		for _, e := range entries {
			text := e.What
			if e.Quarantine != 0 {
				text += fmt.Sprintf(" %d %s", e.Offset, e.Outcome)
				if e.Partition != partition(0) || e.Operation != op.ID || e.By != "ops" || e.Why != "ticket 7" {
					t.Errorf("entry: %+v", e)
				}
			}
			got = append(got, text)
		}
		if err != nil || !slices.Equal(got, want.acts) {
			t.Errorf("%+v: %q, %v, want %q", want.q, got, err, want.acts)
		}
	}
	if none, err := admin.Audit(w.ctx, "nobody", pawl.AuditQuery{}); err != nil || len(none) > 0 {
		t.Errorf("of another: %+v, %v", none, err)
	}
	var refused *pawl.Error
	if _, err := admin.Audit(w.ctx, "billing", pawl.AuditQuery{Key: "a", Stream: "s"}); !errors.As(err, &refused) {
		t.Errorf("two questions at once: %v", err)
	}
}
