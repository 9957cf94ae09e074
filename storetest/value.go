package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
)

func sameValue(kind pawl.Kind, got, want any) bool {
	if kind == pawl.KindJSON && got != nil && want != nil {
		var a, b any
		g, ok := got.(string)
		return ok && json.Unmarshal([]byte(g), &a) == nil && json.Unmarshal([]byte(want.(string)), &b) == nil && reflect.DeepEqual(a, b)
	}
	return reflect.DeepEqual(got, want)
}

// kinds is a table with a column of each kind.
func kinds() *pawl.Table {
	return &pawl.Table{Name: "kinds", Key: 1, Columns: []pawl.Column{
		column("id", pawl.KindText), column("t", pawl.KindText), column("i", pawl.KindInt), column("d", pawl.KindDecimal),
		column("b", pawl.KindBool), column("at", pawl.KindTime), column("j", pawl.KindJSON), column("raw", pawl.KindBytes),
	}}
}

func rowsKinds[Tx any](t *testing.T, h Harness[Tx]) {
	table := kinds()
	k := newWorld(t, h).keep(table)
	huge := strings.Repeat("1234567890", 6)
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)
	all := []pawl.Row{
		{"nulls", nil, nil, nil, nil, nil, nil, nil},
		{"empty", "", int64(0), "0", false, time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), `""`, []byte{}},
		{"plain", "text", int64(1), "12.50", true, at, `{"a":[1,2.5,null,"x"]}`, []byte{1, 2}},
		{"quotes", `'"\{},null NULL $1 ? {{key}} -- ; /* */` + "\t\r\n", int64(-1), "-12.50", true, at.Add(-50 * 365 * 24 * time.Hour), `"'\"\\"`,
			[]byte("\x00'\"\\\xff")},
		{"ünïcode ☃ 𝄞 '\"\\", "ﷺ ☃ 𝄞", int64(math.MaxInt64), huge + "." + huge, false, time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC),
			`{"☃":"𝄞"}`, []byte{}},
		{"huge", strings.Repeat("x", 1<<20), int64(math.MinInt64), "-" + huge, false, time.Unix(0, 1000).UTC(), `[]`, make([]byte, 1<<20)},
		{"null", "null", int64(1 << 53), "0.000000000000000000000000000001", true, time.Unix(-1, 0).UTC(), `null`, []byte("null")},
		{"spelling", " 007 ", int64(7), "100.00", true, at, ` { "a" : 1.0 } `, []byte(`\x00`)},
	}
	k.insert(table, all[:4]...)
	k.must(func(ctx context.Context, r pawl.Rows) error {
		return r.Put(ctx, table, all[4:], make([]pawl.Row, len(all)-4))
	})
	k.wantRows(table, all...)

	// The other way in, and other values in each place: every row takes those of the next.
	turned := make([]pawl.Row, len(all))
	for i := range all {
		turned[i] = append(pawl.Row{all[i][0]}, all[(i+1)%len(all)][1:]...)
	}
	k.must(func(ctx context.Context, r pawl.Rows) error {
		before, err := r.Read(ctx, table, keysOf(table, all))
		if err != nil {
			return err
		}
		return r.Put(ctx, table, turned, before)
	})
	k.wantRows(table, turned...)

	// Times are kept to the microsecond, wherever they were, and numbers by their value.
	k.insert(table, pawl.Row{"odd", nil, nil, "+1.5e3", nil, at.Add(789).In(time.FixedZone("", 3600)), nil, []byte(nil)})
	k.wantRows(table, pawl.Row{"odd", nil, nil, "1500", nil, at, nil, nil})
}

func rowsKeyKinds[Tx any](t *testing.T, h Harness[Tx]) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)
	values := map[pawl.Kind][]any{
		pawl.KindText:  {"b", "", "a", "B", "ä", `"`, "a "},
		pawl.KindInt:   {int64(2), int64(math.MinInt64), int64(-1), int64(math.MaxInt64), int64(0)},
		pawl.KindBool:  {true, false},
		pawl.KindTime:  {at, at.Add(time.Microsecond), at.Add(-time.Hour), time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)},
		pawl.KindBytes: {[]byte{2}, []byte{}, []byte{0}, []byte{0xff, 0}},
	}
	var tables []*pawl.Table
	for kind := pawl.KindText; kind <= pawl.KindBytes; kind++ {
		if len(values[kind]) > 0 {
			tables = append(tables, &pawl.Table{Name: "by_" + kind.String(), Key: 1,
				Columns: []pawl.Column{column("id", kind), column("n", pawl.KindInt)}})
		}
	}
	k := newWorld(t, h).keep(tables...)
	for _, table := range tables {
		var first, second []pawl.Row
		for i, v := range values[table.Columns[0].Kind] {
			first, second = append(first, pawl.Row{v, int64(i)}), append(second, pawl.Row{v, int64(i + 100)})
		}
		k.must(func(ctx context.Context, r pawl.Rows) error {
			return r.Put(ctx, table, first, make([]pawl.Row, len(first)))
		})
		k.wantRows(table, first...)
		k.must(func(ctx context.Context, r pawl.Rows) error { return r.Put(ctx, table, second, first) })
		k.wantRows(table, second...)
		k.must(func(ctx context.Context, r pawl.Rows) error { return r.Add(ctx, table, first[1:]) })
		k.wantRows(table, append([]pawl.Row{second[0]}, pawl.Row{first[1][0], int64(102)})...)
		k.must(func(ctx context.Context, r pawl.Rows) error { return r.Delete(ctx, table, keysOf(table, first[1:])) })
		k.wantInt(1, `select count(*) from `+table.Name)
	}
}

func rowsRefuseValues[Tx any](t *testing.T, h Harness[Tx]) {
	table := kinds()
	table.Columns[1].NotNull = true
	k := newWorld(t, h).keep(table)
	for what, row := range map[string]pawl.Row{
		"a NUL in a text":         {"k", "a\x00b", nil, nil, nil, nil, nil, nil},
		"a NUL in a key":          {"a\x00b", "", nil, nil, nil, nil, nil, nil},
		"a text that is no UTF-8": {"k", "\xff", nil, nil, nil, nil, nil, nil},
		"a decimal that is none":  {"k", "", nil, "12,50", nil, nil, nil, nil},
		"not a number":            {"k", "", nil, "NaN", nil, nil, nil, nil},
		"an empty decimal":        {"k", "", nil, "", nil, nil, nil, nil},
		"an infinite decimal":     {"k", "", nil, "-Infinity", nil, nil, nil, nil},
		"a bomb of an exponent":   {"k", "", nil, "1e999999999", nil, nil, nil, nil},
		"a year of five digits":   {"k", "", nil, nil, nil, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), nil, nil},
		"a time without end":      {"k", "", nil, nil, nil, time.Unix(math.MaxInt64/2, 0), nil, nil},
		"what is no JSON":         {"k", "", nil, nil, nil, nil, `{"a":`, nil},
		"a null where none may":   {"k", nil, nil, nil, nil, nil, nil, nil},
		"a null in the key":       {nil, "", nil, nil, nil, nil, nil, nil},
	} {
		for verb, write := range map[string]func(ctx context.Context, r pawl.Rows) error{
			"insert": func(ctx context.Context, r pawl.Rows) error { return r.Insert(ctx, table, []pawl.Row{row}) },
			"put": func(ctx context.Context, r pawl.Rows) error {
				return r.Put(ctx, table, []pawl.Row{row}, []pawl.Row{nil})
			},
		} {
			k.fails(verb+" "+what, write, pawl.Poison, pawl.Validation)
		}
	}
	for _, key := range []pawl.Row{{"a\x00b"}, {nil}} {
		k.fails(fmt.Sprintf("read %q", key), func(ctx context.Context, r pawl.Rows) error {
			_, err := r.Read(ctx, table, []pawl.Row{key})
			return err
		}, pawl.Poison, pawl.Validation)
		k.fails(fmt.Sprintf("delete %q", key), func(ctx context.Context, r pawl.Rows) error {
			return r.Delete(ctx, table, []pawl.Row{key})
		}, pawl.Poison, pawl.Validation)
	}
	k.wantInt(0, `select count(*) from kinds`)
}

// No record must be set aside for a mistake in the program.
func rowsRefuseTypes[Tx any](t *testing.T, h Harness[Tx]) {
	table := kinds()
	k := newWorld(t, h).keep(table)
	good := pawl.Row{"k", "", int64(1), "1", true, now, `{}`, []byte{}}
	wrong := []any{1, []byte("a"), 1, 1.5, "true", "2026-03-01T12:00:00Z", map[string]any{}, "raw"}
	for i, v := range wrong {
		row := append(pawl.Row{}, good...)
		row[i] = v
		k.fails(fmt.Sprintf("a %T in column %s", v, table.Columns[i].Name), func(ctx context.Context, r pawl.Rows) error {
			return r.Insert(ctx, table, []pawl.Row{good, row})
		}, pawl.Misconfigured)
	}
	for _, row := range []pawl.Row{good[:7], append(good[:8:8], "more"), nil, {}} {
		k.fails(fmt.Sprintf("a row of %d values", len(row)), func(ctx context.Context, r pawl.Rows) error {
			return r.Insert(ctx, table, []pawl.Row{row})
		}, pawl.Misconfigured)
	}
	k.fails("a row in place of a key", func(ctx context.Context, r pawl.Rows) error {
		_, err := r.Read(ctx, table, []pawl.Row{good})
		return err
	}, pawl.Misconfigured)
	k.fails("rows without places", func(ctx context.Context, r pawl.Rows) error {
		return r.Put(ctx, table, []pawl.Row{good}, nil)
	}, pawl.Misconfigured)
	k.fails("to add to a text", func(ctx context.Context, r pawl.Rows) error {
		return r.Add(ctx, table, []pawl.Row{good})
	}, pawl.Misconfigured)
	k.wantInt(0, `select count(*) from kinds`)
}
