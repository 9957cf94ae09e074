package pawl_test

import (
	"context"
	"database/sql"
	"testing"

	"go.uber.org/goleak"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
	"github.com/pawlhq/pawl/internal/sqlitetest"
	"github.com/pawlhq/pawl/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// payment is the event of these tests.
type payment struct {
	ID     string `json:"id"`
	Amount int64  `json:"amount"`
	Do     string `json:"do,omitempty"`
}

func payments() pawl.Decoder[payment] {
	return decode.JSON(func(_ pawl.Meta, p payment) pawl.Identity {
		return pawl.Identity{Key: p.ID, Type: "payment"}
	})
}

// openStore returns a store with a table of effects, and a handle to look at it.
func openStore(t testing.TB) (*sqlite.Store, *sql.DB) {
	t.Helper()
	path := sqlitetest.Migrated(t)
	store, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if _, err := db.Exec(`create table effect (id text, amount integer)`); err != nil {
		t.Fatal(err)
	}
	return store, db
}

// apply is the effect of these tests: it writes, whatever is decided afterwards.
func apply(ctx context.Context, tx pawl.SQLTx, p payment) error {
	_, err := tx.ExecContext(ctx, `insert into effect (id, amount) values (?, ?)`, p.ID, p.Amount)
	return err
}

func count(t testing.TB, db *sql.DB, query string) (n int) {
	t.Helper()
	if err := db.QueryRow(query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}
