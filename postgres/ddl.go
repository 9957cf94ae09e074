package postgres

import (
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl"
)

// DDL returns a statement that creates a table as [Store.Open] wants it. Open takes others too: more columns that have
// defaults, other types that hold the same values, a unique index in place of the primary key.
func DDL(t *pawl.Table) string {
	var b strings.Builder
	if t.Key < len(t.Columns) {
		b.WriteString("-- Rows are updated. Room on each page keeps that out of the indexes; a table that is only added to needs none.\n")
	}
	b.WriteString("create table " + splitName(t.Name).Sanitize() + " (\n")
	for _, c := range t.Columns {
		b.WriteString("    " + quote(c.Name) + " " + columnType(c.Kind))
		if c.NotNull {
			b.WriteString(" not null")
		}
		b.WriteString(",\n")
	}
	b.WriteString("    primary key (" + list(t.Columns[:t.Key], func(c pawl.Column) string { return quote(c.Name) }) + ")\n)")
	if t.Key < len(t.Columns) {
		b.WriteString(" with (fillfactor = 70)")
	}
	b.WriteString(";\n")
	return b.String()
}

func columnType(k pawl.Kind) string {
	switch k {
	case pawl.KindInt:
		return "bigint"
	case pawl.KindDecimal:
		return "numeric"
	case pawl.KindBool:
		return "boolean"
	case pawl.KindTime:
		return "timestamptz"
	case pawl.KindJSON:
		return "jsonb"
	case pawl.KindBytes:
		return "bytea"
	}
	return "text"
}

// splitName takes a table's name apart: "name", or "schema.name".
func splitName(name string) pgx.Identifier {
	if schema, name, ok := strings.Cut(name, "."); ok {
		return pgx.Identifier{schema, name}
	}
	return pgx.Identifier{name}
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// list writes one text for each element, with commas between them.
func list[E any](all []E, text func(E) string) string {
	var b strings.Builder
	for i, e := range all {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(text(e))
	}
	return b.String()
}
