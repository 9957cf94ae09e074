package postgres

import (
	"context"
	"database/sql"
	"embed"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/sqlfile"
)

//go:embed sql/*.sql migration/*.sql
var files embed.FS

// control are the queries as written; those without table names are used from here.
var control = sqlfile.Queries(files, "sql")

// Store is a pawl.Store on PostgreSQL. Make one with New or NewSQL.
type Store[Tx any] struct {
	link  link[Tx]
	query map[string]string
	qual  func(string) string
	names names

	schema string // of Pawl's tables; "": that of the connection
}

// bound is a Store opened for a consumer.
type bound[Tx any] struct {
	*Store[Tx]
	consumer int32
	scopes   []int32 // by route
	code     int32
	tables   map[*pawl.Table]*table // of declared effects
	begin    string                 // with the timeouts filled in
	guards   atomic.Int64
	blocked  atomic.Bool // what to ask first about streams: see look
	gaps     atomic.Bool

	contended atomic.Int32 // transactions that still lock what they read
}

// New returns a store for handlers on pgx. The pool stays the caller's.
func New(pool *pgxpool.Pool, opts ...Option) *Store[pgx.Tx] {
	return newStore[pgx.Tx](newPgxLink(pool), opts)
}

// NewSQL returns a store for handlers on database/sql over any PostgreSQL driver. db stays the caller's.
func NewSQL(db *sql.DB, opts ...Option) *Store[pawl.SQLTx] {
	return newStore[pawl.SQLTx](&sqlLink{db}, opts)
}

// Option changes a store from its defaults.
type Option func(*options)

type options struct{ schema string }

// InSchema keeps Pawl's tables in a schema of their own, which must exist. Default: the first of the search path.
func InSchema(name string) Option { return func(o *options) { o.schema = name } }

func newStore[Tx any](l link[Tx], opts []Option) *Store[Tx] {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	s := &Store[Tx]{link: l, query: map[string]string{}, qual: qualifier(o.schema), schema: o.schema}
	shared := strings.NewReplacer("{{matches}}", control["quarantine_matches"], "{{in_no_operation}}", control["in_no_operation"])
	for name, q := range control {
		s.query[name] = s.qual(shared.Replace(q))
	}
	return s
}

var ownTables = regexp.MustCompile(`\bpawl_(schema|name|consumer|scope|progress|decision|redelivery|quarantine|condition|advance|` +
	`stream|hold|revision|operation|operation_item|audit|audit_stays|audit_field|audit_digest|note_acts|seal|seal_head|attempt|pause|` +
	`turn|release|free|resolve|set_aside_again|carry_out|note_attempt)\b`)

// qualifier puts the schema before each of Pawl's own names. The session's search path is not used for it: a pooling
// proxy does not keep it.
func qualifier(schema string) func(string) string {
	if schema == "" {
		return func(sql string) string { return sql }
	}
	prefix := strings.ReplaceAll(pgx.Identifier{schema}.Sanitize(), "$", "$$") + "."
	return func(sql string) string { return ownTables.ReplaceAllString(sql, prefix+"$0") }
}

// housekeeping is the time that cleaning up gets when the caller's context is over already.
const housekeeping = 5 * time.Second

func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), housekeeping)
}
