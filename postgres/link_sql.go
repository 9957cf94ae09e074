package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/fault"
)

type sqlLink struct{ db *sql.DB }

func (l *sqlLink) exec(ctx context.Context, stmts ...stmt) error {
	for _, st := range stmts {
		if err := runSQL(ctx, l.db, st); err != nil {
			return err
		}
	}
	return nil
}

type sqlQueryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func runSQL(ctx context.Context, db sqlQueryer, st stmt) error {
	args := make([]any, len(st.args))
	for i, a := range st.args {
		args[i] = literal(a)
	}
	if st.row == nil {
		res, err := db.ExecContext(ctx, st.sql, args...)
		if err == nil && st.wrote != nil {
			*st.wrote, err = res.RowsAffected()
		}
		return err
	}
	rows, err := db.QueryContext(ctx, st.sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := st.row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// begin pins a connection and speaks the transaction's words itself: sql.Tx would offer no way to send the settings along
// with begin.
func (l *sqlLink) begin(ctx context.Context, text string, tables map[*pawl.Table]*table, locks bool) (txn[pawl.SQLTx], error) {
	conn, err := l.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	t := &sqlTxn{conn: conn}
	t.handler.conn = conn
	t.rows = rows{tables: tables, locks: locks, run: t}
	if _, err := conn.ExecContext(ctx, text); err != nil {
		t.close(ctx)
		return nil, err
	}
	return t, nil
}

func (l *sqlLink) atomically(ctx context.Context, f func(run func(...stmt) error) error) error {
	tx, err := l.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	err = f(func(stmts ...stmt) error {
		for _, st := range stmts {
			if err := runSQL(ctx, tx, st); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return tx.Commit()
}

func (l *sqlLink) script(ctx context.Context, before []stmt, text func() string) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, st := range before {
		if err := runSQL(ctx, tx, st); err != nil {
			return err
		}
	}
	if text := text(); text != "" {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return tx.Commit()
}

type sqlTxn struct {
	conn      *sql.Conn
	handler   handlerConn
	rows      rows
	marked    int
	hasMark   bool
	committed bool
}

func (t *sqlTxn) Rows() pawl.Rows { return &t.rows }

func (t *sqlTxn) enter() error {
	_, err := t.handler.use(context.Background(), "")
	return err
}

func (t *sqlTxn) Tx() pawl.SQLTx { return &t.handler }

// Statements cannot see the executions of a prepared statement: once there is one, every call returns a new number.
func (t *sqlTxn) Statements() int {
	if t.handler.prepared.Load() {
		return int(t.handler.statements.Add(1))
	}
	return int(t.handler.statements.Load())
}

func (t *sqlTxn) Mark(ctx context.Context) error {
	if t.hasMark && t.marked == t.Statements() {
		return nil
	}
	text := control["mark"]
	if t.hasMark {
		text = control["move_mark"]
	}
	if _, err := t.conn.ExecContext(ctx, text); err != nil {
		return err
	}
	t.hasMark, t.marked = true, t.Statements()
	return nil
}

// Rest closes rows that a handler left open: behind them the connection can be neither used nor given back.
func (t *sqlTxn) Rest(ctx context.Context, returned error) error {
	t.handler.tidy()
	if returned != nil && code(returned) == "" && ctx.Err() == nil && t.conn.PingContext(ctx) != nil && ctx.Err() == nil {
		return errLost
	}
	return nil
}

func (t *sqlTxn) Check(ctx context.Context) error {
	_, err := t.conn.ExecContext(ctx, control["check"])
	if code(err) == "25P02" {
		return errWentOn
	}
	return err
}

func (t *sqlTxn) Undo(ctx context.Context) error {
	_, err := t.conn.ExecContext(ctx, control["undo"])
	t.marked, t.rows.planned = t.Statements(), false
	return err
}

func (t *sqlTxn) exec(ctx context.Context, stmts ...stmt) error {
	for _, st := range stmts {
		if err := runSQL(ctx, t.conn, st); err != nil {
			return &stmtError{st.after, err}
		}
		if st.after == fault.Committed {
			t.committed = true
		}
		if err := fault.Hit(ctx, st.after); err != nil {
			return err
		}
	}
	return nil
}

// intact asks the server: here statements go one by one, and without a transaction each would commit by itself.
func (t *sqlTxn) intact(ctx context.Context, guardQuery, guard string) error {
	if t.handler.tried.Load() {
		return pawl.ErrTxEnded
	}
	var got sql.NullString
	if err := t.conn.QueryRowContext(ctx, guardQuery).Scan(&got); err != nil {
		if code(err) == "25P02" {
			return errWentOn
		}
		return err
	}
	if got.String != guard {
		return pawl.ErrTxEnded
	}
	return nil
}

func (t *sqlTxn) close(ctx context.Context) {
	if t.handler.ended.Swap(true) {
		return
	}
	t.handler.tidy()
	if !t.committed {
		ctx, cancel := detached(ctx)
		defer cancel()
		if _, err := t.conn.ExecContext(ctx, control["rollback"]); err != nil {
			t.conn.Raw(func(any) error { return driver.ErrBadConn }) // never hand on a connection in a transaction
		}
	}
	t.conn.Close()
}

// handlerConn is what handlers get: the pinned connection with four methods, and a count.
type handlerConn struct {
	conn       *sql.Conn
	statements atomic.Int64
	prepared   atomic.Bool
	tried      atomic.Bool // to end the transaction
	ended      atomic.Bool

	mu   sync.Mutex
	rows []*sql.Rows // returned to the handler, which may have left them open
}

func (h *handlerConn) tidy() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.rows {
		r.Close()
	}
	h.rows = nil
}

// use counts a statement. On a transaction that has ended it answers with a context that is over, which is how
// QueryRowContext can be made to fail.
func (h *handlerConn) use(ctx context.Context, query string) (context.Context, error) {
	if endsTransaction(query) {
		h.tried.Store(true)
	}
	if h.ended.Load() || endsTransaction(query) {
		over, cancel := context.WithCancelCause(ctx)
		cancel(pawl.ErrTxEnded)
		return over, pawl.ErrTxEnded
	}
	h.statements.Add(1)
	return ctx, nil
}

func (h *handlerConn) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if _, err := h.use(ctx, query); err != nil {
		return nil, err
	}
	return h.conn.ExecContext(ctx, query, args...)
}

func (h *handlerConn) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	if _, err := h.use(ctx, query); err != nil {
		return nil, err
	}
	h.prepared.Store(true)
	return h.conn.PrepareContext(ctx, query)
}

func (h *handlerConn) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if _, err := h.use(ctx, query); err != nil {
		return nil, err
	}
	rows, err := h.conn.QueryContext(ctx, query, args...)
	if err == nil {
		h.mu.Lock()
		h.rows = append(h.rows, rows)
		h.mu.Unlock()
	}
	return rows, err
}

func (h *handlerConn) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	ctx, _ = h.use(ctx, query)
	return h.conn.QueryRowContext(ctx, query, args...)
}

// endsTransaction recognises the statements that end a transaction or begin another. It is a courtesy: what gets past it
// (behind other statements in one text, in a function) is found before Pawl commits anything.
func endsTransaction(query string) bool {
	words := strings.Fields(strings.ToLower(strings.TrimRight(strings.TrimSpace(query), ";")))
	if len(words) == 0 {
		return false
	}
	switch words[0] {
	case "commit", "end", "abort", "begin":
		return true
	case "rollback":
		return len(words) == 1 || words[1] != "to" && !(len(words) > 2 && words[2] == "to")
	case "start", "prepare":
		return len(words) > 1 && words[1] == "transaction"
	}
	return false
}
