package sqlite_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/sqlitetest"
	"github.com/pawlhq/pawl/sqlite"
	"github.com/pawlhq/pawl/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	storetest.Exercise(t, storetest.Harness[pawl.SQLTx]{
		Open: func(t testing.TB) storetest.Fixture[pawl.SQLTx] {
			return onFile(t, sqlitetest.Migrated(t))
		},
		Bare: func(t testing.TB) storetest.Fixture[pawl.SQLTx] {
			return onFile(t, filepath.Join(t.TempDir(), "test.db"))
		},
		Exec: func(ctx context.Context, tx pawl.SQLTx, query string, args ...any) error {
			_, err := tx.ExecContext(ctx, query, args...)
			return err
		},
		Int: func(ctx context.Context, tx pawl.SQLTx, query string, args ...any) (n int64, err error) {
			err = tx.QueryRowContext(ctx, query, args...).Scan(&n)
			return n, err
		},
		DDL: sqlite.DDL,
		Migrations: func() (all []string) {
			for _, m := range sqlite.Migrations() {
				all = append(all, m.SQL)
			}
			return all
		},
		Serial: true,
		Unguard: `drop trigger pawl_audit_stays; drop trigger pawl_audit_stays_whole; drop trigger pawl_seal_stays;
			drop trigger pawl_seal_stays_whole; drop trigger pawl_seal_head_stays; drop trigger pawl_seal_head_stays_whole`,
	})
}

func onFile(t testing.TB, file string) storetest.Fixture[pawl.SQLTx] {
	s := open(t, file)
	return storetest.Fixture[pawl.SQLTx]{
		Store:   s,
		Second:  func(t testing.TB) pawl.Store[pawl.SQLTx] { return open(t, file) },
		Migrate: s.Migrate,
		DB:      beside(t, file),
	}
}

func open(t testing.TB, dsn string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), dsn)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// beside is a handle of the program's own on the file.
func beside(t testing.TB, file string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}
