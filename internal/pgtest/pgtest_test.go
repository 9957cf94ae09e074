package pgtest_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/internal/pgtest"
	"github.com/pawlhq/pawl/internal/pgtest/services"
)

func TestEachCallGetsItsOwnDatabase(t *testing.T) {
	a, b := pgtest.Pool(t), pgtest.Pool(t)
	if nameA, nameB := database(t, a), database(t, b); nameA == nameB {
		t.Errorf("both pools are on %s", nameA)
	}
}

func TestDatabaseIsDroppedAtTheEndOfTheTest(t *testing.T) {
	watch := pgtest.Pool(t)
	var name string
	t.Run("user", func(t *testing.T) {
		rawURL := pgtest.URL(t)
		name = database(t, pgtest.Open(t, rawURL))

		// A session that outlives the test must not keep its database.
		conn, err := pgx.Connect(t.Context(), rawURL)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.PgConn().Conn().Close() })
	})
	var left int
	if err := watch.QueryRow(t.Context(), "select count(*) from pg_database where datname = $1", name).Scan(&left); err != nil {
		t.Fatal(err)
	}
	if left != 0 {
		t.Errorf("database %s is still there", name)
	}
}

func TestEachServerIsOfItsOwnVersion(t *testing.T) {
	versions := make(map[int]pgtest.Server)
	pgtest.Each(t, func(t *testing.T, s pgtest.Server) {
		var version int
		if err := s.Pool(t).QueryRow(t.Context(), "select current_setting('server_version_num')::int").Scan(&version); err != nil {
			t.Fatal(err)
		}
		major := version / 10000
		if s == pgtest.Postgres18 && major != 18 {
			t.Errorf("%s is of version %d", s, major)
		}
		versions[major] = s
	})
	t.Logf("versions: %v", versions)
}

func TestAServerOfTheTestsOwnCrashesAndRecovers(t *testing.T) {
	own := services.Start(t, "postgres")
	pool := pgtest.Open(t, own.Address)
	if _, err := pool.Exec(t.Context(), "create table kept as select 7 as n"); err != nil {
		t.Fatal(err)
	}
	own.Control(t, "kill")
	if err := pool.Ping(t.Context()); err == nil {
		t.Fatal("the server was killed and answers")
	}
	own.Control(t, "start")
	var n int
	if err := pool.QueryRow(t.Context(), "select n from kept").Scan(&n); err != nil || n != 7 {
		t.Errorf("after the crash: %d, %v", n, err)
	}
}

func TestBouncerReachesTheSameDatabase(t *testing.T) {
	rawURL := pgtest.URL(t)
	direct := pgtest.Open(t, rawURL)
	through := pgtest.Open(t, pgtest.Bouncer(t, rawURL))
	if want, got := database(t, direct), database(t, through); want != got {
		t.Errorf("through PgBouncer: database %s, want %s", got, want)
	}
	// An argument would need a prepared statement in pgx's default mode.
	var n int
	if err := through.QueryRow(t.Context(), "select $1::int", 7).Scan(&n); err != nil || n != 7 {
		t.Errorf("query with an argument: %d, %v", n, err)
	}
}

func TestMissingServiceSkipsAndIsNoted(t *testing.T) {
	skips := filepath.Join(t.TempDir(), "skips")
	t.Setenv("PAWL_TEST_POSTGRES", "")
	t.Setenv("PAWL_REQUIRE_SERVICES", "")
	t.Setenv("PAWL_TEST_SKIPS", skips)

	probe := &probe{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		pgtest.URL(probe)
	}()
	<-done
	if !probe.skipped {
		t.Error("the test was not skipped")
	}
	noted, err := os.ReadFile(skips)
	if want := "postgres\t" + t.Name() + "\n"; err != nil || string(noted) != want {
		t.Errorf("noted %q, %v; want %q", noted, err, want)
	}
}

func TestMissingServiceFailsWhereServicesAreRequired(t *testing.T) {
	t.Setenv("PAWL_TEST_POSTGRES", "")
	t.Setenv("PAWL_REQUIRE_SERVICES", "1")

	probe := &probe{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		pgtest.URL(probe)
	}()
	<-done
	if !probe.failed || probe.skipped {
		t.Errorf("failed: %v, skipped: %v; want a failure", probe.failed, probe.skipped)
	}
}

// probe stands in for a test and records how it was ended.
type probe struct {
	testing.TB
	failed, skipped bool
}

func (p *probe) Fatalf(string, ...any) {
	p.failed = true
	runtime.Goexit()
}

func (p *probe) Skipf(string, ...any) {
	p.skipped = true
	runtime.Goexit()
}

func database(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	var name string
	if err := pool.QueryRow(t.Context(), "select current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	return name
}
