package storetest

import (
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/pawlhq/pawl"
)

func openTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"a database that is not migrated is refused with a hint", openRefusesUnmigrated[Tx]},
		{"migrations apply twice harmlessly", migrateTwice[Tx]},
		{"migrations can be printed", migrationsPrint[Tx]},
		{"migrations applied by another tool are enough", migrateByHand[Tx]},
		{"a schema that is newer than the program is refused", openRefusesNewer[Tx]},
		{"opening twice keeps what is there", openTwice[Tx]},
		{"a consumer bound to another group is refused", openRefusesOtherGroup[Tx]},
		{"a consumer bound to another cluster is refused", openRefusesOtherCluster[Tx]},
		{"a renamed route keeps its claims", renamedRouteKeepsClaims[Tx]},
		{"a rename is refused where both names exist", renameRefusedWhereBothExist[Tx]},
		{"several processes open at once", openConcurrently[Tx]},
	}
}

// wantHint expects an error for an operator, with a hint that says word.
func (w *world[Tx]) wantHint(err error, word string) {
	w.Helper()
	hinted, ok := errors.AsType[*pawl.Error](err)
	if !ok {
		w.Fatalf("got error %v, want a *pawl.Error", err)
	}
	if hinted.Class != pawl.Misconfigured {
		w.Errorf("%v: class %s, want misconfigured", err, hinted.Class)
	}
	if hinted.Hint == "" || !strings.Contains(strings.ToLower(err.Error()), word) {
		w.Errorf("%v: hint %q, want one, and the word %q", err, hinted.Hint, word)
	}
}

func openRefusesUnmigrated[Tx any](t *testing.T, h Harness[Tx]) {
	w := &world[Tx]{TB: t, Fixture: h.Bare(t), h: h, ctx: t.Context()}
	w.wantHint(openError(w.Store.Open(w.ctx, binding())), "migrate")
	if err := w.Migrate(w.ctx); err != nil {
		t.Fatalf("migrate: %v", err)
	}
	w.client(binding())
}

func migrateTwice[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	c.apply(c.acquire(partition(0), 0), record(partition(0), 0, "k", "v"))
	before := c.state()
	if err := w.Migrate(w.ctx); err != nil {
		t.Fatalf("migrate again: %v", err)
	}
	if after := c.state(); strings.Join(after, "\n") != strings.Join(before, "\n") {
		t.Errorf("migrating again changed rows:\nbefore %q\nafter  %q", before, after)
	}
}

func migrationsPrint[Tx any](t *testing.T, h Harness[Tx]) {
	all := h.Migrations()
	if len(all) == 0 {
		t.Fatal("no migrations")
	}
	for _, table := range []string{
		"pawl_name", "pawl_consumer", "pawl_scope", "pawl_progress", "pawl_decision", "pawl_redelivery", "pawl_quarantine",
	} {
		if !regexp.MustCompile(`create table (\S.*\.)?` + table + ` `).MatchString(all[0]) { // in whatever schema
			t.Errorf("the first migration does not create %s", table)
		}
	}
}

func openTwice[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	c.apply(c.acquire(partition(0), 0), record(partition(0), 0, "k", "v"))
	again := w.another(binding())
	d := record(partition(1), 0, "k", "v")
	again.apply(again.acquire(partition(1), 0), d)
	w.wantOutcome(d, pawl.Duplicate)
	w.wantInt(1, `select count(*) from pawl_consumer`)
	w.wantInt(2, `select count(*) from pawl_scope`)
}

func openRefusesOtherGroup[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	w.client(binding())
	b := binding()
	b.Group = "other-group"
	w.wantHint(openError(w.Second(t).Open(w.ctx, b)), "billing-group")
}

func openRefusesOtherCluster[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	w.client(binding())
	b := binding()
	b.Cluster = "cluster-2"
	w.wantHint(openError(w.Second(t).Open(w.ctx, b)), "cluster-1")
}

func renamedRouteKeepsClaims[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	c.apply(c.acquire(partition(0), 0), record(partition(0), 0, "k", "v"))

	b := binding()
	b.Routes = []pawl.RouteName{{Name: "bill", RenamedFrom: "charge"}, {Name: "notify"}}
	for n := range int32(2) { // the second time, there is nothing left to rename
		renamed := w.another(b)
		d := record(partition(n+1), 0, "k", "v")
		renamed.apply(renamed.acquire(partition(n+1), 0), d)
		w.wantOutcome(d, pawl.Duplicate)
	}
	w.wantInt(0, `select count(*) from pawl_scope where route = ?`, "charge")
	w.wantInt(1, `select count(*) from effect`)
}

func renameRefusedWhereBothExist[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	w.client(binding())
	b := binding()
	b.Routes = []pawl.RouteName{{Name: "notify", RenamedFrom: "charge"}}
	w.wantHint(openError(w.Second(t).Open(w.ctx, b)), "charge")
	w.wantInt(2, `select count(*) from pawl_scope`)
}

func openConcurrently[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		s := w.Second(t)
		wg.Go(func() { _, errs[i] = s.Open(w.ctx, binding()) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Errorf("open: %v", err)
	}
	w.wantInt(1, `select count(*) from pawl_consumer`)
	w.wantInt(2, `select count(*) from pawl_scope`)
	w.wantInt(1, `select count(*) from pawl_name where name = ?`, "v1")
}

// openError drops the store that Open returns beside its error.
func openError[Tx any](_ pawl.BoundStore[Tx], err error) error { return err }

func migrateByHand[Tx any](t *testing.T, h Harness[Tx]) {
	f := h.Bare(t)
	for _, m := range h.Migrations() {
		if _, err := f.DB.ExecContext(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Store.Open(t.Context(), binding()); err != nil {
		t.Fatalf("open: %v", err)
	}
	if err := f.Migrate(t.Context()); err != nil {
		t.Fatalf("migrate after it: %v", err)
	}
}

func openRefusesNewer[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	w.exec(`update pawl_schema set version = version + 98`)
	w.wantHint(openError(w.Store.Open(w.ctx, binding())), "new")
}
