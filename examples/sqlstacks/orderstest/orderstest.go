// Package orderstest gives the tests of this module their stores, their records and what must have become of them.
package orderstest

import (
	"database/sql"
	"os"
	"slices"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/pgtest"
	"github.com/pawlhq/pawl/internal/sqlitetest"
	"github.com/pawlhq/pawl/pawltest"
	"github.com/pawlhq/pawl/postgres"
	"github.com/pawlhq/pawl/sqlite"

	"github.com/pawlhq/pawl/examples/sqlstacks/orders"
)

// Database says what a store is on.
type Database string

// The databases that every handler is tested on.
const (
	SQLite   Database = "sqlite"
	Postgres Database = "postgres"
)

// Store is a store on a database with the table, and a plain handle to look at it.
type Store struct {
	pawl.Store[pawl.SQLTx]
	DB *sql.DB
}

// On runs a test on each database. Every call of open makes a new one.
func On(t *testing.T, test func(t *testing.T, on Database, open func(testing.TB) *Store)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, SQLite, openSQLite)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		if os.Getenv("PAWL_TEST_POSTGRES") == "" {
			pgtest.URL(t) // skips the test as a whole, or fails it where the service is required
		}
		test(t, Postgres, openPostgres)
	})
}

func openSQLite(t testing.TB) *Store {
	path := sqlitetest.Migrated(t)
	store, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	db := openHandle(t, "sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	return prepare(t, &Store{store, db})
}

func openPostgres(t testing.TB) *Store {
	db := openHandle(t, "pgx", pgtest.Migrated(t))
	store := postgres.NewSQL(db)
	return prepare(t, &Store{store, db})
}

func openHandle(t testing.TB, driver, dsn string) *sql.DB {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func prepare(t testing.TB, s *Store) *Store {
	if _, err := s.DB.ExecContext(t.Context(), orders.Schema); err != nil {
		t.Fatal(err)
	}
	return s
}

// Records are events as they come: twice, too late, with a used id, and with what the table refuses.
func Records() []pawl.Record {
	placed := orders.Event{ID: "e1", OrderID: "o1", Version: 1, Status: "placed", TotalCents: 1200}
	packed := orders.Event{ID: "e2", OrderID: "o1", Version: 2, Status: "packed", TotalCents: 1200}
	shipped := orders.Event{ID: "e3", OrderID: "o1", Version: 3, Status: "shipped", TotalCents: 1350}
	forged := placed
	forged.TotalCents = 1
	negative := orders.Event{ID: "e4", OrderID: "o2", Version: 1, Status: "placed", TotalCents: -1}
	other := orders.Event{ID: "e5", OrderID: "o2", Version: 1, Status: "placed", TotalCents: 700}

	var records []pawl.Record
	for _, e := range []orders.Event{placed, placed, shipped, packed, forged, negative, other} {
		records = append(records, pawltest.JSON(e))
	}
	return records
}

// Row is a row of the table.
type Row struct {
	ID, Status                   string
	TotalCents, Version, Changes int64
}

// Want fails the test unless the table holds these rows, by id.
func Want(t testing.TB, s *Store, want ...Row) {
	t.Helper()
	rows, err := s.DB.QueryContext(t.Context(), `select id, status, total_cents, version, changes from orders order by id`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got []Row
	for rows.Next() {
		var r Row
		if err := rows.Scan(&r.ID, &r.Status, &r.TotalCents, &r.Version, &r.Changes); err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the table holds %v, want %v", got, want)
	}
}

// WantRecords fails the test unless the table is what Records make of it.
func WantRecords(t testing.TB, s *Store) {
	t.Helper()
	Want(t, s, Row{"o1", "shipped", 1350, 3, 2}, Row{"o2", "placed", 700, 1, 1})
}

// WantCauses fails the test unless the quarantined records have these causes, in order.
func WantCauses(t testing.TB, r *pawltest.Result, want ...string) {
	t.Helper()
	var got []string
	for _, d := range r.Decisions {
		if d.Outcome == pawl.Quarantined {
			got = append(got, d.Cause)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("quarantined for %q, want %q", got, want)
	}
}
