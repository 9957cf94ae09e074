package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/sqlite"
)

func openTables(ctx context.Context, s *sqlite.Store, tables ...*pawl.Table) (pawl.BoundStore[pawl.SQLTx], error) {
	return s.Open(ctx, pawl.Binding{
		Consumer: "c", Cluster: "k", Group: "g", Version: "v", Routes: []pawl.RouteName{{Name: "r"}}, HandlerTimeout: 10 * time.Second, Tables: tables,
	})
}

// withTables is a migrated store on a file in which these statements were run.
func withTables(t *testing.T, texts ...string) *sqlite.Store {
	t.Helper()
	file := filepath.Join(t.TempDir(), "test.db")
	s := open(t, file)
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	db := beside(t, file)
	for _, text := range texts {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return s
}

// inRows runs f in a transaction of its own.
func inRows(t *testing.T, bound pawl.BoundStore[pawl.SQLTx], f func(ctx context.Context, r pawl.Rows) error) error {
	t.Helper()
	o, err := bound.Acquire(t.Context(), pawl.Partition{Topic: "t", TopicID: pawl.TopicID{1}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return bound.Apply(t.Context(), o, &pawl.Work[pawl.SQLTx]{Now: time.Now(), Run: func(ctx context.Context, s pawl.Session[pawl.SQLTx]) error {
		return f(ctx, s.Rows())
	}})
}

func pair(name string, a, b pawl.Kind) *pawl.Table {
	return &pawl.Table{Name: name, Key: 1, Columns: []pawl.Column{{Name: "id", Kind: a}, {Name: "v", Kind: b}}}
}

// Each declared type either keeps every value of the kind, or is refused.
func TestRowsOfEachDeclaredType(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)
	values := map[pawl.Kind][]any{
		pawl.KindText: {"007", "1e3", "", " 1 "}, pawl.KindInt: {int64(-1 << 63), int64(1<<53 + 1)}, pawl.KindBool: {true, false},
		pawl.KindDecimal: {"12.50", "0.1", "100", "12345678901234567890.123456789"}, pawl.KindTime: {at, at.Truncate(time.Second)},
		pawl.KindJSON: {`{"a":1}`, `17`, `1.50`}, pawl.KindBytes: {[]byte("17"), []byte{}},
	}
	// What is not named is refused.
	keeps := map[pawl.Kind][]string{
		pawl.KindText: {"text", "varchar(10)", "", "blob"}, pawl.KindInt: {"integer", "bigint", "numeric", "decimal(10,2)", "", "blob", "datetime", "boolean"},
		pawl.KindBool:    {"integer", "bigint", "boolean", "numeric", "decimal(10,2)", "datetime", "", "blob"},
		pawl.KindDecimal: {"text", "varchar(10)", "", "blob"}, pawl.KindTime: {"text", "varchar(10)", "datetime", "numeric", "decimal(10,2)", "boolean", "", "blob"},
		pawl.KindJSON: {"text", "varchar(10)", "", "blob"}, pawl.KindBytes: {"blob", ""},
	}
	for _, declared := range []string{"text", "varchar(10)", "integer", "bigint", "real", "double precision", "numeric", "decimal(10,2)", "boolean", "datetime", "blob", ""} {
		for kind := pawl.KindText; kind <= pawl.KindBytes; kind++ {
			table := pair("kept", pawl.KindInt, kind)
			s := withTables(t, fmt.Sprintf(`create table kept (id integer primary key, v %s)`, declared))
			bound, err := openTables(t.Context(), s, table)
			if !slices.Contains(keeps[kind], declared) {
				if refused, ok := errors.AsType[*pawl.Error](err); !ok || refused.Class != pawl.Misconfigured || !strings.Contains(err.Error(), `column "v"`) {
					t.Errorf("%s in %q: got %v, want it refused", kind, declared, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s in %q: %v", kind, declared, err)
				continue
			}
			for i, v := range values[kind] {
				err := inRows(t, bound, func(ctx context.Context, r pawl.Rows) error {
					row := pawl.Row{int64(i), v}
					if err := r.Insert(ctx, table, []pawl.Row{row}); err != nil {
						return err
					}
					got, err := r.Read(ctx, table, []pawl.Row{row[:1]})
					if err == nil && !reflect.DeepEqual(got[0], row) {
						t.Errorf("%s in %q: got %v, want %v", kind, declared, got[0], row)
					}
					return err
				})
				if err != nil {
					t.Errorf("%s in %q: %v", kind, declared, err)
				}
			}
		}
	}
}

func TestRowsReadWhatOthersWrote(t *testing.T) {
	s := withTables(t, `create table at (id text primary key, v datetime)`, `create table n (id text primary key, v)`,
		`insert into at values ('default', datetime('2026-03-01 12:00:00')), ('iso', '2026-03-01T13:00:00.5+01:00'), ('bad', 'yesterday'), ('unix', 1)`,
		`insert into n values ('int', 17), ('text', '17.0'), ('real', 17.5), ('bad', 'x')`)
	at, n := pair("at", pawl.KindText, pawl.KindTime), pair("n", pawl.KindText, pawl.KindDecimal)
	bound, err := openTables(t.Context(), s, at, n)
	if err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		table *pawl.Table
		id    string
		want  any // nil: it cannot be read
	}{
		{at, "default", noon}, {at, "iso", noon.Add(500 * time.Millisecond)}, {at, "bad", nil}, {at, "unix", nil},
		{n, "int", "17"}, {n, "text", "17.0"}, {n, "real", nil}, {n, "bad", nil},
	} {
		var got []pawl.Row
		err := inRows(t, bound, func(ctx context.Context, r pawl.Rows) (err error) {
			got, err = r.Read(ctx, tt.table, []pawl.Row{{tt.id}})
			return err
		})
		switch {
		case tt.want == nil && (err == nil || bound.Classify(err) != pawl.Corruption):
			t.Errorf("%s: got %v and %v, want corruption", tt.id, got, err)
		case tt.want != nil && (err != nil || !reflect.DeepEqual(got[0][1], tt.want)):
			t.Errorf("%s: got %v and %v, want %v", tt.id, got, err, tt.want)
		}
	}
}

// What a constraint is declared to do about a violation would otherwise lose a row, or another's, in silence.
func TestRowsAreNeitherIgnoredNorReplaced(t *testing.T) {
	table := pair("u", pawl.KindText, pawl.KindInt)
	for _, clause := range []string{"ignore", "replace"} {
		s := withTables(t, `create table u (id text primary key on conflict `+clause+`, v integer unique on conflict `+clause+`)`,
			`insert into u values ('a', 1), ('b', 2)`)
		bound, err := openTables(t.Context(), s, table)
		if err != nil {
			t.Fatal(err)
		}
		for what, write := range map[string]func(ctx context.Context, r pawl.Rows) error{
			"insert key":   func(ctx context.Context, r pawl.Rows) error { return r.Insert(ctx, table, []pawl.Row{{"a", int64(3)}}) },
			"insert value": func(ctx context.Context, r pawl.Rows) error { return r.Insert(ctx, table, []pawl.Row{{"c", int64(1)}}) },
			"put": func(ctx context.Context, r pawl.Rows) error {
				return r.Put(ctx, table, []pawl.Row{{"c", int64(1)}}, []pawl.Row{nil})
			},
			"replace": func(ctx context.Context, r pawl.Rows) error {
				return r.Put(ctx, table, []pawl.Row{{"b", int64(1)}}, []pawl.Row{{"b", int64(2)}})
			},
		} {
			if err := inRows(t, bound, write); err == nil || bound.Classify(err) != pawl.Validation {
				t.Errorf("on conflict %s, %s: got %v, want validation", clause, what, err)
			}
		}
	}
}

func TestOpenRefusesKeysThatAreNotWhatTheyLookLike(t *testing.T) {
	table := pair("k", pawl.KindText, pawl.KindInt)
	for name, text := range map[string]string{
		"a collation":   `create table k (id text collate nocase primary key, v integer)`,
		"an expression": `create table k (id text, v integer); create unique index k_id on k (lower(id))`,
		"one of two":    `create table k (id text, v integer, primary key (id, v))`,
		"generated":     `create table k (id text primary key, v integer generated always as (1) stored)`,
		"virtual":       `create virtual table k using fts5 (id, v)`,
	} {
		if _, err := openTables(t.Context(), withTables(t, text), table); err == nil || !strings.Contains(err.Error(), `table "k"`) {
			t.Errorf("%s: got %v, want it refused", name, err)
		}
	}
	for name, text := range map[string]string{
		"an index":      `create table k (v integer, id text not null); create unique index k_id on k (id)`,
		"without rowid": `create table k (id text primary key, v integer) without rowid`,
	} {
		if _, err := openTables(t.Context(), withTables(t, text), table); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	byNumber := pair("k", pawl.KindInt, pawl.KindInt)
	if _, err := openTables(t.Context(), withTables(t, `create table k (id integer primary key, v integer)`), byNumber); err != nil {
		t.Errorf("a rowid: %v", err)
	}
}

// A name that is a schema's on other databases stays one name.
func TestRowsOfATableWithADotInItsName(t *testing.T) {
	table := pair("billing.accounts", pawl.KindText, pawl.KindInt)
	bound, err := openTables(t.Context(), withTables(t, sqlite.DDL(table)), table)
	if err != nil {
		t.Fatal(err)
	}
	err = inRows(t, bound, func(ctx context.Context, r pawl.Rows) error { return r.Insert(ctx, table, []pawl.Row{{"a", int64(1)}}) })
	if err != nil {
		t.Error(err)
	}
}
