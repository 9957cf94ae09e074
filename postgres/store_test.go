package postgres_test

import (
	"context"
	"database/sql"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/pgtest"
	"github.com/pawlhq/pawl/postgres"
	"github.com/pawlhq/pawl/storetest"
)

// The suite takes its time, so that each run of it differs from the others in more than one way: in the version of the
// server, in who asks it, and in what is between.

func TestConformancePgx(t *testing.T) {
	storetest.Exercise(t, harness(pgtest.Postgres, nil, pgxFixture))
}

// Behind a proxy that hands each transaction to another session, nothing may rest on the session.
func TestConformanceThroughPgBouncer(t *testing.T) {
	storetest.Exercise(t, harness(pgtest.Postgres, nil, func(t testing.TB, direct string) storetest.Fixture[pgx.Tx] {
		proxied := pgtest.Bouncer(t, direct)
		store := postgres.New(openPool(t, proxied))
		return storetest.Fixture[pgx.Tx]{
			Store:   store,
			Second:  func(t testing.TB) pawl.Store[pgx.Tx] { return postgres.New(openPool(t, proxied)) },
			Migrate: store.Migrate, DB: openSQL(t, direct), Rewrite: storetest.Dollar,
		}
	}))
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

func pgxFixture(t testing.TB, url string) storetest.Fixture[pgx.Tx] {
	store := postgres.New(openPool(t, url))
	return storetest.Fixture[pgx.Tx]{
		Store:   store,
		Second:  func(t testing.TB) pawl.Store[pgx.Tx] { return postgres.New(openPool(t, url)) },
		Migrate: store.Migrate, DB: openSQL(t, url), Rewrite: storetest.Dollar,
	}
}

// harness has stores that open makes on databases of the server. They have what the scripts made there, before Pawl's tables.
func harness(server pgtest.Server, scripts []string, open func(t testing.TB, url string) storetest.Fixture[pgx.Tx],
	opts ...postgres.Option) storetest.Harness[pgx.Tx] {
	return storetest.Harness[pgx.Tx]{
		Bare: func(t testing.TB) storetest.Fixture[pgx.Tx] { return open(t, server.Prepared(t, scripts...)) },
		Open: func(t testing.TB) storetest.Fixture[pgx.Tx] {
			return migrated(t, open(t, server.Prepared(t, append(slices.Clone(scripts), migrations(opts...)...)...)))
		},
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
		DDL: postgres.DDL, Migrations: func() []string { return migrations(opts...) }, Unguard: unguard,
	}
}

func TestConformanceDatabaseSQL(t *testing.T) { storetest.Exercise(t, sqlHarness()) }

func sqlHarness() storetest.Harness[pawl.SQLTx] {
	open := func(t testing.TB, url string) storetest.Fixture[pawl.SQLTx] {
		store := postgres.NewSQL(openSQL(t, url))
		return storetest.Fixture[pawl.SQLTx]{
			Store:   store,
			Second:  func(t testing.TB) pawl.Store[pawl.SQLTx] { return postgres.NewSQL(openSQL(t, url)) },
			Migrate: store.Migrate, DB: openSQL(t, url), Rewrite: storetest.Dollar,
		}
	}
	return storetest.Harness[pawl.SQLTx]{
		Bare: func(t testing.TB) storetest.Fixture[pawl.SQLTx] { return open(t, pgtest.URL(t)) },
		Open: func(t testing.TB) storetest.Fixture[pawl.SQLTx] { return migrated(t, open(t, pgtest.Migrated(t))) },
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
