package postgres_test

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
	"github.com/pawlhq/pawl/postgres"
	"github.com/pawlhq/pawl/storetest"
)

func TestConformancePgx(t *testing.T) { storetest.Exercise(t, pgxHarness(pgtest.Postgres, nil)) }

// Another major version of the server.
func TestConformancePostgres18(t *testing.T) {
	storetest.Exercise(t, pgxHarness(pgtest.Postgres18, nil))
}

// Behind a proxy that hands each transaction to another session, nothing may rest on the session.
func TestConformanceThroughPgBouncer(t *testing.T) {
	h := pgxHarness(pgtest.Postgres, nil)
	bare := func(t testing.TB) storetest.Fixture[pgx.Tx] {
		direct := pgtest.URL(t)
		proxied := pgtest.Bouncer(t, direct)
		store := postgres.New(openPool(t, proxied))
		return storetest.Fixture[pgx.Tx]{
			Store:   store,
			Second:  func(t testing.TB) pawl.Store[pgx.Tx] { return postgres.New(openPool(t, proxied)) },
			Migrate: store.Migrate, DB: openSQL(t, direct), Rewrite: storetest.Dollar,
		}
	}
	h.Bare = bare
	h.Open = func(t testing.TB) storetest.Fixture[pgx.Tx] { return migrated(t, bare(t)) }
	storetest.Exercise(t, h)
}

// In a schema of its own, every statement must name it: Pawl's connections have a path without it.
func TestConformanceInSchema(t *testing.T) {
	in := postgres.InSchema("Pawl's own")
	h := pgxHarness(pgtest.Postgres, func(t testing.TB, db *sql.DB) (string, []postgres.Option) {
		for _, q := range []string{
			`create schema "Pawl's own"`,
			`alter database "` + dbName(t, db) + `" set search_path = public, "Pawl's own"`, // for plain reads of the suite
		} {
			if _, err := db.Exec(q); err != nil {
				t.Fatal(err)
			}
		}
		return "public", []postgres.Option{in}
	})
	h.Migrations = func() []string { return migrations(in) }
	// A handler of the suite writes to Pawl's tables, which no other handler does.
	plain := h.Exec
	h.Exec = func(ctx context.Context, tx pgx.Tx, query string, args ...any) error {
		if !strings.Contains(query, "pawl_") {
			return plain(ctx, tx, query, args...)
		}
		if err := plain(ctx, tx, `set local search_path = public, "Pawl's own"`); err != nil {
			return err
		}
		if err := plain(ctx, tx, query, args...); err != nil {
			return err
		}
		return plain(ctx, tx, `set local search_path = public`)
	}
	storetest.Exercise(t, h)
}

// What the search path puts elsewhere is found there, and no other test notices.
func TestNothingOfPawlIsOutsideItsSchema(t *testing.T) {
	url := pgtest.URL(t)
	db := openSQL(t, url)
	if _, err := db.Exec(`create schema app`); err != nil {
		t.Fatal(err)
	}
	if err := postgres.New(openPool(t, url), postgres.InSchema("app")).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	var inside, outside int
	err := db.QueryRow(`
		select count(*) filter (where ns = 'app'), count(*) filter (where ns <> 'app')
		from (select relnamespace::regnamespace::text as ns, relname as name from pg_class
		      union all
		      select pronamespace::regnamespace::text, proname from pg_proc) as x
		where name like 'pawl\_%'`).Scan(&inside, &outside)
	if err != nil || inside == 0 || outside > 0 {
		t.Errorf("%d inside, %d outside, %v", inside, outside, err)
	}
}

func dbName(t testing.TB, db *sql.DB) (name string) {
	if err := db.QueryRow(`select current_database()`).Scan(&name); err != nil {
		t.Fatal(err)
	}
	return name
}

func openSQL(t testing.TB, url string) *sql.DB {
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func openPool(t testing.TB, url string) *pgxpool.Pool {
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// pgxHarness opens stores on databases that were prepared: prepare says what search path they have, and with which options.
func pgxHarness(server pgtest.Server, prepare func(t testing.TB, db *sql.DB) (path string, opts []postgres.Option)) storetest.Harness[pgx.Tx] {
	bare := func(t testing.TB) storetest.Fixture[pgx.Tx] {
		url := server.URL(t)
		path, opts := "", []postgres.Option(nil)
		if prepare != nil {
			path, opts = prepare(t, openSQL(t, url))
		}
		open := func(t testing.TB) *postgres.Store[pgx.Tx] {
			cfg, err := pgxpool.ParseConfig(url)
			if err != nil {
				t.Fatal(err)
			}
			if path != "" {
				cfg.ConnConfig.RuntimeParams["search_path"] = path
			}
			pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			return postgres.New(pool, opts...)
		}
		store := open(t)
		return storetest.Fixture[pgx.Tx]{
			Store:   store,
			Second:  func(t testing.TB) pawl.Store[pgx.Tx] { return open(t) },
			Migrate: store.Migrate, DB: openSQL(t, url), Rewrite: storetest.Dollar,
		}
	}
	return storetest.Harness[pgx.Tx]{
		Bare: bare,
		Open: func(t testing.TB) storetest.Fixture[pgx.Tx] { return migrated(t, bare(t)) },
		Exec: func(ctx context.Context, tx pgx.Tx, query string, args ...any) error {
			_, err := tx.Exec(ctx, storetest.Dollar(query), args...)
			return err
		},
		Int: func(ctx context.Context, tx pgx.Tx, query string, args ...any) (n int64, err error) {
			err = tx.QueryRow(ctx, storetest.Dollar(query), args...).Scan(&n)
			return n, err
		},
		Enders: []func(context.Context, pgx.Tx) error{
			func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
			func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) },
		},
		DDL: postgres.DDL, Migrations: func() []string { return migrations() }, Unguard: unguard,
	}
}

func TestConformanceDatabaseSQL(t *testing.T) { storetest.Exercise(t, sqlHarness()) }

func sqlHarness() storetest.Harness[pawl.SQLTx] {
	bare := func(t testing.TB) storetest.Fixture[pawl.SQLTx] {
		url := pgtest.URL(t)
		store := postgres.NewSQL(openSQL(t, url))
		return storetest.Fixture[pawl.SQLTx]{
			Store:   store,
			Second:  func(t testing.TB) pawl.Store[pawl.SQLTx] { return postgres.NewSQL(openSQL(t, url)) },
			Migrate: store.Migrate, DB: openSQL(t, url), Rewrite: storetest.Dollar,
		}
	}
	return storetest.Harness[pawl.SQLTx]{
		Bare: bare,
		Open: func(t testing.TB) storetest.Fixture[pawl.SQLTx] { return migrated(t, bare(t)) },
		Exec: func(ctx context.Context, tx pawl.SQLTx, query string, args ...any) error {
			_, err := tx.ExecContext(ctx, storetest.Dollar(query), args...)
			return err
		},
		Int: func(ctx context.Context, tx pawl.SQLTx, query string, args ...any) (n int64, err error) {
			err = tx.QueryRowContext(ctx, storetest.Dollar(query), args...).Scan(&n)
			return n, err
		},
		DDL: postgres.DDL, Migrations: func() []string { return migrations() }, Unguard: unguard,
	}
}

func migrated[Tx any](t testing.TB, f storetest.Fixture[Tx]) storetest.Fixture[Tx] {
	if err := f.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

const unguard = `alter table pawl_audit disable trigger user; alter table pawl_seal disable trigger user;
	alter table pawl_seal_head disable trigger user`

func migrations(opts ...postgres.Option) []string {
	var all []string
	for _, m := range postgres.Migrations(opts...) {
		all = append(all, m.SQL)
	}
	return all
}
