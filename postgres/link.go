package postgres

import (
	"context"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/fault"
)

// stmt is one statement on its way to the server.
type stmt struct {
	sql  string
	args []any
	// row is called for each row of the answer; nil if there is none to read.
	row func(scan func(dest ...any) error) error
	// wrote is where to put how many rows were written; nil if nobody asks. Not together with row.
	wrote *int64
	// after is the window that opens once it has been executed.
	after fault.Point
}

// link is how statements reach the server: pgx or database/sql.
type link[Tx any] interface {
	// exec runs statements one after the other, each by itself.
	exec(ctx context.Context, stmts ...stmt) error
	// begin opens a transaction with the given text, in which declared effects may use tables.
	begin(ctx context.Context, text string, tables map[*pawl.Table]*table, locks bool) (txn[Tx], error)
	// atomically runs f in a transaction of its own, read committed.
	atomically(ctx context.Context, f func(run func(...stmt) error) error) error
	// script runs statements in one transaction, and then a text of several that depends on them; "" is none.
	script(ctx context.Context, before []stmt, text func() string) error
}

// txn is an open transaction.
type txn[Tx any] interface {
	pawl.Session[Tx]
	// exec runs statements in order and stops at the first that fails. Where the link can, they travel together.
	exec(ctx context.Context, stmts ...stmt) error
	// intact reports whether handlers have left the transaction as it must be: open, and able to commit.
	intact(ctx context.Context, guardQuery, guard string) error
	// close undoes what is not committed and gives the connection back. Handlers can use Tx no more.
	close(ctx context.Context)
}
