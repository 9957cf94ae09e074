package effect

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawlhq/pawl"
)

// State keeps the latest value per stream (Identity.Stream) of a compacted topic: the log says what the state is, and an event
// that deletes (a tombstone) removes the row. Reading the topic again from its beginning ends with the same rows.
//
//	the event                                              is decided as
//	has a value                                            Applied: the row is written, or inserted
//	is a tombstone                                         Applied: the row is deleted; Ignored if there is none
//	with Version: has a version below the row's            WasStale
//	with Version: has the row's, and says the same         Duplicate
//	with Version: has the row's, and says something else   Quarantined (conflict)
//
// Without Version the last event in the log counts, so all events of a stream must come through one partition, as those with
// one record key do. With a row its version is deleted too: an older event that comes behind a tombstone makes the row anew.
type State[T any] struct {
	Table   string
	Stream  string // the column of the stream: text, and the primary key
	Version string // the column of the version (Identity.Version): a whole number of 64 bits. Empty: there is none
	Columns []Column[T]

	// Tombstone tells what deletes. Its version may be 0: then it deletes whatever is there.
	Tombstone func(e *pawl.Envelope[T]) bool

	States bool // keep the row before and after each event as evidence

	declared declared
	table    *pawl.Table
	first    int // column that is filled from events
}

// Tables is part of pawl.Effect.
func (s *State[T]) Tables() ([]*pawl.Table, error) {
	return s.declared.do(func() ([]*pawl.Table, error) {
		bad := &problems{what: fmt.Sprintf("state %q", s.Table)}
		bad.need("Table", s.Table)
		bad.need("Stream", s.Stream)
		if s.Tombstone == nil {
			bad.add("Tombstone is nil: say what deletes, or that nothing does")
		}
		columns[T](s.Columns).check(bad)
		s.table = &pawl.Table{Name: s.Table, Key: 1, Columns: []pawl.Column{{Name: s.Stream, Kind: pawl.KindText, NotNull: true}}}
		if s.Version != "" {
			s.table.Columns = append(s.table.Columns, pawl.Column{Name: s.Version, Kind: pawl.KindInt, NotNull: true})
		}
		s.first = len(s.table.Columns)
		columns[T](s.Columns).of(s.table)
		return bad.tables(s.table)
	})
}

// Gaps is part of pawl.Effect.
func (s *State[T]) Gaps() bool { return false }

// cell is a stream in a batch.
type cell struct {
	before, row pawl.Row // as it was read, as it is now; nil: there is none
	changed     bool
}

// Fold is part of pawl.Effect.
func (s *State[T]) Fold(ctx context.Context, rows pawl.Rows, b *pawl.Batch[T]) error {
	if _, err := s.Tables(); err != nil {
		return pawl.Classed(pawl.Misconfigured, err)
	}
	known := make(map[string]int, b.Len())
	of := make([]int, b.Len())
	var keys []pawl.Row
	for i := range of {
		stream := b.At(i).Stream
		if stream == "" {
			of[i] = -1
			b.Reject(i, errNoStream)
			continue
		}
		at, ok := known[stream]
		if !ok {
			at = len(keys)
			known[stream] = at
			keys = append(keys, pawl.Row{stream})
		}
		of[i] = at
	}
	if len(keys) == 0 {
		return nil
	}
	read, err := rows.Read(ctx, s.table, keys)
	if err != nil {
		return err
	}
	cells := make([]cell, len(keys))
	for i, row := range read {
		cells[i] = cell{before: row, row: slices.Clone(row)}
	}
	values := make([]any, len(s.Columns))
	for i, at := range of {
		if at < 0 {
			continue
		}
		v, err := s.decide(&cells[at], b.At(i), values)
		if err != nil {
			b.Reject(i, err)
			continue
		}
		b.Decide(i, v)
	}
	var put, before, gone []pawl.Row
	for i, c := range cells {
		switch {
		case !c.changed || c.row == nil && c.before == nil:
		case c.row == nil:
			gone = append(gone, keys[i])
		default:
			put, before = append(put, c.row), append(before, c.before)
		}
	}
	if len(put) > 0 {
		if err := rows.Put(ctx, s.table, put, before); err != nil {
			return err
		}
	}
	if len(gone) > 0 {
		return rows.Delete(ctx, s.table, gone)
	}
	return nil
}

// decide folds an event into its row.
func (s *State[T]) decide(c *cell, e *pawl.Envelope[T], values []any) (v pawl.Verdict, err error) {
	defer recovered(&err)
	dead := s.Tombstone(e)
	var at int64
	if c.row != nil && s.Version != "" {
		at, _ = c.row[1].(int64)
	}
	guarded := s.Version != "" && !(dead && e.Version == 0)
	switch {
	case guarded && e.Version < 1:
		return v, errNoVersion
	case guarded && e.Version < at:
		return pawl.Verdict{Outcome: pawl.WasStale, Reason: fmt.Sprintf("it is version %d, and the row is at version %d", e.Version, at)}, nil
	case dead && guarded && e.Version == at:
		return again(false, version(at)), nil
	case dead && c.row == nil:
		return pawl.Verdict{Outcome: pawl.Ignored, Reason: "there is no row to delete"}, nil
	}
	v = pawl.Verdict{Outcome: pawl.Applied, VersionBefore: at}
	if s.States {
		v.StateBefore = stateOf(s.table, c.row)
	}
	if dead {
		c.row, c.changed = nil, true
		return v, nil
	}
	if err := columns[T](s.Columns).fill(e, values); err != nil {
		return v, err
	}
	if guarded && e.Version == at {
		return again(columns[T](s.Columns).same(c.row[s.first:], values), version(at)), nil
	}
	if c.row == nil {
		c.row = make(pawl.Row, len(s.table.Columns))
		c.row[0] = e.Stream
	}
	if s.Version != "" {
		c.row[1] = e.Version
	}
	settle(c.row[s.first:], values)
	c.changed = true
	if s.States {
		v.StateAfter = stateOf(s.table, c.row)
	}
	return v, nil
}
