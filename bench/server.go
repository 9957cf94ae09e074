package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// server is a database of our own on the given PostgreSQL, dropped at the end.
type server struct {
	url   string // with our database, and the schema of the run first in its search path
	admin string
	name  string
	db    *pgx.Conn
}

func openServer(ctx context.Context, given string) (*server, error) {
	u, err := url.Parse(given)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, fmt.Errorf("PAWL_TEST_POSTGRES must be a postgres:// URL")
	}
	s := &server{admin: given, name: "pawl_bench_" + strings.ToLower(rand.Text()[:8])}
	if err := s.asAdmin(ctx, "create database "+s.name); err != nil {
		return nil, err
	}
	u.Path = "/" + s.name
	q := u.Query()
	q.Set("search_path", "run")
	u.RawQuery = q.Encode()
	s.url = u.String()
	if s.db, err = pgx.Connect(ctx, s.url); err != nil {
		s.drop(ctx)
		return nil, err
	}
	return s, nil
}

func (s *server) drop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if s.db != nil {
		s.db.Close(ctx)
	}
	return s.asAdmin(ctx, "drop database if exists "+s.name+" with (force)")
}

func (s *server) asAdmin(ctx context.Context, statement string) error {
	db, err := pgx.Connect(ctx, s.admin)
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	_, err = db.Exec(ctx, statement)
	return err
}

// reset gives the next run empty tables and a server that has nothing left to write for the last one.
func (s *server) reset(ctx context.Context) error {
	if err := s.script(ctx, `drop schema if exists run cascade; create schema run`); err != nil {
		return err
	}
	pool, err := openPool(ctx, s.url, 2)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := migratePawl(ctx, pool); err != nil {
		return err
	}
	if err := s.script(ctx, strings.Join([]string{createProjection, createMarker, createCopy, createEffects}, ";")); err != nil {
		return err
	}
	return s.script(ctx, `checkpoint`)
}

// script runs statements by the simple protocol, which takes several at once and keeps no plans of tables that go.
func (s *server) script(ctx context.Context, text string) error {
	_, err := s.db.Exec(ctx, text, pgx.QueryExecModeSimpleProtocol)
	return err
}

var shown = []string{
	"server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_level", "wal_sync_method", "shared_buffers",
	"max_wal_size", "autovacuum",
}

// describe prints what the figures depend on, and refuses a server on which a commit means nothing.
func (s *server) describe(ctx context.Context, out io.Writer) error {
	value := map[string]string{}
	var text []string
	for _, name := range shown {
		var v string
		if err := s.db.QueryRow(ctx, `select current_setting($1)`, name).Scan(&v); err != nil {
			return fmt.Errorf("read setting %s: %w", name, err)
		}
		value[name] = v
		text = append(text, name+"="+v)
	}
	fmt.Fprintf(out, "PostgreSQL  %s\n", strings.Join(text, " "))
	if value["fsync"] != "on" || value["synchronous_commit"] != "on" || value["full_page_writes"] != "on" {
		return fmt.Errorf("the server is not durable: fsync, synchronous_commit and full_page_writes must be on")
	}
	var dir string
	if err := s.db.QueryRow(ctx, `select current_setting('data_directory')`).Scan(&dir); err == nil && inMemory(dir) {
		return fmt.Errorf("the server's files are in memory (%s): put them on a disk", "tmpfs")
	}
	trip, commit, err := s.latency(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "latency     round trip %s, insert with commit %s (medians of %d): a durable commit costs about %s here\n",
		trip.Round(time.Microsecond), commit.Round(time.Microsecond), latencySamples, (commit - trip).Round(time.Microsecond))
	return nil
}

const latencySamples = 300

// latency measures a statement that writes nothing and one that commits a row.
func (s *server) latency(ctx context.Context) (trip, commit time.Duration, err error) {
	if err := s.script(ctx, `create table public.latency (n bigint)`); err != nil {
		return 0, 0, err
	}
	median := func(sql string) (time.Duration, error) {
		took := make([]time.Duration, latencySamples)
		for i := range took {
			began := time.Now()
			if _, err := s.db.Exec(ctx, sql, int64(i)); err != nil {
				return 0, err
			}
			took[i] = time.Since(began)
		}
		slices.Sort(took)
		return took[len(took)/2], nil
	}
	if trip, err = median(`select $1::bigint`); err != nil {
		return 0, 0, err
	}
	commit, err = median(`insert into public.latency values ($1)`)
	return trip, commit, err
}
