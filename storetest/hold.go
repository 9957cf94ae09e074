package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawlhq/pawl"
)

func holdTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"a quarantined record blocks its stream, and no other", holdBlocks[Tx]},
		{"one that blocks nothing leaves its stream free", holdUnblocked[Tx]},
		{"a held record is kept whole, once, and claims nothing", holdKeepsRecord[Tx]},
		{"what cannot be held behind anything is refused", holdNeedsBlock[Tx]},
		{"a record is not held behind itself", holdNotBehindItself[Tx]},
		{"a settled record that is read again blocks nothing", holdSettledBlocksNothing[Tx]},
		{"records are released in order, and only once nothing blocks them", holdReleasedInOrder[Tx]},
		{"a long queue does not hold up short ones", holdFair[Tx]},
		{"what is decided leaves its hold", holdDecided[Tx]},
		{"what stays held changes nothing", holdStays[Tx]},
		{"a held record that is set aside blocks those behind it again", holdQuarantined[Tx]},
		{"a copy that was held is settled as a duplicate", holdDuplicate[Tx]},
		{"a record is released once", holdReleasedOnce[Tx]},
		{"nothing is released past a new blocker", holdBlockedAgain[Tx]},
		{"an arrival in the transaction of the last release stays held", holdArrivesWithRelease[Tx]},
		{"a hold whose bytes no longer decode is released all the same", holdUndecodable[Tx]},
		{"a release and an arrival do not strand each other", holdRace[Tx]},
		{"an owner that was overtaken releases nothing", holdFenced[Tx]},
		{"many owners, streams and failures: nothing is lost, doubled or out of order", holdStorm[Tx]},
	}
}

// ordered is a record of a stream that is kept in order. Its bytes say what it is, so that it can be decoded again.
func ordered(p pawl.Partition, offset int64, stream, key string) *pawl.Decision {
	return decoded(&pawl.Record{
		Partition: p, Offset: offset, LeaderEpoch: 7, Timestamp: now, Key: []byte("routing"), Value: []byte(stream + "/" + key),
	})
}

func decoded(r *pawl.Record) *pawl.Decision {
	stream, key, _ := strings.Cut(string(r.Value), "/")
	key, _, _ = strings.Cut(key, " ") // what follows is other content under the same key
	return &pawl.Decision{
		Record: r, Sequenced: true, Mode: pawl.Live, KeyID: pawl.NewKeyID(key), Fingerprint: fingerprint(string(r.Value)),
		Identity: pawl.Identity{Key: key, Stream: stream},
	}
}

// task is the decision about a kept record, as an engine makes it.
func task(t pawl.Task) *pawl.Decision {
	d := decoded(&t.Record)
	d.Route, d.Kept = t.Route, &t.Kept
	return d
}

// inOrder is the handler of a route that keeps streams in order: what is blocked is held.
func (c *client[Tx]) inOrder(ctx context.Context, s pawl.Session[Tx], d *pawl.Decision) error {
	if d.Blocked && d.Prior == nil {
		d.Outcome, d.Reason = pawl.Held, "its stream is blocked"
		return nil
	}
	return c.settle(ctx, s, d)
}

// blocking is the handler that sets aside and blocks.
func blocking[Tx any](_ context.Context, _ pawl.Session[Tx], d *pawl.Decision) error {
	d.Outcome, d.Cause, d.Reason, d.Tries, d.Blocks = pawl.Quarantined, pawl.CauseValidation, "no", 1, true
	return nil
}

func decide[Tx any](o pawl.Outcome) handler[Tx] {
	return func(_ context.Context, _ pawl.Session[Tx], d *pawl.Decision) error {
		d.Outcome, d.Reason = o, "because"
		return nil
	}
}

// must applies with h, and expects that it goes well. Kept records leave the position where it is.
func (c *client[Tx]) must(o *pawl.Ownership, h handler[Tx], ds ...*pawl.Decision) {
	c.Helper()
	w := work(h, ds...)
	if !slices.ContainsFunc(ds, func(d *pawl.Decision) bool { return d.Kept == nil }) {
		w.Next = o.Next
	}
	next := max(o.Next, w.Next)
	if err := c.store.Apply(c.ctx, o, w); err != nil {
		c.Fatalf("apply: %v", err)
	}
	if o.Next != next {
		c.Errorf("the position is %d, want %d", o.Next, next)
	}
}

func (c *client[Tx]) orders(limit int, owned ...*pawl.Ownership) *pawl.Orders {
	c.Helper()
	var rows []int64
	for _, o := range owned {
		rows = append(rows, o.Row)
	}
	orders, err := c.store.Orders(c.ctx, rows, now, limit)
	if err != nil {
		c.Fatalf("orders: %v", err)
	}
	return orders
}

func (c *client[Tx]) tasks(owned ...*pawl.Ownership) []pawl.Task {
	c.Helper()
	return c.orders(100, owned...).Tasks
}

// places writes tasks as partition@offset.
func places(tasks []pawl.Task) string {
	var all []string
	for _, t := range tasks {
		all = append(all, fmt.Sprintf("%d@%d", t.Record.Partition.Index, t.Record.Offset))
	}
	return strings.Join(all, " ")
}

// quarantined is the id of the only open record in quarantine at offset.
func (w *world[Tx]) quarantined(offset int64) int64 {
	w.Helper()
	return w.int(`select id from pawl_quarantine where position_offset = ? and status = 1`, offset)
}

// unblock settles the record at offset in quarantine.
func (c *client[Tx]) unblock(o *pawl.Ownership, offset int64, h handler[Tx]) *pawl.Decision {
	c.Helper()
	d := c.aside(o, offset)
	c.must(o, h, d)
	return d
}

// aside is the decision about the record that was set aside from offset.
func (c *client[Tx]) aside(o *pawl.Ownership, offset int64) *pawl.Decision {
	c.Helper()
	var id int64
	var value []byte
	err := c.DB.QueryRowContext(c.ctx, c.rewrite(`select id, value from pawl_quarantine where position_offset = ? and progress_id = ?`),
		offset, o.Row).Scan(&id, &value)
	if err != nil {
		c.Fatalf("read %s@%d: %v", o.Partition, offset, err)
	}
	d := decoded(&pawl.Record{Partition: o.Partition, Offset: offset, Timestamp: now, Value: value})
	d.Kept = &pawl.Kept{Quarantine: id}
	return d
}

func (w *world[Tx]) wantBlocked(want bool, ds ...*pawl.Decision) {
	w.Helper()
	for _, d := range ds {
		if d.Blocked != want {
			w.Errorf("record %d of stream %q: blocked is %t, want %t", d.Record.Offset, d.Identity.Stream, d.Blocked, want)
		}
	}
}

func holdBlocks[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	one, two := w.client(binding()), w.another(binding())
	p, q := partition(0), partition(1)
	o := one.acquire(p, 0)
	before := ordered(p, 0, "s", "a")
	one.must(o, one.inOrder, before)
	w.wantBlocked(false, before)
	one.must(o, blocking, ordered(p, 1, "s", "b"))
	w.wantInt(1, `select count(*) from pawl_stream s join pawl_quarantine q on q.id = s.blocked_by and q.blocks where s.stream = 's'`)

	behind, other := ordered(p, 2, "s", "c"), ordered(p, 3, "t", "d")
	loose := ordered(p, 4, "s", "e")
	loose.Sequenced = false
	route := onRoute(1, ordered(p, 5, "s", "f"))
	again := ordered(p, 6, "s", "g")
	one.must(o, one.inOrder, behind, other, loose, route, again)
	w.wantBlocked(true, behind, again)
	w.wantBlocked(false, other, loose, route)
	w.wantOutcome(behind, pawl.Held)
	w.wantOutcome(other, pawl.Applied)

	elsewhere := ordered(q, 0, "s", "h")
	two.must(two.acquire(q, 0), two.inOrder, elsewhere) // another process, another partition
	w.wantBlocked(true, elsewhere)

	b := binding()
	b.Consumer, b.Group = "shipping", "shipping-group"
	shipping, theirs := w.another(b), ordered(p, 0, "s", "a")
	shipping.must(shipping.acquire(p, 0), shipping.inOrder, theirs)
	w.wantBlocked(false, theirs)
	w.consistent()
}

func holdUnblocked[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.must(o, setAside[Tx](pawl.CauseConflict, "no", 1), ordered(partition(0), 0, "s", "a"))
	nameless := undecoded(partition(0), 1, []byte("x"))
	c.must(o, blocking, nameless) // it has no stream to block
	next := ordered(partition(0), 2, "s", "b")
	c.must(o, c.inOrder, next)
	w.wantOutcome(next, pawl.Applied)
	w.wantInt(0, `select count(*) from pawl_stream`)
	w.wantInt(0, `select count(*) from pawl_quarantine where blocks`)
}

func holdKeepsRecord[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	p := partition(3)
	o := c.acquire(p, 0)
	c.must(o, blocking, ordered(p, 0, "s", "a"))
	d := onRoute(0, ordered(p, 41, "s", "a key\x00"))
	d.Record.Key, d.Record.Value, d.Record.LeaderEpoch = []byte("\x00\xffrk"), []byte("\x00\xff\xfevalue"), 9
	d.Record.Headers = []pawl.Header{{Key: "trace", Value: []byte("one")}, {Key: "", Value: nil}}
	tombstone := ordered(p, 42, "s", "b")
	tombstone.Record.Key, tombstone.Record.Value = []byte{}, nil
	for range 2 { // the same position again writes nothing
		c.must(o, c.inOrder, d, tombstone)
		w.wantOutcome(d, pawl.Held)
	}
	w.wantInt(2, `select count(*) from pawl_hold`)
	w.wantInt(2, `select count(*) from pawl_redelivery where outcome = ?`, int(pawl.Held))
	w.wantInt(0, `select count(*) from pawl_decision`)

	c.unblock(o, 0, c.settle)
	got := c.tasks(o)
	if len(got) != 2 {
		t.Fatalf("tasks: %+v", got)
	}
	r := got[0].Record
	if got[0].Row != o.Row || got[0].Route != 0 || got[0].Act != pawl.ActReplay || got[0].Kept.Hold == 0 || got[0].Kept.Quarantine != 0 ||
		r.Partition != p || r.Offset != 41 || r.LeaderEpoch != 9 || !r.Timestamp.Equal(d.Record.Timestamp) ||
		!bytes.Equal(r.Key, d.Record.Key) || !bytes.Equal(r.Value, d.Record.Value) || len(r.Headers) != 2 ||
		r.Headers[0].Key != "trace" || string(r.Headers[0].Value) != "one" || r.Headers[1].Value != nil {
		t.Errorf("released %+v, want %+v", got[0], d.Record)
	}
	if r := got[1].Record; r.Value != nil || r.Key == nil {
		t.Errorf("a tombstone came back as key %#v, value %#v", r.Key, r.Value)
	}
}

func holdNeedsBlock[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.refused(pawl.ErrRaced, o, work(decide[Tx](pawl.Held), ordered(partition(0), 0, "s", "a")))
	c.refused(nil, o, work(decide[Tx](pawl.Held), ordered(partition(0), 0, "", "a")))
	nowhere := ordered(partition(0), 0, "s", "a")
	nowhere.Kept = &pawl.Kept{}
	c.refused(nil, o, work(c.settle, nowhere))
}

// A record that blocks its stream is read again, because the position was moved back.
func holdNotBehindItself[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.must(o, blocking, ordered(partition(0), 0, "s", "a"))
	again, next := ordered(partition(0), 0, "s", "a"), ordered(partition(0), 1, "s", "b")
	c.must(o, c.inOrder, again, next)
	w.wantOutcome(again, pawl.Held)
	w.wantInt(1, `select count(*) from pawl_hold`)
	w.wantInt(1, `select count(*) from pawl_hold where position_offset = 1`)
}

func holdSettledBlocksNothing[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.must(o, blocking, ordered(partition(0), 0, "s", "a"))
	c.unblock(o, 0, decide[Tx](pawl.Skipped))
	again := ordered(partition(0), 0, "s", "a")
	c.must(o, blocking, again)
	w.wantInt(0, `select count(*) from pawl_stream`)
	w.wantInt(1, `select count(*) from pawl_quarantine where status = 3`)
}

func holdReleasedInOrder[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	p, q := partition(0), partition(1)
	o, other := c.acquire(p, 0), c.acquire(q, 0)
	c.must(o, blocking, ordered(p, 0, "s", "a"), ordered(p, 1, "t", "b"))
	c.must(o, c.inOrder, ordered(p, 5, "t", "x"), ordered(p, 4, "s", "d"), ordered(p, 2, "s", "c"), ordered(p, 6, "s", "e"))
	c.must(other, c.inOrder, ordered(q, 1, "s", "f"), ordered(q, 0, "s", "g"))
	if got := places(c.tasks(o, other)); got != "" {
		t.Errorf("released while blocked: %s", got)
	}
	c.unblock(o, 0, c.settle)
	for _, want := range []struct {
		owned []*pawl.Ownership
		limit int
		tasks string
	}{
		{[]*pawl.Ownership{o, other}, 100, "0@2 0@4 0@6 1@0 1@1"},
		{[]*pawl.Ownership{o}, 100, "0@2 0@4 0@6"},
		{[]*pawl.Ownership{o}, 2, "0@2 0@4"},
		{[]*pawl.Ownership{other}, 100, "1@0 1@1"},
		{[]*pawl.Ownership{o}, 0, ""},
		{nil, 100, ""},
	} {
		if got := places(c.orders(want.limit, want.owned...).Tasks); got != want.tasks {
			t.Errorf("of %d partitions, at most %d: %s, want %s", len(want.owned), want.limit, got, want.tasks)
		}
	}

	// While some are still held, the stream is not free.
	first := c.tasks(o)[0]
	c.must(o, c.inOrder, task(first))
	late := ordered(p, 7, "s", "late")
	c.must(o, c.inOrder, late)
	w.wantOutcome(late, pawl.Held)
	for _, owned := range []*pawl.Ownership{other, o} {
		var ds []*pawl.Decision
		for _, next := range c.tasks(owned) {
			ds = append(ds, task(next))
		}
		c.must(owned, c.inOrder, ds...)
	}
	w.wantInt(0, `select count(*) from pawl_stream where stream = 's'`)
	w.wantInt(1, `select count(*) from pawl_hold`) // of t
	free := ordered(p, 8, "s", "free")
	c.must(o, c.inOrder, free)
	w.wantOutcome(free, pawl.Applied)
	w.consistent()
}

func holdFair[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	p, q := partition(0), partition(1)
	o, other := c.acquire(p, 0), c.acquire(q, 0)
	c.must(o, blocking, ordered(p, 0, "long", "a"), ordered(p, 1, "short", "b"))
	var ds []*pawl.Decision
	for i := range int64(20) {
		ds = append(ds, ordered(p, 2+i, "long", fmt.Sprint("k", i)))
	}
	c.must(o, c.inOrder, append(ds, ordered(p, 30, "short", "x"))...)
	c.must(other, c.inOrder, ordered(q, 0, "short", "y"))
	c.unblock(o, 0, c.settle)
	c.unblock(o, 1, c.settle)
	if got := places(c.orders(4, o, other).Tasks); got != "0@2 0@3 0@30 1@0" {
		t.Errorf("four of many: %s", got)
	}
}

// heldBehind blocks stream s of partition 0 and holds n records behind it; then nothing blocks it any more.
func (c *client[Tx]) heldBehind(o *pawl.Ownership, n int) []pawl.Task {
	c.Helper()
	p := o.Partition
	c.must(o, blocking, ordered(p, 0, "s", "blocker"))
	for i := range n {
		c.must(o, c.inOrder, ordered(p, int64(i+1), "s", fmt.Sprint("k", i)))
	}
	c.unblock(o, 0, c.settle)
	tasks := c.tasks(o)
	if len(tasks) != n {
		c.Fatalf("%d tasks, want %d", len(tasks), n)
	}
	return tasks
}

func holdDecided[Tx any](t *testing.T, h Harness[Tx]) {
	for _, outcome := range []pawl.Outcome{pawl.Applied, pawl.WasStale, pawl.Ignored, pawl.Superseded, pawl.Skipped} {
		t.Run(outcome.String(), func(t *testing.T) {
			w := newWorld(t, h)
			c := w.client(binding())
			o := c.acquire(partition(0), 0)
			tasks := c.heldBehind(o, 2)
			settle := decide[Tx](outcome)
			if outcome == pawl.Applied {
				settle = c.inOrder
			}
			c.must(o, settle, task(tasks[0]))
			w.wantInt(1, `select count(*) from pawl_hold`)
			w.wantInt(1, `select count(*) from pawl_stream where blocked_by is null`)
			w.wantInt(1, `select count(*) from pawl_decision where position_offset = 1 and outcome = ?`, int(outcome))
			c.must(o, settle, task(tasks[1]))
			w.wantInt(0, `select count(*) from pawl_hold`)
			w.wantInt(0, `select count(*) from pawl_stream`)

			again := ordered(partition(0), 1, "s", "k0") // read again from the log
			c.must(o, c.inOrder, again)
			w.wantOutcome(again, pawl.Duplicate)
			if again.Prior == nil || !again.Prior.SamePosition {
				t.Errorf("prior: %+v, want the same position", again.Prior)
			}
			w.consistent()
		})
	}
}

func holdStays[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	tasks := c.heldBehind(o, 2)
	before := withoutPositions(c.state())
	c.must(o, decide[Tx](pawl.Held), task(tasks[0]))
	if after := withoutPositions(c.state()); !slices.Equal(before, after) {
		t.Errorf("before %q\nafter  %q", before, after)
	}
}

// withoutPositions is the state but for the rows that every commit moves.
func withoutPositions(state []string) []string {
	return slices.DeleteFunc(state, func(l string) bool { return strings.Contains(l, " payments ") })
}

func holdQuarantined[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	tasks := c.heldBehind(o, 3)
	c.must(o, blocking, task(tasks[0]))
	w.wantInt(2, `select count(*) from pawl_hold`)
	w.wantInt(1, `select count(*) from pawl_stream s join pawl_quarantine q on q.id = s.blocked_by where q.position_offset = 1 and q.status = 1`)
	w.wantInt(1, `select count(*) from pawl_redelivery where position_offset = 1 and outcome = ?`, int(pawl.Quarantined))
	if got := places(c.tasks(o)); got != "" {
		t.Errorf("released past the new blocker: %s", got)
	}
	c.unblock(o, 1, c.settle)
	if got := places(c.tasks(o)); got != "0@2 0@3" {
		t.Errorf("released %s", got)
	}
	// Without Blocks it only leaves.
	c.must(o, setAside[Tx](pawl.CauseValidation, "no", 1), task(c.tasks(o)[0]))
	c.must(o, c.settle, task(c.tasks(o)[0]))
	w.wantInt(0, `select count(*) from pawl_stream`)
	w.wantInt(0, `select count(*) from pawl_hold`)
	w.wantInt(1, `select count(*) from pawl_quarantine where status = 1`)
	w.consistent()
}

func holdDuplicate[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	tasks := c.heldBehind(o, 2)
	c.must(c.acquire(partition(1), 0), c.settle, ordered(partition(1), 0, "s", "k0")) // a copy that passed by
	copied := task(tasks[0])
	c.must(o, c.inOrder, copied)
	w.wantOutcome(copied, pawl.Duplicate)
	w.wantInt(1, `select count(*) from pawl_redelivery where position_offset = 1 and outcome = ?`, int(pawl.Duplicate))

	// Settled from the very position meanwhile: nothing to write, and the hold is gone all the same.
	passed := ordered(partition(0), 2, "s", "k1")
	passed.Sequenced = false
	c.must(o, c.settle, passed)
	repeat := task(tasks[1])
	c.must(o, c.inOrder, repeat)
	if !repeat.Repeat {
		t.Errorf("%+v, want a repeat", repeat)
	}
	w.wantInt(0, `select count(*) from pawl_hold`)
	w.wantInt(0, `select count(*) from pawl_stream`)
	w.consistent()
}

func holdReleasedOnce[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	tasks := c.heldBehind(o, 2)
	c.must(o, setAside[Tx](pawl.CauseValidation, "no", 1), task(tasks[0]))
	// An old list of tasks: were it carried out, the effect would be there and the record in quarantine.
	c.refused(pawl.ErrNotKept, o, work(c.settle, task(tasks[0])))
	c.refused(pawl.ErrRaced, o, work(c.settle, task(tasks[0])))
	w.consistent()
}

func holdBlockedAgain[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	tasks := c.heldBehind(o, 1)
	other := c.acquire(partition(1), 0)
	c.must(other, blocking, ordered(partition(1), 0, "s", "another"))
	c.refused(pawl.ErrNotKept, o, work(c.settle, task(tasks[0])))
	c.unblock(other, 0, c.settle)
	c.must(o, c.settle, task(c.tasks(o)[0]))
	w.wantInt(0, `select count(*) from pawl_stream`)
	w.consistent()
}

func holdArrivesWithRelease[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	tasks := c.heldBehind(o, 1)
	arrival := ordered(partition(0), 2, "s", "k1")
	c.must(o, c.inOrder, task(tasks[0]), arrival)
	w.wantOutcome(arrival, pawl.Held)
	if got := places(c.tasks(o)); got != "0@2" {
		t.Errorf("released %s", got)
	}
}

func holdUndecodable[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	tasks := c.heldBehind(o, 1)
	poison := task(tasks[0])
	poison.Identity, poison.KeyID, poison.Fingerprint = pawl.Identity{}, pawl.KeyID{}, pawl.Fingerprint{}
	c.must(o, setAside[Tx](pawl.CausePoison, "the decoder is another one now", 1), poison)
	w.wantInt(0, `select count(*) from pawl_hold`)
	w.wantInt(0, `select count(*) from pawl_stream`)
	w.wantInt(1, `select count(*) from pawl_quarantine where status = 1`)
}

// The last record of a stream is released while another arrives in another process. Whoever comes second must see it.
func holdRace[Tx any](t *testing.T, h Harness[Tx]) {
	for _, first := range []string{"arrival", "release"} {
		t.Run(first+" first", func(t *testing.T) {
			w := newWorld(t, h)
			one, two := w.client(binding()), w.another(binding())
			o, other := one.acquire(partition(0), 0), two.acquire(partition(1), 0)
			tasks := one.heldBehind(o, 1)
			looked, settled := make(chan struct{}), make(chan struct{})
			release := func() error {
				_, err := one.until(o, func() *pawl.Work[Tx] { return work(one.inOrder, task(tasks[0])) })
				return err
			}
			var arrived *pawl.Decision
			var raced int
			arrive := func(meet func()) (err error) {
				raced, err = two.until(other, func() *pawl.Work[Tx] {
					arrived = ordered(partition(1), 0, "s", "new")
					return work(func(ctx context.Context, s pawl.Session[Tx], d *pawl.Decision) error {
						if meet != nil {
							meet()
						}
						return two.inOrder(ctx, s, d)
					}, arrived)
				})
				return err
			}
			var wg sync.WaitGroup
			switch {
			case h.Serial || first == "arrival":
				if err := errors.Join(arrive(nil), release()); err != nil {
					t.Fatal(err)
				}
			default:
				// It has found the stream blocked; before it writes its hold, the stream is free.
				var once sync.Once
				wg.Go(func() {
					if err := arrive(func() { once.Do(func() { close(looked); <-settled }) }); err != nil {
						t.Error(err)
					}
				})
				<-looked
				if err := release(); err != nil {
					t.Error(err)
				}
				close(settled)
				wg.Wait()
				if raced == 0 {
					t.Error("the arrival did not meet the release")
				}
			}
			for _, next := range two.tasks(other) {
				two.must(other, two.inOrder, task(next))
			}
			w.wantInt(0, `select count(*) from pawl_hold`)
			w.wantInt(0, `select count(*) from pawl_stream`)
			w.wantInt(3, `select count(*) from effect`)
			w.consistent()
		})
	}
}

func holdFenced[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	one, two := w.client(binding()), w.another(binding())
	stale := one.acquire(partition(0), 0)
	tasks := one.heldBehind(stale, 2)
	current := two.acquire(partition(0), 0)
	one.refused(pawl.ErrFenced, stale, work(one.inOrder, task(tasks[0])))
	for _, next := range two.tasks(current) {
		two.must(current, two.inOrder, task(next))
	}
	one.refused(nil, stale, work(one.inOrder, task(tasks[1])))
	w.wantInt(3, `select count(*) from effect`)
	w.wantInt(0, `select count(*) from pawl_stream`)
	w.consistent()
}

// Three owners with two streams spread over their partitions. Records fail at first, and are replayed as they do. It broke
// where a stream was passed on to a blocker that another transaction was just closing: it stayed blocked for ever.
func holdStorm[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	const owners, records = 3, 12
	owned := make([]*pawl.Ownership, owners)
	clients := make([]*client[Tx], owners)
	var wg sync.WaitGroup
	for i := range owners {
		clients[i] = w.another(binding())
		owned[i] = clients[i].acquire(partition(int32(i)), 0)
	}
	for i, c := range clients {
		wg.Go(func() {
			for offset := range int64(records) {
				_, err := c.retry(owned[i], func() *pawl.Work[Tx] {
					d := ordered(partition(int32(i)), offset, fmt.Sprint("s", offset%2), fmt.Sprintf("k%d-%d", i, offset))
					return work(func(ctx context.Context, s pawl.Session[Tx], d *pawl.Decision) error {
						if offset%5 == int64(i) && !d.Blocked {
							return blocking[Tx](ctx, s, d)
						}
						return c.inOrder(ctx, s, d)
					}, d)
				})
				if err == nil && offset%3 == 2 {
					err = c.drain(owned[i])
				}
				if err != nil {
					t.Errorf("owner %d, offset %d: %v", i, offset, err)
					return
				}
			}
		})
	}
	wg.Wait()
	for range owners * records { // what one releases may be behind what another blocks
		for i, c := range clients {
			if err := c.drain(owned[i]); err != nil {
				t.Fatal(err)
			}
		}
		if w.int(`select count(*) from pawl_stream`) == 0 && w.int(`select count(*) from pawl_quarantine where status = 1`) == 0 {
			break
		}
	}
	w.wantInt(owners*records, `select count(*) from effect`)
	w.wantInt(owners*records, `select count(*) from pawl_decision`)
	w.wantInt(0, `select count(*) from pawl_hold`)
	w.wantInt(0, `select count(*) from pawl_stream`)
	w.consistent()
}

// retry applies again for as long as waiting mends it.
func (c *client[Tx]) retry(o *pawl.Ownership, batch func() *pawl.Work[Tx]) (again int, err error) {
	for ; again < 100; again++ {
		err = c.store.Apply(c.ctx, o, batch())
		if !errors.Is(err, pawl.ErrRaced) && (err == nil || c.store.Classify(err) != pawl.Transient) {
			return again, err
		}
		if errors.Is(err, pawl.ErrNotKept) {
			return again, nil
		}
	}
	return again, err
}

// drain replays what this partition has in quarantine, and releases what it holds, one by one.
func (c *client[Tx]) drain(o *pawl.Ownership) error {
	for _, offset := range c.lines(`select position_offset from pawl_quarantine where status = 1 and progress_id = ?`, o.Row) {
		var at int64
		if _, err := fmt.Sscan(offset, &at); err != nil {
			return err
		}
		first := c.aside(o, at)
		again := func() *pawl.Work[Tx] {
			d := *first
			return kept(o, c.settle, &d)
		}
		if _, err := c.retry(o, again); err != nil {
			return err
		}
	}
	orders, err := c.store.Orders(c.ctx, []int64{o.Row}, now, 100)
	if err != nil {
		return err
	}
	for _, next := range orders.Tasks {
		if _, err := c.retry(o, func() *pawl.Work[Tx] { return kept(o, c.inOrder, task(next)) }); err != nil {
			return err
		}
	}
	return nil
}

// kept is work that leaves the position where it is.
func kept[Tx any](o *pawl.Ownership, h handler[Tx], ds ...*pawl.Decision) *pawl.Work[Tx] {
	w := work(h, ds...)
	w.Next = o.Next
	return w
}
