package pawl

import (
	"context"
	"database/sql"
	"sync"
	"time"
)

// Store is a database that keeps claims, evidence, quarantine and positions beside the effects. Tx is the transaction type
// that its handlers write through. Several runners may share a Store: each opens it for a consumer of its own.
type Store[Tx any] interface {
	// Open binds a consumer to this database. It refuses: a schema that is not migrated, a consumer name bound to another
	// cluster or group, and settings under which a commit may be lost.
	Open(ctx context.Context, b Binding) (BoundStore[Tx], error)

	// Admin is what people and tools use beside the runners.
	Admin() Admin
}

// BoundStore is a Store opened for one consumer: it applies batches atomically. The suite in storetest is its contract in
// executable form; what follows is the same in words.
//
// An implementation is safe for concurrent use. Several calls of Apply may use one Ownership at once: their transactions run
// side by side, and commit one after the other.
type BoundStore[Tx any] interface {
	// Acquire takes a partition by raising its epoch, and returns the position to read from. From then on no transaction of an
	// earlier owner commits. A partition without a position gets start, durably, before Acquire returns; with NoStart it is
	// left alone, and the answer is ErrNoPosition, or ErrOtherTopic.
	Acquire(ctx context.Context, p Partition, start int64) (*Ownership, error)

	// Move sets the position of a partition that o owns, forward or back, because an operator has decided so.
	Move(ctx context.Context, o *Ownership, next int64) error

	// Apply settles a batch in one transaction:
	//
	//  1. look up what is already decided for the keys of w.Decisions, and set their Prior; and which of their streams are
	//     blocked, and set Blocked; and which have a gap, and set w.Gaps;
	//  2. call w.Run, which runs handlers in the transaction and gives every decision its Outcome;
	//  3. insert one row per decision (claim and evidence in one), the later copies, and the quarantined and held records;
	//     settle what was kept: see [Kept]; what came early (Expected is set) is held, and opens a gap;
	//  4. last, within w.Commit, advance the position to w.Next (and keep w.Received beside it) while proving that o's epoch is
	//     current and that the database has not gone back behind what o has seen; then commit.
	//
	// On nil everything is durable, and o has moved on. On any error nothing is: the transaction was rolled back, or was
	// found not to have committed. Where the answer to COMMIT is lost, Apply finds out under the lock of the progress row
	// before it returns. The errors that matter to the caller: ErrFenced, ErrStoreWentBack, ErrRaced, and whatever w.Run
	// returned; Classify tells the rest apart. A failure of the store's own statements that no record can be blamed for is an
	// *Error of class Misconfigured.
	Apply(ctx context.Context, o *Ownership, w *Work[Tx]) error

	// Orders returns what an operator wants of this consumer, and the kept records whose turn it is in the partitions rows
	// (Ownership.Row), at most limit of them, those of one stream in order.
	Orders(ctx context.Context, rows []int64, now time.Time, limit int) (*Orders, error)

	// Attempt notes durably, in a transaction of its own, that the record at offset is about to be tried by an owner that goes
	// carefully. It proves o's fence, and returns how many attempts there were before without the position having advanced
	// past it.
	Attempt(ctx context.Context, o *Ownership, offset int64) (before int, err error)

	// Survive takes back what Attempt noted of a record: who tried it is alive, whatever became of the try.
	Survive(ctx context.Context, o *Ownership, offset int64) error

	// Release gives a partition back in good order. Releasing what another owner has taken meanwhile is not an error.
	Release(ctx context.Context, o *Ownership) error

	// Raise keeps a condition until it is over, and returns what an operator has answered to it, or nil. To raise what is
	// raised already changes nothing.
	Raise(ctx context.Context, c Condition) (*Resolution, error)

	// Standing lists the conditions of p that are not over.
	Standing(ctx context.Context, p Partition) ([]Condition, error)

	// Clear ends those conditions of p that are in one of states.
	Clear(ctx context.Context, p Partition, states ...State) error

	// Classify says what an error of this store's driver means, whether it came from Apply or through a handler.
	Classify(err error) Class
}

// Binding is who is working: it names the scope of "once" (consumer and route) and what evidence says about the worker.
type Binding struct {
	Consumer string
	Cluster  string // Kafka's cluster id
	Group    string // the consumer group
	Routes   []RouteName
	Version  string   // of the code, for the evidence
	Tables   []*Table // that declared effects keep: a table or column that is not there is refused

	// HandlerTimeout bounds how long a handler may leave a transaction idle: the store cuts off an owner that froze inside
	// one, so that its locks do not hold up the next owner.
	HandlerTimeout time.Duration
}

// RouteName is a route's name and, where it was renamed, its earlier one.
type RouteName struct {
	Name        string
	RenamedFrom string
}

// NoStart, given to Acquire, takes only a partition that has a position.
const NoStart int64 = -1

// Ownership is the right to a partition: the epoch proves it, Seq is the last commit this owner has seen.
type Ownership struct {
	Partition Partition
	Row       int64 // the store's own name for (consumer, partition)
	Epoch     int64
	Token     string // of this Acquire alone: epochs may repeat in a database that was restored
	Seq       int64
	Next      int64 // the position: every offset below it is settled
	Crashes   int   // owners in a row, before this one, that died without moving it
	Ahead     int64 // from Next to below it, owners before this one may have settled some: see Prior.SamePosition
	Again     int64 // but below this the position was moved back: what is read there again is tried again
}

// Work is one batch on its way into a transaction.
type Work[Tx any] struct {
	Decisions []*Decision
	Next      int64     // the position once this batch is settled; kept records leave it where it is. See Frontier
	Received  int64     // the offset after the last one that the owner has received; below Next, it is Next. See Frontier
	Now       time.Time // the time to write wherever a row says when

	// Gaps are the gaps of the streams of those decisions that are Gapped. Set by the store before it calls Run, which may add
	// to Decisions what it found there.
	Gaps []Gap

	// Beside says that other batches of this ownership may be under way: what can be done before Commit should be. Turn is
	// then shared by them. Frontier gives Next and Received when it is this batch's turn to commit, and Settled is called when
	// it has. All are nil where there is no need.
	Beside   bool
	Turn     sync.Locker
	Frontier func() (next, received int64)
	Settled  func()

	// Run is called once, inside the transaction, after Prior has been set. It gives every decision an Outcome. An error
	// undoes the transaction and is returned by Apply as it is.
	Run func(ctx context.Context, s Session[Tx]) error
}

// Commit runs f, the last statements of a transaction, while no other of the same ownership does: what the Ownership says is
// then what the database has, and whether a commit whose answer was lost has happened can be told from Seq. Stores call it.
func (w *Work[Tx]) Commit(f func() error) error {
	if w.Turn != nil {
		w.Turn.Lock()
		defer w.Turn.Unlock()
	}
	if w.Frontier != nil {
		w.Next, w.Received = w.Frontier()
	}
	if err := f(); err != nil {
		return err
	}
	if w.Settled != nil {
		w.Settled()
	}
	return nil
}

// Session is the inside of an open transaction.
type Session[Tx any] interface {
	// Rows is what declared effects get.
	Rows() Rows
	// Tx is what handlers get. They cannot end it: Commit and Rollback refuse with ErrTxEnded.
	Tx() Tx
	// Statements counts what has been run through Tx and Rows so far, reads too: one that failed must be undone. Unchanged means
	// that there is nothing to undo.
	Statements() int
	// Mark starts (or moves) a point to return to; Undo returns to it.
	Mark(ctx context.Context) error
	Undo(ctx context.Context) error
	// Rest is called when a handler has returned: it closes what the handler left open. An error means that the connection is
	// gone, and that no record is to blame.
	Rest(ctx context.Context, returned error) error
	// Check makes fail now what would fail at COMMIT, where the database can: it tells which of several routes is to blame.
	Check(ctx context.Context) error
}

// SQLTx is the transaction of handlers on database/sql: the four methods that *sql.Tx, sqlc's DBTX, gorm's ConnPool and
// ent's ExecQuerier have in common, and neither Commit nor Rollback.
type SQLTx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}
