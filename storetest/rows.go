package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
)

func rowsTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"values of every kind are read as they were written", rowsKinds[Tx]},
		{"values of every kind can be a key", rowsKeyKinds[Tx]},
		{"values that no column holds are the record's fault", rowsRefuseValues[Tx]},
		{"values of another type are nobody's fault but the effect's", rowsRefuseTypes[Tx]},
		{"read returns rows by place, and nil where there is none", rowsReadByPlace[Tx]},
		{"read locks rows until the transaction is over", rowsReadLocks[Tx]},
		{"put inserts and replaces", rowsPut[Tx]},
		{"put in the wrong place is raced", rowsPutRaced[Tx]},
		{"of two owners that put one new row, one is raced", rowsPutTogether[Tx]},
		{"of two owners that have read a row with a guard, one is raced", rowsPutGuarded[Tx]},
		{"put blames another constraint on the record", rowsPutOtherConstraint[Tx]},
		{"insert of a row that is there is the record's fault", rowsInsertTwice[Tx]},
		{"add starts from nothing and goes on from there, exactly", rowsAdd[Tx]},
		{"delete removes what is there", rowsDelete[Tx]},
		{"a key of several columns", rowsCompositeKey[Tx]},
		{"a table that is all key", rowsAllKey[Tx]},
		{"names that need quotes", rowsNames[Tx]},
		{"a batch of thousands", rowsMany[Tx]},
		{"calls without rows do nothing", rowsNone[Tx]},
		{"open refuses tables that will not do, all at once", rowsOpenRefuses[Tx]},
		{"other columns need defaults", rowsOtherColumns[Tx]},
		{"a table that the store was not opened with is refused", rowsUnknownTable[Tx]},
		{"rows of a transaction that fails are gone", rowsUndone[Tx]},
		{"rows behind a mark can be undone", rowsBehindMark[Tx]},
		{"rows cannot be used when the transaction is over", rowsAfterEnd[Tx]},
		{"two owners over the same keys in opposite order do not deadlock", rowsNoDeadlock[Tx]},
	}
}

func rowsReadByPlace[Tx any](t *testing.T, h Harness[Tx]) {
	table := sums()
	k := newWorld(t, h).keep(table)
	k.insert(table, pawl.Row{"c", int64(3), nil}, pawl.Row{"a", int64(1), nil}, pawl.Row{"b", int64(2), nil})
	got := k.read(table, pawl.Row{"z"}, pawl.Row{"b"}, pawl.Row{"missing"}, pawl.Row{"c"}, pawl.Row{"a"})
	if len(got) != 5 || got[0] != nil || got[2] != nil {
		t.Fatalf("got %v, want five, the first and the third nil", got)
	}
	for place, want := range map[int]pawl.Row{1: {"b", int64(2), nil}, 3: {"c", int64(3), nil}, 4: {"a", int64(1), nil}} {
		if !reflect.DeepEqual(got[place], want) {
			t.Errorf("place %d: got %v, want %v", place, got[place], want)
		}
	}
}

func rowsReadLocks[Tx any](t *testing.T, h Harness[Tx]) {
	table := sums()
	one := newWorld(t, h).keep(table)
	two := one.beside()
	one.insert(table, pawl.Row{"a", int64(0), nil})
	raise := func(between func()) func(ctx context.Context, s pawl.Session[Tx]) error {
		return func(ctx context.Context, s pawl.Session[Tx]) error {
			rows, err := s.Rows().Read(ctx, table, []pawl.Row{{"a"}})
			if err != nil {
				return err
			}
			between()
			return s.Rows().Put(ctx, table, []pawl.Row{{"a", rows[0][1].(int64) + 1, nil}}, rows)
		}
	}
	locked, second := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		<-locked
		if err := two.in(raise(func() { close(second) })); err != nil {
			t.Errorf("second: %v", err)
		}
	})
	err := one.in(raise(func() {
		close(locked)
		select {
		case <-second:
			t.Error("the second has read what the first has locked")
		case <-time.After(200 * time.Millisecond):
		}
	}))
	if err != nil {
		t.Errorf("first: %v", err)
	}
	wg.Wait()
	one.wantRows(table, pawl.Row{"a", int64(2), nil})
}

func rowsPut[Tx any](t *testing.T, h Harness[Tx]) {
	table := sums()
	k := newWorld(t, h).keep(table)
	k.insert(table, pawl.Row{"b", int64(2), "2.00"}, pawl.Row{"d", int64(4), nil})
	rows := []pawl.Row{{"d", int64(40), "4"}, {"c", int64(30), nil}, {"a", nil, "1"}, {"b", nil, nil}}
	k.must(func(ctx context.Context, r pawl.Rows) error {
		before, err := r.Read(ctx, table, keysOf(table, rows))
		if err != nil {
			return err
		}
		return r.Put(ctx, table, rows, before)
	})
	k.wantRows(table, rows...)
	k.wantInt(4, `select count(*) from sums`)
}

func rowsPutRaced[Tx any](t *testing.T, h Harness[Tx]) {
	table := sums()
	k := newWorld(t, h).keep(table)
	there := []pawl.Row{{"a", int64(1), nil}, {"b", int64(1), nil}}
	k.insert(table, there...)
	for what, put := range map[string][2][]pawl.Row{
		"a new row that is there":                {{{"a", int64(2), nil}}, {nil}},
		"one of several":                         {{{"a", int64(2), nil}, {"c", int64(2), nil}}, {nil, nil}},
		"a known row that is not there":          {{{"c", int64(2), nil}}, {{"c", int64(1), nil}}},
		"one of several, the others being there": {{{"b", int64(2), nil}, {"c", int64(2), nil}, {"a", int64(2), nil}}, {there[1], {"c", int64(1), nil}, there[0]}},
	} {
		err := k.in(func(ctx context.Context, s pawl.Session[Tx]) error { return s.Rows().Put(ctx, table, put[0], put[1]) })
		if !errors.Is(err, pawl.ErrRaced) {
			t.Errorf("%s: got %v, want raced", what, err)
		}
	}
	k.wantRows(table, there...)
	k.wantInt(2, `select count(*) from sums`)
}

func rowsPutTogether[Tx any](t *testing.T, h Harness[Tx]) {
	putTogether(t, h, sums(), nil)
}

// Nothing is locked by reading: what was read is compared when it is written. The one that lost locks, and does not lose twice.
func rowsPutGuarded[Tx any](t *testing.T, h Harness[Tx]) {
	table := sums()
	table.Guard, table.Columns[1].NotNull = true, true
	putTogether(t, h, table, pawl.Row{"a", int64(0), nil})
}

// putTogether has two owners read a row and put one that is one higher, both at once.
func putTogether[Tx any](t *testing.T, h Harness[Tx], table *pawl.Table, there pawl.Row) {
	one := newWorld(t, h).keep(table)
	if there != nil {
		one.insert(table, there)
	}
	keepers := []*keeper[Tx]{one, one.beside()}
	meet := barrier(len(keepers))
	raced := make([]int, len(keepers))
	var wg sync.WaitGroup
	for i, k := range keepers {
		wg.Go(func() {
			for n := 0; ; n++ {
				err := k.in(func(ctx context.Context, s pawl.Session[Tx]) error {
					before, err := s.Rows().Read(ctx, table, []pawl.Row{{"a"}})
					if err != nil {
						return err
					}
					if !h.Serial && n == 0 {
						meet() // both have found the same
					}
					row := pawl.Row{"a", int64(1), nil}
					if before[0] != nil {
						row[1] = before[0][1].(int64) + 1
					}
					return s.Rows().Put(ctx, table, []pawl.Row{row}, before)
				})
				if !errors.Is(err, pawl.ErrRaced) {
					if err != nil {
						t.Errorf("owner %d: %v", i, err)
					}
					return
				}
				raced[i]++
			}
		})
	}
	wg.Wait()
	one.wantRows(table, pawl.Row{"a", int64(2), nil})
	if n := raced[0] + raced[1]; !h.Serial && n != 1 {
		t.Errorf("%d times raced, want 1", n)
	}
}

// To call it raced would have it tried for ever.
func rowsPutOtherConstraint[Tx any](t *testing.T, h Harness[Tx]) {
	table := sums()
	k := newWorld(t, h).keep(table)
	k.exec(`create unique index other on sums (n)`)
	k.insert(table, pawl.Row{"a", int64(1), nil}, pawl.Row{"b", int64(2), nil})
	k.fails("a new row", func(ctx context.Context, r pawl.Rows) error {
		return r.Put(ctx, table, []pawl.Row{{"c", int64(1), nil}}, []pawl.Row{nil})
	}, pawl.Validation)
	k.fails("a known row", func(ctx context.Context, r pawl.Rows) error {
		return r.Put(ctx, table, []pawl.Row{{"b", int64(1), nil}}, []pawl.Row{{"b", int64(2), nil}})
	}, pawl.Validation)
}

func rowsInsertTwice[Tx any](t *testing.T, h Harness[Tx]) {
	table := sums()
	k := newWorld(t, h).keep(table)
	k.insert(table, pawl.Row{"b", int64(1), nil})
	k.fails("insert again", func(ctx context.Context, r pawl.Rows) error {
		return r.Insert(ctx, table, []pawl.Row{{"a", int64(1), nil}, {"b", int64(2), nil}})
	}, pawl.Validation)
	k.wantRows(table, pawl.Row{"b", int64(1), nil})
	k.wantInt(1, `select count(*) from sums`)
}

func rowsAdd[Tx any](t *testing.T, h Harness[Tx]) {
	table := sums()
	k := newWorld(t, h).keep(table)
	add := func(rows ...pawl.Row) {
		t.Helper()
		k.must(func(ctx context.Context, r pawl.Rows) error { return r.Add(ctx, table, rows) })
	}
	add(pawl.Row{"b", int64(2), "0.1"}, pawl.Row{"a", int64(-1), "-12.5"})
	add(pawl.Row{"a", int64(3), "12.50"}, pawl.Row{"b", int64(5), "0.2"}, pawl.Row{"c", nil, nil})
	k.wantRows(table, pawl.Row{"a", int64(2), "0.00"}, pawl.Row{"b", int64(7), "0.3"}, pawl.Row{"c", nil, nil})

	add(pawl.Row{"c", nil, nil}, pawl.Row{"a", nil, nil}) // nothing is added
	k.wantRows(table, pawl.Row{"a", int64(2), "0.00"}, pawl.Row{"c", nil, nil})
	add(pawl.Row{"c", int64(1), "1"}) // to nothing
	k.wantRows(table, pawl.Row{"c", int64(1), "1"})

	nines := strings.Repeat("9", 40)
	add(pawl.Row{"d", int64(math.MaxInt64), nines + ".01"})
	add(pawl.Row{"d", int64(-math.MaxInt64), "-" + nines + "." + strings.Repeat("0", 29) + "1"})
	k.wantRows(table, pawl.Row{"d", int64(0), "0.00" + strings.Repeat("9", 28)})
	for range 10 {
		add(pawl.Row{"e", int64(0), "0.1"})
	}
	k.wantRows(table, pawl.Row{"e", int64(0), "1.0"})

	k.insert(table, pawl.Row{"full", int64(math.MaxInt64), nil}, pawl.Row{"empty", int64(math.MinInt64), nil})
	for id, n := range map[string]int64{"full": 1, "empty": -1} {
		k.fails("a sum out of range", func(ctx context.Context, r pawl.Rows) error {
			return r.Add(ctx, table, []pawl.Row{{id, n, nil}})
		}, pawl.Poison)
	}
	k.fails("a decimal that is none", func(ctx context.Context, r pawl.Rows) error {
		return r.Add(ctx, table, []pawl.Row{{"e", int64(0), "NaN"}})
	}, pawl.Poison)
}

func rowsDelete[Tx any](t *testing.T, h Harness[Tx]) {
	table := sums()
	k := newWorld(t, h).keep(table)
	k.insert(table, pawl.Row{"a", int64(1), nil}, pawl.Row{"b", int64(2), nil}, pawl.Row{"c", int64(3), nil})
	k.must(func(ctx context.Context, r pawl.Rows) error {
		return r.Delete(ctx, table, []pawl.Row{{"c"}, {"missing"}, {"a"}})
	})
	got := k.read(table, pawl.Row{"a"}, pawl.Row{"b"}, pawl.Row{"c"})
	if got[0] != nil || got[1] == nil || got[2] != nil {
		t.Errorf("got %v, want b alone", got)
	}
}

func rowsCompositeKey[Tx any](t *testing.T, h Harness[Tx]) {
	table := &pawl.Table{Name: "by_day", Key: 3, Columns: []pawl.Column{
		column("account", pawl.KindText), column("day", pawl.KindTime), column("n", pawl.KindInt), column("total", pawl.KindDecimal),
	}}
	k := newWorld(t, h).keep(table)
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	rows := []pawl.Row{
		{"b", day, int64(1), "1"}, {"a", day.AddDate(0, 0, 1), int64(1), "2"}, {"a", day, int64(2), "3"}, {"a", day, int64(1), "4"},
	}
	k.must(func(ctx context.Context, r pawl.Rows) error {
		return r.Put(ctx, table, rows, make([]pawl.Row, len(rows)))
	})
	k.wantRows(table, rows...)
	if got := k.read(table, pawl.Row{"b", day, int64(2)}); got[0] != nil {
		t.Errorf("got %v for a key of which only parts are there", got[0])
	}
	k.must(func(ctx context.Context, r pawl.Rows) error {
		return r.Add(ctx, table, []pawl.Row{{"a", day, int64(2), "0.5"}, {"b", day, int64(2), "5"}})
	})
	k.must(func(ctx context.Context, r pawl.Rows) error {
		return r.Put(ctx, table, []pawl.Row{{"a", day, int64(1), "40"}}, []pawl.Row{rows[3]})
	})
	k.must(func(ctx context.Context, r pawl.Rows) error {
		return r.Delete(ctx, table, []pawl.Row{{"b", day, int64(1)}})
	})
	k.wantRows(table, rows[1], pawl.Row{"a", day, int64(2), "3.5"}, pawl.Row{"a", day, int64(1), "40"}, pawl.Row{"b", day, int64(2), "5"})
	k.wantInt(4, `select count(*) from by_day`)
}

func rowsAllKey[Tx any](t *testing.T, h Harness[Tx]) {
	table := &pawl.Table{Name: "members", Key: 2, Columns: []pawl.Column{column("a", pawl.KindText), column("b", pawl.KindInt)}}
	k := newWorld(t, h).keep(table)
	rows := []pawl.Row{{"x", int64(2)}, {"x", int64(1)}}
	k.must(func(ctx context.Context, r pawl.Rows) error { return r.Put(ctx, table, rows, []pawl.Row{nil, nil}) })
	k.must(func(ctx context.Context, r pawl.Rows) error { return r.Put(ctx, table, rows, rows) })
	k.must(func(ctx context.Context, r pawl.Rows) error {
		return r.Add(ctx, table, append(rows, pawl.Row{"y", int64(1)}))
	})
	k.wantRows(table, append(rows, pawl.Row{"y", int64(1)})...)
	err := k.in(func(ctx context.Context, s pawl.Session[Tx]) error {
		return s.Rows().Put(ctx, table, []pawl.Row{{"z", int64(1)}}, []pawl.Row{{"z", int64(1)}})
	})
	if !errors.Is(err, pawl.ErrRaced) {
		t.Errorf("put of a known row that is not there: got %v, want raced", err)
	}
}

func rowsMany[Tx any](t *testing.T, h Harness[Tx]) {
	table := sums()
	k := newWorld(t, h).keep(table)
	const n = 3000
	var odd, all, keys []pawl.Row
	for i := range n {
		row := pawl.Row{fmt.Sprintf("key %d", i*7919%n), int64(i), fmt.Sprintf("%d.%02d", i, i%100)}
		all, keys = append(all, row), append(keys, row[:1])
		if i%2 == 1 {
			odd = append(odd, row)
		}
	}
	k.insert(table, odd...)
	k.must(func(ctx context.Context, r pawl.Rows) error {
		before, err := r.Read(ctx, table, keys)
		if err != nil {
			return err
		}
		for i := range before {
			if (before[i] != nil) != (i%2 == 1) || before[i] != nil && before[i][0] != keys[i][0] {
				return fmt.Errorf("place %d: got %v for %v", i, before[i], keys[i])
			}
		}
		return r.Put(ctx, table, all, before)
	})
	k.wantRows(table, all...)
	k.must(func(ctx context.Context, r pawl.Rows) error { return r.Add(ctx, table, all) })
	k.wantInt(2*n*(n-1)/2, `select sum(n) from sums`)
	k.must(func(ctx context.Context, r pawl.Rows) error { return r.Delete(ctx, table, keys) })
	k.wantInt(0, `select count(*) from sums`)
}

func rowsNone[Tx any](t *testing.T, h Harness[Tx]) {
	table := sums()
	k := newWorld(t, h).keep(table)
	err := k.in(func(ctx context.Context, s pawl.Session[Tx]) error {
		before, r := s.Statements(), s.Rows()
		got, err := r.Read(ctx, table, nil)
		err = errors.Join(err, r.Put(ctx, table, nil, nil), r.Insert(ctx, table, nil), r.Add(ctx, table, nil), r.Delete(ctx, table, nil))
		if len(got) != 0 || s.Statements() != before {
			return fmt.Errorf("got %v, and %d statements after %d", got, s.Statements(), before)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func rowsUndone[Tx any](t *testing.T, h Harness[Tx]) {
	table := sums()
	k := newWorld(t, h).keep(table)
	k.insert(table, pawl.Row{"a", int64(1), nil}, pawl.Row{"d", int64(1), nil})
	boom := errors.New("boom")
	err := k.in(func(ctx context.Context, s pawl.Session[Tx]) error {
		r := s.Rows()
		return errors.Join(boom,
			r.Put(ctx, table, []pawl.Row{{"a", int64(2), nil}, {"b", int64(2), nil}}, []pawl.Row{{"a", int64(1), nil}, nil}),
			r.Insert(ctx, table, []pawl.Row{{"c", int64(2), nil}}), r.Add(ctx, table, []pawl.Row{{"a", int64(2), nil}}),
			r.Delete(ctx, table, []pawl.Row{{"d"}}))
	})
	if !errors.Is(err, boom) || err.Error() != boom.Error() {
		t.Errorf("got %v, want %v alone", err, boom)
	}
	k.wantRows(table, pawl.Row{"a", int64(1), nil}, pawl.Row{"d", int64(1), nil})
	k.wantInt(2, `select count(*) from sums`)
}

func rowsBehindMark[Tx any](t *testing.T, h Harness[Tx]) {
	table := sums()
	k := newWorld(t, h).keep(table)
	k.insert(table, pawl.Row{"a", int64(1), nil}, pawl.Row{"d", int64(1), nil})
	writes := map[string]func(ctx context.Context, r pawl.Rows) error{
		"put": func(ctx context.Context, r pawl.Rows) error {
			return r.Put(ctx, table, []pawl.Row{{"b", int64(2), nil}}, []pawl.Row{nil})
		},
		"insert": func(ctx context.Context, r pawl.Rows) error {
			return r.Insert(ctx, table, []pawl.Row{{"c", int64(2), nil}})
		},
		"add": func(ctx context.Context, r pawl.Rows) error {
			return r.Add(ctx, table, []pawl.Row{{"a", int64(2), nil}})
		},
		"delete": func(ctx context.Context, r pawl.Rows) error { return r.Delete(ctx, table, []pawl.Row{{"d"}}) },
		"failure": func(ctx context.Context, r pawl.Rows) error {
			return r.Insert(ctx, table, []pawl.Row{{"a", int64(2), nil}})
		},
	}
	err := k.in(func(ctx context.Context, s pawl.Session[Tx]) error {
		if err := s.Rows().Insert(ctx, table, []pawl.Row{{"kept", int64(1), nil}}); err != nil {
			return err
		}
		for name, write := range writes {
			if err := s.Mark(ctx); err != nil {
				return err
			}
			before := s.Statements()
			if err := write(ctx, s.Rows()); (err != nil) != (name == "failure") {
				return fmt.Errorf("%s: %w", name, err)
			}
			if s.Statements() == before {
				t.Errorf("%s is not counted as a statement", name)
			}
			if err := s.Undo(ctx); err != nil {
				return err
			}
			if rows, err := s.Rows().Read(ctx, table, []pawl.Row{{"a"}, {"b"}}); err != nil || rows[0] == nil || rows[1] != nil {
				return fmt.Errorf("after %s was undone: %v, %w", name, rows, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	k.wantRows(table, pawl.Row{"a", int64(1), nil}, pawl.Row{"d", int64(1), nil}, pawl.Row{"kept", int64(1), nil})
	k.wantInt(3, `select count(*) from sums`)
}

func rowsAfterEnd[Tx any](t *testing.T, h Harness[Tx]) {
	table := sums()
	k := newWorld(t, h).keep(table)
	var leaked pawl.Rows
	k.must(func(_ context.Context, r pawl.Rows) error {
		leaked = r
		return nil
	})
	row, ctx := []pawl.Row{{"a", int64(1), nil}}, k.ctx
	_, err := leaked.Read(ctx, table, []pawl.Row{{"a"}})
	for what, err := range map[string]error{
		"read": err, "put": leaked.Put(ctx, table, row, []pawl.Row{nil}), "insert": leaked.Insert(ctx, table, row), "add": leaked.Add(ctx, table, row),
		"delete": leaked.Delete(ctx, table, []pawl.Row{{"a"}}),
	} {
		if !errors.Is(err, pawl.ErrTxEnded) {
			t.Errorf("%s after the end: got %v, want %v", what, err, pawl.ErrTxEnded)
		}
	}
	k.wantInt(0, `select count(*) from sums`)
}

func rowsNoDeadlock[Tx any](t *testing.T, h Harness[Tx]) {
	table := sums()
	one := newWorld(t, h).keep(table)
	keepers := []*keeper[Tx]{one, one.beside()}
	const size, rounds = 300, 10
	keys, opposite, full := make([]pawl.Row, size), make([]pawl.Row, size), make([]pawl.Row, size)
	for i := range size {
		full[i] = pawl.Row{fmt.Sprintf("key %03d", i), int64(1), nil}
		keys[i], opposite[size-1-i] = full[i][:1], full[i][:1]
	}
	add := func(ctx context.Context, r pawl.Rows, keys []pawl.Row) error {
		rows := make([]pawl.Row, len(keys))
		for i, key := range keys {
			rows[i] = pawl.Row{key[0], int64(1), nil}
		}
		return r.Add(ctx, table, rows)
	}
	read := func(ctx context.Context, r pawl.Rows, keys []pawl.Row) error {
		_, err := r.Read(ctx, table, keys)
		return err
	}
	put := func(ctx context.Context, r pawl.Rows, keys []pawl.Row) error {
		before, err := r.Read(ctx, table, keys)
		if err != nil {
			return err
		}
		rows := make([]pawl.Row, len(keys))
		for i, key := range keys {
			rows[i] = pawl.Row{key[0], int64(2), nil}
		}
		return r.Put(ctx, table, rows, before)
	}
	remove := func(ctx context.Context, r pawl.Rows, keys []pawl.Row) error { return r.Delete(ctx, table, keys) }
	for _, tt := range []struct {
		name          string
		there         []pawl.Row
		first, second func(ctx context.Context, r pawl.Rows, keys []pawl.Row) error
	}{
		{"add and add", nil, add, add},
		{"put and put", full[:size/2], put, put},
		{"put and add", full, put, add},
		{"delete and delete", full, remove, remove},
		{"delete and read", full, remove, read},
	} {
		for range rounds {
			one.must(func(ctx context.Context, r pawl.Rows) error {
				half := len(tt.there) / 2 // the order on disk is not that of the keys
				return errors.Join(r.Delete(ctx, table, keys), r.Insert(ctx, table, tt.there[half:]), r.Insert(ctx, table, tt.there[:half]))
			})
			meet := barrier(len(keepers))
			var wg sync.WaitGroup
			for i, k := range keepers {
				step, mine := tt.first, keys
				if i == 1 {
					step, mine = tt.second, opposite
				}
				wg.Go(func() {
					for first := true; ; first = false {
						err := k.in(func(ctx context.Context, s pawl.Session[Tx]) error {
							if first && !h.Serial {
								meet()
							}
							return step(ctx, s.Rows(), mine)
						})
						if errors.Is(err, pawl.ErrRaced) {
							continue
						}
						if err != nil {
							t.Errorf("%s: %v", tt.name, err)
						}
						return
					}
				})
			}
			wg.Wait()
		}
	}
}
