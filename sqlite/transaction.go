package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// guard stands at the writer connection's commit and rollback. Nothing commits there but Pawl: not a handler's COMMIT, and
// not a statement that runs after a handler, or the database itself, has ended the transaction.
type guard struct {
	committing atomic.Bool // Pawl's own COMMIT is running
	ended      atomic.Bool // the transaction was rolled back, by whomever
}

func (g *guard) onCommit() int32 {
	if g.committing.Load() {
		return 0
	}
	return 1 // SQLite turns the commit into a rollback
}

func (g *guard) onRollback() { g.ended.Store(true) }

// transaction is the one transaction that is open on the writer connection.
type transaction struct {
	*sql.Tx
	conn  *sql.Conn
	guard *guard
}

// begin waits its turn, first for the connection, then for the file, and takes the file's write lock.
func (s *Store) begin(ctx context.Context) (*transaction, error) {
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		return nil, err
	}
	for until := time.Now().Add(s.wait); ; {
		// Not ctx: a transaction that ends by itself when ctx does would do so at any moment, and hide it from guard.
		tx, err := conn.BeginTx(context.WithoutCancel(ctx), nil)
		if err == nil {
			s.guard.ended.Store(false)
			return &transaction{tx, conn, s.guard}, nil
		}
		if ctx.Err() != nil {
			err = ctx.Err()
		} else if isBusy(err) && time.Now().Before(until) {
			continue // each try waits for busySlice
		}
		return nil, errors.Join(fmt.Errorf("begin: %w", err), conn.Close())
	}
}

// commit ends the transaction for good. On an error it is not open any more, and whether it committed must be asked.
func (t *transaction) commit() error {
	t.guard.committing.Store(true)
	err := t.Tx.Commit()
	t.guard.committing.Store(false)
	_ = t.conn.Close() // it goes back to the pool; what counts is the answer to COMMIT
	return err
}

// close undoes what is not committed and gives the connection back. After commit it does nothing.
func (t *transaction) close() {
	err := t.Tx.Rollback()
	if errors.Is(err, sql.ErrTxDone) {
		return
	}
	if err != nil {
		// It was rolled back already, or cannot be: either way the next transaction gets another connection.
		_ = t.conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	_ = t.conn.Close()
}

// write runs f in a transaction of its own.
func (s *Store) write(ctx context.Context, f func(tx *transaction) error) error {
	tx, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer tx.close()
	if err := f(tx); err != nil {
		return err
	}
	return tx.commit()
}
