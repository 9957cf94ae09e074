package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl"
)

// table is a [pawl.Table] as the catalog has it, with the statements that read and write it.
type table struct {
	name    string // qualified and quoted: the search path may be another one later
	key     int
	columns []tableColumn
	// ordered says that the database puts keys in order, not this program: they may be spelled in several ways.
	ordered bool
	guard   bool // the column behind the key is compared when a row is replaced

	read, look, insert, put, replace, add, lock, delete, distinct string
}

// tableColumn is one of its columns.
type tableColumn struct {
	pawl.Column
	base  string // the type: of a domain, the one below it
	cast  string // the same, qualified, without length or precision: assigning checks those, a cast would cut off
	scale int    // digits behind the point that it keeps; unscaled: any number
}

const unscaled = math.MaxInt

// catalogColumn is what the catalog says about a column, and with it about its table.
type catalogColumn struct {
	schema, table, relkind string
	usage                  bool
	name                   string
	typeSchema, base       string
	typtype                string
	typmod                 int32
	collation              string // where several texts are one to it
	notNull                bool
	hasDefault             bool
	generated              bool
	sel, ins, upd          bool
}

// catalogTable is what the catalog says about a table; without columns, there is none.
type catalogTable struct {
	columns []catalogColumn
	unique  map[int64][]string // the columns of its unique indexes
}

// openTables looks tables up and refuses, all at once, what declared effects could not rely on.
func (s *Store[Tx]) openTables(ctx context.Context, tables []*pawl.Table) (map[*pawl.Table]*table, error) {
	if len(tables) == 0 {
		return nil, nil
	}
	found, err := s.readCatalog(ctx, tables)
	if err != nil {
		return nil, fmt.Errorf("look up the tables of declared effects: %w", err)
	}
	opened := make(map[*pawl.Table]*table, len(tables))
	var faults []error
	var hint strings.Builder
	for i, t := range tables {
		made, errs := newTable(t, &found[i])
		if opened[t] = made; len(errs) > 0 {
			faults = append(faults, errs...)
			if t.Validate() == nil {
				hint.WriteString("\n" + DDL(t))
			}
		}
	}
	if len(faults) > 0 {
		return nil, &pawl.Error{
			Op: "check the tables of declared effects", Class: pawl.Misconfigured, Err: errors.Join(faults...),
			Hint: "this is what they may look like; the role needs select, insert and update on them, and delete where rows are deleted:" +
				hint.String(),
		}
	}
	return opened, nil
}

func (s *Store[Tx]) readCatalog(ctx context.Context, tables []*pawl.Table) ([]catalogTable, error) {
	schemas, names := make([]string, len(tables)), make([]string, len(tables))
	for i, t := range tables {
		id := splitName(t.Name)
		if names[i] = strings.ReplaceAll(id[len(id)-1], "\x00", ""); len(id) > 1 {
			schemas[i] = strings.ReplaceAll(id[0], "\x00", "")
		}
	}
	found := make([]catalogTable, len(tables))
	err := s.link.exec(ctx,
		stmt{sql: control["table_columns"], args: []any{schemas, names}, row: func(scan func(...any) error) error {
			var i int64
			var c catalogColumn
			err := scan(&i, &c.schema, &c.table, &c.relkind, &c.usage, &c.name, &c.typeSchema, &c.base, &c.typtype, &c.typmod,
				&c.collation, &c.notNull, &c.hasDefault, &c.generated, &c.sel, &c.ins, &c.upd)
			if err == nil {
				found[i-1].columns = append(found[i-1].columns, c)
			}
			return err
		}},
		stmt{sql: control["table_keys"], args: []any{schemas, names}, row: func(scan func(...any) error) error {
			var i, index int64
			var column string
			if err := scan(&i, &index, &column); err != nil {
				return err
			}
			f := &found[i-1]
			if f.unique == nil {
				f.unique = map[int64][]string{}
			}
			f.unique[index] = append(f.unique[index], column)
			return nil
		}})
	return found, err
}

// newTable compares what an effect declares with what there is.
func newTable(t *pawl.Table, found *catalogTable) (*table, []error) {
	if err := t.Validate(); err != nil {
		return nil, []error{err}
	}
	var faults []error
	bad := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("table %q: "+format, append([]any{t.Name}, args...)...))
	}
	if len(found.columns) == 0 {
		bad("there is none")
		return nil, faults
	}
	in := found.columns[0]
	switch {
	case in.relkind != "r" && in.relkind != "p":
		bad("it is not a table")
		return nil, faults
	case !in.usage:
		bad("the role has no right to use schema %q", in.schema)
	}
	made := &table{name: pgx.Identifier{in.schema, in.table}.Sanitize(), key: t.Key, guard: t.Guard}
	for i, c := range t.Columns {
		at := slices.IndexFunc(found.columns, func(have catalogColumn) bool { return have.name == c.Name })
		if at < 0 {
			bad("there is no column %q", c.Name)
			continue
		}
		have := &found.columns[at]
		isKey := i < t.Key
		if why := cannotHold(c.Kind, have, isKey); why != "" {
			bad("column %q %s", c.Name, why)
		}
		if have.generated {
			bad("column %q is generated and cannot be written", c.Name)
		}
		var missing []string
		for right, has := range map[string]bool{
			"select": have.sel, "insert": have.ins,
			"update": have.upd || isKey && (i > 0 || t.Key < len(t.Columns)), // keys are not written again
		} {
			if !has {
				missing = append(missing, right)
			}
		}
		if slices.Sort(missing); len(missing) > 0 {
			bad("the role has no right to %s column %q", strings.Join(missing, " and "), c.Name)
		}
		cast := pgx.Identifier{have.typeSchema, have.base}.Sanitize()
		if have.collation != "" {
			cast += " collate " + have.collation
		}
		made.columns = append(made.columns, tableColumn{Column: c, base: have.base, cast: cast, scale: have.scale()})
		made.ordered = made.ordered || isKey && have.spellings()
	}
	for _, have := range found.columns {
		declared := slices.ContainsFunc(t.Columns, func(c pawl.Column) bool { return c.Name == have.name })
		if !declared && have.notNull && !have.hasDefault {
			bad("column %q, which the effect does not write, must not be null and has no default", have.name)
		}
	}
	if key := columnNames(t.Columns[:t.Key]); !found.isUnique(key) {
		bad("no unique index is over exactly the key (%s), valid, whole and not deferrable", strings.Join(key, ", "))
	}
	if len(faults) > 0 {
		return nil, faults
	}
	made.compile()
	return made, nil
}

func columnNames(columns []pawl.Column) []string {
	all := make([]string, len(columns))
	for i, c := range columns {
		all[i] = c.Name
	}
	return all
}

func (f *catalogTable) isUnique(key []string) bool {
	want := slices.Sorted(slices.Values(key))
	for _, columns := range f.unique {
		if slices.Equal(slices.Sorted(slices.Values(columns)), want) {
			return true
		}
	}
	return false
}

// cannotHold says why a column cannot keep the values of a kind as they are; "" if it can.
func cannotHold(k pawl.Kind, c *catalogColumn, key bool) string {
	kept := map[pawl.Kind][]string{
		pawl.KindText:    {"text", "varchar", "bpchar", "citext", "uuid"},
		pawl.KindInt:     {"int8", "int4", "int2", "numeric"},
		pawl.KindDecimal: {"numeric", "text", "varchar"},
		pawl.KindBool:    {"bool"},
		pawl.KindTime:    {"timestamptz"},
		pawl.KindJSON:    {"jsonb", "json", "text", "varchar"},
		pawl.KindBytes:   {"bytea"},
	}[k]
	own := c.typeSchema == "pg_catalog" || c.base == "citext"
	switch {
	case key && (k == pawl.KindDecimal || k == pawl.KindJSON):
		return fmt.Sprintf("is of the key and of kind %s, of which one value has many spellings: make it text or int", k)
	case k == pawl.KindText && c.typtype == "e":
		return ""
	case k == pawl.KindTime && c.base == "timestamp" && own:
		return "is timestamp, which does not say of which zone: make it timestamptz"
	case !own || !slices.Contains(kept, c.base):
		return fmt.Sprintf("is %s, which does not hold every %s as it is: make it %s", c.base, k, kept[0])
	case k == pawl.KindTime && c.typmod >= 0 && c.typmod < 6:
		return "is rounded to less than microseconds: make it timestamptz"
	case k == pawl.KindInt && c.scale() < 0:
		return "is rounded to less than integers: make it int8"
	}
	return ""
}

// scale of a numeric column: what has more digits would be rounded.
func (c *catalogColumn) scale() int {
	if c.base != "numeric" || c.typmod < 4 {
		return unscaled
	}
	return int((c.typmod-4)&2047^1024) - 1024
}

// spellings reports that several texts are one value of this column.
func (c *catalogColumn) spellings() bool {
	return c.base == "uuid" || c.base == "citext" || c.base == "bpchar" || c.collation != ""
}

// compile writes the statements. Parameters are one array a column, in the order of the columns.
func (t *table) compile() {
	at := make([]int, len(t.columns))
	for i := range at {
		at[i] = i
	}
	key, rest := at[:t.key], at[t.key:]
	array := func(i int) string { return fmt.Sprintf("$%d::%s[]", i+1, t.columns[i].transfer()) }
	name := func(i int) string { return fmt.Sprintf("c%d", i) }
	column := func(i int) string { return quote(t.columns[i].Name) }
	value := func(i int) string { return fmt.Sprintf("k.c%d::%s", i, t.columns[i].cast) }
	set := rest
	if len(rest) == 0 { // nothing to change, and yet something to count
		set = key[:1]
	}
	keys := fmt.Sprintf("unnest(%s) with ordinality as k (%s, i)", list(key, array), list(key, name))
	order := ""
	if t.ordered {
		keys = fmt.Sprintf("(select * from %s order by %s) as k", keys, list(key, value))
		order = "order by " + list(key, func(i int) string { return fmt.Sprint(i + 1) })
	}
	match := make([]string, t.key)
	for i := range match {
		match[i] = fmt.Sprintf("t.%s = %s", column(i), value(i))
	}
	guard, guardType, guardArray := "", "", ""
	if t.guard {
		c := &t.columns[t.key]
		guard, guardType, guardArray = quote(c.Name), c.cast, fmt.Sprintf("$%d::%s[]", len(at)+1, c.transfer())
	}
	sum := "do nothing"
	if len(rest) > 0 {
		sum = "do update set " + list(rest, func(i int) string { return column(i) + " = " + t.columns[i].sum() })
	}
	fill := strings.NewReplacer(
		"{{table}}", t.name,
		"{{keys}}", keys,
		"{{key}}", list(key, column),
		"{{key_arrays}}", list(key, array),
		"{{key_names}}", list(key, name),
		"{{key_values}}", list(key, value),
		"{{columns}}", list(at, column),
		"{{arrays}}", list(at, array),
		"{{names}}", list(at, name),
		"{{values}}", list(at, func(i int) string { return fmt.Sprintf("unnest(%s)::%s", array(i), t.columns[i].cast) }),
		"{{order}}", order,
		"{{match}}", strings.Join(match, " and "),
		"{{set}}", list(set, func(i int) string { return column(i) + " = " + value(i) }),
		"{{sum}}", sum,
		"{{guard}}", guard,
		"{{guard_type}}", guardType,
		"{{guard_array}}", guardArray,
		"{{read}}", list(at, func(i int) string { return fmt.Sprintf("t.%s::%s as c%d", column(i), t.columns[i].answer(), i) }),
	)
	for name, text := range map[string]*string{
		"rows_read": &t.read, "rows_insert": &t.insert, "rows_put": &t.put, "rows_replace": &t.replace, "rows_add": &t.add,
		"rows_lock": &t.lock, "rows_delete": &t.delete, "rows_distinct": &t.distinct,
	} {
		*text = fill.Replace(control[name])
	}
	t.look = t.read
	if t.guard {
		t.look, t.replace = fill.Replace(control["rows_look"]), fill.Replace(control["rows_replace_guarded"])
	}
}

// transfer is the type in which values travel to the server.
func (c *tableColumn) transfer() string {
	switch c.Kind {
	case pawl.KindInt:
		return "bigint"
	case pawl.KindBool:
		return "boolean"
	case pawl.KindTime:
		return "timestamptz"
	case pawl.KindBytes:
		return "bytea"
	}
	return "text"
}

// answer is the type in which they come back. A numeric may hold more than an int64 does, which a cast would round.
func (c *tableColumn) answer() string {
	if c.Kind == pawl.KindInt && c.base == "numeric" {
		return "text"
	}
	return c.transfer()
}

// sum is what Add makes of a column. Null counts as nothing, not as unknown.
func (c *tableColumn) sum() string {
	q := quote(c.Name)
	sum := "t." + q + " + excluded." + q
	if c.isText() {
		sum = "(t." + q + "::numeric + excluded." + q + "::numeric)::text"
	}
	return fmt.Sprintf("coalesce(%s, t.%s, excluded.%s)", sum, q, q)
}

// isText says that the database does not check what is in the column.
func (c *tableColumn) isText() bool { return c.base == "text" || c.base == "varchar" }

// compare puts keys in the same order in every transaction. What is of another type is found later.
func (t *table) compare(a, b pawl.Row) int {
	for i := range min(t.key, len(a), len(b)) {
		if d := compareValues(a[i], b[i]); d != 0 {
			return d
		}
	}
	return cmp.Compare(len(a), len(b))
}
