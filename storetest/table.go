package storetest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
)

func rowsNames[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	var tables []*pawl.Table
	for _, name := range []string{`order`, `Mixed Case`, `a"b`, `x"; drop table effect;--`, `ünï“code”`, `pawl_name's`, `{{key}}`, `$1?:n`, `k`, `t`} {
		tables = append(tables, &pawl.Table{Name: name, Key: 2, Columns: []pawl.Column{
			column(`select`, pawl.KindText), column(`Key "of" it`, pawl.KindInt), column(`order`, pawl.KindInt), column(`{{set}}`, pawl.KindDecimal),
			column(`$1`, pawl.KindText), column(`?`, pawl.KindTime), column(`i`, pawl.KindBytes), column(`c0`, pawl.KindJSON),
		}})
	}
	sum := &pawl.Table{Name: `Sum "of" it`, Key: 1, Columns: []pawl.Column{column(`Group`, pawl.KindText), column(`t."x"`, pawl.KindInt)}}
	k := w.keep(append(tables, sum)...)
	for i, table := range tables {
		row := pawl.Row{"a", int64(1), int64(i), "1.5", table.Name, now, []byte{byte(i)}, `{}`}
		k.insert(table, row)
		k.wantRows(table, row)
		after := pawl.Row{"a", int64(1), int64(i + 1), "2.5", "", now.Add(time.Second), []byte{}, `[]`}
		k.must(func(ctx context.Context, r pawl.Rows) error {
			return r.Put(ctx, table, []pawl.Row{after}, []pawl.Row{row})
		})
		k.wantRows(table, after)
		k.must(func(ctx context.Context, r pawl.Rows) error { return r.Delete(ctx, table, []pawl.Row{{"a", int64(1)}}) })
		if got := k.read(table, pawl.Row{"a", int64(1)}); got[0] != nil {
			t.Errorf("%s: the row was not deleted", table.Name)
		}
	}
	for range 2 {
		k.must(func(ctx context.Context, r pawl.Rows) error { return r.Add(ctx, sum, []pawl.Row{{"a", int64(1)}}) })
	}
	k.wantRows(sum, pawl.Row{"a", int64(2)})
	k.wantInt(0, `select count(*) from effect`) // it is still there
}

func rowsOpenRefuses[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	w.exec(`create table approximate (id text primary key, amount double precision)`)
	w.exec(`create table loose (id text not null, n bigint)`)
	w.exec(`create table half (a text not null, b text not null, n bigint, primary key (a, b))`)
	w.exec(`create table bare (id text primary key)`)
	w.exec(`create view seen as select id from bare`)
	w.exec(`create table partial (id text not null)`)
	w.exec(`create unique index partial_id on partial (id) where id <> ''`)
	w.exec(`create table good (id text primary key, n bigint)`)
	id, n := column("id", pawl.KindText), column("n", pawl.KindInt)
	b := binding()
	b.Tables = []*pawl.Table{
		{Name: "nowhere", Key: 1, Columns: []pawl.Column{id, n}},
		{Name: "bare", Key: 1, Columns: []pawl.Column{id, column("Missing", pawl.KindBool)}},
		{Name: "approximate", Key: 1, Columns: []pawl.Column{id, column("amount", pawl.KindDecimal)}},
		{Name: "loose", Key: 1, Columns: []pawl.Column{id, n}},
		{Name: "half", Key: 1, Columns: []pawl.Column{column("a", pawl.KindText), column("b", pawl.KindText)}},
		{Name: "seen", Key: 1, Columns: []pawl.Column{id}},
		{Name: "partial", Key: 1, Columns: []pawl.Column{id}},
		{Name: "good", Key: 1, Columns: []pawl.Column{id, n}},
		{Name: "good", Key: 0, Columns: []pawl.Column{id, n}},
		{Name: "good", Key: 1, Columns: []pawl.Column{id, column("n", pawl.KindText)}},
		{Name: `x"; drop table effect;--`, Key: 1, Columns: []pawl.Column{id}},
		{Name: strings.Repeat("long", 40), Key: 1, Columns: []pawl.Column{id}},
		{Name: "good\x00", Key: 1, Columns: []pawl.Column{column("id\x00", pawl.KindText)}},
	}
	before := w.int(`select count(*) from pawl_consumer`)
	err := openError(w.Store.Open(w.ctx, b))
	w.wantHint(err, "create table")
	for _, part := range []string{
		`table "nowhere"`, `table "bare": there is no column "Missing"`, `table "approximate": column "amount"`, `table "loose": no unique`,
		`table "half": no unique`, `table "seen"`, `table "partial": no unique`, `table "good": 0 of 2`, `table "good": column "n"`,
		`table "x\"; drop table effect;--"`, `longlong`, `table "good\x00"`, h.DDL(b.Tables[0]), h.DDL(b.Tables[3]),
	} {
		if err != nil && !strings.Contains(err.Error(), part) {
			t.Errorf("%v\ndoes not say %q", err, part)
		}
	}
	if err != nil && strings.Contains(err.Error(), h.DDL(b.Tables[7])) {
		t.Errorf("%v\nblames a table that will do", err)
	}
	w.wantInt(before, `select count(*) from pawl_consumer`)
	w.wantInt(0, `select count(*) from effect`)

	b.Tables = b.Tables[7:8]
	w.client(b)
}

func rowsOtherColumns[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	w.exec(`create table strict_one (id text primary key, n bigint, other text not null)`)
	w.exec(`create table lax_one (id text primary key, note text, n bigint, other text not null default 'x')`)
	columns := []pawl.Column{column("id", pawl.KindText), column("n", pawl.KindInt)}
	b := binding()
	b.Tables = []*pawl.Table{{Name: "strict_one", Key: 1, Columns: columns}}
	w.wantHint(openError(w.Store.Open(w.ctx, b)), `"other"`)

	table := &pawl.Table{Name: "lax_one", Key: 1, Columns: columns}
	b.Tables = []*pawl.Table{table}
	c := w.client(b)
	k := &keeper[Tx]{client: c, o: c.acquire(partition(0), 0)}
	k.insert(table, pawl.Row{"a", int64(1)})
	w.exec(`update lax_one set note = 'kept', other = 'kept'`)
	k.must(func(ctx context.Context, r pawl.Rows) error {
		return r.Put(ctx, table, []pawl.Row{{"a", int64(2)}}, []pawl.Row{{"a", int64(1)}})
	})
	k.must(func(ctx context.Context, r pawl.Rows) error { return r.Add(ctx, table, []pawl.Row{{"a", int64(1)}}) })
	w.wantInt(1, `select count(*) from lax_one where n = 3 and note = 'kept' and other = 'kept'`)
}

func rowsUnknownTable[Tx any](t *testing.T, h Harness[Tx]) {
	known, unknown := sums(), sums()
	k := newWorld(t, h).keep(known)
	k.fails("another table of the same name", func(ctx context.Context, r pawl.Rows) error {
		return r.Insert(ctx, unknown, []pawl.Row{{"a", int64(1), nil}})
	}, pawl.Misconfigured)
}
