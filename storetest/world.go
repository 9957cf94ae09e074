package storetest

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
)

// world is one fresh database and what the tests ask of it beside the store.
type world[Tx any] struct {
	testing.TB
	Fixture[Tx]
	h   Harness[Tx]
	ctx context.Context
}

func newWorld[Tx any](t testing.TB, h Harness[Tx]) *world[Tx] {
	t.Helper()
	w := &world[Tx]{TB: t, Fixture: h.Open(t), h: h, ctx: t.Context()}
	w.exec(`create table effect (scope text not null, key text not null)`)
	return w
}

// exec writes beside Pawl.
func (w *world[Tx]) exec(query string, args ...any) {
	w.Helper()
	if _, err := w.DB.ExecContext(w.ctx, w.rewrite(query), args...); err != nil {
		w.Fatalf("%s: %v", query, err)
	}
}

// int reads one integer beside Pawl.
func (w *world[Tx]) int(query string, args ...any) int64 {
	w.Helper()
	var n int64
	if err := w.DB.QueryRowContext(w.ctx, w.rewrite(query), args...).Scan(&n); err != nil {
		w.Fatalf("%s: %v", query, err)
	}
	return n
}

func (w *world[Tx]) wantInt(want int64, query string, args ...any) {
	w.Helper()
	if got := w.int(query, args...); got != want {
		w.Errorf("%s %v: got %d, want %d", query, args, got, want)
	}
}

func (w *world[Tx]) rewrite(query string) string {
	if w.Rewrite == nil {
		return query
	}
	return w.Rewrite(query)
}

// client is one bound store, as one process has it.
type client[Tx any] struct {
	*world[Tx]
	store   pawl.BoundStore[Tx]
	binding pawl.Binding
}

// binding is the one that most tests use: consumer "billing" with routes "charge" and "notify".
func binding() pawl.Binding {
	return pawl.Binding{
		Consumer: "billing", Cluster: "cluster-1", Group: "billing-group", Version: "v1",
		Routes:         []pawl.RouteName{{Name: "charge"}, {Name: "notify"}},
		HandlerTimeout: 30 * time.Second,
	}
}

// client binds the fixture's own store.
func (w *world[Tx]) client(b pawl.Binding) *client[Tx] {
	w.Helper()
	s, err := w.Store.Open(w.ctx, b)
	if err != nil {
		w.Fatalf("open: %v", err)
	}
	return &client[Tx]{world: w, store: s, binding: b}
}

// another binds a second store on the same database.
func (w *world[Tx]) another(b pawl.Binding) *client[Tx] {
	w.Helper()
	s, err := w.Second(w.TB).Open(w.ctx, b)
	if err != nil {
		w.Fatalf("open: %v", err)
	}
	return &client[Tx]{world: w, store: s, binding: b}
}

// partition n of the topic of most tests.
func partition(n int32) pawl.Partition {
	return pawl.Partition{Topic: "payments", TopicID: pawl.TopicID{0xaa, 15: 0x01}, Index: n}
}

func (c *client[Tx]) acquire(p pawl.Partition, start int64) *pawl.Ownership {
	c.Helper()
	o, err := c.store.Acquire(c.ctx, p, start)
	if err != nil {
		c.Fatalf("acquire %s: %v", p, err)
	}
	return o
}

// now is when tests happen.
var now = time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)

// record is a decision on route 0 about key, with content, as it stands before the transaction.
func record(p pawl.Partition, offset int64, key, content string) *pawl.Decision {
	return &pawl.Decision{
		Record: &pawl.Record{
			Partition: p, Offset: offset, LeaderEpoch: 7, Timestamp: now.Add(-time.Second),
			Key: []byte("routing"), Value: []byte(content),
		},
		Identity:    pawl.Identity{Key: key, Type: "PAID", StreamType: "account", Stream: "a-1", Version: offset + 1},
		KeyID:       pawl.NewKeyID(key),
		Fingerprint: fingerprint(content),
		Mode:        pawl.Live,
	}
}

// undecoded is a decision about bytes that did not decode.
func undecoded(p pawl.Partition, offset int64, value []byte) *pawl.Decision {
	return &pawl.Decision{
		Record: &pawl.Record{Partition: p, Offset: offset, LeaderEpoch: 7, Timestamp: now.Add(-time.Second), Value: value},
		Mode:   pawl.Live,
	}
}

func onRoute(route int, d *pawl.Decision) *pawl.Decision {
	d.Route = route
	return d
}

func fingerprint(content string) pawl.Fingerprint {
	return pawl.Fingerprint(pawl.NewKeyID("fingerprint of " + content).ID)
}

// handler decides one record inside the transaction.
type handler[Tx any] func(ctx context.Context, s pawl.Session[Tx], d *pawl.Decision) error

// settle is the handler of most tests: it does what the engine does, and its effect is one row per key.
func (c *client[Tx]) settle(ctx context.Context, s pawl.Session[Tx], d *pawl.Decision) error {
	switch {
	case d.Prior == nil:
		d.Outcome = pawl.Applied
		return c.effect(ctx, s, d)
	case !d.Prior.Accepts(d.Fingerprint):
		d.Outcome, d.Cause, d.Reason, d.Tries = pawl.Quarantined, pawl.CauseConflict, "other content", 1
	default:
		d.Outcome, d.Reason, d.Repeat = pawl.Duplicate, "decided before", d.Prior.SamePosition
	}
	return nil
}

// effect writes the row that stands for what a handler does.
func (c *client[Tx]) effect(ctx context.Context, s pawl.Session[Tx], d *pawl.Decision) error {
	scope := c.scope(d.Route)
	return c.h.Exec(ctx, s.Tx(), `insert into effect (scope, key) values (?, ?)`, scope, keyText(d.KeyID))
}

func (c *client[Tx]) scope(route int) string {
	return c.binding.Consumer + " " + c.binding.Routes[route].Name
}

func keyText(k pawl.KeyID) string { return fmt.Sprintf("%d-%s", k.Form, hex.EncodeToString(k.ID[:])) }

// work is a batch whose records go through h one by one. The position it reaches is behind its last record.
func work[Tx any](h handler[Tx], ds ...*pawl.Decision) *pawl.Work[Tx] {
	w := &pawl.Work[Tx]{Decisions: ds, Now: now}
	for _, d := range ds {
		w.Next = max(w.Next, d.Record.Offset+1)
	}
	w.Run = func(ctx context.Context, s pawl.Session[Tx]) error {
		for _, d := range ds {
			if err := h(ctx, s, d); err != nil {
				return err
			}
		}
		return nil
	}
	return w
}

// apply settles records with the default handler, and expects that it goes well.
func (c *client[Tx]) apply(o *pawl.Ownership, ds ...*pawl.Decision) {
	c.Helper()
	if err := c.store.Apply(c.ctx, o, work(c.settle, ds...)); err != nil {
		c.Fatalf("apply: %v", err)
	}
}

// refused applies with h and expects an error that is want; nothing of Pawl's may come of it.
func (c *client[Tx]) refused(want error, o *pawl.Ownership, w *pawl.Work[Tx]) {
	c.Helper()
	owned, before := *o, c.state()
	err := c.store.Apply(c.ctx, o, w)
	if err == nil {
		c.Fatal("apply: committed, want an error")
	}
	if want != nil && !errors.Is(err, want) {
		c.Errorf("apply: got error %v, want %v", err, want)
	}
	if *o != owned {
		c.Errorf("ownership moved on an error: %+v, was %+v", *o, owned)
	}
	if after := c.state(); !slices.Equal(before, after) {
		c.Errorf("an apply that failed left something:\nbefore %q\nafter  %q", before, after)
	}
}

// wantOutcomes compares what became of records.
func (w *world[Tx]) wantOutcome(d *pawl.Decision, want pawl.Outcome) {
	w.Helper()
	if d.Outcome != want {
		w.Errorf("record %s@%d: got %s, want %s", d.Record.Partition, d.Record.Offset, d.Outcome, want)
	}
}
