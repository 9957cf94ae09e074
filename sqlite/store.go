package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl"
)

// Store is a pawl.Store on a SQLite file. Make one with Open.
type Store struct {
	writer  *sql.DB // one connection, never given out
	reader  *sql.DB
	refusal *sql.DB // answers for transactions that are over
	guard   *guard
	wait    time.Duration // how long to wait for another process's transaction
	names   names
}

var _ pawl.Store[pawl.SQLTx] = (*Store)(nil)

// bound is a Store opened for a consumer.
type bound struct {
	*Store
	consumer int64
	scopes   []int64 // by route
	code     int64
	tables   map[*pawl.Table]*table // of declared effects
}

// Open opens or creates the database file that dsn names: a path, or a file: URI. Parameters are those of
// modernc.org/sqlite. Settings that are not given are set to what Pawl needs; given ones under which a commit may be lost,
// or under which two processes may write at once, are refused.
func Open(ctx context.Context, dsn string) (*Store, error) {
	settings, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	s := &Store{guard: &guard{}, wait: settings.wait}
	s.writer = sql.OpenDB(&connector{settings.writer, func(ctx context.Context, c link) error {
		return settings.prepareWriter(ctx, c, s.guard)
	}})
	s.writer.SetMaxOpenConns(1)
	s.reader = sql.OpenDB(&connector{settings.reader, prepareReader})
	s.refusal = sql.OpenDB(refusal{})
	if err := s.probe(ctx); err != nil {
		file, _, _ := strings.Cut(dsn, "?")
		return nil, errors.Join(fmt.Errorf("%s: %w", file, err), s.Close())
	}
	return s, nil
}

// Close waits for what is under way and closes the file.
func (s *Store) Close() error {
	return errors.Join(s.reader.Close(), s.refusal.Close(), s.writer.Close())
}

// DB returns a pool for reading. Its connections cannot write, and see only what is committed: inside a handler, the state
// before the transaction. The pool is closed with the store.
func (s *Store) DB() *sql.DB { return s.reader }

// Open binds a consumer. See pawl.Store.
func (s *Store) Open(ctx context.Context, b pawl.Binding) (pawl.BoundStore[pawl.SQLTx], error) {
	made := &bound{Store: s}
	fresh := map[string]int64{}
	err := s.write(ctx, func(tx *transaction) (err error) {
		if err := checkSchema(ctx, tx); err != nil {
			return err
		}
		if made.tables, err = openTables(ctx, tx, b.Tables); err != nil {
			return err
		}
		now := time.Now().UnixMicro()
		if made.consumer, err = bindConsumer(ctx, tx, b, now); err != nil {
			return err
		}
		for _, r := range b.Routes {
			scope, err := bindScope(ctx, tx, made.consumer, r, now)
			if err != nil {
				return err
			}
			made.scopes = append(made.scopes, scope)
		}
		made.code, err = s.names.id(ctx, tx, b.Version, fresh)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open consumer %s: %w", b.Consumer, err)
	}
	s.names.keep(fresh)
	return made, nil
}

// bindConsumer returns the consumer's id. A name that belongs to another group or cluster is refused: its positions and
// claims would not mean the same.
func bindConsumer(ctx context.Context, tx *transaction, b pawl.Binding, now int64) (id int64, err error) {
	_, err = tx.ExecContext(ctx, query("insert_consumer"), sql.Named("name", b.Consumer), sql.Named("cluster", b.Cluster),
		sql.Named("group", b.Group), sql.Named("now", now))
	if err != nil {
		return 0, err
	}
	var cluster, group string
	if err := tx.QueryRowContext(ctx, query("read_consumer"), b.Consumer).Scan(&id, &cluster, &group); err != nil {
		return 0, err
	}
	if cluster != b.Cluster || group != b.Group {
		return 0, &pawl.Error{Op: "bind consumer", Class: pawl.Misconfigured,
			Err: fmt.Errorf("%q belongs to group %q of cluster %q in this database, not to group %q of cluster %q",
				b.Consumer, group, cluster, b.Group, b.Cluster),
			Hint: "use that group, or another consumer name: under another name every event takes effect again"}
	}
	return id, nil
}

// bindScope returns the id of a route's scope, made or renamed where needed.
func bindScope(ctx context.Context, tx *transaction, consumer int64, r pawl.RouteName, now int64) (int64, error) {
	find := func(route string) (id int64, found bool, err error) {
		err = tx.QueryRowContext(ctx, query("find_scope"), sql.Named("consumer", consumer), sql.Named("route", route)).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return 0, false, nil
		}
		return id, err == nil, err
	}
	id, found, err := find(r.Name)
	if err != nil {
		return 0, err
	}
	var old int64
	renamed := false
	if r.RenamedFrom != "" && r.RenamedFrom != r.Name {
		if old, renamed, err = find(r.RenamedFrom); err != nil {
			return 0, err
		}
	}
	switch {
	case found && renamed:
		return 0, &pawl.Error{Op: "rename route", Class: pawl.Misconfigured,
			Err:  fmt.Errorf("both %q and %q have claims of their own", r.RenamedFrom, r.Name),
			Hint: "remove RenamedFrom, or give the route a name that is not in use"}
	case found:
		return id, nil
	case renamed:
		_, err := tx.ExecContext(ctx, query("rename_scope"), sql.Named("route", r.Name), sql.Named("id", old))
		return old, err
	}
	err = tx.QueryRowContext(ctx, query("insert_scope"), sql.Named("consumer", consumer), sql.Named("route", r.Name),
		sql.Named("now", now)).Scan(&id)
	return id, err
}
