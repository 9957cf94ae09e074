package effect

import (
	"context"
	"fmt"

	"github.com/pawlhq/pawl"
)

// Audit appends one row per event, under the event's Key, and never changes it. An event that cannot be written is quarantined
// (validation).
type Audit[T any] struct {
	Table   string
	Key     string // the column of the event's Key: text, and the primary key
	Columns []Column[T]

	declared declared
	table    *pawl.Table
}

// Tables is part of pawl.Effect.
func (a *Audit[T]) Tables() ([]*pawl.Table, error) {
	return a.declared.do(func() ([]*pawl.Table, error) {
		bad := &problems{what: fmt.Sprintf("audit %q", a.Table)}
		bad.need("Table", a.Table)
		bad.need("Key", a.Key)
		columns[T](a.Columns).check(bad)
		a.table = &pawl.Table{Name: a.Table, Key: 1, Columns: []pawl.Column{{Name: a.Key, Kind: pawl.KindText, NotNull: true}}}
		columns[T](a.Columns).of(a.table)
		return bad.tables(a.table)
	})
}

// Gaps is part of pawl.Effect.
func (a *Audit[T]) Gaps() bool { return false }

// Fold is part of pawl.Effect.
func (a *Audit[T]) Fold(ctx context.Context, rows pawl.Rows, b *pawl.Batch[T]) error {
	if _, err := a.Tables(); err != nil {
		return pawl.Classed(pawl.Misconfigured, err)
	}
	insert := make([]pawl.Row, 0, b.Len())
	for i := range b.Len() {
		e := b.At(i)
		row := make(pawl.Row, len(a.table.Columns))
		row[0] = e.Key
		err := validKey(e.Key)
		if err == nil {
			err = columns[T](a.Columns).fill(e, row[1:])
		}
		if err != nil {
			b.Reject(i, err)
			continue
		}
		none(row)
		insert = append(insert, row)
	}
	if len(insert) == 0 {
		return nil
	}
	return rows.Insert(ctx, a.table, insert)
}
