package postgres_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/pgtest"
	"github.com/pawlhq/pawl/postgres"
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
