package effect_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/apd/v3"

	"github.com/pawlhq/pawl"
)

// memory is a database of tables, for tests. What it gives back is spelled otherwise than it was written, as databases do, and
// it refuses what a store may not be asked for.
type memory struct {
	tables map[*pawl.Table]map[string]pawl.Row
	calls  []string
}

func newMemory() *memory { return &memory{tables: map[*pawl.Table]map[string]pawl.Row{}} }

func (m *memory) clone() *memory {
	c := newMemory()
	for t, rows := range m.tables {
		c.tables[t] = maps.Clone(rows)
	}
	return c
}

func (m *memory) of(t *pawl.Table) map[string]pawl.Row {
	if m.tables[t] == nil {
		m.tables[t] = map[string]pawl.Row{}
	}
	return m.tables[t]
}

// keyOf names a row, so that names are in the order of keys.
func keyOf(t *pawl.Table, row pawl.Row) string {
	var b strings.Builder
	for _, v := range row[:t.Key] {
		switch v := v.(type) {
		case int64:
			fmt.Fprintf(&b, "%020d ", v)
		case time.Time:
			fmt.Fprintf(&b, "%020d ", v.UnixMicro())
		default:
			fmt.Fprintf(&b, "%q ", v)
		}
	}
	return b.String()
}

// seed puts a row there that no event has made.
func (m *memory) seed(t *pawl.Table, row pawl.Row) { m.of(t)[keyOf(t, row)] = row }

// called notes a call, and refuses a key that is in it twice, and values that are not of their column's kind.
func (m *memory) called(verb string, t *pawl.Table, rows []pawl.Row, width int) error {
	m.calls = append(m.calls, verb+" "+t.Name)
	if len(rows) == 0 {
		return fmt.Errorf("%s %s: called for nothing", verb, t.Name)
	}
	seen := map[string]bool{}
	for _, r := range rows {
		if len(r) != width {
			return fmt.Errorf("%s %s: a row of %d values, want %d", verb, t.Name, len(r), width)
		}
		if seen[keyOf(t, r)] {
			return fmt.Errorf("%s %s: key %s is there twice", verb, t.Name, keyOf(t, r))
		}
		seen[keyOf(t, r)] = true
		for i, v := range r {
			if err := fits(t.Columns[i], v); err != nil {
				return fmt.Errorf("%s %s: %w", verb, t.Name, err)
			}
		}
	}
	return nil
}

func fits(c pawl.Column, v any) error {
	ok := false
	switch v := v.(type) {
	case nil:
		ok = !c.NotNull
	case string:
		ok = c.Kind == pawl.KindText || c.Kind == pawl.KindDecimal || c.Kind == pawl.KindJSON && json.Valid([]byte(v))
	case int64:
		ok = c.Kind == pawl.KindInt
	case bool:
		ok = c.Kind == pawl.KindBool
	case time.Time:
		ok = c.Kind == pawl.KindTime && v.Nanosecond()%1000 == 0
	case []byte:
		ok = c.Kind == pawl.KindBytes
	}
	if !ok {
		return fmt.Errorf("column %s of kind %s cannot hold %T %v", c.Name, c.Kind, v, v)
	}
	return nil
}

// respelled is a row as a database gives it back.
func respelled(t *pawl.Table, row pawl.Row) pawl.Row {
	row = slices.Clone(row)
	for i, v := range row {
		s, ok := v.(string)
		switch {
		case ok && t.Columns[i].Kind == pawl.KindJSON:
			row[i] = strings.ReplaceAll(s, ":", ": ") // good enough for what tests write
		case ok && t.Columns[i].Kind == pawl.KindDecimal:
			d, _, _ := apd.NewFromString(s)
			d.Reduce(d)
			row[i] = d.Text('f')
		}
	}
	return row
}

func (m *memory) Read(_ context.Context, t *pawl.Table, keys []pawl.Row) ([]pawl.Row, error) {
	if err := m.called("read", t, keys, t.Key); err != nil {
		return nil, err
	}
	out := make([]pawl.Row, len(keys))
	for i, k := range keys {
		if r, ok := m.of(t)[keyOf(t, k)]; ok {
			out[i] = respelled(t, r)
		}
	}
	return out, nil
}

func (m *memory) Put(_ context.Context, t *pawl.Table, rows, before []pawl.Row) error {
	if err := m.called("put", t, rows, len(t.Columns)); err != nil {
		return err
	}
	for i, r := range rows {
		is, ok := m.of(t)[keyOf(t, r)]
		if ok != (before[i] != nil) || ok && fmt.Sprint(respelled(t, is)) != fmt.Sprint(before[i]) {
			return fmt.Errorf("put %s %s: %w", t.Name, keyOf(t, r), pawl.ErrRaced)
		}
		m.of(t)[keyOf(t, r)] = slices.Clone(r)
	}
	return nil
}

func (m *memory) Insert(_ context.Context, t *pawl.Table, rows []pawl.Row) error {
	if err := m.called("insert", t, rows, len(t.Columns)); err != nil {
		return err
	}
	for _, r := range rows {
		if _, ok := m.of(t)[keyOf(t, r)]; ok {
			return fmt.Errorf("insert %s: %s is there already", t.Name, keyOf(t, r))
		}
		m.of(t)[keyOf(t, r)] = slices.Clone(r)
	}
	return nil
}

func (m *memory) Add(_ context.Context, t *pawl.Table, rows []pawl.Row) error {
	if err := m.called("add", t, rows, len(t.Columns)); err != nil {
		return err
	}
	for _, r := range rows {
		is, ok := m.of(t)[keyOf(t, r)]
		sum := slices.Clone(r)
		for i := t.Key; ok && i < len(r); i++ {
			switch v := r[i].(type) {
			case int64:
				sum[i] = is[i].(int64) + v
			case string:
				x, _, _ := apd.NewFromString(is[i].(string))
				y, _, _ := apd.NewFromString(v)
				apd.BaseContext.Add(x, x, y)
				sum[i] = x.Text('f')
			}
		}
		m.of(t)[keyOf(t, r)] = sum
	}
	return nil
}

func (m *memory) Delete(_ context.Context, t *pawl.Table, keys []pawl.Row) error {
	if err := m.called("delete", t, keys, t.Key); err != nil {
		return err
	}
	for _, k := range keys {
		delete(m.of(t), keyOf(t, k))
	}
	return nil
}

// world is an effect and its database, with what a store does beside: it claims keys and holds what is early.
type world[T any] struct {
	t    testing.TB
	e    pawl.Effect[T]
	rows *memory
	now  time.Time
	full bool
	held []kept[T] // in the order they came
	said map[string]pawl.Verdict
}

type kept[T any] struct {
	event pawl.Envelope[T]
	until time.Time
}

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func newWorld[T any](t testing.TB, e pawl.Effect[T]) *world[T] {
	t.Helper()
	if _, err := e.Tables(); err != nil {
		t.Fatal(err)
	}
	return &world[T]{t: t, e: e, rows: newMemory(), now: noon, said: map[string]pawl.Verdict{}}
}

// fold gives the effect a batch, in a transaction.
func (w *world[T]) fold(events ...pawl.Envelope[T]) []pawl.Verdict {
	w.t.Helper()
	v, err := w.try(events, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

// expire gives the effect what was held for long enough, as the store's sweeper does.
func (w *world[T]) expire() []pawl.Verdict {
	w.t.Helper()
	streams := map[string]bool{}
	for _, k := range w.held {
		if !k.until.After(w.now) {
			streams[k.event.Stream] = true
		}
	}
	v, err := w.try(nil, streams)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

func (w *world[T]) try(events []pawl.Envelope[T], streams map[string]bool) ([]pawl.Verdict, error) {
	trial := pawl.Trial[T]{Events: slices.Clone(events), Now: w.now, Full: w.full, Expired: map[string]bool{}, Waiting: map[string]int{}}
	streams = maps.Clone(streams)
	if streams == nil {
		streams = map[string]bool{}
	}
	for _, e := range events {
		streams[e.Stream] = true
	}
	var stay, lent, fresh []kept[T]
	for _, k := range w.held {
		if !streams[k.event.Stream] {
			stay = append(stay, k)
			continue
		}
		lent = append(lent, k)
		trial.Waiting[k.event.Stream]++
		trial.Expired[k.event.Key] = !k.until.After(w.now)
	}
	slices.SortStableFunc(lent, func(a, b kept[T]) int { return int(a.event.Version - b.event.Version) })
	for _, k := range lent {
		trial.Events = append(trial.Events, k.event)
	}
	trial.Early = len(lent)
	rows := w.rows.clone()
	verdicts, err := trial.Fold(w.t.Context(), w.e, rows)
	if err != nil {
		return nil, err
	}
	w.rows, w.held = rows, stay
	for i, v := range verdicts {
		e := trial.Events[i]
		w.said[e.Key] = v
		if v.Outcome != pawl.Held {
			continue
		}
		if v.Expected < 1 || !v.Until.After(w.now.Add(-time.Hour)) || v.Expected >= e.Version {
			w.t.Errorf("%s is held without saying for what: %+v", e.Key, v)
		}
		if at := i - len(events); at >= 0 {
			w.held = append(w.held, lent[at])
		} else {
			fresh = append(fresh, kept[T]{e, v.Until})
		}
	}
	w.held = append(w.held, fresh...) // behind those that came before
	return verdicts, nil
}

// table shows a table's rows, by key.
func (w *world[T]) table(name string) string {
	w.t.Helper()
	for t, rows := range w.rows.tables {
		if t.Name == name {
			var lines []string
			for _, k := range slices.Sorted(maps.Keys(rows)) {
				lines = append(lines, line(rows[k]))
			}
			return strings.Join(lines, "\n")
		}
	}
	return ""
}

func line(r pawl.Row) string {
	cells := make([]string, len(r))
	for i, v := range r {
		switch v := v.(type) {
		case nil:
			cells[i] = "-"
		case time.Time:
			cells[i] = v.Format("15:04:05.999999")
		default:
			cells[i] = fmt.Sprint(v)
		}
	}
	return strings.Join(cells, " ")
}

func (w *world[T]) wantTable(name string, want ...string) {
	w.t.Helper()
	if got := w.table(name); got != strings.Join(want, "\n") {
		w.t.Errorf("table %s:\n%s\nwant:\n%s", name, got, strings.Join(want, "\n"))
	}
}

// want compares verdicts with lines such as "applied" or "quarantined gap: out of order". The reason may be cut short.
func want(t testing.TB, got []pawl.Verdict, want ...string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		is, should := "nothing", "nothing"
		if i < len(got) {
			is = said(got[i])
		}
		if i < len(want) {
			should = want[i]
		}
		if !strings.HasPrefix(is, should) {
			t.Errorf("event %d is %q, want %q", i, is, should)
		}
	}
}

func said(v pawl.Verdict) string {
	s := v.Outcome.String()
	if v.Cause != "" {
		s += " " + v.Cause
	}
	if v.Reason != "" {
		s += ": " + v.Reason
	}
	return s
}

func wantError(t testing.TB, err error, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("error %v\ndoes not say %q", err, p)
		}
	}
	if err == nil {
		t.Fatal("no error")
	}
}

var errMade = errors.New("made by the test")
