package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/pipeline"
	"github.com/pawlhq/pawl/postgres"
	"github.com/pawlhq/pawl/secret"
	"github.com/pawlhq/pawl/sqlite"
)

// storage is an open store, of whichever kind.
type storage struct {
	name    string // as it may be shown: without a password
	admin   pawl.Admin
	migrate func(context.Context) error
	version func(context.Context) (int, error)
	steps   []migration
	work    func(p *pipeline.Pipeline, src pawl.Source, cfg pawl.Config) worker
	tables  func(context.Context, []*pawl.Table) error // refuses those that effects could not rely on
	server  *server                                    // nil: it is a file
	close   func()
}

// server is what can be asked of a store that is a server.
type server struct {
	pool     int // connections that a process opens at most
	settings func(context.Context) error
	inspect  func(context.Context) (*postgres.Inspection, error)
	proxied  func(context.Context) (bool, error)
}

type migration struct {
	Version int
	Name    string
	SQL     string
}

// location is which store is meant.
type location struct {
	postgres secret.Ref
	schema   string // of PostgreSQL
	sqlite   string // path and parameters; "": it is PostgreSQL
	name     string
}

// locate finds out which store is meant: flag, then environment, then file.
func (a *app) locate(ctx context.Context) (*location, error) {
	if a.store == "" && a.env("PAWL_STORE") == "" && a.named() {
		set, err := a.load(nil)
		if err != nil {
			return nil, err
		}
		return a.locateFor(ctx, set)
	}
	return a.locateFor(ctx, &pipeline.Set{})
}

// locateFor is locate, with the files read already.
func (a *app) locateFor(ctx context.Context, set *pipeline.Set) (*location, error) {
	text, from := a.store, "--store"
	if text == "" {
		text, from = a.env("PAWL_STORE"), "PAWL_STORE"
	}
	switch {
	case text != "":
		return parseStore(ctx, text, from)
	case set.Store == nil:
		return nil, usage("no store is given: use --store or PAWL_STORE, with postgres://…, sqlite:path, ${env:NAME} or ${file:/path}; " +
			"or name it in the pipeline file")
	case set.Store.SQLite != "":
		return &location{sqlite: set.Store.SQLite, name: "sqlite:" + set.Store.SQLite}, nil
	}
	return &location{postgres: set.Store.Postgres, schema: set.Store.Schema, name: "postgres " + set.Store.Postgres.String()}, nil
}

func parseStore(ctx context.Context, text, from string) (*location, error) {
	ref, err := secret.Parse(text)
	if err != nil {
		return nil, &exitError{exitUsage, fmt.Errorf("%s: %w", from, err)}
	}
	content, err := ref.Resolve(ctx)
	if err != nil {
		return nil, &exitError{exitUsage, fmt.Errorf("%s: %w", from, err)}
	}
	switch {
	case strings.HasPrefix(content, "sqlite:"):
		return &location{sqlite: strings.TrimPrefix(content, "sqlite:"), name: content}, nil
	case strings.HasPrefix(content, "postgres://") || strings.HasPrefix(content, "postgresql://"):
		l := &location{postgres: ref, name: "postgres"}
		if u, err := url.Parse(content); err == nil {
			l.name = "postgres://" + u.Host + u.Path
		}
		return l, nil
	}
	// And nothing of what it is: it may hold a password.
	return nil, usage("%s names no store: write postgres://user@host/database or sqlite:path", from)
}

// openStore opens the store that is meant.
func (a *app) openStore(ctx context.Context, create bool) (*storage, error) {
	l, err := a.locate(ctx)
	if err != nil {
		return nil, err
	}
	return l.open(ctx, create)
}

// open opens a store as it is. Only create may make a file that does not exist.
func (l *location) open(ctx context.Context, create bool) (*storage, error) {
	if l.sqlite != "" {
		return l.openSQLite(ctx, create)
	}
	pool, err := postgres.Connect(ctx, l.postgres)
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	var opts []postgres.Option
	if l.schema != "" {
		opts = append(opts, postgres.InSchema(l.schema))
	}
	s := postgres.New(pool, opts...)
	made := &storage{name: l.name, admin: s.Admin(), migrate: s.Migrate, version: s.SchemaVersion, close: pool.Close, work: workOn(s),
		tables: s.CheckTables}
	made.server = &server{
		pool: int(pool.Config().MaxConns), settings: s.CheckSettings, inspect: s.Inspect,
		proxied: func(ctx context.Context) (bool, error) { return postgres.Proxied(ctx, pool) },
	}
	for _, m := range postgres.Migrations(opts...) {
		made.steps = append(made.steps, migration(m))
	}
	return made, nil
}

func (l *location) openSQLite(ctx context.Context, create bool) (*storage, error) {
	path, _, _ := strings.Cut(strings.TrimPrefix(l.sqlite, "file:"), "?")
	if _, err := os.Stat(path); !create && errors.Is(err, fs.ErrNotExist) {
		return nil, &pawl.Error{Op: "open " + l.name, Class: pawl.Misconfigured, Err: errors.New("there is no such file"),
			Hint: "check the path; pawl migrate up --execute makes a new store"}
	}
	s, err := sqlite.Open(ctx, l.sqlite)
	if err != nil {
		return nil, err
	}
	made := &storage{
		name: l.name, admin: s.Admin(), migrate: s.Migrate, version: s.SchemaVersion, close: func() { s.Close() }, work: workOn(s),
		tables: s.CheckTables,
	}
	for _, m := range sqlite.Migrations() {
		made.steps = append(made.steps, migration(m))
	}
	return made, nil
}

// workOn makes runners on a store.
func workOn[Tx any](s pawl.Store[Tx]) func(*pipeline.Pipeline, pawl.Source, pawl.Config) worker {
	return func(p *pipeline.Pipeline, src pawl.Source, cfg pawl.Config) worker {
		r := pawl.NewRunner(s, src, cfg)
		pipeline.Register(r, p)
		return r
	}
}

// needs is the version that this program works with.
func (s *storage) needs() int { return s.steps[len(s.steps)-1].Version }

// have is the version of the store. An error says that it could not be asked.
func (s *storage) have(ctx context.Context) (int, error) {
	v, err := s.version(ctx)
	if err != nil {
		return 0, &pawl.Error{Op: "ask " + s.name, Class: pawl.Transient, Err: err,
			Hint: cmp.Or(hintOf(err), "is the address right, does the server run, and may this user log in?")}
	}
	return v, nil
}

// withStore runs f on a store that is migrated.
func (a *app) withStore(ctx context.Context, f func(ctx context.Context, s *storage) error) error {
	s, err := a.openStore(ctx, false)
	if err != nil {
		return err
	}
	defer s.close()
	have, err := s.have(ctx)
	switch {
	case err != nil:
		return err
	case have < s.needs():
		return &pawl.Error{Op: "use " + s.name, Class: pawl.Misconfigured,
			Err: fmt.Errorf("its schema is at version %d, this program needs %d", have, s.needs()), Hint: "pawl migrate up --execute"}
	case have > s.needs():
		return s.ahead(have)
	}
	return f(ctx, s)
}

// ahead refuses a store that a newer program has migrated.
func (s *storage) ahead(have int) error {
	return &pawl.Error{Op: "use " + s.name, Class: pawl.Misconfigured,
		Err: fmt.Errorf("its schema is at version %d, this program knows %d", have, s.needs()), Hint: "use a newer pawl"}
}
