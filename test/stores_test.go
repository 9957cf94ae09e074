package test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/pgtest"
	"github.com/pawlhq/pawl/internal/sqlitetest"
	"github.com/pawlhq/pawl/postgres"
	"github.com/pawlhq/pawl/sqlite"
	"github.com/pawlhq/pawl/storetest"
)

// execTx writes through a handler's transaction, with ? for placeholders.
type execTx[Tx any] func(ctx context.Context, tx Tx, query string, args ...any) error

// proof is a test that runs on every store.
type proof interface {
	onPgx(t *testing.T, open func(testing.TB) *opened[pgx.Tx], exec execTx[pgx.Tx])
	onSQL(t *testing.T, open func(testing.TB) *opened[pawl.SQLTx], exec execTx[pawl.SQLTx])
}

// opened is a store with a plain handle on its database.
type opened[Tx any] struct {
	pawl.Store[Tx]
	db *sql.DB
}

func (o *opened[Tx]) int(t testing.TB, query string) (n int64) {
	t.Helper()
	if err := o.db.QueryRow(query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// onEveryStore runs p on SQLite, on PostgreSQL through pgx, and on PostgreSQL through database/sql.
func onEveryStore(t *testing.T, schema string, p proof) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		p.onSQL(t, func(t testing.TB) *opened[pawl.SQLTx] { return openSQLite(t, schema) }, execSQL(func(q string) string { return q }))
	})
	t.Run("pgx", func(t *testing.T) {
		t.Parallel()
		p.onPgx(t, func(t testing.TB) *opened[pgx.Tx] { return openPgx(t, pgtest.Migrated(t), schema) }, execPgx)
	})
	t.Run("databasesql", func(t *testing.T) {
		t.Parallel()
		p.onSQL(t, func(t testing.TB) *opened[pawl.SQLTx] { return openDatabaseSQL(t, pgtest.Migrated(t), schema) }, execSQL(storetest.Dollar))
	})
}

func openSQLite(t testing.TB, schema string) *opened[pawl.SQLTx] {
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
	create(t, db, schema)
	return &opened[pawl.SQLTx]{store, db}
}

func openPgx(t testing.TB, url, schema string) *opened[pgx.Tx] {
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store := postgres.New(pool)
	db := openDB(t, url)
	create(t, db, schema)
	return &opened[pgx.Tx]{store, db}
}

func openDatabaseSQL(t testing.TB, url, schema string) *opened[pawl.SQLTx] {
	db := openDB(t, url)
	store := postgres.NewSQL(db)
	create(t, db, schema)
	return &opened[pawl.SQLTx]{store, db}
}

func openURL(url string) (*sql.DB, error) { return sql.Open("pgx", url) }

func openDB(t testing.TB, url string) *sql.DB {
	db, err := openURL(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func create(t testing.TB, db *sql.DB, schema string) {
	for _, stmt := range strings.Split(schema, ";") {
		if strings.TrimSpace(stmt) == "" {
			continue
		}
		if _, err := db.Exec(stmt); err != nil {
			t.Fatalf("%s: %v", stmt, err)
		}
	}
}

func execPgx(ctx context.Context, tx pgx.Tx, query string, args ...any) error {
	_, err := tx.Exec(ctx, storetest.Dollar(query), args...)
	return err
}

func execSQL(rewrite func(string) string) execTx[pawl.SQLTx] {
	return func(ctx context.Context, tx pawl.SQLTx, query string, args ...any) error {
		_, err := tx.ExecContext(ctx, rewrite(query), args...)
		return err
	}
}
