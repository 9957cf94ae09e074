// Package pgtest gives each test a PostgreSQL database of its own, on a server that
// scripts/services started or that PAWL_TEST_POSTGRES names. A test that wants to crash its
// server starts one: services.Start(t, "postgres").
//
// Where the server is missing, a test is skipped and noted for the closing summary of
// scripts/test; with PAWL_REQUIRE_SERVICES=1 it fails instead.
package pgtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/internal/pgtest/services"
	"github.com/pawlhq/pawl/postgres"
)

// patience bounds each step of setting up and tearing down.
const patience = 30 * time.Second

// Server is a server that the tests share, by its name in scripts/services.
type Server string

const (
	Postgres   Server = "postgres"   // of the version that the system has
	Postgres18 Server = "postgres18" // of major version 18
)

// Each runs body once for each server, as a subtest with its name.
func Each(t *testing.T, body func(t *testing.T, s Server)) {
	t.Helper()
	for _, s := range []Server{Postgres, Postgres18} {
		t.Run(string(s), func(t *testing.T) { body(t, s) })
	}
}

// URL is [Server.URL] of [Postgres].
func URL(t testing.TB) string {
	t.Helper()
	return Postgres.URL(t)
}

// URL returns the connection URL of a fresh, empty database. It is dropped when the test
// ends, together with any session still on it.
func (s Server) URL(t testing.TB) string {
	t.Helper()
	return s.copy(t, "template1")
}

// Migrated is [Server.Migrated] of [Postgres].
func Migrated(t testing.TB) string {
	t.Helper()
	return Postgres.Migrated(t)
}

// Migrated is [Server.URL] with Pawl's tables in the database.
func (s Server) Migrated(t testing.TB) string {
	t.Helper()
	var scripts []string
	for _, m := range postgres.Migrations() {
		scripts = append(scripts, m.SQL)
	}
	return s.Prepared(t, scripts...)
}

// Prepared is [Server.URL] of a database on which the scripts have run. They run once on a server, for all tests of all
// processes: see template.
func (s Server) Prepared(t testing.TB, scripts ...string) string {
	t.Helper()
	return s.copy(t, s.template(t, scripts))
}

func (s Server) copy(t testing.TB, template string) string {
	t.Helper()
	server := s.server(t)
	name := "pawl_t_" + randomHex(t)
	quoted := pgx.Identifier{name}.Sanitize()

	if err := admin(server, "create database "+quoted+" template "+template); err != nil {
		t.Fatalf("create database of the test: %v", err)
	}
	t.Cleanup(func() {
		if err := admin(server, "drop database if exists "+quoted+" with (force)"); err != nil {
			t.Errorf("drop database of the test: %v", err)
		}
	})
	return on(server, name)
}

func (s Server) server(t testing.TB) *url.URL {
	t.Helper()
	return parse(t, "the address of "+string(s), services.Address(t, string(s)))
}

func on(server *url.URL, database string) string {
	u := *server
	u.Path = "/" + database
	return u.String()
}

// Pool is [Server.Pool] of [Postgres].
func Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return Postgres.Pool(t)
}

// Pool returns a pool on a fresh database, closed when the test ends. A connection that the
// test never released fails it.
func (s Server) Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return Open(t, s.URL(t))
}

// Open returns a pool on the database at rawURL, as URL or Bouncer returned it, closed when
// the test ends and before the database is dropped.
func Open(t testing.TB, rawURL string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), rawURL)
	if err != nil {
		t.Fatalf("open pool of the test: %v", err)
	}
	t.Cleanup(func() {
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			pool.Close()
		}()
		select {
		case <-closed:
		case <-time.After(patience):
			t.Errorf("close pool of the test: %d connections were never released", pool.Stat().AcquiredConns())
		}
	})
	return pool
}

// Bouncer returns the URL by which the database at freshURL, one of [Postgres], is reached through PgBouncer in
// transaction mode. Statements are not prepared: a prepared one belongs to a session, and
// the next transaction may get another.
func Bouncer(t testing.TB, freshURL string) string {
	t.Helper()
	bouncer := parse(t, "the address of pgbouncer", services.Address(t, "pgbouncer"))
	bouncer.Path = parse(t, "the database's URL", freshURL).Path
	query := bouncer.Query()
	query.Set("default_query_exec_mode", "exec")
	bouncer.RawQuery = query.Encode()
	return bouncer.String()
}

// admins are the connections on which databases are made and dropped, one for each server, kept until the process ends: a
// connection costs more than what it is for.
var admins = struct {
	sync.Mutex
	conns map[string]*pgx.Conn
}{conns: make(map[string]*pgx.Conn)}

// admin runs one statement on the server's own database. It may run after the test's context
// has ended, hence one of its own.
func admin(server *url.URL, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	admins.Lock()
	defer admins.Unlock()
	conn := admins.conns[server.String()]
	if conn == nil || conn.IsClosed() || conn.Ping(ctx) != nil {
		var err error
		if conn, err = pgx.Connect(ctx, server.String()); err != nil {
			return err
		}
		admins.conns[server.String()] = conn
	}
	_, err := conn.Exec(ctx, statement)
	return err
}

func parse(t testing.TB, what, rawURL string) *url.URL {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil || !strings.HasPrefix(u.Scheme, "postgres") {
		// The text itself may hold a password.
		t.Fatalf("%s is not a postgres:// URL", what)
	}
	return u
}

func randomHex(t testing.TB) string {
	t.Helper()
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		t.Fatalf("name the database of the test: %v", err)
	}
	return hex.EncodeToString(b[:])
}
