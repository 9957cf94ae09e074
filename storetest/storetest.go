// Package storetest is the contract of [pawl.Store] in executable form: every store passes Exercise.
//
// A Harness says how to get a store on a fresh database, and how to write through its kind of transaction. The suite
// itself knows neither driver nor dialect: what it reads and writes beside the store is SQL that every database takes,
// with ? for placeholders.
package storetest

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"testing"

	"github.com/pawlhq/pawl"
)

// Harness is how the suite reaches one kind of store.
type Harness[Tx any] struct {
	// Open returns a store on a fresh, migrated database. What it opens, it closes when t ends.
	Open func(t testing.TB) Fixture[Tx]

	// Bare is Open without the migration.
	Bare func(t testing.TB) Fixture[Tx]

	// Exec runs a statement through a handler's transaction. Placeholders are ?; [Dollar] rewrites them.
	Exec func(ctx context.Context, tx Tx, query string, args ...any) error

	// Int reads one integer through a handler's transaction.
	Int func(ctx context.Context, tx Tx, query string, args ...any) (int64, error)

	// Enders are the ways to end a transaction that its type offers beside SQL text, such as Commit and Rollback.
	// Default: none, the type has no such methods.
	Enders []func(ctx context.Context, tx Tx) error

	// DDL returns the SQL that creates a table of a declared effect.
	DDL func(t *pawl.Table) string

	// Migrations returns the SQL of every migration, in order.
	Migrations func() []string

	// Unguard is SQL that has the database let the audit be changed, as one who owns the database can.
	Unguard string

	// Serial says that the store never has two transactions open at once. The tests of races then only demand what comes
	// out; without it they hold both transactions open at the same time.
	Serial bool
}

// Fixture is one database with a store on it.
type Fixture[Tx any] struct {
	// Store is not yet bound: the suite calls its Open.
	Store pawl.Store[Tx]

	// Second returns another store on the same database, as another process would have it.
	Second func(t testing.TB) pawl.Store[Tx]

	// Migrate brings the schema up to date.
	Migrate func(ctx context.Context) error

	// DB reads and writes the same database beside Pawl.
	DB *sql.DB

	// Rewrite turns ? into the placeholders of DB. Default: they stay.
	Rewrite func(query string) string
}

// Dollar rewrites ? to $1, $2, … for databases that number their placeholders.
func Dollar(query string) string {
	var b strings.Builder
	n := 0
	for _, c := range query {
		if c != '?' {
			b.WriteRune(c)
			continue
		}
		n++
		b.WriteString("$" + strconv.Itoa(n))
	}
	return b.String()
}

// Exercise runs the suite.
func Exercise[Tx any](t *testing.T, h Harness[Tx]) {
	for _, group := range []struct {
		name  string
		tests []test[Tx]
	}{
		{"open", openTests[Tx]()},
		{"apply", applyTests[Tx]()},
		{"cancel", cancelTests[Tx]()},
		{"key", keyTests[Tx]()},
		{"quarantine", quarantineTests[Tx]()},
		{"hold", holdTests[Tx]()},
		{"kept", keptTests[Tx]()},
		{"gap", gapTests[Tx]()},
		{"correction", correctionTests[Tx]()},
		{"session", sessionTests[Tx]()},
		{"rows", rowsTests[Tx]()},
		{"acquire", acquireTests[Tx]()},
		{"fence", fenceTests[Tx]()},
		{"condition", conditionTests[Tx]()},
		{"operation", operationTests[Tx]()},
		{"admin", adminTests[Tx]()},
		{"evidence", evidenceTests[Tx]()},
		{"audit", append(auditTests[Tx](), chainTests[Tx]()...)},
		{"race", raceTests[Tx]()},
		{"classify", classifyTests[Tx]()},
		{"crash", crashTests[Tx]()},
		{"model", modelTests[Tx]()},
	} {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			for _, test := range group.tests {
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					test.run(t, h)
				})
			}
		})
	}
}

// test is one behaviour; its name says which.
type test[Tx any] struct {
	name string
	run  func(t *testing.T, h Harness[Tx])
}
