package effect

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawlhq/pawl"
)

// Counter keeps totals: each event adds to the row of its group. The group may be any columns; a bucket of time is one whose
// function cuts it off, and a late event adds to the bucket it belongs to.
//
//	the event                                                    is decided as
//	contributes, or takes back what it corrects                  Applied
//	contributes nothing                                          Ignored
//	corrects what was corrected already, or cannot be counted    Quarantined (validation)
//
// With Contributions, what each event contributed is kept, and an event that corrects another (Identity.Supersedes) takes back
// what that one has contributed before it adds its own. An original that comes after its correction takes no effect. Who
// corrects twice must correct the correction.
type Counter[T any] struct {
	Table string      // the totals; the columns of Group are its primary key
	Group []Column[T] // text, int, bool or time; never NULL
	Sum   []Column[T] // int or decimal: what an event adds; NULL adds nothing

	// Split makes several of an event that contributes to several groups: the columns see it once with each body returned.
	Split func(e *pawl.Envelope[T]) ([]T, error)

	// Contributions is where contributions are kept. Without, an event that corrects another is quarantined.
	Contributions Contributions

	States bool // keep the totals before and after each event as evidence

	declared declared
	columns  columns[T] // Group, Sum
	totals   *pawl.Table
	kept     *pawl.Table
}

// Contributions is a table with what each event has contributed to each group. It has the columns of Group and Sum, and those
// named here. Its primary key is Key, with Split also Part.
//
// The total of a group is the sum of its rows that have no CorrectedBy. A correction that comes before its original leaves a
// row for it that adds nothing. What was counted before there was a table cannot be taken back.
type Contributions struct {
	Table       string
	Key         string // the column of the event's Key: text. Default: "event_key"
	Part        string // the column that tells apart what one event contributes: int. Default: "part"; without Split there is none
	CorrectedBy string // the column of the Key of the event that took it back: text, or NULL. Default: "corrected_by"
}

// Tables is part of pawl.Effect.
func (c *Counter[T]) Tables() ([]*pawl.Table, error) {
	return c.declared.do(func() ([]*pawl.Table, error) {
		bad := &problems{what: fmt.Sprintf("counter %q", c.Table)}
		bad.need("Table", c.Table)
		if len(c.Group) == 0 {
			bad.add("Group is empty")
		}
		if len(c.Sum) == 0 {
			bad.add("Sum is empty: there is nothing to count")
		}
		for _, g := range c.Group {
			switch g.Kind {
			case pawl.KindDecimal, pawl.KindJSON, pawl.KindBytes:
				bad.add("column %q of Group is of kind %s: a group is text, int, bool or time", g.Name, g.Kind)
			}
			g.NotNull = true
			c.columns = append(c.columns, g)
		}
		for _, s := range c.Sum {
			if s.Kind != pawl.KindInt && s.Kind != pawl.KindDecimal {
				bad.add("column %q of Sum is of kind %s: only int and decimal can be added", s.Name, s.Kind)
			}
			c.columns = append(c.columns, s)
		}
		c.columns.check(bad)
		c.totals = &pawl.Table{Name: c.Table, Key: len(c.Group)}
		c.columns.of(c.totals)

		k := &c.Contributions
		if k.Table == "" {
			if k.Key != "" || k.Part != "" || k.CorrectedBy != "" {
				bad.add("Contributions has columns but no Table")
			}
			return bad.tables(c.totals)
		}
		if k.Part != "" && c.Split == nil {
			bad.add("Contributions.Part is only there with Split")
		}
		named := func(name, otherwise string) string {
			if name == "" {
				return otherwise
			}
			return name
		}
		c.kept = &pawl.Table{Name: k.Table, Key: 1, Columns: []pawl.Column{{Name: named(k.Key, "event_key"), Kind: pawl.KindText, NotNull: true}}}
		if c.Split != nil {
			c.kept.Key = 2
			c.kept.Columns = append(c.kept.Columns, pawl.Column{Name: named(k.Part, "part"), Kind: pawl.KindInt, NotNull: true})
		}
		for _, col := range c.columns {
			c.kept.Columns = append(c.kept.Columns, pawl.Column{Name: col.Name, Kind: col.Kind})
		}
		c.kept.Columns = append(c.kept.Columns, pawl.Column{Name: named(k.CorrectedBy, "corrected_by"), Kind: pawl.KindText})
		return bad.tables(c.totals, c.kept)
	})
}

// Gaps is part of pawl.Effect.
func (c *Counter[T]) Gaps() bool { return false }

// contribution is a row of what is kept: behind its key the group, the sums, and who took it back.
type contribution struct {
	row, before pawl.Row
	changed     bool
}

// counting is one call of Fold.
type counting[T any] struct {
	*Counter[T]
	totals *totals
	parts  [][][]any                  // of each record: group and sums, one for each group
	kept   map[string][]*contribution // by event key, those that were read and those that are new
	order  []*contribution            // all of them, as they came
}

// Fold is part of pawl.Effect.
func (c *Counter[T]) Fold(ctx context.Context, rows pawl.Rows, b *pawl.Batch[T]) error {
	if _, err := c.Tables(); err != nil {
		return pawl.Classed(pawl.Misconfigured, err)
	}
	f := &counting[T]{Counter: c, totals: newTotals(c.totals), parts: make([][][]any, b.Len()), kept: map[string][]*contribution{}}
	var corrected []string
	refused := make([]error, b.Len())
	for i := range b.Len() {
		e := b.At(i)
		if f.parts[i], refused[i] = f.split(e); refused[i] != nil {
			continue
		}
		for _, p := range f.parts[i] {
			f.totals.at(p[:len(c.Group)])
		}
		if e.Supersedes != "" && c.kept != nil {
			corrected = append(corrected, e.Supersedes)
		}
	}
	if err := f.recall(ctx, rows, corrected); err != nil {
		return err
	}
	if c.States {
		for _, k := range f.order { // what is taken back may be of other groups
			if k.row[len(k.row)-1] == nil {
				f.totals.at(f.body(k)[:len(c.Group)])
			}
		}
		if err := f.totals.load(ctx, rows); err != nil {
			return err
		}
	}
	for i := range b.Len() {
		if refused[i] != nil {
			b.Reject(i, refused[i])
			continue
		}
		v, err := f.count(b.At(i), f.parts[i])
		if err != nil {
			b.Reject(i, err)
			continue
		}
		b.Decide(i, v)
	}
	return f.write(ctx, rows)
}

// split returns what an event contributes to each group.
func (f *counting[T]) split(e *pawl.Envelope[T]) (parts [][]any, err error) {
	defer recovered(&err)
	if f.Counter.kept != nil {
		if err := errors.Join(validKey(e.Key), validKey(e.Supersedes)); err != nil {
			return nil, err
		}
	} else if e.Supersedes != "" {
		return nil, errors.New("it corrects another event, and what that one contributed was not kept: declare Contributions")
	}
	if f.Split == nil {
		part, err := f.part(e)
		return [][]any{part}, err
	}
	bodies, err := f.Split(e)
	if err != nil {
		return nil, err
	}
	at := newTotals(f.Counter.totals) // of this event: a group has one row
	for i := range bodies {
		one := *e
		one.Body = bodies[i]
		part, err := f.part(&one)
		if err == nil {
			err = at.add(at.at(part[:len(f.Group)]), part[len(f.Group):], false)
		}
		if err != nil {
			return nil, fmt.Errorf("part %d: %w", i+1, err)
		}
	}
	for i := range at.rows {
		parts = append(parts, at.full(i))
	}
	return parts, nil
}

func (f *counting[T]) part(e *pawl.Envelope[T]) ([]any, error) {
	part := make([]any, len(f.columns))
	if err := f.columns.fill(e, part); err != nil {
		return nil, err
	}
	for i, v := range part {
		switch {
		case v == Keep && i < len(f.Group):
			return nil, fmt.Errorf("column %q: a group cannot be kept", f.columns[i].Name)
		case v != nil && v != Keep:
		case f.columns[i].Kind == pawl.KindInt:
			part[i] = int64(0)
		default:
			part[i] = "0"
		}
	}
	return part, nil
}

// recall reads what events have contributed. How many rows an event has is not known, so they are asked for until one is not
// there.
func (f *counting[T]) recall(ctx context.Context, rows pawl.Rows, events []string) error {
	todo := make([]string, 0, len(events))
	for _, key := range events {
		if _, ok := f.kept[key]; !ok {
			f.kept[key] = nil
			todo = append(todo, key)
		}
	}
	for from, n := int64(1), int64(1); len(todo) > 0; from, n = from+n, n*2 {
		if f.Counter.kept.Key == 2 && from == 1 {
			n = 4
		}
		keys := make([]pawl.Row, 0, len(todo)*int(n))
		for _, key := range todo {
			for part := from; part < from+n; part++ {
				keys = append(keys, pawl.Row{key, part}[:f.Counter.kept.Key])
			}
		}
		read, err := rows.Read(ctx, f.Counter.kept, keys)
		if err != nil {
			return err
		}
		var more []string
		for i, key := range todo {
			of := read[i*int(n) : (i+1)*int(n)]
			for _, row := range of {
				if row != nil {
					f.keep(key, &contribution{row: append(pawl.Row(nil), row...), before: row})
				}
			}
			if f.Counter.kept.Key == 2 && of[n-1] != nil {
				more = append(more, key)
			}
		}
		todo = more
	}
	return nil
}

func (f *counting[T]) keep(key string, k *contribution) {
	f.kept[key] = append(f.kept[key], k)
	f.order = append(f.order, k)
}

// body is the group and the sums of what is kept.
func (f *counting[T]) body(k *contribution) []any {
	return k.row[f.Counter.kept.Key : len(k.row)-1]
}

// count decides an event.
func (f *counting[T]) count(e *pawl.Envelope[T], parts [][]any) (pawl.Verdict, error) {
	if len(parts) == 0 && e.Supersedes == "" {
		return pawl.Verdict{Outcome: pawl.Ignored, Reason: "it contributes nothing"}, nil
	}
	var back []*contribution
	if e.Supersedes != "" {
		back = f.kept[e.Supersedes]
	}
	for _, k := range back {
		if by := k.row[len(k.row)-1]; by != nil {
			return pawl.Verdict{}, fmt.Errorf("%q was corrected by %q already: a further correction must correct that one", e.Supersedes, by)
		}
	}
	var touched []int
	for _, k := range back {
		touched = append(touched, f.totals.at(f.body(k)[:len(f.Group)]))
	}
	for _, p := range parts {
		touched = append(touched, f.totals.at(p[:len(f.Group)]))
	}
	rows := distinct(touched)
	v := pawl.Verdict{Outcome: pawl.Applied, RowAffected: f.names(rows)}
	if f.States {
		v.StateBefore = f.totals.states(rows)
	}
	if err := f.change(touched, back, parts); err != nil {
		return v, err
	}
	if f.States {
		v.StateAfter = f.totals.states(rows)
	}
	if f.Counter.kept != nil {
		f.note(e, back, parts)
	}
	return v, nil
}

// change takes back and adds, or does nothing if a sum does not fit.
func (f *counting[T]) change(touched []int, back []*contribution, parts [][]any) error {
	sums := func(i int) (values []any, away bool) {
		if i < len(back) {
			return f.body(back[i])[len(f.Group):], true
		}
		return parts[i-len(back)][len(f.Group):], false
	}
	was := make([]bool, len(touched))
	for i, at := range touched {
		was[i] = f.totals.rows[at].changed
		values, away := sums(i)
		if err := f.totals.add(at, values, away); err != nil {
			for i--; i >= 0; i-- {
				values, away := sums(i)
				f.totals.add(touched[i], values, !away)
				f.totals.rows[touched[i]].changed = was[i]
			}
			return err
		}
	}
	return nil
}

// note keeps what an event contributed, and that it took back what others did.
func (f *counting[T]) note(e *pawl.Envelope[T], back []*contribution, parts [][]any) {
	for _, k := range back {
		k.row[len(k.row)-1], k.changed = e.Key, true
	}
	if e.Supersedes != "" && len(back) == 0 { // the original is not here yet, or has contributed nothing: it never will
		nothing := make([]any, len(f.columns))
		if len(parts) > 0 {
			copy(nothing, parts[0][:len(f.Group)])
		}
		for i := len(f.Group); i < len(nothing); i++ {
			if nothing[i] = "0"; f.columns[i].Kind == pawl.KindInt {
				nothing[i] = int64(0)
			}
		}
		its := f.contributed(e.Supersedes, 1, nothing, e.Key)
		its.changed = true // if the original has come meanwhile, this one is not to blame
		f.keep(e.Supersedes, its)
	}
	for i, p := range parts {
		f.keep(e.Key, f.contributed(e.Key, i+1, p, nil))
	}
}

func (f *counting[T]) contributed(key string, part int, body []any, by any) *contribution {
	row := make(pawl.Row, 0, len(f.Counter.kept.Columns))
	row = append(row, key)
	if f.Counter.kept.Key == 2 {
		row = append(row, int64(part))
	}
	return &contribution{row: append(append(row, body...), by)}
}

func (f *counting[T]) write(ctx context.Context, rows pawl.Rows) error {
	var insert, put, before []pawl.Row
	for _, k := range f.order {
		switch {
		case k.changed:
			put, before = append(put, k.row), append(before, k.before)
		case k.before == nil:
			insert = append(insert, k.row)
		}
	}
	if len(insert) > 0 {
		if err := rows.Insert(ctx, f.Counter.kept, insert); err != nil {
			return err
		}
	}
	if len(put) > 0 {
		if err := rows.Put(ctx, f.Counter.kept, put, before); err != nil {
			return err
		}
	}
	return f.totals.write(ctx, rows)
}

// names says which groups, for people.
func (f *counting[T]) names(at []int) string {
	const most = 10 // of them say enough
	var names []string
	for i, a := range at {
		if i == most {
			names = append(names, fmt.Sprintf("and %d more", len(at)-most))
			break
		}
		names = append(names, f.totals.name(a))
	}
	return strings.Join(names, ", ")
}
