package test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/pgtest"
)

// Two consumers on one database, with the same routes, topics, keys and streams: what is set aside, held, blocked, asked for,
// paused and told of one is nothing to the other.
func TestTwoConsumersOnOneDatabaseDoNotMeet(t *testing.T) {
	db := openPgx(t, pgtest.Migrated(t), effectSchemaPostgres)
	one, two := tellerOn(t, db, "one"), tellerOn(t, db, "two")
	admin := db.Admin()
	of := func(consumer, table string) string {
		return fmt.Sprintf(`select count(*) from %s x join pawl_scope s on s.id = x.scope_id join pawl_consumer c on c.id = s.consumer_id where c.name = '%s'`, table, consumer)
	}
	effects := func(consumer string) string {
		return fmt.Sprintf(`select count(*) from effect where key like '%s/%%'`, consumer)
	}
	position := func(consumer string) string {
		return fmt.Sprintf(`select coalesce(sum(next_offset), 0) from pawl_progress p join pawl_consumer c on c.id = p.consumer_id where c.name = '%s'`, consumer)
	}
	both := func(events ...happening) {
		one.tell(0, events...)
		two.tell(0, events...)
	}

	// Stream a is blocked for one, stream b for both.
	two.script.repair("a1")
	both(ev("a1", "reject"), ev("a2", "ok"), ev("b1", "reject"), ev("b2", "ok"))
	paused := make(chan struct{}, 1)
	one.config.Hooks.Raised = func(c pawl.Condition) {
		if c.State == pawl.StatePaused {
			paused <- struct{}{}
		}
	}
	one.start(0)
	two.start(0)
	one.await(4, position("one"))
	two.await(4, position("two"))
	for what, c := range map[string]struct{ got, want int64 }{
		"open of one": {db.int(t, of("one", "pawl_quarantine")), 2}, "held of one": {db.int(t, of("one", "pawl_hold")), 2},
		"open of two": {db.int(t, of("two", "pawl_quarantine")), 1}, "held of two": {db.int(t, of("two", "pawl_hold")), 1},
		"effects of one": {db.int(t, effects("one")), 0}, "effects of two": {db.int(t, effects("two")), 2},
	} {
		if c.got != c.want {
			t.Fatalf("%s: %d, want %d", what, c.got, c.want)
		}
	}

	// An operation of one has items of one, also where it is asked for by the id of another's.
	var others []int64
	items, err := admin.Quarantine(t.Context(), "two", pawl.QuarantineFilter{}, 0, 0)
	if err != nil || len(items) != 1 {
		t.Fatalf("quarantine of two: %+v, %v", items, err)
	}
	others = append(others, items[0].ID)
	if n, err := admin.Plan(t.Context(), pawl.OperationRequest{
		Consumer: "one", Kind: pawl.OperationSkip, Filter: pawl.QuarantineFilter{IDs: others}, By: "ops", Why: "asked to", At: time.Now(),
	}); err != nil || n != 0 {
		t.Errorf("an operation of one on an item of two would have %d items, %v", n, err)
	}
	one.script.repair("a1")
	one.script.repair("b1")
	two.script.repair("b1")
	op := one.ask(pawl.OperationReplay, nil)
	one.await(0, of("one", "pawl_stream"))
	one.await(4, effects("one"))
	if op, err := admin.Operation(t.Context(), op.ID); err != nil || op.Total != 2 || op.Done != 2 {
		t.Errorf("the operation of one: %+v, %v", op, err)
	}
	if ops, err := admin.Operations(t.Context(), "two", 0); err != nil || len(ops) != 0 {
		t.Errorf("operations of two: %+v, %v", ops, err)
	}
	if open, held := db.int(t, of("two", "pawl_quarantine")+" and x.status = 1"), db.int(t, of("two", "pawl_hold")); open != 1 || held != 1 {
		t.Errorf("of two, %d are open and %d held after an operation of one", open, held)
	}

	// A pause of one.
	if err := admin.Pause(t.Context(), "one", pawl.Pause{By: "ops", Why: "asked to", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	two.ask(pawl.OperationReplay, nil)
	two.await(0, of("two", "pawl_stream"))
	select {
	case <-paused:
	case <-time.After(30 * time.Second):
		t.Fatal("one does not hear of its pause")
	}
	for i := range 2 { // the second takes as long as the first would have, had it been tried
		both(ev(fmt.Sprint("c", i), "ok"))
		two.await(int64(5+i), position("two"))
	}
	if n := db.int(t, position("one")); n != 4 {
		t.Fatalf("one is paused, and has settled up to %d", n)
	}
	if err := admin.Resume(t.Context(), "one", "ops", "asked to", time.Now()); err != nil {
		t.Fatal(err)
	}
	one.await(6, position("one"))

	// A condition of one.
	if err := raiseFor(t, one, "one"); err != nil {
		t.Fatal(err)
	}
	if cs, err := admin.Conditions(t.Context(), "two"); err != nil || len(cs) != 0 {
		t.Errorf("conditions of two: %+v, %v", cs, err)
	}
	if cs, err := admin.Conditions(t.Context(), "one"); err != nil || len(cs) != 1 {
		t.Errorf("conditions of one: %+v, %v", cs, err)
	}
	both(ev("d1", "ok"))
	two.await(7, position("two"))
	for _, c := range []string{"one", "two"} {
		if n := db.int(t, of(c, "pawl_decision")); c == "two" && n != 7 || c == "one" && n < 6 {
			t.Errorf("%s has decided %d", c, n)
		}
	}
}

// raiseFor raises a condition of the whole consumer, as its runner would.
func raiseFor(t *testing.T, s *teller, consumer string) error {
	bound, err := s.Store.Open(t.Context(), pawl.Binding{
		Consumer: consumer, Cluster: "c", Group: consumer, Routes: []pawl.RouteName{{Name: s.route.Name}}, HandlerTimeout: time.Minute,
	})
	if err != nil {
		return err
	}
	_, err = bound.Raise(t.Context(), pawl.Condition{
		Partition: pawl.Partition{Index: pawl.AllPartitions}, State: pawl.StateQuarantineBudget, Next: pawl.NoStart, Reason: "asked to", Since: time.Now(),
	})
	return err
}
