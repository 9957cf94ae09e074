package postgres

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/fault"
)

type pgxLink struct {
	pool *pgxpool.Pool
	flat bool // the client knows the types of parameters beforehand
}

func newPgxLink(pool *pgxpool.Pool) *pgxLink {
	mode := pool.Config().ConnConfig.DefaultQueryExecMode
	return &pgxLink{pool, mode != pgx.QueryExecModeExec && mode != pgx.QueryExecModeSimpleProtocol}
}

func (l *pgxLink) exec(ctx context.Context, stmts ...stmt) error {
	for _, st := range stmts {
		rows, err := l.pool.Query(ctx, st.sql, st.args...)
		if err != nil {
			return err
		}
		if err := readPgx(rows, st); err != nil {
			return err
		}
	}
	return nil
}

func readPgx(rows pgx.Rows, st stmt) error {
	defer rows.Close()
	scan := rows.Scan // made once, not for each row
	for rows.Next() {
		if st.row == nil {
			continue
		}
		if err := st.row(scan); err != nil {
			return err
		}
	}
	if st.wrote != nil {
		*st.wrote = rows.CommandTag().RowsAffected()
	}
	return rows.Err()
}

func (l *pgxLink) begin(ctx context.Context, text string, tables map[*pawl.Table]*table, locks bool) (txn[pgx.Tx], error) {
	conn, err := l.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: text})
	if err != nil {
		conn.Release()
		return nil, err
	}
	t := &pgxTxn{conn: conn, tx: tx, flat: l.flat}
	t.handler.Tx = tx
	t.rows = rows{tables: tables, locks: locks, run: t}
	return t, nil
}

func (l *pgxLink) atomically(ctx context.Context, f func(run func(...stmt) error) error) error {
	return pgx.BeginTxFunc(ctx, l.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		return f(func(stmts ...stmt) error {
			for _, st := range stmts {
				rows, err := tx.Query(ctx, st.sql, st.args...)
				if err != nil {
					return err
				}
				if err := readPgx(rows, st); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func (l *pgxLink) script(ctx context.Context, before []stmt, text func() string) error {
	return pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		for _, st := range before {
			rows, err := tx.Query(ctx, st.sql, st.args...)
			if err != nil {
				return err
			}
			if err := readPgx(rows, st); err != nil {
				return err
			}
		}
		if text := text(); text != "" {
			_, err := tx.Exec(ctx, text, pgx.QueryExecModeSimpleProtocol)
			return err
		}
		return nil
	})
}

type pgxTxn struct {
	conn    *pgxpool.Conn
	tx      pgx.Tx
	handler handlerTx
	rows    rows
	marked  int // statements when the mark was last set
	hasMark bool
	flat    bool
}

func (t *pgxTxn) Rows() pawl.Rows { return &t.rows }

func (t *pgxTxn) enter() error { return t.handler.use("") }

func (t *pgxTxn) Tx() pgx.Tx { return &t.handler }

// Statements cannot see what goes past the handler's transaction: once it was asked for its connection, every call returns
// a new number.
func (t *pgxTxn) Statements() int {
	if t.handler.passed.Load() {
		return int(t.handler.statements.Add(1))
	}
	return int(t.handler.statements.Load())
}

// Mark needs no round trip while nothing has been written since the last one.
func (t *pgxTxn) Mark(ctx context.Context) error {
	if t.hasMark && t.marked == t.Statements() {
		return nil
	}
	text := control["mark"]
	if t.hasMark {
		text = control["move_mark"]
	}
	if _, err := t.tx.Exec(ctx, text); err != nil {
		return err
	}
	t.hasMark, t.marked = true, t.Statements()
	return nil
}

// Rest closes rows that a handler left open: behind them the connection is busy.
func (t *pgxTxn) Rest(context.Context, error) error {
	for _, c := range t.handler.open {
		c()
	}
	t.handler.open = t.handler.open[:0]
	if t.conn.Conn().IsClosed() {
		return errLost
	}
	return nil
}

var errLost = errors.New("the connection to the database is gone")

func (t *pgxTxn) Check(ctx context.Context) error {
	if err := t.intact(ctx, "", ""); err != nil {
		return err
	}
	_, err := t.tx.Exec(ctx, control["check"])
	return err
}

func (t *pgxTxn) Undo(ctx context.Context) error {
	_, err := t.tx.Exec(ctx, control["undo"])
	t.marked, t.rows.planned = t.Statements(), false
	return err
}

// exec sends all statements as one round trip: behind a failing one the server skips the rest, commit included. With
// faults injected they go one by one, so that there is something between them.
func (t *pgxTxn) exec(ctx context.Context, stmts ...stmt) error {
	if fault.Active(ctx) {
		for _, st := range stmts {
			rows, err := t.tx.Query(ctx, st.sql, st.args...)
			if err == nil {
				err = readPgx(rows, st)
			}
			if err != nil {
				return &stmtError{st.after, err}
			}
			if err := fault.Hit(ctx, st.after); err != nil {
				return err
			}
		}
		return nil
	}
	b := &pgx.Batch{}
	for _, st := range stmts {
		if t.flat {
			flatten(st.args)
		}
		b.Queue(st.sql, st.args...)
	}
	results := t.conn.SendBatch(ctx, b)
	for _, st := range stmts {
		rows, err := results.Query()
		if err == nil {
			err = readPgx(rows, st)
		}
		if err != nil {
			results.Close()
			return &stmtError{st.after, err}
		}
	}
	return results.Close()
}

// flatten spares pgx from reflecting over each element of the arrays that it has no short path for.
func flatten(args []any) {
	for i, a := range args {
		switch a := a.(type) {
		case []pgtype.UUID:
			args[i] = pgtype.FlatArray[pgtype.UUID](a)
		case [][]byte:
			args[i] = pgtype.FlatArray[[]byte](a)
		}
	}
}

func (t *pgxTxn) intact(context.Context, string, string) error {
	if t.handler.tried.Load() {
		return pawl.ErrTxEnded
	}
	switch t.conn.Conn().PgConn().TxStatus() {
	case 'T':
		return nil // that it is still the same transaction, pawl_advance checks
	case 'E':
		return errWentOn
	}
	return pawl.ErrTxEnded
}

// errWentOn: PostgreSQL commits nothing more in this transaction.
var errWentOn = errors.New("a statement failed and the handler went on: return the error, or undo it within a nested transaction (tx.Begin)")

func (t *pgxTxn) close(ctx context.Context) {
	if t.handler.ended.Swap(true) {
		return
	}
	if t.conn.Conn().PgConn().TxStatus() != 'I' {
		ctx, cancel := detached(ctx)
		defer cancel()
		t.tx.Rollback(ctx) // an error means that the connection is gone, and the transaction with it
	}
	t.conn.Release()
}

// handlerTx is the transaction that handlers get: it counts what they run, and cannot be ended by them.
type handlerTx struct {
	pgx.Tx
	statements atomic.Int64
	open       []func()    // closes what the handler may have left open
	passed     atomic.Bool // the connection was given out
	tried      atomic.Bool // to end the transaction
	ended      atomic.Bool // a handler may have leaked it to a goroutine
}

func (t *handlerTx) use(sql string) error {
	if endsTransaction(sql) {
		t.tried.Store(true)
		return pawl.ErrTxEnded
	}
	if t.ended.Load() {
		return pawl.ErrTxEnded
	}
	t.statements.Add(1)
	return nil
}

func (t *handlerTx) Commit(context.Context) error   { return pawl.ErrTxEnded }
func (t *handlerTx) Rollback(context.Context) error { return pawl.ErrTxEnded }

func (t *handlerTx) Begin(ctx context.Context) (pgx.Tx, error) {
	if err := t.use(""); err != nil {
		return nil, err
	}
	return t.Tx.Begin(ctx)
}

func (t *handlerTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (int64, error) {
	if err := t.use(""); err != nil {
		return 0, err
	}
	return t.Tx.CopyFrom(ctx, table, columns, src)
}

func (t *handlerTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if err := t.use(""); err != nil {
		return endedResults{}
	}
	results := t.Tx.SendBatch(ctx, b)
	t.open = append(t.open, func() { results.Close() })
	return results
}

func (t *handlerTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if err := t.use(sql); err != nil {
		return nil, err
	}
	return t.Tx.Prepare(ctx, name, sql)
}

func (t *handlerTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := t.use(sql); err != nil {
		return pgconn.CommandTag{}, err
	}
	return t.Tx.Exec(ctx, sql, args...)
}

func (t *handlerTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := t.use(sql); err != nil {
		return nil, err
	}
	rows, err := t.Tx.Query(ctx, sql, args...)
	if err == nil {
		t.open = append(t.open, rows.Close)
	}
	return rows, err
}

func (t *handlerTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := t.use(sql); err != nil {
		return endedRow{}
	}
	return t.Tx.QueryRow(ctx, sql, args...)
}

// Conn and LargeObjects are ways past the counting.
func (t *handlerTx) Conn() *pgx.Conn {
	t.passed.Store(true)
	return t.Tx.Conn()
}

func (t *handlerTx) LargeObjects() pgx.LargeObjects {
	t.passed.Store(true)
	return t.Tx.LargeObjects()
}

type endedRow struct{}

func (endedRow) Scan(...any) error { return pawl.ErrTxEnded }

type endedResults struct{}

func (endedResults) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, pawl.ErrTxEnded }
func (endedResults) Query() (pgx.Rows, error)         { return nil, pawl.ErrTxEnded }
func (endedResults) QueryRow() pgx.Row                { return endedRow{} }
func (endedResults) Close() error                     { return pawl.ErrTxEnded }
