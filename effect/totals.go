package effect

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/apd/v3"

	"github.com/pawlhq/pawl"
)

// totals are rows of sums that a batch adds to: the columns behind a table's key. As long as they were not read, they are what
// the batch adds, and are written so: nobody has to know what was there.
type totals struct {
	table *pawl.Table
	known map[string]int
	rows  []total
	read  bool
	text  []byte // of a key; to be used again
}

type total struct {
	row     pawl.Row // its key, then nil: the sums are below
	before  pawl.Row
	sums    []sum
	changed bool
}

// sum is of one column: a whole number or a decimal.
type sum struct {
	n int64
	d apd.Decimal
}

var errOverflow = errors.New("the sum does not fit into 64 bits")

func newTotals(t *pawl.Table) *totals { return &totals{table: t, known: map[string]int{}} }

// at returns the place of the row with a key.
func (t *totals) at(key []any) int {
	t.text = t.text[:0]
	for _, v := range key {
		switch v := v.(type) {
		case string:
			t.text = append(append(strconv.AppendInt(t.text, int64(len(v)), 10), ':'), v...)
		case int64:
			t.text = append(strconv.AppendInt(t.text, v, 10), ';')
		case bool:
			t.text = append(strconv.AppendBool(t.text, v), ';')
		case time.Time:
			t.text = append(strconv.AppendInt(t.text, v.UnixMicro(), 10), ';')
		}
	}
	at, ok := t.known[string(t.text)]
	if !ok {
		at = len(t.rows)
		t.known[string(t.text)] = at
		row := make(pawl.Row, len(t.table.Columns))
		copy(row, key)
		t.rows = append(t.rows, total{row: row, sums: make([]sum, len(t.table.Columns)-t.table.Key)})
	}
	return at
}

// load reads the rows that are known by now.
func (t *totals) load(ctx context.Context, rows pawl.Rows) error {
	t.read = true
	if len(t.rows) == 0 {
		return nil
	}
	keys := make([]pawl.Row, len(t.rows))
	for i := range t.rows {
		keys[i] = t.rows[i].row[:t.table.Key]
	}
	read, err := rows.Read(ctx, t.table, keys)
	if err != nil {
		return err
	}
	for i, row := range read {
		if row == nil {
			continue
		}
		t.rows[i].before = row
		for j := range t.rows[i].sums {
			if err := t.rows[i].sums[j].add(row[t.table.Key+j], false); err != nil {
				return pawl.Classed(pawl.Corruption, fmt.Errorf("table %q, row %s: %w", t.table.Name, t.name(i), err))
			}
		}
	}
	return nil
}

// add adds values to a row, or takes them away. It changes nothing where one of them does not fit.
func (t *totals) add(at int, values []any, away bool) error {
	row := &t.rows[at]
	for i, v := range values {
		if err := row.sums[i].add(v, away); err != nil {
			for j := range i {
				row.sums[j].add(values[j], !away) // which fitted
			}
			return fmt.Errorf("column %q: %w", t.table.Columns[t.table.Key+i].Name, err)
		}
	}
	row.changed = true
	return nil
}

func (s *sum) add(v any, away bool) error {
	switch v := v.(type) {
	case int64:
		n := s.n + v
		if away {
			n = s.n - v
		}
		if (n > s.n) != (v > 0 != away) && v != 0 {
			return errOverflow
		}
		s.n = n
	case string:
		d, err := parseDecimal(v)
		if err != nil {
			return err
		}
		if away {
			d.Neg(d)
		}
		_, err = exact.Add(&s.d, &s.d, d)
		return err
	}
	return nil // NULL adds nothing
}

// value is the sum as its column has it.
func (s *sum) value(kind pawl.Kind) any {
	if kind == pawl.KindInt {
		return s.n
	}
	return plain(&s.d)
}

// full is row at as it is now; nil where it was read and there is none.
func (t *totals) full(at int) pawl.Row {
	r := &t.rows[at]
	if r.before == nil && !r.changed {
		return nil
	}
	for j := range r.sums {
		r.row[t.table.Key+j] = r.sums[j].value(t.table.Columns[t.table.Key+j].Kind)
	}
	return r.row
}

func (t *totals) write(ctx context.Context, rows pawl.Rows) error {
	var put, before []pawl.Row
	for i := range t.rows {
		if t.rows[i].changed {
			put, before = append(put, t.full(i)), append(before, t.rows[i].before)
		}
	}
	switch {
	case len(put) == 0:
		return nil
	case t.read:
		return rows.Put(ctx, t.table, put, before)
	}
	return rows.Add(ctx, t.table, put)
}

// name says which row, for people.
func (t *totals) name(at int) string {
	var b strings.Builder
	for i, v := range t.rows[at].row[:t.table.Key] {
		if i > 0 {
			b.WriteByte(' ')
		}
		if at, ok := v.(time.Time); ok {
			v = at.Format(time.RFC3339Nano)
		}
		fmt.Fprintf(&b, "%s=%v", t.table.Columns[i].Name, v)
	}
	return b.String()
}

// states are rows as JSON, for evidence: an object, or an array where there are several.
func (t *totals) states(at []int) string {
	if len(at) == 1 {
		return stateOf(t.table, t.full(at[0]))
	}
	parts := make([]string, len(at))
	for i := range at {
		if parts[i] = stateOf(t.table, t.full(at[i])); parts[i] == "" {
			parts[i] = "null"
		}
	}
	return "[" + strings.Join(parts, ",") + "]"
}
