package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pawlhq/pawl"
)

// session is the inside of a transaction while handlers run.
type session struct {
	tx      *transaction
	refusal *sql.DB
	tables  map[*pawl.Table]*table // of declared effects
	marked  bool
	markAt  int // statements when the mark was set

	statements atomic.Int64
	prepared   atomic.Bool

	mu   sync.RWMutex // held for reading while a statement runs
	over bool         // Run has returned

	lostMu sync.Mutex
	lost   error // why the transaction ended inside Run
}

var _ pawl.Session[pawl.SQLTx] = (*session)(nil)

// Rows is what declared effects get.
func (s *session) Rows() pawl.Rows { return rows{s} }

// Tx is what handlers get.
func (s *session) Tx() pawl.SQLTx { return handlerTx{s} }

// Statements counts what has been run through Tx. What runs through a prepared statement is not seen, so that from the first
// Prepare on each call returns another number: there may always be something to undo.
func (s *session) Statements() int {
	if s.prepared.Load() {
		return int(s.statements.Add(1))
	}
	return int(s.statements.Load())
}

// Mark starts or moves the point to return to.
func (s *session) Mark(ctx context.Context) error {
	n := s.Statements()
	if s.marked && n == s.markAt {
		return nil // nothing has been written since
	}
	if s.marked {
		if err := s.exec(ctx, "unmark"); err != nil {
			return err
		}
	}
	s.marked, s.markAt = true, n
	return s.exec(ctx, "mark")
}

// Undo returns to the mark, which stays where it is.
func (s *session) Undo(ctx context.Context) error { return s.exec(ctx, "undo") }

// Rest has nothing to do: rows that are left open are closed with the transaction, and there is no connection to lose.
func (s *session) Rest(context.Context, error) error { return nil }

// Check has nothing to do: SQLite has no way to check deferred constraints before COMMIT.
func (s *session) Check(context.Context) error { return nil }

// exec runs a statement of Pawl's own between handlers.
func (s *session) exec(ctx context.Context, name string) error {
	if err := s.ended(nil); err != nil {
		return err
	}
	_, err := s.tx.ExecContext(ctx, query(name))
	if err := s.ended(err); err != nil {
		return err
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// finish ends the session: it waits for a statement that is still running somewhere, and lets no other begin. It reports
// whether the transaction is still the one that Run was given.
func (s *session) finish() error {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	return s.ended(nil)
}

// ended reports why the transaction is over, if it is. err is what the last statement said: SQLite itself rolls back on
// some errors (a full disk, a write that was interrupted); without one, it was the handler's doing.
func (s *session) ended(err error) error {
	if !s.tx.guard.ended.Load() {
		return nil
	}
	s.lostMu.Lock()
	defer s.lostMu.Unlock()
	if s.lost == nil {
		s.lost = pawl.ErrTxEnded
		if err != nil && !isRefusedCommit(err) {
			s.lost = fmt.Errorf("the database rolled the transaction back: %w", err)
		}
	}
	return s.lost
}

// enter lets a handler's statement in, until leave.
func (s *session) enter() error {
	s.mu.RLock()
	err := s.ended(nil)
	if s.over {
		err = pawl.ErrTxEnded
	}
	if err != nil {
		s.mu.RUnlock()
		return err
	}
	s.statements.Add(1)
	return nil
}

// leave returns what the statement came to.
func (s *session) leave(err error) error {
	s.mu.RUnlock()
	if ended := s.ended(err); ended != nil {
		return ended
	}
	return err
}

// handlerTx is the transaction as handlers see it: four methods, none of which ends it.
type handlerTx struct{ s *session }

func (t handlerTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := t.s.enter(); err != nil {
		return nil, err
	}
	r, err := t.s.tx.ExecContext(ctx, query, args...)
	return r, t.s.leave(err)
}

func (t handlerTx) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	if err := t.s.enter(); err != nil {
		return nil, err
	}
	t.s.prepared.Store(true)
	stmt, err := t.s.tx.PrepareContext(ctx, query)
	return stmt, t.s.leave(err)
}

func (t handlerTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := t.s.enter(); err != nil {
		return nil, err
	}
	rows, err := t.s.tx.QueryContext(ctx, query, args...)
	return rows, t.s.leave(err)
}

func (t handlerTx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if err := t.s.enter(); err != nil {
		return t.s.refusal.QueryRowContext(ctx, query)
	}
	row := t.s.tx.QueryRowContext(ctx, query, args...)
	_ = t.s.leave(row.Err())
	return row
}

// refusal is a database whose every answer is ErrTxEnded: *sql.Row has no other way to carry an error.
type refusal struct{}

func (refusal) Connect(context.Context) (driver.Conn, error) { return nil, pawl.ErrTxEnded }
func (r refusal) Driver() driver.Driver                      { return r }
func (refusal) Open(string) (driver.Conn, error)             { return nil, pawl.ErrTxEnded }
