package postgres

import (
	"context"
	"database/sql"
	"embed"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
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

func chosen(opts []Option) (o options) {
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

func newStore[Tx any](l link[Tx], opts []Option) *Store[Tx] {
	o := chosen(opts)
	s := &Store[Tx]{link: l, query: map[string]string{}, qual: qualifier(o.schema), schema: o.schema}
	shared := strings.NewReplacer("{{matches}}", control["quarantine_matches"], "{{in_no_operation}}", control["in_no_operation"])
	for name, q := range control {
		s.query[name] = s.qual(shared.Replace(q))
	}
	return s
}

// own finds the names of Pawl's tables and functions. They are read off the migrations, so that none is forgotten.
var own = sync.OnceValue(func() *regexp.Regexp {
	created := regexp.MustCompile(`(?m)^create (?:or replace )?(?:table|function) (?:if not exists )?(pawl_\w+)`)
	names := map[string]bool{}
	for _, m := range sqlfile.Migrations(files, "migration") {
		for _, found := range created.FindAllStringSubmatch(m.SQL, -1) {
			names[found[1]] = true
		}
	}
	all := strings.Join(slices.Sorted(maps.Keys(names)), "|")
	return regexp.MustCompile(`\b(?:` + all + `)\b|\bdrop index pawl_\w+`) // an index is where its table is: only dropping it names it
})

// qualifier puts the schema before each of Pawl's own names. The session's search path is not used for it: a pooling
// proxy does not keep it.
func qualifier(schema string) func(string) string {
	if schema == "" {
		return func(sql string) string { return sql }
	}
	prefix := pgx.Identifier{schema}.Sanitize() + "."
	return func(sql string) string {
		return own().ReplaceAllStringFunc(sql, func(name string) string {
			if index, ok := strings.CutPrefix(name, "drop index "); ok {
				return "drop index " + prefix + index
			}
			return prefix + name
		})
	}
}

// housekeeping is the time that cleaning up gets when the caller's context is over already.
const housekeeping = 5 * time.Second

func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), housekeeping)
}
