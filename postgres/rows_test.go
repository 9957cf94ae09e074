package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/pgtest"
	"github.com/pawlhq/pawl/postgres"
)

// keeper runs declared effects in transactions of their own.
type keeper struct {
	*testing.T
	store pawl.BoundStore[pgx.Tx]
	o     *pawl.Ownership
}

func openTables(ctx context.Context, s *postgres.Store[pgx.Tx], tables ...*pawl.Table) (pawl.BoundStore[pgx.Tx], error) {
	return s.Open(ctx, pawl.Binding{
		Consumer: "c", Cluster: "k", Group: "g", Version: "v", Routes: []pawl.RouteName{{Name: "r"}}, HandlerTimeout: 10 * time.Second, Tables: tables,
	})
}

func keep(t *testing.T, dsn string, tables ...*pawl.Table) *keeper {
	t.Helper()
	s := postgres.New(openPool(t, dsn))
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	bound, err := openTables(t.Context(), s, tables...)
	if err != nil {
		t.Fatal(err)
	}
	o, err := bound.Acquire(t.Context(), pawl.Partition{Topic: "t", TopicID: pawl.TopicID{1}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &keeper{t, bound, o}
}

func (k *keeper) in(f func(ctx context.Context, r pawl.Rows) error) error {
	return k.store.Apply(k.Context(), k.o, &pawl.Work[pgx.Tx]{Now: time.Now(), Run: func(ctx context.Context, s pawl.Session[pgx.Tx]) error {
		return f(ctx, s.Rows())
	}})
}

func (k *keeper) must(f func(ctx context.Context, r pawl.Rows) error) {
	k.Helper()
	if err := k.in(f); err != nil {
		k.Fatal(err)
	}
}

func (k *keeper) want(t *pawl.Table, want pawl.Row) {
	k.Helper()
	k.must(func(ctx context.Context, r pawl.Rows) error {
		got, err := r.Read(ctx, t, []pawl.Row{want[:t.Key]})
		if err == nil && !reflect.DeepEqual(got[0], want) {
			k.Errorf("%s: got %v, want %v", t.Name, got[0], want)
		}
		return err
	})
}

func (k *keeper) wantClass(what string, want pawl.Class, err error) {
	k.Helper()
	if got := k.store.Classify(err); err == nil || got != want {
		k.Errorf("%s: %v is %s, want %s", what, err, got, want)
	}
}

func execSQL(t *testing.T, db *sql.DB, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

func pair(name string, a, b pawl.Kind) *pawl.Table {
	return &pawl.Table{Name: name, Key: 1, Columns: []pawl.Column{{Name: "id", Kind: a}, {Name: "v", Kind: b}}}
}

// Where a table is, is found out once: behind a proxy the next session may have another search path.
func TestRowsOfATableInASchema(t *testing.T) {
	dsn := pgtest.URL(t)
	db := openSQL(t, dsn)
	named, found := pair(`Billing "of" it.accounts`, pawl.KindText, pawl.KindInt), pair("accounts", pawl.KindText, pawl.KindInt)
	execSQL(t, db, `create schema "Billing ""of"" it"`, `create schema first`, postgres.DDL(named), postgres.DDL(found),
		`create table first.accounts (id text primary key, v bigint)`, `alter database "`+dbName(t, db)+`" set search_path = first, public`)
	k := keep(t, dsn, named, found)
	for i, table := range []*pawl.Table{named, found} {
		k.must(func(ctx context.Context, r pawl.Rows) error { return r.Insert(ctx, table, []pawl.Row{{"a", int64(i)}}) })
		k.want(table, pawl.Row{"a", int64(i)})
	}
	for query, want := range map[string]int{
		`select count(*) from "Billing ""of"" it".accounts where v = 0`: 1, `select count(*) from first.accounts where v = 1`: 1, `select count(*) from public.accounts`: 0,
	} {
		var n int
		if err := db.QueryRow(query).Scan(&n); err != nil || n != want {
			t.Errorf("%s: got %d %v, want %d", query, n, err, want)
		}
	}
}

// Each type either keeps every value of the kind, or is refused.
func TestRowsOfEachColumnType(t *testing.T) {
	dsn := pgtest.URL(t)
	db := openSQL(t, dsn)
	execSQL(t, db, `create type mood as enum ('sad', 'happy')`, `create domain short as varchar(3) check (value <> 'no')`, `create domain shorter as short`,
		`create domain cents as numeric(10, 2)`, `create schema hidden`, `create type hidden.mood as enum ('odd')`)
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)
	const id = "0191d2a0-0000-7000-8000-000000000001"
	type values []any
	for _, tt := range []struct {
		kind     pawl.Kind
		declared string
		good     values
		bad      values // data that the column cannot hold
	}{
		{pawl.KindText, "varchar(3)", values{"abc", ""}, values{"abcd"}},
		{pawl.KindText, "char(3)", values{"EUR"}, values{"EURO"}},
		{pawl.KindText, "uuid", values{id}, values{"not a uuid", ""}},
		{pawl.KindText, "mood", values{"happy"}, values{"bored"}},
		{pawl.KindText, "hidden.mood", values{"odd"}, values{"happy"}},
		{pawl.KindText, "shorter", values{"abc"}, values{"abcd", "no"}},
		{pawl.KindInt, "integer", values{int64(1 << 30)}, values{int64(1 << 31)}},
		{pawl.KindInt, "smallint", values{int64(-1 << 15)}, values{int64(1 << 15)}},
		{pawl.KindInt, "numeric", values{int64(-1 << 63)}, nil},
		{pawl.KindInt, "numeric(5,2)", values{int64(999)}, values{int64(1000)}},
		{pawl.KindDecimal, "numeric(10,2)", values{"12.50", "12.00"}, values{"1.005", "123456789"}},
		{pawl.KindDecimal, "cents", values{"12.50"}, values{"1.005"}},
		{pawl.KindDecimal, "numeric(3,0)", values{"999", "0"}, values{"0.5"}},
		{pawl.KindDecimal, "text", values{"12.50"}, values{"x"}},
		{pawl.KindDecimal, "varchar(4)", values{"12.5"}, values{"12.50", "NaN"}},
		{pawl.KindJSON, "json", values{`{"a": 1}`}, values{`{`}},
		{pawl.KindJSON, "jsonb", values{`{"a": 1}`}, values{`"\u0000"`}},
		{pawl.KindJSON, "text", values{`{"a": 1}`}, values{`{`}},
		{pawl.KindTime, "timestamptz(6)", values{at}, nil},
	} {
		t.Run(fmt.Sprintf("%s in %s", tt.kind, tt.declared), func(t *testing.T) {
			table := pair("kept_"+strings.NewReplacer("(", "", ")", "", ",", "_", ".", "_").Replace(tt.declared+tt.kind.String()), pawl.KindInt, tt.kind)
			execSQL(t, db, fmt.Sprintf(`create table %s (id int primary key, v %s)`, table.Name, tt.declared))
			k := keep(t, dsn, table)
			for i, v := range tt.good {
				rows := []pawl.Row{{int64(i), v}}
				k.must(func(ctx context.Context, r pawl.Rows) error { return r.Insert(ctx, table, rows) })
				k.must(func(ctx context.Context, r pawl.Rows) error { return r.Put(ctx, table, rows, rows) })
				k.want(table, rows[0])
			}
			for _, v := range tt.bad {
				for verb, write := range map[string]func(ctx context.Context, r pawl.Rows) error{
					"insert": func(ctx context.Context, r pawl.Rows) error { return r.Insert(ctx, table, []pawl.Row{{int64(99), v}}) },
					"put": func(ctx context.Context, r pawl.Rows) error {
						return r.Put(ctx, table, []pawl.Row{{int64(99), v}}, []pawl.Row{nil})
					},
					"replace": func(ctx context.Context, r pawl.Rows) error {
						return r.Put(ctx, table, []pawl.Row{{int64(0), v}}, []pawl.Row{{}})
					},
				} {
					err := k.in(write)
					if class := k.store.Classify(err); err == nil || class != pawl.Poison && class != pawl.Validation {
						t.Errorf("%s %v: %v is %s, want poison or validation", verb, v, err, class)
					}
				}
			}
		})
	}
	for _, tt := range []struct {
		kind     pawl.Kind
		declared string
	}{
		{pawl.KindText, "integer"}, {pawl.KindText, `"char"`}, {pawl.KindText, "name"}, {pawl.KindText, "text[]"}, {pawl.KindText, "date"},
		{pawl.KindInt, "text"}, {pawl.KindInt, "double precision"}, {pawl.KindInt, "money"},
		{pawl.KindDecimal, "double precision"}, {pawl.KindDecimal, "real"}, {pawl.KindDecimal, "bigint"}, {pawl.KindDecimal, "money"},
		{pawl.KindBool, "integer"}, {pawl.KindTime, "timestamp"}, {pawl.KindTime, "date"}, {pawl.KindTime, "timestamptz(3)"}, {pawl.KindTime, "text"},
		{pawl.KindJSON, "bytea"}, {pawl.KindBytes, "text"},
	} {
		execSQL(t, db, fmt.Sprintf(`create table refused (id int primary key, v %s)`, tt.declared))
		_, err := openTables(t.Context(), postgres.New(openPool(t, dsn)), pair("refused", pawl.KindInt, tt.kind))
		if refused, ok := errors.AsType[*pawl.Error](err); !ok || refused.Class != pawl.Misconfigured || !strings.Contains(err.Error(), `column "v"`) {
			t.Errorf("%s in %s: got %v, want it refused", tt.kind, tt.declared, err)
		}
		execSQL(t, db, `drop table refused`)
	}
}

func TestRowsAddUpInEachColumnType(t *testing.T) {
	dsn := pgtest.URL(t)
	db := openSQL(t, dsn)
	for _, tt := range []struct {
		kind            pawl.Kind
		declared        string
		first, add, sum any
		tooMuch         any
	}{
		{pawl.KindDecimal, "text", "0.1", "0.20", "0.30", nil},
		{pawl.KindDecimal, "numeric(4,2)", "90.00", "9.99", "99.99", "0.01"},
		{pawl.KindInt, "smallint", int64(32766), int64(1), int64(32767), int64(1)},
		{pawl.KindInt, "numeric", int64(1 << 62), int64(-1), int64(1<<62 - 1), nil},
	} {
		table := pair("sum_"+tt.kind.String()+tt.declared[:4], pawl.KindText, tt.kind)
		execSQL(t, db, fmt.Sprintf(`create table %s (id text primary key, v %s)`, table.Name, tt.declared))
		k := keep(t, dsn, table)
		add := func(v any) error {
			return k.in(func(ctx context.Context, r pawl.Rows) error { return r.Add(ctx, table, []pawl.Row{{"a", v}}) })
		}
		if err := errors.Join(add(tt.first), add(tt.add)); err != nil {
			t.Fatal(err)
		}
		k.want(table, pawl.Row{"a", tt.sum})
		if tt.tooMuch != nil {
			k.wantClass(tt.declared, pawl.Poison, add(tt.tooMuch))
		}
	}
}

// What others wrote there and no int64 holds must not be rounded into one.
func TestRowsReadNoFractionAsInteger(t *testing.T) {
	dsn := pgtest.URL(t)
	execSQL(t, openSQL(t, dsn), `create table n (id text primary key, v numeric)`,
		`insert into n values ('whole', 7.00), ('half', 7.5), ('huge', 9223372036854775808)`)
	table := pair("n", pawl.KindText, pawl.KindInt)
	k := keep(t, dsn, table)
	k.want(table, pawl.Row{"whole", int64(7)})
	for _, id := range []string{"half", "huge"} {
		k.wantClass(id, pawl.Corruption, k.in(func(ctx context.Context, r pawl.Rows) error {
			_, err := r.Read(ctx, table, []pawl.Row{{id}})
			return err
		}))
	}
}

// Two keys of a batch that are one to the database are not a race, which would be tried for ever: the batch is split.
func TestRowsWithOneKeySpelledTwice(t *testing.T) {
	dsn := pgtest.URL(t)
	execSQL(t, openSQL(t, dsn), `create table u (id uuid primary key, v bigint)`,
		`create collation caseless (provider = icu, locale = 'und-u-ks-level2', deterministic = false)`,
		`create table w (id text collate caseless primary key, v bigint)`)
	const small, big = "0191d2a0-0000-7000-8000-00000000000a", "0191D2A0-0000-7000-8000-00000000000A"
	for name, spelled := range map[string][2]string{"u": {small, big}, "w": {"Äpfel", "äPFEL"}} {
		table := pair(name, pawl.KindText, pawl.KindInt)
		k := keep(t, dsn, table)
		rows := []pawl.Row{{spelled[0], int64(1)}, {spelled[1], int64(1)}}
		k.wantClass("put", pawl.Validation, k.in(func(ctx context.Context, r pawl.Rows) error { return r.Put(ctx, table, rows, []pawl.Row{nil, nil}) }))
		k.wantClass("add", pawl.Validation, k.in(func(ctx context.Context, r pawl.Rows) error { return r.Add(ctx, table, rows) }))
		for range 2 { // one by one
			for _, row := range rows {
				k.must(func(ctx context.Context, r pawl.Rows) error { return r.Add(ctx, table, []pawl.Row{row}) })
			}
		}
		k.want(table, pawl.Row{spelled[0], int64(4)})
		k.wantClass("replace", pawl.Validation, k.in(func(ctx context.Context, r pawl.Rows) error { return r.Put(ctx, table, rows, rows) }))
		err := k.in(func(ctx context.Context, r pawl.Rows) error { return r.Put(ctx, table, rows[1:], []pawl.Row{nil}) })
		if !errors.Is(err, pawl.ErrRaced) {
			t.Errorf("%s: put of a row that is there by another spelling: got %v, want raced", name, err)
		}
	}
}

func TestOpenRefusesTablesThatCannotBeWritten(t *testing.T) {
	dsn := pgtest.URL(t)
	db := openSQL(t, dsn)
	if err := postgres.New(openPool(t, dsn)).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	role := "r" + dbName(t, db) // roles are of the whole server
	execSQL(t, db, `create role "`+role+`" login`, `grant select, insert, update on all tables in schema public to "`+role+`"`,
		`create schema closed`, `create table closed.c (id text primary key, v bigint)`, `grant select, insert, update on closed.c to "`+role+`"`,
		`create table unreadable (id text primary key, v bigint)`, `grant insert, update on unreadable to "`+role+`"`,
		`create table fixed (id text primary key, v bigint)`, `grant select, insert, update (id) on fixed to "`+role+`"`,
		`create table made (id text primary key, v bigint generated always as (1) stored)`, `grant select, insert, update on made to "`+role+`"`,
		`create table numbered (id text primary key, v bigint generated always as identity)`, `grant select, insert, update on numbered to "`+role+`"`,
		`create table late (id text unique deferrable, v bigint)`, `grant select, insert, update on late to "`+role+`"`,
		`create table enough (id text primary key, v bigint, other int)`, `grant select (id, v), insert (id, v), update (v) on enough to "`+role+`"`,
	)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		db.ExecContext(ctx, `drop owned by "`+role+`"`)
		db.ExecContext(ctx, `drop role "`+role+`"`)
	})
	as, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	as.User = url.User(role)
	s := postgres.New(openPool(t, as.String()))
	var tables []*pawl.Table
	for _, name := range []string{"closed.c", "unreadable", "fixed", "made", "numbered", "late"} {
		tables = append(tables, pair(name, pawl.KindText, pawl.KindInt))
	}
	_, err = openTables(t.Context(), s, tables...)
	if refused, ok := errors.AsType[*pawl.Error](err); !ok || refused.Class != pawl.Misconfigured {
		t.Fatalf("got %v, want it refused", err)
	}
	for _, part := range []string{
		`table "closed.c": the role has no right to use schema "closed"`, `table "unreadable": the role has no right to select column "id"`,
		`table "fixed": the role has no right to update column "v"`, `table "made": column "v" is generated`, `table "numbered": column "v" is generated`,
		`table "late": no unique index`,
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v\ndoes not say %q", err, part)
		}
	}
	enough := pair("enough", pawl.KindText, pawl.KindInt)
	if _, err := openTables(t.Context(), s, enough); err != nil && strings.Contains(err.Error(), "declared effects") {
		t.Errorf("rights on the columns that are used are not enough: %v", err)
	}
}

// Two transactions that meet at the same rows wait for each other: in key order, whatever the order on disk and however keys
// are spelled. The second row is locked until both have got as far as they can.
func TestRowsAreLockedInKeyOrder(t *testing.T) {
	uuid := func(last string) string { return "0191d2a0-0000-7000-8000-00000000000" + last }
	remove := func(ctx context.Context, r pawl.Rows, table *pawl.Table, keys []pawl.Row) error {
		return r.Delete(ctx, table, keys)
	}
	read := func(ctx context.Context, r pawl.Rows, table *pawl.Table, keys []pawl.Row) error {
		_, err := r.Read(ctx, table, keys)
		return err
	}
	add := func(ctx context.Context, r pawl.Rows, table *pawl.Table, keys []pawl.Row) error {
		rows := make([]pawl.Row, len(keys))
		for i, key := range keys {
			rows[i] = pawl.Row{key[0], int64(1)}
		}
		return r.Add(ctx, table, rows)
	}
	for _, tt := range []struct {
		name, keyType string
		first, second func(ctx context.Context, r pawl.Rows, table *pawl.Table, keys []pawl.Row) error
		keys          [2][]pawl.Row
	}{
		{"delete and read", "text", remove, read, [2][]pawl.Row{{{uuid("a")}, {uuid("b")}, {uuid("c")}}, {{uuid("c")}, {uuid("b")}, {uuid("a")}}}},
		{"read and read of uuids", "uuid", read, read, [2][]pawl.Row{{{uuid("a")}, {uuid("b")}, {uuid("c")}}, {{uuid("C")}, {uuid("b")}, {uuid("a")}}}},
		{"add and add of uuids", "uuid", add, add, [2][]pawl.Row{{{uuid("a")}, {uuid("b")}, {uuid("c")}}, {{uuid("C")}, {uuid("b")}, {uuid("a")}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dsn := pgtest.URL(t)
			db := openSQL(t, dsn)
			table := pair("d", pawl.KindText, pawl.KindInt)
			execSQL(t, db, `create table d (id `+tt.keyType+` primary key, v bigint)`,
				fmt.Sprintf(`insert into d values ('%s', 1), ('%s', 1), ('%s', 1)`, uuid("c"), uuid("b"), uuid("a")))
			for _, setting := range []string{"enable_nestloop", "enable_mergejoin", "enable_indexscan", "enable_bitmapscan"} {
				execSQL(t, db, `alter database "`+dbName(t, db)+`" set `+setting+` = off`) // so that a join follows the disk
			}
			one := keep(t, dsn, table)
			two := *one
			var err error
			if two.o, err = one.store.Acquire(t.Context(), pawl.Partition{Topic: "t", TopicID: pawl.TopicID{1}, Index: 1}, 0); err != nil {
				t.Fatal(err)
			}
			block, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer block.Rollback()
			if _, err := block.ExecContext(t.Context(), `update d set v = 2 where id = $1`, uuid("b")); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 2)
			start := func(n int, k *keeper, step func(ctx context.Context, r pawl.Rows, table *pawl.Table, keys []pawl.Row) error) {
				go func() {
					done <- k.in(func(ctx context.Context, r pawl.Rows) error { return step(ctx, r, table, tt.keys[n-1]) })
				}()
				for until, got := time.Now().Add(5*time.Second), -1; got < n; time.Sleep(time.Millisecond) {
					err := db.QueryRow(`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`).Scan(&got)
					if err != nil || time.Now().After(until) {
						t.Fatalf("%d transactions wait, want %d: %v", got, n, err)
					}
				}
			}
			start(1, one, tt.first)
			start(2, &two, tt.second)
			if err := block.Commit(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
			var n int
			if err := db.QueryRow(`select count(*) from d`).Scan(&n); err != nil || (n == 0) != (tt.name == "delete and read") {
				t.Errorf("%d rows are left, %v", n, err)
			}
		})
	}
}
