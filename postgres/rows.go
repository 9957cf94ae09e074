package postgres

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/decimal"
)

// rows is what declared effects get: each call is one round trip, whatever the number of rows. Its errors are the effect's,
// as those of a handler's statements are the handler's.
type rows struct {
	tables  map[*pawl.Table]*table
	locks   bool // also rows with a guard: others have been in the way of late
	planned bool // rows_plans was sent, and not undone
	run     interface {
		// enter counts a call, or refuses it where the transaction is over.
		enter() error
		exec(ctx context.Context, stmts ...stmt) error
	}
}

func (r *rows) Read(ctx context.Context, of *pawl.Table, keys []pawl.Row) ([]pawl.Row, error) {
	t, err := r.table(of, "read", len(keys))
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	order := t.sort(keys)
	args, err := t.arrays(keys, order, t.key)
	if err != nil {
		return nil, err
	}
	read := make([]pawl.Row, len(keys))
	var i int64
	var slab []any
	width := len(t.columns)
	dest := make([]any, 1+width)
	dest[0] = &i
	text := t.look
	if r.locks {
		text = t.read
	}
	err = r.exec(ctx, stmt{sql: text, args: args, row: func(scan func(...any) error) error {
		if len(slab) < width {
			slab = make([]any, width*min(64, len(keys)))
		}
		row := slab[:width:width]
		slab = slab[width:]
		for c := range row {
			dest[1+c] = &row[c]
		}
		if err := scan(dest...); err != nil {
			return err
		}
		read[order[i-1]] = row
		return t.accept(row)
	}})
	if err != nil {
		return nil, t.failed("read", len(keys), err)
	}
	return read, nil
}

func (r *rows) Put(ctx context.Context, of *pawl.Table, rows, before []pawl.Row) error {
	t, err := r.table(of, "put", len(rows))
	if err != nil || len(rows) == 0 {
		return err
	}
	if len(rows) != len(before) {
		return t.mistaken("put %d rows in the place of %d", len(rows), len(before))
	}
	var fresh, known []int
	for _, i := range t.sort(rows) {
		if before[i] == nil {
			fresh = append(fresh, i)
		} else {
			known = append(known, i)
		}
	}
	stmts := make([]stmt, 0, 6)
	var inserted, replaced int64
	if len(fresh) > 0 {
		args, err := t.arrays(rows, fresh, len(t.columns))
		if err != nil {
			return err
		}
		stmts = append(stmts, stmt{sql: t.put, args: args, wrote: &inserted})
	}
	if len(known) > 0 {
		args, err := t.arrays(rows, known, len(t.columns))
		if err != nil {
			return err
		}
		if t.guard {
			guard, err := t.array(before, known, t.key)
			if err != nil {
				return err
			}
			args = append(args, guard)
		}
		stmts = append(stmts, probing(stmt{sql: t.replace, args: args, wrote: &replaced})...)
	}
	if err := r.exec(ctx, stmts...); err != nil {
		return t.failed("put", len(rows), err)
	}
	if inserted == int64(len(fresh)) && replaced == int64(len(known)) {
		return nil
	}
	return r.raced(ctx, t, rows, fmt.Errorf("%w (of %d new rows in %s, %d were written, and of %d known ones %d)",
		pawl.ErrRaced, len(fresh), t.name, inserted, len(known), replaced))
}

// probing has a statement find its rows by key. What a handler of another route runs behind it is planned as ever.
func probing(st stmt) []stmt {
	return []stmt{{sql: control["rows_probe"]}, st, {sql: control["rows_hashjoin"]}, {sql: control["rows_mergejoin"]}}
}

// raced makes sure that rows were in the way of others, and not of each other: that would be so for ever.
func (r *rows) raced(ctx context.Context, t *table, rows []pawl.Row, raced error) error {
	keys := make([]pawl.Row, len(rows))
	for i, row := range rows {
		keys[i] = row[:t.key]
	}
	args, err := t.arrays(keys, t.sort(keys), t.key)
	if err != nil {
		return err
	}
	var n int64
	err = r.exec(ctx, stmt{sql: t.distinct, args: args, row: func(scan func(...any) error) error { return scan(&n) }})
	switch {
	case err != nil:
		return t.failed("compare the keys of", len(rows), err)
	case n < int64(len(rows)):
		return t.failed("put", len(rows), errSameKey)
	}
	return raced
}

var errSameKey = &pawl.Error{Op: "compare keys", Class: pawl.Validation, Err: errors.New("two of them are one to the database")}

func (r *rows) Insert(ctx context.Context, of *pawl.Table, rows []pawl.Row) error {
	return r.write(ctx, of, "insert", rows, func(t *table) string { return t.insert })
}

func (r *rows) Add(ctx context.Context, of *pawl.Table, rows []pawl.Row) error {
	return r.write(ctx, of, "add", rows, func(t *table) string { return t.add })
}

func (r *rows) write(ctx context.Context, of *pawl.Table, verb string, rows []pawl.Row, text func(*table) string) error {
	t, err := r.table(of, verb, len(rows))
	if err != nil || len(rows) == 0 {
		return err
	}
	if verb == "add" {
		for _, c := range t.columns[t.key:] {
			if c.Kind != pawl.KindInt && c.Kind != pawl.KindDecimal {
				return t.mistaken("column %q is of kind %s, which cannot be added to", c.Name, c.Kind)
			}
		}
	}
	args, err := t.arrays(rows, t.sort(rows), len(t.columns))
	if err != nil {
		return err
	}
	if err := r.exec(ctx, stmt{sql: text(t), args: args}); err != nil {
		return t.failed(verb, len(rows), err)
	}
	return nil
}

func (r *rows) Delete(ctx context.Context, of *pawl.Table, keys []pawl.Row) error {
	t, err := r.table(of, "delete", len(keys))
	if err != nil || len(keys) == 0 {
		return err
	}
	args, err := t.arrays(keys, t.sort(keys), t.key)
	if err != nil {
		return err
	}
	if err := r.exec(ctx, append([]stmt{{sql: t.lock, args: args}}, probing(stmt{sql: t.delete, args: slices.Clone(args)})...)...); err != nil {
		return t.failed("delete", len(keys), err)
	}
	return nil
}

// table finds what Open has made of a table, and counts the call.
func (r *rows) table(of *pawl.Table, verb string, n int) (*table, error) {
	if n == 0 {
		return nil, nil
	}
	t := r.tables[of]
	if t == nil {
		return nil, &pawl.Error{Op: fmt.Sprintf("%s rows of %q", verb, of.Name), Class: pawl.Misconfigured,
			Err: errors.New("the store was not opened with this table"), Hint: "an effect returns from Tables what it uses"}
	}
	return t, r.run.enter()
}

func (r *rows) exec(ctx context.Context, stmts ...stmt) error {
	if !r.planned {
		stmts = slices.Insert(stmts, 0, stmt{sql: control["rows_plans"]})
		r.planned = true
	}
	return r.run.exec(ctx, stmts...)
}

// failed says what was tried. One row meant twice is the data's fault.
func (t *table) failed(verb string, n int, err error) error {
	if code(err) == "21000" {
		err = fmt.Errorf("%w (%w)", errSameKey, err)
	}
	return fmt.Errorf("%s %d rows of %s: %w", verb, n, t.name, err)
}

// mistaken is for what no record can be blamed for.
func (t *table) mistaken(format string, args ...any) error {
	return &pawl.Error{Op: "write " + t.name, Class: pawl.Misconfigured, Err: fmt.Errorf(format, args...), Hint: "the effect is at fault"}
}

// refused is for a value that the column cannot hold.
func (t *table) refused(c *tableColumn, class pawl.Class, format string, args ...any) error {
	return &pawl.Error{Op: fmt.Sprintf("write column %q of %s", c.Name, t.name), Class: class, Err: fmt.Errorf(format, args...)}
}

// sort returns the places of rows in the order in which they are sent. Transactions that lock and write in one order wait
// for each other, and do not deadlock.
func (t *table) sort(rows []pawl.Row) []int {
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	if !t.ordered {
		slices.SortFunc(order, func(a, b int) int { return t.compare(rows[a], rows[b]) })
	}
	return order
}

func compareValues(a, b any) int {
	switch a := a.(type) {
	case string:
		b, _ := b.(string)
		return strings.Compare(a, b)
	case int64:
		b, _ := b.(int64)
		return cmp.Compare(a, b)
	case time.Time:
		b, _ := b.(time.Time)
		return a.Compare(b)
	case []byte:
		b, _ := b.([]byte)
		return bytes.Compare(a, b)
	case bool:
		switch b, _ := b.(bool); {
		case a == b:
			return 0
		case a:
			return 1
		}
		return -1
	}
	return 0
}

// arrays are the arguments for the first n columns of the rows at these places, one array a column.
func (t *table) arrays(rows []pawl.Row, order []int, n int) ([]any, error) {
	for _, i := range order {
		if len(rows[i]) != n {
			return nil, t.mistaken("a row has %d values for %d columns", len(rows[i]), n)
		}
	}
	args := make([]any, n)
	for at := range args {
		var err error
		if args[at], err = t.array(rows, order, at); err != nil {
			return nil, err
		}
	}
	return args, nil
}

// array is the argument for one column.
func (t *table) array(rows []pawl.Row, order []int, at int) (any, error) {
	switch c := &t.columns[at]; c.Kind {
	case pawl.KindInt:
		return collect[int64](t, rows, order, at, nil)
	case pawl.KindBool:
		return collect[bool](t, rows, order, at, nil)
	case pawl.KindTime:
		return collect(t, rows, order, at, keepableTime)
	case pawl.KindBytes:
		return t.collectBytes(rows, order, at)
	case pawl.KindDecimal:
		return collect(t, rows, order, at, c.number)
	case pawl.KindJSON:
		if c.isText() {
			return collect(t, rows, order, at, validJSON)
		}
	}
	return collect[string](t, rows, order, at, nil)
}

// collect makes the array of a column. check, where there is one, may spell a value anew.
func collect[E any](t *table, rows []pawl.Row, order []int, at int, check func(E) (E, error)) (any, error) {
	c := &t.columns[at]
	all := newColumn[E](len(order))
	for _, i := range order {
		v := rows[i][at]
		e, ok := v.(E)
		switch {
		case v == nil:
			if err := t.mayBeNull(at); err != nil {
				return nil, err
			}
		case !ok:
			return nil, t.mistaken("column %q is of kind %s, which is a %T, and got a %T", c.Name, c.Kind, e, v)
		case check != nil:
			var err error
			if e, err = check(e); err != nil {
				return nil, t.refused(c, pawl.Poison, "%w", err)
			}
		}
		all.add(e, v != nil)
	}
	return all.arg(), nil
}

// collectBytes is collect for bytes, whose arrays have nulls of their own.
func (t *table) collectBytes(rows []pawl.Row, order []int, at int) (any, error) {
	all := make([][]byte, len(order))
	for n, i := range order {
		v := rows[i][at]
		b, ok := v.([]byte)
		if v != nil && !ok {
			return nil, t.mistaken("column %q is of kind bytes, which is a []byte, and got a %T", t.columns[at].Name, v)
		}
		if all[n] = b; b == nil {
			if err := t.mayBeNull(at); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

func (t *table) mayBeNull(at int) error {
	switch c := &t.columns[at]; {
	case at < t.key:
		return t.refused(c, pawl.Validation, "a key is null")
	case c.NotNull:
		return t.refused(c, pawl.Validation, "it must not be null")
	}
	return nil
}

// number refuses what the server would take and not keep: other spellings than decimal ones, and digits that it would round.
func (c *tableColumn) number(s string) (string, error) {
	scale, ok := decimal.Scale(s)
	switch {
	case !ok:
		return "", errors.New("it is not a decimal number")
	case scale > c.scale:
		return "", fmt.Errorf("it has %d digits behind the point, and the column keeps %d", scale, c.scale)
	case c.isText():
		return decimal.Plain(s)
	}
	return s, nil
}

// keepableTime refuses times whose year does not have four digits: not every client and store spells them.
func keepableTime(t time.Time) (time.Time, error) {
	if y := t.UTC().Year(); y < 1 || y > 9999 {
		return t, fmt.Errorf("year %d is none that is kept", y)
	}
	return t, nil
}

func validJSON(s string) (string, error) {
	if !json.Valid([]byte(s)) {
		return s, errors.New("it is not JSON")
	}
	return s, nil
}

// accept gives the values of a row that was read the types that their kinds have, whatever the driver made of them.
func (t *table) accept(row pawl.Row) error {
	for i := range row {
		c := &t.columns[i]
		if b, ok := row[i].([]byte); ok && c.Kind != pawl.KindBytes {
			row[i] = string(b)
		}
		switch v := row[i].(type) {
		case time.Time:
			row[i] = v.UTC()
		case string:
			if c.Kind != pawl.KindInt {
				continue
			}
			whole, fraction, _ := strings.Cut(v, ".")
			n, err := strconv.ParseInt(whole, 10, 64)
			if err != nil || strings.Trim(fraction, "0") != "" {
				return &pawl.Error{Op: fmt.Sprintf("read column %q of %s", c.Name, t.name), Class: pawl.Corruption,
					Err: fmt.Errorf("%s is not an int64", v)}
			}
			row[i] = n
		}
	}
	return nil
}
