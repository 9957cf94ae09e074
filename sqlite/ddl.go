package sqlite

import (
	"strings"

	"github.com/pawlhq/pawl"
)

// DDL returns a statement that creates a table as [Store.Open] wants it. Open takes others too: more columns that have
// defaults, other types that keep the same values, a unique index in place of the primary key. SQLite has no schemas: a dot is
// part of the name.
func DDL(t *pawl.Table) string {
	var b strings.Builder
	b.WriteString("-- Decimal numbers and times are text: no other type keeps them as they are.\n")
	b.WriteString("create table " + quote(t.Name) + " (\n")
	for i, c := range t.Columns {
		b.WriteString("    " + quote(c.Name) + " " + columnType(c.Kind))
		if c.NotNull || i < t.Key {
			b.WriteString(" not null")
		}
		b.WriteString(",\n")
	}
	b.WriteString("    primary key (" + each(t.Columns[:t.Key], func(c pawl.Column) string { return quote(c.Name) }, ", ") + ")\n) strict;\n")
	return b.String()
}

func columnType(k pawl.Kind) string {
	switch k {
	case pawl.KindInt, pawl.KindBool:
		return "integer"
	case pawl.KindBytes:
		return "blob"
	}
	return "text"
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// each writes one text for each column.
func each(columns []pawl.Column, text func(pawl.Column) string, between string) string {
	all := make([]string, len(columns))
	for i, c := range columns {
		all[i] = text(c)
	}
	return strings.Join(all, between)
}
