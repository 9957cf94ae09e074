package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
)

func operationTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"an operation has what is open at that moment, and no more", operationFrozen[Tx]},
		{"its items are carried out one by one, counted and audited", operationCarriedOut[Tx]},
		{"a skip settles without the handler", operationSkip[Tx]},
		{"an archive is carried out at once, and frees the streams", operationArchive[Tx]},
		{"an edit replays other bytes, and keeps those that came", operationEdit[Tx]},
		{"it waits for an operator after its canary", operationCanary[Tx]},
		{"it keeps to its rate", operationRate[Tx]},
		{"one that was stopped has nothing more carried out", operationStopped[Tx]},
		{"states change as they may, and no other way", operationStates[Tx]},
		{"an item is in one operation at a time", operationExclusive[Tx]},
		{"two requests at once share no item", operationRace[Tx]},
		{"an item is carried out once", operationItemOnce[Tx]},
		{"a stream's blocker goes before the others that would block it", operationBlockerFirst[Tx]},
		{"a request that says too little is refused", operationRefused[Tx]},
		{"the audit is only ever added to", operationAuditStays[Tx]},
		{"tasks and records to release share the limit", operationShares[Tx]},
	}
}

func request(kind pawl.OperationKind) pawl.OperationRequest {
	return pawl.OperationRequest{Consumer: binding().Consumer, Kind: kind, By: "ops", Why: "ticket 7", At: now}
}

func (w *world[Tx]) start(r pawl.OperationRequest) *pawl.Operation {
	w.Helper()
	n, err := w.Store.Admin().Plan(w.ctx, r)
	if err != nil {
		w.Fatalf("plan: %v", err)
	}
	o, err := w.Store.Admin().Start(w.ctx, r)
	if err != nil {
		w.Fatalf("start: %v", err)
	}
	if o.Total != n {
		w.Errorf("planned %d, started with %d", n, o.Total)
	}
	return o
}

func (w *world[Tx]) wantOperation(id int64, state pawl.OperationState, total, done, failed int) {
	w.Helper()
	o, err := w.Store.Admin().Operation(w.ctx, id)
	if err != nil {
		w.Fatal(err)
	}
	if o.State != state || o.Total != total || o.Done != done || o.Failed != failed {
		w.Errorf("operation: %+v, want %s with %d, %d done, %d failed", *o, state, total, done, failed)
	}
	if over := o.State == pawl.OperationDone || o.State == pawl.OperationCanceled; over == o.EndedAt.IsZero() {
		w.Errorf("operation: %s, ended at %s", o.State, o.EndedAt)
	}
}

// spoiled sets aside n records of partition p on their own streams, at offsets from o.Next on.
func (c *client[Tx]) spoiled(o *pawl.Ownership, n int) {
	c.Helper()
	for range n {
		at := o.Next
		c.must(o, blocking, ordered(o.Partition, at, fmt.Sprint("s", at), fmt.Sprintf("k%d-%d", o.Partition.Index, at)))
	}
}

func operationFrozen[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.spoiled(o, 3)
	limited := request(pawl.OperationReplay)
	limited.Limit = 2
	op := w.start(limited)
	if op.Consumer != "billing" || op.Kind != pawl.OperationReplay || op.State != pawl.OperationRunning || op.Total != 2 || op.Done != 0 ||
		op.By != "ops" || op.Why != "ticket 7" || !op.At.Equal(now) || !op.EndedAt.IsZero() {
		t.Errorf("started %+v", op)
	}
	c.spoiled(o, 1)
	if got := places(c.tasks(o)); got != "0@0 0@1" {
		t.Errorf("tasks: %s, want the oldest two", got)
	}
	second := w.start(request(pawl.OperationReplay))
	all, err := w.Store.Admin().Operations(w.ctx, "billing", 0)
	if err != nil || len(all) != 2 || all[0].ID != second.ID || all[0].Total != 2 || all[1].ID != op.ID {
		t.Errorf("listed %+v, %v", all, err)
	}
	if last, err := w.Store.Admin().Operations(w.ctx, "billing", 1); err != nil || len(last) != 1 || last[0].ID != second.ID {
		t.Errorf("the last one: %+v, %v", last, err)
	}
	if none, err := w.Store.Admin().Operations(w.ctx, "nobody", 0); err != nil || len(none) > 0 {
		t.Errorf("of another: %+v, %v", none, err)
	}
}

func operationCarriedOut[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o, other := c.acquire(partition(0), 0), c.acquire(partition(1), 0)
	c.spoiled(o, 3)
	c.spoiled(other, 1)
	op := w.start(request(pawl.OperationReplay))
	w.wantInt(1, `select count(*) from pawl_audit where operation_id = ? and item_id is null and what = 'start replay' and actor = 'ops' and why = 'ticket 7'`, op.ID)

	tasks := c.tasks(o)
	if got := places(tasks); got != "0@0 0@1 0@2" {
		t.Fatalf("tasks of partition 0: %s", got)
	}
	first := tasks[0]
	if first.Act != pawl.ActReplay || first.By != "ops" || first.Why != "ticket 7" || first.Kept.Quarantine == 0 || first.Kept.Item == 0 ||
		first.Kept.Hold != 0 || first.Kept.Original != (pawl.Fingerprint{}) || first.Record.Offset != 0 || first.Record.LeaderEpoch != 7 {
		t.Errorf("task: %+v", first)
	}
	c.must(o, c.settle, task(first))
	w.wantOperation(op.ID, pawl.OperationRunning, 4, 1, 0)
	c.must(o, setAside[Tx](pawl.CauseFailure, "still not", 2), task(tasks[1]))
	c.must(o, decide[Tx](pawl.Held), task(tasks[2])) // not now
	w.wantOperation(op.ID, pawl.OperationRunning, 4, 2, 1)
	if got := places(c.tasks(o, other)); got != "0@2 1@0" {
		t.Errorf("what is left: %s", got)
	}
	c.must(other, c.settle, task(c.tasks(other)[0]))
	c.must(o, c.settle, task(c.tasks(o)[0]))
	w.wantOperation(op.ID, pawl.OperationDone, 4, 4, 1)
	w.wantInt(4, `select count(*) from pawl_audit where operation_id = ? and item_id is not null and what = 'replay' and actor = 'ops'`, op.ID)
	w.wantInt(1, `select count(*) from pawl_operation_item where outcome = 7 and reason = 'still not' and done_at is not null`)
	w.wantInt(3, `select count(*) from pawl_operation_item where outcome = 1 and done_at is not null`)
	w.wantInt(1, `select count(*) from pawl_quarantine where status = 1`)
	if got := places(c.tasks(o, other)); got != "" {
		t.Errorf("tasks of an operation that is over: %s", got)
	}
	again := w.start(request(pawl.OperationReplay)) // what failed can be asked for again
	if again.Total != 1 {
		t.Errorf("asked for again: %+v", again)
	}
	w.consistent()
}

func operationSkip[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.must(o, blocking, ordered(partition(0), 0, "s", "a"))
	c.must(o, c.inOrder, ordered(partition(0), 1, "s", "b"))
	op := w.start(request(pawl.OperationSkip))
	tasks := c.tasks(o)
	if len(tasks) != 1 || tasks[0].Act != pawl.ActSkip {
		t.Fatalf("tasks: %+v", tasks)
	}
	c.must(o, decide[Tx](pawl.Skipped), task(tasks[0]))
	w.wantOperation(op.ID, pawl.OperationDone, 1, 1, 0)
	c.must(o, c.inOrder, task(c.tasks(o)[0]))
	copied := ordered(partition(0), 2, "s", "a")
	c.must(o, c.inOrder, copied)
	w.wantOutcome(copied, pawl.Duplicate)
	w.wantInt(1, `select count(*) from effect`)
	w.consistent()
}

func operationArchive[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.must(o, blocking, ordered(partition(0), 0, "s", "a"), ordered(partition(0), 1, "t", "b"))
	c.must(o, c.inOrder, ordered(partition(0), 2, "s", "c"))
	op := w.start(request(pawl.OperationArchive))
	w.wantOperation(op.ID, pawl.OperationDone, 2, 2, 0)
	w.wantInt(2, `select count(*) from pawl_quarantine where status = 4 and settled_at is not null and replays = 0`)
	w.wantInt(2, `select count(*) from pawl_audit where what = 'archive' and item_id is not null`)
	w.wantInt(0, `select count(*) from pawl_decision`)
	if got := places(c.tasks(o)); got != "0@2" {
		t.Errorf("released %s", got)
	}
	c.must(o, c.inOrder, task(c.tasks(o)[0]))
	again := ordered(partition(0), 3, "s", "a") // its key is free
	c.must(o, c.inOrder, again)
	w.wantOutcome(again, pawl.Applied)
	w.consistent()
}

func operationEdit[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	original := ordered(partition(0), 0, "s", "a wrong")
	original.Record.Headers = []pawl.Header{{Key: "trace", Value: []byte("one")}}
	c.must(o, blocking, original, ordered(partition(0), 1, "t", "b"))
	id := w.quarantined(0)
	edit := request(pawl.OperationEdit)
	edit.Filter.IDs = []int64{id}
	for i, text := range []string{"s/a wrong too", "s/a right"} {
		edit.Value = []byte(text)
		op := w.start(edit)
		tasks := c.tasks(o)
		if len(tasks) != 1 || string(tasks[0].Record.Value) != text || tasks[0].Kept.Original != original.Fingerprint ||
			string(tasks[0].Record.Key) != "routing" || len(tasks[0].Record.Headers) != 1 {
			t.Fatalf("tasks: %+v", tasks)
		}
		if i == 0 {
			c.must(o, setAside[Tx](pawl.CauseValidation, "no", 1), task(tasks[0]))
			w.wantOperation(op.ID, pawl.OperationDone, 1, 1, 1)
			continue
		}
		c.must(o, c.settle, task(tasks[0]))
		w.wantOperation(op.ID, pawl.OperationDone, 1, 1, 0)
	}
	item, err := w.Store.Admin().QuarantineItem(w.ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if item.Status != pawl.QuarantineReplayed || item.Replays != 2 || !bytes.Equal(item.Record.Value, original.Record.Value) || len(item.Revisions) != 2 ||
		item.Revisions[0].Number != 1 || string(item.Revisions[1].Value) != "s/a right" || item.Revisions[1].By != "ops" ||
		item.Revisions[1].Why != "ticket 7" || !item.Revisions[1].At.Equal(now) {
		t.Errorf("item: %+v, %+v", item, item.Revisions)
	}
	copied := ordered(partition(0), 2, "s", "a wrong")
	c.must(o, c.settle, copied)
	w.wantOutcome(copied, pawl.Duplicate)

	edit.Value = []byte("too late")
	if _, err := w.Store.Admin().Start(w.ctx, edit); err == nil || !strings.Contains(err.Error(), "no open item") {
		t.Errorf("an edit of what is settled: %v", err)
	}
	w.wantInt(2, `select count(*) from pawl_revision`)
	w.consistent()
}

func operationCanary[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.spoiled(o, 5)
	r := request(pawl.OperationReplay)
	r.Canary = 2
	op := w.start(r)
	tasks := c.tasks(o)
	if got := places(tasks); got != "0@0 0@1" {
		t.Fatalf("before the canary: %s", got)
	}
	c.must(o, c.settle, task(tasks[0]))
	w.wantOperation(op.ID, pawl.OperationRunning, 5, 1, 0)
	c.must(o, c.settle, task(tasks[1]))
	w.wantOperation(op.ID, pawl.OperationCanary, 5, 2, 0)
	if got := places(c.tasks(o)); got != "" {
		t.Errorf("while it waits: %s", got)
	}
	if err := w.Store.Admin().SetOperation(w.ctx, op.ID, pawl.OperationRunning, "ops", "they are good", now); err != nil {
		t.Fatal(err)
	}
	var ds []*pawl.Decision
	for _, next := range c.tasks(o) {
		ds = append(ds, task(next))
	}
	c.must(o, c.settle, ds...)
	w.wantOperation(op.ID, pawl.OperationDone, 5, 5, 0)
	w.wantInt(1, `select count(*) from pawl_audit where what = 'operation running' and why = 'they are good'`)

	c.spoiled(o, 2)
	r.Canary = 2 // all of them: there is nothing to wait for
	op = w.start(r)
	for _, next := range c.tasks(o) {
		c.must(o, c.settle, task(next))
	}
	w.wantOperation(op.ID, pawl.OperationDone, 2, 2, 0)
}

func operationRate[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.spoiled(o, 8)
	r := request(pawl.OperationReplay)
	r.Rate = 0.5
	op := w.start(r)
	due := func(after time.Duration) []pawl.Task {
		orders, err := c.store.Orders(w.ctx, []int64{o.Row}, now.Add(after), 100)
		if err != nil {
			t.Fatal(err)
		}
		return orders.Tasks
	}
	for after, want := range map[time.Duration]int{0: 0, time.Second: 0, 2 * time.Second: 1, 9 * time.Second: 4, time.Hour: 8, -time.Hour: 0} {
		if got := due(after); len(got) != want {
			t.Errorf("after %s: %d tasks, want %d", after, len(got), want)
		}
	}
	for _, next := range due(6 * time.Second) {
		c.must(o, c.settle, task(next))
	}
	if got := due(7 * time.Second); len(got) != 0 {
		t.Errorf("three are done after 7 s, and %d more are due", len(got))
	}
	admin := w.Store.Admin()
	err := errors.Join(admin.SetOperation(w.ctx, op.ID, pawl.OperationPaused, "ops", "lunch", now.Add(8*time.Second)),
		admin.SetOperation(w.ctx, op.ID, pawl.OperationRunning, "ops", "back", now.Add(time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	if got := due(time.Hour + 4*time.Second); len(got) != 2 { // the pause is not made up for
		t.Errorf("4 s after it was resumed: %d tasks, want 2", len(got))
	}
}

func operationStopped[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.spoiled(o, 2)
	op := w.start(request(pawl.OperationReplay))
	tasks := c.tasks(o)
	for _, state := range []pawl.OperationState{pawl.OperationPaused, pawl.OperationCanceled} {
		if err := w.Store.Admin().SetOperation(w.ctx, op.ID, state, "ops", "stop", now); err != nil {
			t.Fatal(err)
		}
		if got := places(c.tasks(o)); got != "" {
			t.Errorf("%s: %s", state, got)
		}
		c.refused(pawl.ErrNotKept, o, kept(o, c.settle, task(tasks[0]))) // asked for before it was stopped
	}
	w.wantOperation(op.ID, pawl.OperationCanceled, 2, 0, 0)
	again := w.start(request(pawl.OperationReplay))
	if again.Total != 2 {
		t.Errorf("after the cancel: %+v", again)
	}
	w.consistent()
}

func operationStates[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.spoiled(o, 1)
	op := w.start(request(pawl.OperationReplay))
	states := []pawl.OperationState{
		pawl.OperationRunning, pawl.OperationCanary, pawl.OperationPaused, pawl.OperationDone, pawl.OperationCanceled,
	}
	for _, from := range states {
		for _, to := range append(states, "nonsense") {
			w.exec(`update pawl_operation set state = ? where id = ?`, string(from), op.ID)
			err := w.Store.Admin().SetOperation(w.ctx, op.ID, to, "ops", "try", now)
			if (err == nil) != from.CanBecome(to) {
				t.Errorf("from %s to %s: %v", from, to, err)
			}
			if err != nil && (!strings.Contains(err.Error(), "it is "+string(from)) || !strings.Contains(err.Error(), "can be")) {
				t.Errorf("from %s to %s: %v does not say what it is and what can be done", from, to, err)
			}
		}
	}
	if err := w.Store.Admin().SetOperation(w.ctx, op.ID+1000, pawl.OperationPaused, "ops", "try", now); err == nil || !strings.Contains(err.Error(), "there is none") {
		t.Errorf("an operation that does not exist: %v", err)
	}
	if err := w.Store.Admin().SetOperation(w.ctx, op.ID, pawl.OperationPaused, "", "", time.Time{}); err == nil || !strings.Contains(err.Error(), "By is empty") {
		t.Errorf("nobody: %v", err)
	}
	if _, err := w.Store.Admin().Operation(w.ctx, op.ID+1000); err == nil || !strings.Contains(err.Error(), "there is none") {
		t.Errorf("an operation that does not exist: %v", err)
	}
}

func operationExclusive[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.spoiled(o, 3)
	one := request(pawl.OperationReplay)
	one.Filter.IDs = []int64{w.quarantined(1)}
	first := w.start(one)
	for _, kind := range []pawl.OperationKind{pawl.OperationReplay, pawl.OperationSkip, pawl.OperationArchive} {
		one.Kind = kind
		if _, err := w.Store.Admin().Start(w.ctx, one); err == nil || !strings.Contains(err.Error(), "no other operation") {
			t.Errorf("%s of what another operation has: %v", kind, err)
		}
	}
	rest := w.start(request(pawl.OperationArchive))
	if rest.Total != 2 {
		t.Errorf("the rest: %+v", rest)
	}
	w.wantOperation(first.ID, pawl.OperationRunning, 1, 0, 0)
	w.wantInt(2, `select count(*) from pawl_operation`)
	w.consistent()
}

func operationRace[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	c.spoiled(c.acquire(partition(0), 0), 4)
	admins := []pawl.Admin{w.Store.Admin(), w.Second(t).Admin(), w.Second(t).Admin()}
	meet := barrier(len(admins))
	started := make([]*pawl.Operation, len(admins))
	var wg sync.WaitGroup
	for i, a := range admins {
		wg.Go(func() {
			meet()
			started[i], _ = a.Start(w.ctx, request(pawl.OperationReplay))
		})
	}
	wg.Wait()
	if n := len(slices.DeleteFunc(started, func(o *pawl.Operation) bool { return o == nil })); n != 1 {
		t.Errorf("%d were started, want 1", n)
	}
	w.wantInt(4, `select count(*) from pawl_operation_item`)
}

func operationItemOnce[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.spoiled(o, 2)
	op := w.start(request(pawl.OperationReplay))
	tasks := c.tasks(o)
	c.must(o, setAside[Tx](pawl.CauseFailure, "still not", 1), task(tasks[0]))
	c.refused(pawl.ErrNotKept, o, kept(o, c.settle, task(tasks[0]))) // still open, and not asked for again
	w.wantOperation(op.ID, pawl.OperationRunning, 2, 1, 1)
	w.consistent()
}

func operationBlockerFirst[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.must(o, blocking, ordered(partition(0), 0, "s", "a"), ordered(partition(0), 1, "s", "b"), ordered(partition(0), 2, "t", "c"))
	op := w.start(request(pawl.OperationReplay))
	if got := places(c.tasks(o)); got != "0@0 0@2" {
		t.Errorf("first: %s", got)
	}
	for _, next := range c.tasks(o) {
		c.must(o, c.settle, task(next))
	}
	if got := places(c.tasks(o)); got != "0@1" {
		t.Errorf("then: %s", got)
	}
	c.must(o, c.settle, task(c.tasks(o)[0]))
	w.wantOperation(op.ID, pawl.OperationDone, 3, 3, 0)
	w.wantInt(0, `select count(*) from pawl_stream`)
	w.consistent()
}

func operationRefused[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	w.client(binding())
	admin := w.Store.Admin()
	_, err := admin.Start(w.ctx, pawl.OperationRequest{Kind: "burn", Rate: -1})
	for _, want := range []string{`Kind is "burn"`, "Consumer is empty", "at least 0", "By is empty", "Why is empty", "At is zero"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
	two := request(pawl.OperationEdit)
	two.Filter.IDs = []int64{1, 2}
	if _, err := admin.Plan(w.ctx, two); err == nil || !strings.Contains(err.Error(), "an edit is of one record") {
		t.Errorf("an edit of two: %v", err)
	}
	closed := request(pawl.OperationReplay)
	closed.Filter.Status = pawl.QuarantineSkipped
	if _, err := admin.Start(w.ctx, closed); err == nil || !strings.Contains(err.Error(), "only what is open") {
		t.Errorf("of what is settled: %v", err)
	}
	if _, err := admin.Start(w.ctx, request(pawl.OperationReplay)); err == nil || !strings.Contains(err.Error(), "no open item") {
		t.Errorf("of nothing: %v", err)
	}
	nobody := request(pawl.OperationReplay)
	nobody.Consumer = "nobody"
	if _, err := admin.Start(w.ctx, nobody); err == nil || !strings.Contains(err.Error(), "find consumer nobody") {
		t.Errorf("of a consumer that does not exist: %v", err)
	}
	w.wantInt(0, `select count(*) from pawl_operation`)
	w.wantInt(0, `select count(*) from pawl_audit`)
}

func operationAuditStays[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	c.spoiled(c.acquire(partition(0), 0), 1)
	w.start(request(pawl.OperationArchive))
	for _, query := range []string{`delete from pawl_audit`, `update pawl_audit set actor = 'nobody'`} {
		if _, err := w.DB.ExecContext(w.ctx, query); err == nil || !strings.Contains(err.Error(), "only ever added to") {
			t.Errorf("%s: %v", query, err)
		}
	}
	w.wantInt(2, `select count(*) from pawl_audit where actor = 'ops'`)
}

func operationShares[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.heldBehind(o, 4)
	c.spoiled(o, 4)
	w.start(request(pawl.OperationReplay))
	for limit, want := range map[int]string{3: "0@1 0@5 0@6", 4: "0@1 0@2 0@5 0@6", 100: "0@1 0@2 0@3 0@4 0@5 0@6 0@7 0@8"} {
		if got := places(c.orders(limit, o).Tasks); got != want {
			t.Errorf("at most %d: %s, want %s", limit, got, want)
		}
	}
}
