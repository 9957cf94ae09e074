package postgres_test

import (
	"context"
	"errors"
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

		run(`revoke select on pawl_schema from ROLE`)
		_, err = postgres.New(openPool(t, u.String())).Open(t.Context(), pawl.Binding{Consumer: "c", Cluster: "k", Group: "g"})
		if refused, ok := errors.AsType[*pawl.Error](err); !ok || refused.Class != pawl.Misconfigured || !strings.Contains(refused.Hint, "no right") {
			t.Errorf("opened without the right to read the version: %v", err)
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

// Another major version of the server, too. In a schema of its own, every statement must name it: Pawl's connections have a path without it. And the rights that Inspect
// looks for are those that it takes: with them, and no others on Pawl's tables, the whole contract of a store holds.
func TestConformanceInSchemaWithTheRightsThatRunningNeeds(t *testing.T) {
	const schema = `"Pawl's own"`
	in := postgres.InSchema("Pawl's own")
	var grants []string
	for _, n := range postgres.Needs() {
		grants = append(grants, "grant "+n[1]+" on "+schema+"."+n[0]+" to public")
	}
	h := harness(pgtest.Postgres18, []string{"create schema " + schema, "grant usage on schema " + schema + " to public"}, func(t testing.TB, address string) storetest.Fixture[pgx.Tx] {
		db := openSQL(t, address)
		name := dbName(t, db)
		role := "pawl_n_" + strings.TrimPrefix(name, "pawl_t_")
		run := func(statement string) {
			t.Helper()
			if _, err := db.Exec(strings.ReplaceAll(statement, "ROLE", role)); err != nil {
				t.Fatal(err)
			}
		}
		run(`create role ROLE login password 'x'`)
		t.Cleanup(func() { run(`drop owned by ROLE; drop role ROLE`) })
		run(`alter role ROLE in database "` + name + `" set search_path = public`)
		run(`alter database "` + name + `" set search_path = public, ` + schema) // for plain reads of the suite
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(role, "x")
		limited := u.String()
		migrate := func(ctx context.Context) error {
			if err := postgres.New(openPool(t, address), in).Migrate(ctx); err != nil {
				return err
			}
			run(strings.Join(grants, ";"))
			run(`alter default privileges in schema public grant all on tables to ROLE`) // those of handlers and effects
			return nil
		}
		return storetest.Fixture[pgx.Tx]{
			Store:   postgres.New(openPool(t, limited), in),
			Second:  func(t testing.TB) pawl.Store[pgx.Tx] { return postgres.New(openPool(t, limited), in) },
			Migrate: migrate, DB: openSQL(t, address), Rewrite: storetest.Dollar,
		}
	}, in)
	h.Migrations = func() []string { return append(migrations(in), grants...) }
	// A handler of the suite writes to Pawl's tables, which no other handler does.
	plain := h.Exec
	h.Exec = func(ctx context.Context, tx pgx.Tx, query string, args ...any) error {
		if !strings.Contains(query, "pawl_") {
			return plain(ctx, tx, query, args...)
		}
		if err := plain(ctx, tx, "set local search_path = public, "+schema); err != nil {
			return err
		}
		if err := plain(ctx, tx, query, args...); err != nil {
			return err
		}
		return plain(ctx, tx, "set local search_path = public")
	}
	storetest.Exercise(t, h)
}
