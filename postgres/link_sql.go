package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
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
		_, err := db.ExecContext(ctx, st.sql, args...)
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
func (l *sqlLink) begin(ctx context.Context, text string) (txn[pawl.SQLTx], error) {
	conn, err := l.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	t := &sqlTxn{conn: conn}
	t.handler.conn = conn
	if _, err := conn.ExecContext(ctx, text); err != nil {
		t.close(ctx)
		return nil, err
	}
	return t, nil
}

func (l *sqlLink) script(ctx context.Context, before stmt, text string, after stmt) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := runSQL(ctx, tx, before); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, text); err != nil {
		return err
	}
	if err := runSQL(ctx, tx, after); err != nil {
		return err
	}
	return tx.Commit()
}

type sqlTxn struct {
	conn      *sql.Conn
	handler   handlerConn
	marked    int
	hasMark   bool
	committed bool
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

func (t *sqlTxn) Undo(ctx context.Context) error {
	_, err := t.conn.ExecContext(ctx, control["undo"])
	t.marked = t.Statements()
	return err
}

func (t *sqlTxn) exec(ctx context.Context, stmts ...stmt) error {
	for _, st := range stmts {
		if err := runSQL(ctx, t.conn, st); err != nil {
			return err
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
	ended      atomic.Bool
}

// use counts a statement. On a transaction that has ended it answers with a context that is over, which is how
// QueryRowContext can be made to fail.
func (h *handlerConn) use(ctx context.Context) (context.Context, error) {
	if h.ended.Load() {
		over, cancel := context.WithCancelCause(ctx)
		cancel(pawl.ErrTxEnded)
		return over, pawl.ErrTxEnded
	}
	h.statements.Add(1)
	return ctx, nil
}

func (h *handlerConn) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if _, err := h.use(ctx); err != nil {
		return nil, err
	}
	return h.conn.ExecContext(ctx, query, args...)
}

func (h *handlerConn) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	if _, err := h.use(ctx); err != nil {
		return nil, err
	}
	h.prepared.Store(true)
	return h.conn.PrepareContext(ctx, query)
}

func (h *handlerConn) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if _, err := h.use(ctx); err != nil {
		return nil, err
	}
	return h.conn.QueryContext(ctx, query, args...)
}

func (h *handlerConn) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	ctx, _ = h.use(ctx)
	return h.conn.QueryRowContext(ctx, query, args...)
}
