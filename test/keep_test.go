package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/pawltest"
)

// A record that is set aside blocks its stream and no other; what comes behind it is held over restarts, and is released in
// order when an operator has dealt with it: replayed, edited or skipped.
func TestABlockedStreamIsHeldAndReleasedInOrder(t *testing.T) {
	onEveryStore(t, noteSchema, keepProof{})
}

type keepProof struct{}

func (keepProof) onPgx(t *testing.T, open func(testing.TB) *opened[pgx.Tx], exec execTx[pgx.Tx]) {
	keepInOrder(t, open, exec)
}

func (keepProof) onSQL(t *testing.T, open func(testing.TB) *opened[pawl.SQLTx], exec execTx[pawl.SQLTx]) {
	keepInOrder(t, open, exec)
}

func keepInOrder[Tx any](t *testing.T, open func(testing.TB) *opened[Tx], exec execTx[Tx]) {
	for _, order := range []pawl.Order{pawl.OrderPartition, pawl.OrderStream} {
		for _, batched := range []bool{false, true} {
			for _, kind := range []pawl.OperationKind{pawl.OperationReplay, pawl.OperationSkip, pawl.OperationEdit} {
				t.Run(fmt.Sprintf("order %d, batched %v, %s", order, batched, kind), func(t *testing.T) {
					t.Parallel()
					k := &keeper[Tx]{T: t, opened: open(t), exec: exec, order: order, batched: batched}
					k.story(kind)
				})
			}
		}
	}
}

// keeper is a consumer of one partition whose route blocks streams, and its operator.
type keeper[Tx any] struct {
	*testing.T
	*opened[Tx]
	exec     execTx[Tx]
	order    pawl.Order
	batched  bool
	maxHeld  int
	repaired atomic.Bool
	log      []pawl.Record
	seen     sequence
}

// add appends events to the log: "a2" is the second of stream a, and "a2!" one that the handler does not take before it is
// repaired.
func (k *keeper[Tx]) add(events ...string) {
	for _, e := range events {
		name := strings.TrimSuffix(e, "!")
		n := noted{ID: name, Stream: name[:1], N: int(name[1] - '0')}
		if e != name {
			n.N = -n.N
		}
		value, _ := json.Marshal(n)
		k.log = append(k.log, pawl.Record{
			Partition: pawl.Partition{Topic: pawltest.Topic, TopicID: pawl.TopicID{7}}, Offset: int64(len(k.log)),
			Timestamp: time.Unix(1, 0), Value: value,
		})
	}
}

// run starts a consumer of the log as it is.
func (k *keeper[Tx]) run() (stop func() error) {
	return running(k.T, func(ctx context.Context) error {
		r := pawl.NewRunner(k.Store, pawltest.NewLog(k.log), pawl.Config{
			Consumer: "keep", Logger: slog.New(slog.DiscardHandler), Hooks: pawl.Hooks{Settled: k.seen.settled},
			Budget: pawl.Budget{Share: 1}, MaxHeld: k.maxHeld,
		})
		route := pawl.Route{Name: "notes", Topics: []string{pawltest.Topic}, Order: k.order, Quarantine: pawl.QuarantineStream}
		apply := func(ctx context.Context, tx Tx, e noted) error {
			return k.exec(ctx, tx, `insert into note (stream, n) values (?, ?)`, e.Stream, e.N)
		}
		bad := func(e noted) bool { return e.N < 0 && !k.repaired.Load() }
		if k.batched {
			pawl.HandleBatch(r, route, notes(), func(ctx context.Context, tx Tx, b *pawl.Batch[noted]) error {
				for i, e := range b.All() {
					if bad(e.Body) {
						b.Reject(i, errors.New("negative"))
						continue
					}
					if err := apply(ctx, tx, e.Body); err != nil {
						return err
					}
				}
				return nil
			})
		} else {
			pawl.Handle(r, route, notes(), func(ctx context.Context, tx Tx, e pawl.Envelope[noted]) error {
				if err := apply(ctx, tx, e.Body); err != nil {
					return err
				}
				if bad(e.Body) {
					return pawl.Reject(errors.New("negative"))
				}
				return nil
			})
		}
		return r.Run(ctx)
	})
}

// until runs the consumer until a query gives n.
func (k *keeper[Tx]) until(n int64, query string) {
	k.Helper()
	stop := k.run()
	k.await(n, query)
	if err := stop(); err != nil {
		k.Fatal(err)
	}
}

func (k *keeper[Tx]) await(n int64, query string) {
	k.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for got := int64(-1); got != n; got = k.int(k.T, query) {
		if time.Now().After(deadline) {
			k.Fatalf("%s: %d, want %d", query, got, n)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

const (
	position   = `select coalesce(max(next_offset), 0) from pawl_progress`
	heldCount  = `select count(*) from pawl_hold`
	noteCount  = `select count(*) from note`
	openCount  = `select count(*) from pawl_quarantine where status = 1`
	streamRows = `select count(*) from pawl_stream`
)

func (k *keeper[Tx]) story(kind pawl.OperationKind) {
	ctx := k.Context()
	admin := k.Store.Admin()
	k.add("a1", "a2!", "a3", "b1", "a4", "b2")
	k.until(6, position)
	if held, notes := k.int(k.T, heldCount), k.int(k.T, noteCount); held != 2 || notes != 3 {
		k.Fatalf("%d held and %d applied, want a3 and a4 held, a1 and both of b applied", held, notes)
	}
	k.add("a5", "b3")
	k.until(8, position) // over a restart
	blocked, err := admin.BlockedStreams(ctx, "keep", 10)
	if err != nil || len(blocked) != 1 || blocked[0].Stream != "a" || blocked[0].Held != 3 || blocked[0].Quarantine == 0 {
		k.Fatalf("blocked: %+v, %v", blocked, err)
	}

	request := pawl.OperationRequest{
		Consumer: "keep", Kind: kind, Filter: pawl.QuarantineFilter{IDs: []int64{blocked[0].Quarantine}}, By: "ops", Why: "repaired", At: time.Now(),
	}
	switch kind {
	case pawl.OperationReplay:
		k.repaired.Store(true)
	case pawl.OperationEdit:
		request.Value, _ = json.Marshal(noted{ID: "a2", Stream: "a", N: 2})
	}
	op, err := admin.Start(ctx, request)
	if err != nil || op.Total != 1 {
		k.Fatalf("start: %+v, %v", op, err)
	}
	k.add("a6", "a2!") // an arrival in the middle of it, and the bad one once more
	want := int64(9)   // a1 to a6, b1 to b3
	if kind == pawl.OperationSkip {
		want = 8
	}
	stop := k.run()
	k.await(10, position)
	k.await(want, noteCount)
	k.await(0, streamRows)
	if err := stop(); err != nil {
		k.Fatal(err)
	}
	k.seen.check(k.T)
	if op, err = admin.Operation(ctx, op.ID); err != nil || op.State != pawl.OperationDone || op.Done != 1 || op.Failed != 0 {
		k.Errorf("the operation: %+v, %v", op, err)
	}
	if held, open := k.int(k.T, heldCount), k.int(k.T, openCount); held != 0 || open != 0 {
		k.Errorf("%d held and %d in quarantine at the end", held, open)
	}
	if n := k.int(k.T, `select count(*) from pawl_audit where what <> ''`); n < 2 {
		k.Errorf("%d lines of audit, want one for the operation and one for its item", n)
	}
}

// A replay that fails again stays in quarantine, and its stream stays blocked.
func TestAReplayThatFailsLeavesTheStreamBlocked(t *testing.T) {
	k := &keeper[pawl.SQLTx]{T: t, opened: openSQLite(t, noteSchema), exec: execSQL(func(q string) string { return q })}
	k.add("a1", "a2!", "a3", "b1")
	k.until(4, position)
	op, err := k.Store.Admin().Start(t.Context(), pawl.OperationRequest{Consumer: "keep", Kind: pawl.OperationReplay, By: "ops", Why: "try", At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	k.until(1, `select count(*) from pawl_operation where state = 'done'`)
	if op, err = k.Store.Admin().Operation(t.Context(), op.ID); err != nil || op.Failed != 1 {
		t.Errorf("the operation: %+v, %v", op, err)
	}
	if held, open, notes := k.int(t, heldCount), k.int(t, openCount), k.int(t, noteCount); held != 1 || open != 1 || notes != 2 {
		t.Errorf("%d held, %d in quarantine, %d applied", held, open, notes)
	}
}

// A consumer that an operator has paused settles nothing, and keeps its place.
func TestAPausedConsumerSettlesNothing(t *testing.T) {
	k := &keeper[pawl.SQLTx]{T: t, opened: openSQLite(t, noteSchema), exec: execSQL(func(q string) string { return q })}
	k.add("a1")
	k.until(1, position)
	admin := k.Store.Admin()
	if err := admin.Pause(t.Context(), "keep", pawl.Pause{By: "ops", Why: "maintenance", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	k.add("a2", "a3")
	k.run()
	deadline := time.Now().Add(3 * time.Second)
	for time.Now().Before(deadline) { // three looks for orders
		if n := k.int(t, position); n > 1 {
			t.Fatalf("position %d while paused", n)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err := admin.Resume(t.Context(), "keep", "ops", "done", time.Now()); err != nil {
		t.Fatal(err)
	}
	k.await(3, position)
}

// No more is held than is allowed: the partition waits in front of the next one, and goes on once its stream is free.
func TestWhatIsHeldIsBounded(t *testing.T) {
	for _, order := range []pawl.Order{pawl.OrderPartition, pawl.OrderStream} {
		t.Run(fmt.Sprintf("order %d", order), func(t *testing.T) {
			k := &keeper[pawl.SQLTx]{T: t, opened: openSQLite(t, noteSchema), exec: execSQL(func(q string) string { return q }), order: order, maxHeld: 2}
			k.add("a1", "a2!", "a3", "a4")
			k.until(4, position)
			k.add("a5", "b1", "a6")
			stop := k.run()
			k.await(1, `select count(*) from pawl_condition where state = 'holds_full' and ended = 0`)
			if held, next := k.int(t, heldCount), k.int(t, position); held != 2 || next != 4 {
				t.Errorf("%d held, position %d, want 2 and 4", held, next)
			}
			k.repaired.Store(true)
			if _, err := k.Store.Admin().Start(t.Context(), pawl.OperationRequest{Consumer: "keep", Kind: pawl.OperationReplay, By: "ops", Why: "repaired", At: time.Now()}); err != nil {
				t.Fatal(err)
			}
			k.await(7, position)
			k.await(7, noteCount)
			k.await(0, `select count(*) from pawl_condition where ended = 0`)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			k.seen.check(t)
		})
	}
}
