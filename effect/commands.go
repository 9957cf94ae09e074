package effect

import (
	"context"
	"fmt"

	"github.com/pawlhq/pawl"
)

// Commands turns events into rows that have to exist: what an event asks for has an identity that follows from its cause, such
// as "case-escalation:C-1:5", and is there once however often it is asked for.
//
//	what the event asks for             is decided as
//	is not there                        Applied: it is inserted
//	is there, and is the same           Ignored
//	is there, and is something else     Quarantined (conflict)
//	is nothing                          Ignored
//
// A row that is there is never changed: whoever carries the command out may keep its progress in columns that are not named
// here.
type Commands[T any] struct {
	Table   string
	ID      string // the column of the command's identity: text, and the primary key
	Columns []Column[T]

	// Identify returns the identity of what an event asks for; "" is nothing. Default: the event's Key.
	Identify func(e *pawl.Envelope[T]) (string, error)

	declared declared
	table    *pawl.Table
}

// Tables is part of pawl.Effect.
func (c *Commands[T]) Tables() ([]*pawl.Table, error) {
	return c.declared.do(func() ([]*pawl.Table, error) {
		bad := &problems{what: fmt.Sprintf("commands %q", c.Table)}
		bad.need("Table", c.Table)
		bad.need("ID", c.ID)
		columns[T](c.Columns).check(bad)
		c.table = &pawl.Table{Name: c.Table, Key: 1, Columns: []pawl.Column{{Name: c.ID, Kind: pawl.KindText, NotNull: true}}}
		columns[T](c.Columns).of(c.table)
		return bad.tables(c.table)
	})
}

// Gaps is part of pawl.Effect.
func (c *Commands[T]) Gaps() bool { return false }

// Fold is part of pawl.Effect.
func (c *Commands[T]) Fold(ctx context.Context, rows pawl.Rows, b *pawl.Batch[T]) error {
	if _, err := c.Tables(); err != nil {
		return pawl.Classed(pawl.Misconfigured, err)
	}
	known := make(map[string]int, b.Len())
	of := make([]int, b.Len())
	asked := make([]pawl.Row, b.Len())
	var keys []pawl.Row
	for i := range of {
		row, err := c.command(b.At(i))
		switch {
		case err != nil:
			b.Reject(i, err)
			continue
		case row == nil:
			b.Decide(i, pawl.Verdict{Outcome: pawl.Ignored, Reason: "it asks for nothing"})
			continue
		}
		at, ok := known[row[0].(string)]
		if !ok {
			at = len(keys)
			known[row[0].(string)] = at
			keys = append(keys, row[:1:1])
		}
		of[i], asked[i] = at, row
	}
	if len(keys) == 0 {
		return nil
	}
	there, err := rows.Read(ctx, c.table, keys)
	if err != nil {
		return err
	}
	var put []pawl.Row
	for i, row := range asked {
		if row == nil {
			continue
		}
		v := pawl.Verdict{RowAffected: c.ID + "=" + row[0].(string)}
		switch is := there[of[i]]; {
		case is == nil:
			none(row)
			there[of[i]] = row
			put = append(put, row)
			v.Outcome = pawl.Applied
		case columns[T](c.Columns).same(is[1:], row[1:]):
			v.Outcome, v.Reason = pawl.Ignored, "it exists already"
		default:
			v.Outcome, v.Cause, v.Reason = pawl.Quarantined, pawl.CauseConflict, "it exists already, and is something else"
		}
		b.Decide(i, v)
	}
	if len(put) == 0 {
		return nil
	}
	return rows.Put(ctx, c.table, put, make([]pawl.Row, len(put)))
}

// command is what an event asks for; nil is nothing.
func (c *Commands[T]) command(e *pawl.Envelope[T]) (row pawl.Row, err error) {
	defer recovered(&err)
	id := e.Key
	if c.Identify != nil {
		if id, err = c.Identify(e); err != nil || id == "" {
			return nil, err
		}
	}
	if err := validKey(id); err != nil {
		return nil, fmt.Errorf("what it asks for: %w", err)
	}
	row = make(pawl.Row, len(c.table.Columns))
	row[0] = id
	return row, columns[T](c.Columns).fill(e, row[1:])
}
