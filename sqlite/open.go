package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/pawlhq/pawl"
)

const (
	// defaultWait is how long to wait for another process's transaction where the DSN gives no busy_timeout.
	defaultWait = 5 * time.Second
	// maxWait bounds what the DSN may give: whoever waits longer looks frozen.
	maxWait = time.Minute
	// busySlice is how long SQLite waits at a time: it does not look at contexts, so Pawl does in between.
	busySlice = 50 * time.Millisecond
)

// settings is a DSN taken apart.
type settings struct {
	writer, reader driver.Connector
	params         url.Values
	wait           time.Duration
}

// parseDSN refuses what can be told from the DSN alone, and must be: what changes the file as soon as it is opened, and
// what no pragma shows afterwards.
func parseDSN(dsn string) (*settings, error) {
	name, query, _ := strings.Cut(dsn, "?")
	params, err := url.ParseQuery(query)
	if err != nil {
		return nil, refuse(fmt.Errorf("parameters %q: %w", query, err), "write them as key=value&key=value")
	}
	if name == "" {
		return nil, refuse(errors.New("the DSN names no file"), "give the path of a file")
	}
	s := &settings{params: params, wait: defaultWait}
	uri := strings.HasPrefix(name, "file:")
	for key, values := range params {
		if !uri && !strings.HasPrefix(key, "_") && key != "vfs" {
			return nil, refuse(fmt.Errorf("parameter %s is only read in a file: URI", key), "write the path as file:path?"+key+"=…")
		}
		why, unsafe := unsafeParams[key]
		if unsafe && slices.ContainsFunc(values, why.refuses) {
			return nil, refuse(fmt.Errorf("%s=%s: %s", key, strings.Join(values, ","), why.reason), why.hint)
		}
	}
	if mode := s.given("journal_mode", "_journal_mode", "_journal"); mode != "" && mode != "wal" {
		return nil, refuse(fmt.Errorf("journal_mode %s is asked for: Pawl needs wal", mode), "remove journal_mode from the DSN")
	}
	if given := s.given("busy_timeout", "_busy_timeout", "_timeout"); given != "" {
		ms, err := strconv.Atoi(given)
		if s.wait = time.Duration(ms) * time.Millisecond; err != nil || s.wait < 0 || s.wait > maxWait {
			return nil, refuse(fmt.Errorf("busy_timeout %s: want milliseconds, at most %d", given, maxWait.Milliseconds()),
				"give a shorter one")
		}
	}
	params.Del("_txlock")
	if s.reader, err = sqlite.NewConnector(joinDSN(name, params)); err != nil {
		return nil, refuse(err, "")
	}
	params.Set("_txlock", "immediate")
	if s.writer, err = sqlite.NewConnector(joinDSN(name, params)); err != nil {
		return nil, refuse(err, "")
	}
	return s, nil
}

func joinDSN(name string, params url.Values) string {
	if len(params) == 0 {
		return name
	}
	return name + "?" + params.Encode()
}

type unsafeParam struct {
	refuses      func(value string) bool
	reason, hint string
}

var unsafeParams = map[string]unsafeParam{
	"nolock":    {isOn, "without locks two processes write at once", "remove nolock"},
	"immutable": {isOn, "an immutable file cannot be written", "remove immutable"},
	"cache":     {isWord("shared"), "a shared cache lets readers block the writer", "remove cache"},
	"mode":      {isWord("ro", "memory"), "Pawl writes, to a file", "use mode=rw or mode=rwc"},
	"_txlock":   {func(v string) bool { return !isWord("immediate")(v) }, "Pawl begins its transactions with immediate", "remove _txlock"},
}

func isOn(v string) bool { return !isWord("0", "no", "off", "false")(v) }

func isWord(words ...string) func(string) bool {
	return func(v string) bool { return slices.Contains(words, strings.ToLower(v)) }
}

// given returns the value that the DSN gives a pragma, in lower case: by a key of its own or by _pragma. Empty means that
// it gives none.
func (s *settings) given(pragma string, keys ...string) (value string) {
	for _, v := range s.params["_pragma"] {
		v = strings.ToLower(v)
		end := strings.IndexFunc(v, func(r rune) bool { return !(r >= 'a' && r <= 'z' || r == '_' || r == '.' || r == ' ') })
		if end < 0 {
			continue // it asks, and sets nothing
		}
		if name := strings.TrimSpace(v[:end]); name == pragma || strings.HasSuffix(name, "."+pragma) {
			value = strings.Trim(v[end:], "=() ;'\"")
		}
	}
	for _, k := range keys {
		if v := s.params.Get(k); v != "" {
			value = strings.ToLower(v)
		}
	}
	return value
}

// setting is what a pragma must say on the writer connection.
type setting struct {
	pragma string
	keys   []string // of the DSN, beside _pragma
	want   []string
	set    string // where the DSN does not give it; empty: it is not Pawl's to set
	reason string
}

var needed = []setting{
	{"locking_mode", nil, []string{"normal"}, "", "an exclusive lock keeps every reader and the next owner out"},
	{"journal_mode", []string{"_journal_mode", "_journal"}, []string{"wal"}, "wal",
		"without a write-ahead log a crash or a reader can cost a commit; it needs a file system with locks and shared memory"},
	{"synchronous", nil, []string{"2", "3"}, "", // full is the default: less was asked for
		"a commit that is not synced is lost with the power, after the offset has moved on"},
	{"foreign_keys", []string{"_foreign_keys", "_fk"}, []string{"1"}, "on", "handlers rely on constraints to refuse bad records"},
	{"ignore_check_constraints", nil, []string{"0"}, "", "handlers rely on constraints to refuse bad records"},
	{"query_only", []string{"_query_only"}, []string{"0"}, "", "Pawl writes"},
}

// prepareWriter makes a new connection the writer: it sets what was not given, refuses what was given and does not do, and
// puts up the guard. What counts is what the connection says of itself afterwards.
func (s *settings) prepareWriter(ctx context.Context, c link, g *guard) error {
	if file, err := ask(ctx, c, "select file from pragma_database_list where name = 'main'"); err != nil || file == "" {
		return refuse(cmp.Or(err, errors.New("the database is in memory: its commits do not outlive the process")),
			"give the path of a file that can be created or written")
	}
	if ro, err := c.IsReadOnly("main"); err != nil || ro {
		return refuse(cmp.Or(err, errors.New("the file is read-only")), "give the process the right to write it")
	}
	if err := do(ctx, c, "pragma busy_timeout = "+strconv.FormatInt(s.wait.Milliseconds(), 10)); err != nil {
		return err
	}
	for _, n := range needed {
		if err := s.require(ctx, c, n); err != nil {
			return err
		}
	}
	if err := do(ctx, c, "pragma busy_timeout = "+strconv.FormatInt(min(s.wait, busySlice).Milliseconds(), 10)); err != nil {
		return err
	}
	c.RegisterCommitHook(g.onCommit)
	c.RegisterRollbackHook(g.onRollback)
	return nil
}

func (s *settings) require(ctx context.Context, c link, n setting) error {
	value, err := ask(ctx, c, "pragma "+n.pragma)
	if err != nil {
		return refuse(err, "")
	}
	if slices.Contains(n.want, value) {
		return nil
	}
	asked := s.given(n.pragma, n.keys...) != "" || value == "off" || value == "memory" // which no file has by itself
	if n.set != "" && !asked {
		if err := do(ctx, c, "pragma "+n.pragma+" = "+n.set); err != nil {
			return refuse(fmt.Errorf("set %s: %w", n.pragma, err), "")
		}
		if value, err = ask(ctx, c, "pragma "+n.pragma); err != nil {
			return refuse(err, "")
		}
	}
	if !slices.Contains(n.want, value) {
		return refuse(fmt.Errorf("%s is %s: %s", n.pragma, value, n.reason), "remove "+n.pragma+" from the DSN, or set it to "+n.want[0])
	}
	return nil
}

// prepareReader makes a connection that cannot write.
func prepareReader(ctx context.Context, c link) error {
	return do(ctx, c, "pragma query_only = on")
}

// probe proves that the file can be written, now.
func (s *Store) probe(ctx context.Context) error {
	tx, err := s.begin(ctx)
	if err != nil {
		if isBusy(err) {
			return &pawl.Error{Op: "open sqlite", Class: pawl.Transient, Err: err,
				Hint: "another process or handle holds the file's write lock"}
		}
		if known, ok := errors.AsType[*pawl.Error](err); ok {
			return known
		}
		return &pawl.Error{Op: "open sqlite", Class: classify(err), Err: err}
	}
	tx.close()
	return nil
}

func refuse(err error, hint string) error {
	class := pawl.Misconfigured
	if isBusy(err) {
		class, hint = pawl.Transient, "another process or handle holds the file's lock"
	}
	switch {
	case hasCode(err, sqlite3.SQLITE_NOTADB):
		hint = "this file is something else: give the path of a SQLite database, or of a file that is not there yet"
	case hasCode(err, sqlite3.SQLITE_READONLY):
		hint = "give the process the right to write the file and its folder"
	case hasCode(err, sqlite3.SQLITE_CORRUPT):
		hint = "the file is damaged: keep a copy, and restore a backup"
	}
	return &pawl.Error{Op: "open sqlite", Class: class, Err: err, Hint: hint}
}

// link is what Pawl uses of the driver's connection.
type link interface {
	driver.Conn
	driver.ExecerContext
	driver.QueryerContext
	sqlite.HookRegisterer
	IsReadOnly(schema string) (bool, error)
}

func do(ctx context.Context, c link, query string) error {
	_, err := c.ExecContext(ctx, query, nil)
	return err
}

// ask reads one value as text.
func ask(ctx context.Context, c link, query string) (string, error) {
	rows, err := c.QueryContext(ctx, query, nil)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	row := make([]driver.Value, len(rows.Columns()))
	if err := rows.Next(row); errors.Is(err, io.EOF) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	return fmt.Sprint(row[0]), nil
}

// connector prepares each connection that a pool opens.
type connector struct {
	driver.Connector
	prepare func(ctx context.Context, c link) error
}

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, refuse(err, "check the path and the parameters of the DSN: the folder must be there, and the process be allowed to write in it")
	}
	if err := c.prepare(ctx, conn.(link)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}
