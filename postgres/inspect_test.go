package postgres_test

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/pgtest"
	"github.com/pawlhq/pawl/postgres"
	"github.com/pawlhq/pawl/storetest"
)

func TestInspectTellsRightsThatAreMissingAndInExcess(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, server pgtest.Server) {
		t.Parallel()
		address := server.URL(t)
		owner := postgres.New(openPool(t, address))
		if err := owner.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		in, err := owner.Inspect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !in.Superuser || len(in.Missing) > 0 || !slices.Contains(in.Excess, "create tables in schema public") || in.Connections < 10 || in.RoleLimit != -1 {
			t.Errorf("the superuser: %+v", in)
		}
		if in.Clock.Abs() > 5*time.Second {
			t.Errorf("the clock of the same machine is off by %s", in.Clock)
		}

		db := openSQL(t, address)
		role := "pawl_r_" + strings.TrimPrefix(dbName(t, db), "pawl_t_")
		run := func(statement string) {
			t.Helper()
			if _, err := db.Exec(strings.ReplaceAll(statement, "ROLE", role)); err != nil {
				t.Fatal(err)
			}
		}
		run(`create role ROLE login password 'x' connection limit 7`)
		t.Cleanup(func() { run(`drop owned by ROLE; drop role ROLE`) })
		run(`grant select, insert, update, delete on all tables in schema public to ROLE`)
		run(`revoke insert on pawl_decision from ROLE`)
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(role, "x")
		in, err = postgres.New(openPool(t, u.String())).Inspect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if in.Superuser || len(in.Excess) > 0 || !slices.Equal(in.Missing, []string{"insert on pawl_decision"}) || in.RoleLimit != 7 || in.Role != role {
			t.Errorf("the role: %+v", in)
		}
	})
}

func TestAProxyIsNoticed(t *testing.T) {
	t.Parallel()
	direct := pgtest.URL(t)
	for address, want := range map[string]bool{direct: false, pgtest.Bouncer(t, direct): true} {
		if got, err := postgres.Proxied(t.Context(), openPool(t, address)); err != nil || got != want {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	}
}

// The rights that Inspect looks for are those that it takes: with them, and no others on Pawl's tables, the whole contract of a
// store holds.
func TestConformanceWithTheRightsThatRunningNeeds(t *testing.T) {
	h := pgxHarness(pgtest.Postgres, nil)
	var grants []string
	for _, n := range postgres.Needs() {
		grants = append(grants, "grant "+n[1]+" on "+n[0]+" to public")
	}
	h.Migrations = func() []string { return append(migrations(), grants...) }
	bare := func(t testing.TB) storetest.Fixture[pgx.Tx] {
		address := pgtest.URL(t)
		db := openSQL(t, address)
		role := "pawl_n_" + strings.TrimPrefix(dbName(t, db), "pawl_t_")
		run := func(statement string) {
			t.Helper()
			if _, err := db.Exec(strings.ReplaceAll(statement, "ROLE", role)); err != nil {
				t.Fatal(err)
			}
		}
		run(`create role ROLE login password 'x'`)
		t.Cleanup(func() { run(`drop owned by ROLE; drop role ROLE`) })
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(role, "x")
		limited := u.String()
		migrate := func(ctx context.Context) error {
			if err := postgres.New(openPool(t, address)).Migrate(ctx); err != nil {
				return err
			}
			for _, grant := range grants {
				run(grant)
			}
			run(`alter default privileges in schema public grant all on tables to ROLE`) // those of handlers and effects
			return nil
		}
		return storetest.Fixture[pgx.Tx]{
			Store:   postgres.New(openPool(t, limited)),
			Second:  func(t testing.TB) pawl.Store[pgx.Tx] { return postgres.New(openPool(t, limited)) },
			Migrate: migrate, DB: db, Rewrite: storetest.Dollar,
		}
	}
	h.Bare = bare
	h.Open = func(t testing.TB) storetest.Fixture[pgx.Tx] { return migrated(t, bare(t)) }
	storetest.Exercise(t, h)
}
