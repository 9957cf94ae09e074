package storetest

import (
	"context"
	"fmt"

	"github.com/pawlhq/pawl"
)

// keeper is an owner that runs declared effects.
type keeper[Tx any] struct {
	*client[Tx]
	o      *pawl.Ownership
	offset int64
}

// keep creates tables and opens the store with them.
func (w *world[Tx]) keep(tables ...*pawl.Table) *keeper[Tx] {
	w.Helper()
	for _, t := range tables {
		if _, err := w.DB.ExecContext(w.ctx, w.h.DDL(t)); err != nil { // a ? in it is no placeholder
			w.Fatalf("%s: %v", w.h.DDL(t), err)
		}
	}
	b := binding()
	b.Tables = tables
	c := w.client(b)
	return &keeper[Tx]{client: c, o: c.acquire(partition(0), 0)}
}

// beside is another process with the same tables.
func (k *keeper[Tx]) beside() *keeper[Tx] {
	k.Helper()
	c := k.another(k.binding)
	return &keeper[Tx]{client: c, o: c.acquire(partition(1), 0)}
}

// in runs f in a transaction of its own.
func (k *keeper[Tx]) in(f func(ctx context.Context, s pawl.Session[Tx]) error) error {
	d := record(k.o.Partition, k.offset, fmt.Sprintf("key %d of %s", k.offset, k.o.Partition), "v")
	err := k.store.Apply(k.ctx, k.o, work(func(ctx context.Context, s pawl.Session[Tx], d *pawl.Decision) error {
		d.Outcome = pawl.Applied
		return f(ctx, s)
	}, d))
	if err == nil {
		k.offset++
	}
	return err
}

// must is in, and goes well.
func (k *keeper[Tx]) must(f func(ctx context.Context, r pawl.Rows) error) {
	k.Helper()
	if err := k.in(func(ctx context.Context, s pawl.Session[Tx]) error { return f(ctx, s.Rows()) }); err != nil {
		k.Fatal(err)
	}
}

// fails is in, and fails with an error of this class.
func (k *keeper[Tx]) fails(what string, f func(ctx context.Context, r pawl.Rows) error, classes ...pawl.Class) {
	k.Helper()
	err := k.in(func(ctx context.Context, s pawl.Session[Tx]) error { return f(ctx, s.Rows()) })
	if err == nil {
		k.Errorf("%s: committed, want an error", what)
		return
	}
	for _, class := range classes {
		if k.store.Classify(err) == class {
			return
		}
	}
	k.Errorf("%s: %v is %s, want one of %v", what, err, k.store.Classify(err), classes)
}

func (k *keeper[Tx]) insert(t *pawl.Table, rows ...pawl.Row) {
	k.Helper()
	k.must(func(ctx context.Context, r pawl.Rows) error { return r.Insert(ctx, t, rows) })
}

func (k *keeper[Tx]) read(t *pawl.Table, keys ...pawl.Row) (rows []pawl.Row) {
	k.Helper()
	k.must(func(ctx context.Context, r pawl.Rows) (err error) {
		rows, err = r.Read(ctx, t, keys)
		return err
	})
	return rows
}

// wantRows reads the rows with the keys of want, which must be those.
func (k *keeper[Tx]) wantRows(t *pawl.Table, want ...pawl.Row) {
	k.Helper()
	keys := make([]pawl.Row, len(want))
	for i, row := range want {
		keys[i] = row[:t.Key]
	}
	got := k.read(t, keys...)
	if len(got) != len(want) {
		k.Fatalf("%s: got %d rows, want %d", t.Name, len(got), len(want))
	}
	for i := range want {
		if len(got[i]) != len(want[i]) {
			k.Errorf("%s: got %v, want %v", t.Name, got[i], want[i])
			continue
		}
		for j, c := range t.Columns {
			if !sameValue(c.Kind, got[i][j], want[i][j]) {
				k.Errorf("%s.%s of %v: got %T %.100v, want %T %.100v", t.Name, c.Name, keys[i], got[i][j], got[i][j], want[i][j], want[i][j])
			}
		}
	}
}

func column(name string, k pawl.Kind) pawl.Column { return pawl.Column{Name: name, Kind: k} }

// sums is a table of totals.
func sums() *pawl.Table {
	return &pawl.Table{Name: "sums", Key: 1, Columns: []pawl.Column{
		column("id", pawl.KindText), column("n", pawl.KindInt), column("total", pawl.KindDecimal),
	}}
}

func keysOf(t *pawl.Table, rows []pawl.Row) []pawl.Row {
	keys := make([]pawl.Row, len(rows))
	for i, row := range rows {
		keys[i] = row[:t.Key]
	}
	return keys
}
