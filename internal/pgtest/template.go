package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// template returns the name of a database on which the scripts have run, made by whoever asks first. Copying it costs a
// fifth of running the scripts again. It is named for their text, so that scripts that changed make another, and it stays:
// other processes may be copying it.
func (s Server) template(t testing.TB, scripts []string) string {
	t.Helper()
	sum := sha256.Sum256([]byte(strings.Join(scripts, "\x00")))
	name := "pawl_template_" + hex.EncodeToString(sum[:8])
	if _, known := templates.Load(string(s) + name); known {
		return name
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	if err := prepare(ctx, s.server(t), name, scripts); err != nil {
		t.Fatalf("prepare %s: %v", name, err)
	}
	templates.Store(string(s)+name, true)
	return name
}

// templates are those that this process has seen, by server and name.
var templates sync.Map

// prepare makes the database name, unless it is there. It gets its name when it is complete, and nobody can connect to it:
// a database that is in use cannot be copied.
func prepare(ctx context.Context, server *url.URL, name string, scripts []string) error {
	conn, err := pgx.Connect(ctx, server.String())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if there, err := has(ctx, conn, name); err != nil || there {
		return err
	}
	if _, err := conn.Exec(ctx, "select pg_advisory_lock(hashtext($1))", name); err != nil { // until the connection ends
		return err
	}
	if there, err := has(ctx, conn, name); err != nil || there { // it was made meanwhile
		return err
	}
	draft := name + "_draft"
	for _, statement := range []string{"drop database if exists " + draft, "create database " + draft} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	if err := run(ctx, on(server, draft), scripts); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, fmt.Sprintf("alter database %s allow_connections false", draft))
	if err == nil {
		_, err = conn.Exec(ctx, fmt.Sprintf("alter database %s rename to %s", draft, name))
	}
	return err
}

func has(ctx context.Context, conn *pgx.Conn, database string) (there bool, err error) {
	err = conn.QueryRow(ctx, "select exists (select 1 from pg_database where datname = $1)", database).Scan(&there)
	return there, err
}

func run(ctx context.Context, database string, scripts []string) error {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, script := range scripts {
		if _, err := conn.PgConn().Exec(ctx, script).ReadAll(); err != nil {
			return err
		}
	}
	return nil
}
