package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawlhq/pawl"
)

// table is a [pawl.Table] with the statements that read and write it. Parameters are in the order of the columns, but for
// replace, which takes those of the key last.
type table struct {
	*pawl.Table
	read, insert, put, replace, delete string
}

// schemaColumn is what the schema says about a column.
type schemaColumn struct {
	name, declared      string
	notNull, hasDefault bool
	pk                  int // its place in the primary key, from 1 on
	hidden              int
}

// schemaTable is what the schema says about a table.
type schemaTable struct {
	kind    string // "" if there is none
	strict  bool
	columns []schemaColumn
	unique  map[string][]indexColumn
}

type indexColumn struct{ name, collation string }

// openTables looks tables up and refuses, all at once, what declared effects could not rely on.
func openTables(ctx context.Context, tx reader, tables []*pawl.Table) (map[*pawl.Table]*table, error) {
	opened := make(map[*pawl.Table]*table, len(tables))
	var faults []error
	var hint strings.Builder
	for _, t := range tables {
		if err := t.Validate(); err != nil {
			faults = append(faults, err)
			continue
		}
		found, err := readSchema(ctx, tx, t.Name)
		if err != nil {
			return nil, fmt.Errorf("look up table %q: %w", t.Name, err)
		}
		if errs := found.faults(t); len(errs) > 0 {
			faults = append(faults, errs...)
			hint.WriteString("\n" + DDL(t))
			continue
		}
		opened[t] = newTable(t)
	}
	if len(faults) > 0 {
		return nil, &pawl.Error{
			Op: "check the tables of declared effects", Class: pawl.Misconfigured, Err: errors.Join(faults...),
			Hint: "this is what they may look like:" + hint.String(),
		}
	}
	return opened, nil
}

// CheckTables refuses tables that declared effects could not rely on, as Open does. It writes nothing.
func (s *Store) CheckTables(ctx context.Context, tables []*pawl.Table) error {
	_, err := openTables(ctx, s.reader, tables)
	return err
}

// reader is a transaction, or a pool.
type reader interface {
	asker
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func readSchema(ctx context.Context, tx reader, name string) (*schemaTable, error) {
	found := &schemaTable{unique: map[string][]indexColumn{}}
	err := tx.QueryRowContext(ctx, query("table_kind"), name).Scan(&found.kind, &found.strict)
	if errors.Is(err, sql.ErrNoRows) {
		return found, nil
	}
	if err != nil {
		return nil, err
	}
	rows, err := tx.QueryContext(ctx, query("table_columns"), name)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var c schemaColumn
		if err := rows.Scan(&c.name, &c.declared, &c.notNull, &c.hasDefault, &c.pk, &c.hidden); err != nil {
			return nil, err
		}
		found.columns = append(found.columns, c)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	indexes, err := tx.QueryContext(ctx, query("table_keys"), name)
	if err != nil {
		return nil, err
	}
	defer indexes.Close()
	for indexes.Next() {
		var index string
		var c indexColumn
		if err := indexes.Scan(&index, &c.name, &c.collation); err != nil {
			return nil, err
		}
		found.unique[index] = append(found.unique[index], c)
	}
	return found, indexes.Err()
}

// faults compares what an effect declares with what there is.
func (s *schemaTable) faults(t *pawl.Table) (faults []error) {
	bad := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("table %q: "+format, append([]any{t.Name}, args...)...))
	}
	switch s.kind {
	case "":
		bad("there is none")
		return faults
	case "table":
	default:
		bad("it is a %s", s.kind)
		return faults
	}
	for i, c := range t.Columns {
		at := slices.IndexFunc(s.columns, func(have schemaColumn) bool { return have.name == c.Name })
		switch {
		case at < 0:
			bad("there is no column %q", c.Name)
			continue
		case s.columns[at].hidden != 0:
			bad("column %q is generated and cannot be written", c.Name)
		case i < t.Key && (c.Kind == pawl.KindDecimal || c.Kind == pawl.KindJSON):
			bad("column %q is of the key and of kind %s, of which one value has many spellings: make it text or int", c.Name, c.Kind)
		}
		if have := affinity(s.columns[at].declared, s.strict); !keeps(have, c.Kind) {
			bad("column %q is declared %q, which does not keep every %s as it is: make it %s", c.Name, s.columns[at].declared, c.Kind,
				columnType(c.Kind))
		}
	}
	for _, have := range s.columns {
		declared := slices.ContainsFunc(t.Columns, func(c pawl.Column) bool { return c.Name == have.name })
		if !declared && have.notNull && !have.hasDefault && have.hidden == 0 && !s.isRowid(have) {
			bad("column %q, which the effect does not write, must not be null and has no default", have.name)
		}
	}
	if !s.isUnique(t.Columns[:t.Key]) {
		bad("no unique index is over exactly the key (%s), whole and with collation binary",
			each(t.Columns[:t.Key], func(c pawl.Column) string { return c.Name }, ", "))
	}
	return faults
}

// isRowid reports a column that is another name of the rowid, for which there is no index.
func (s *schemaTable) isRowid(c schemaColumn) bool {
	others := slices.ContainsFunc(s.columns, func(o schemaColumn) bool { return o.pk > 1 })
	return c.pk == 1 && !others && strings.EqualFold(c.declared, "integer")
}

func (s *schemaTable) isUnique(key []pawl.Column) bool {
	has := func(columns []indexColumn) bool {
		return len(columns) == len(key) && !slices.ContainsFunc(key, func(k pawl.Column) bool {
			return !slices.Contains(columns, indexColumn{k.Name, "BINARY"})
		})
	}
	for _, columns := range s.unique {
		if has(columns) {
			return true
		}
	}
	return len(key) == 1 && slices.ContainsFunc(s.columns, func(c schemaColumn) bool { return c.name == key[0].Name && s.isRowid(c) })
}

// The affinities of SQLite, and with them what it does to a value.
const (
	affinityNone    = "none"
	affinityInteger = "integer"
	affinityText    = "text"
	affinityReal    = "real"
	affinityNumeric = "numeric"
	affinityBytes   = "bytes" // a strict blob, which takes nothing else
)

func affinity(declared string, strict bool) string {
	declared = strings.ToUpper(declared)
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(declared, part) })
	}
	switch {
	case strict && declared == "ANY":
		return affinityNone
	case strict && declared == "BLOB":
		return affinityBytes
	case has("INT"):
		return affinityInteger
	case has("CHAR", "CLOB", "TEXT"):
		return affinityText
	case has("BLOB"), declared == "":
		return affinityNone
	case has("REAL", "FLOA", "DOUB"):
		return affinityReal
	}
	return affinityNumeric
}

// keeps reports whether a value of this kind stays what it is.
func keeps(affinity string, k pawl.Kind) bool {
	if affinity == affinityNone {
		return true
	}
	switch k {
	case pawl.KindInt, pawl.KindBool:
		return affinity == affinityInteger || affinity == affinityNumeric
	case pawl.KindTime: // which never looks like a number
		return affinity == affinityText || affinity == affinityNumeric
	case pawl.KindBytes:
		return affinity == affinityBytes
	}
	return affinity == affinityText
}

// newTable writes the statements.
func newTable(t *pawl.Table) *table {
	name := func(c pawl.Column) string { return quote(c.Name) }
	equal := func(c pawl.Column) string { return quote(c.Name) + " = ?" }
	key, rest := t.Columns[:t.Key], t.Columns[t.Key:]
	set := each(rest, equal, ", ")
	if len(rest) == 0 { // nothing to change, and yet something to count
		set = quote(key[0].Name) + " = " + quote(key[0].Name)
	}
	fill := strings.NewReplacer(
		"{{table}}", quote(t.Name),
		"{{columns}}", each(t.Columns, name, ", "),
		"{{values}}", each(t.Columns, func(pawl.Column) string { return "?" }, ", "),
		"{{read}}", each(t.Columns, func(c pawl.Column) string { return "+t." + quote(c.Name) }, ", "),
		"{{key}}", each(key, name, ", "),
		"{{match}}", each(key, func(c pawl.Column) string { return "t." + equal(c) }, " and "),
		"{{set}}", set,
	)
	return &table{
		Table: t, read: fill.Replace(query("rows_read")), insert: fill.Replace(query("rows_insert")), put: fill.Replace(query("rows_put")),
		replace: fill.Replace(query("rows_replace")), delete: fill.Replace(query("rows_delete")),
	}
}
