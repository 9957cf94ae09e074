package main

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/pawltest"
	"github.com/pawlhq/pawl/sqlite"
)

// openStore returns a store on a fresh database with the tables of the handler.
func openStore(t testing.TB) *sqlite.Store {
	t.Helper()
	l := &lab{database: filepath.Join(t.TempDir(), "cases.db")}
	must(t, l.createTables(t.Context()))
	must(t, l.close())
	store, err := sqlite.Open(t.Context(), l.database)
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	return store
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func event(id string, version int64, eventType string) pawl.Record {
	return pawltest.JSON(Event{id, "case-1", version, eventType, time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)})
}

func wantCase(t testing.TB, db *sql.DB, status string, version, effects int64) {
	t.Helper()
	var is string
	var at, n int64
	must(t, db.QueryRow(`select status, version from case_projection where case_id = 'case-1'`).Scan(&is, &at))
	must(t, db.QueryRow(`select count(*) from case_history where case_id = 'case-1'`).Scan(&n))
	if is != status || at != version || n != effects {
		t.Errorf("the case is %s at version %d after %d effects, want %s at %d after %d", is, at, n, status, version, effects)
	}
}

func TestACopyHasNoEffect(t *testing.T) {
	store := openStore(t)
	pawltest.Run(t, store, events, project,
		event("e1", 1, "OPENED"),
		event("e1", 1, "OPENED"),
	).Want(pawl.Applied, pawl.Duplicate)
	wantCase(t, store.DB(), "OPENED", 1, 1)
}

func TestAnOldVersionIsStale(t *testing.T) {
	store := openStore(t)
	pawltest.Run(t, store, events, project,
		event("e1", 1, "OPENED"),
		event("e2", 2, "EVIDENCE_SUBMITTED"),
		event("e3", 1, "OPENED"),
	).Want(pawl.Applied, pawl.Applied, pawl.WasStale)
	wantCase(t, store.DB(), "EVIDENCE_SUBMITTED", 2, 2)
}

func TestAGapIsQuarantinedUntilTheEventIsSentAgain(t *testing.T) {
	store := openStore(t)
	pawltest.Run(t, store, events, project,
		event("e1", 1, "OPENED"),
		event("e3", 3, "NOTICE_ISSUED"),
		event("e2", 2, "EVIDENCE_SUBMITTED"),
		event("e3", 3, "NOTICE_ISSUED"),
	).Want(pawl.Applied, pawl.Quarantined, pawl.Applied, pawl.Applied)
	wantCase(t, store.DB(), "NOTICE_ISSUED", 3, 3)
}

func TestAnIllegalTransitionIsQuarantined(t *testing.T) {
	store := openStore(t)
	pawltest.Run(t, store, events, project,
		event("e1", 1, "OPENED"),
		event("e2", 2, "CLOSED"),
		event("e3", 2, "EVIDENCE_SUBMITTED"),
		event("e4", 3, "SHREDDED"),
	).Want(pawl.Applied, pawl.Quarantined, pawl.Applied, pawl.Quarantined)
	wantCase(t, store.DB(), "EVIDENCE_SUBMITTED", 2, 2)
}

func TestAnIDUsedAgainForSomethingElseIsQuarantined(t *testing.T) {
	store := openStore(t)
	pawltest.Run(t, store, events, project,
		event("e1", 1, "OPENED"),
		event("e1", 2, "EVIDENCE_SUBMITTED"),
		pawltest.Bytes([]byte("no event")),
	).Want(pawl.Applied, pawl.Quarantined, pawl.Quarantined)
	wantCase(t, store.DB(), "OPENED", 1, 1)
}

func TestAReplayHasNoEffect(t *testing.T) {
	store := openStore(t)
	life := []pawl.Record{event("e1", 1, "OPENED"), event("e2", 2, "EVIDENCE_SUBMITTED"), event("e3", 3, "NOTICE_ISSUED")}
	pawltest.Run(t, store, events, project, life...).Want(pawl.Applied, pawl.Applied, pawl.Applied)
	pawltest.Run(t, store, events, project, life...).Want(pawl.Duplicate, pawl.Duplicate, pawl.Duplicate)
	wantCase(t, store.DB(), "NOTICE_ISSUED", 3, 3)
}

func TestACrashAnywhereChangesNothing(t *testing.T) {
	records := []pawl.Record{
		event("e1", 1, "OPENED"), event("e1", 1, "OPENED"), event("e3", 3, "NOTICE_ISSUED"), event("e2", 2, "EVIDENCE_SUBMITTED"),
	}
	pawltest.EveryCrash(t, openStore, events, project, records, func(t testing.TB, store *sqlite.Store) {
		wantCase(t, store.DB(), "EVIDENCE_SUBMITTED", 2, 2)
	})
}
