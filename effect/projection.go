package effect

import (
	"context"
	"fmt"

	"github.com/pawlhq/pawl"
)

// Projection keeps one row per stream (Identity.Stream), which each event moves to its version (Identity.Version):
//
//	the version is                      decided as
//	allowed by Rule                     Applied: the row is written, or inserted
//	the row's, with equal content       Duplicate
//	the row's, with other content       Quarantined (conflict)
//	below the row's                     WasStale
//	above what Rule allows              Held, Superseded by a requery, Ignored or Quarantined (gap): see [Early]
//
// The table's primary key is the Stream column. The version never goes back.
type Projection[T any] struct {
	Table   string // such as "case_projection"
	Stream  string // the column of the stream: text
	Version string // the column of the version: a whole number of 64 bits, or with NewerTime a time
	Rule    Rule   // default: Next
	Columns []Column[T]
	Early   Early
	States  bool // keep the row before and after each event as evidence

	declared declared
	sequence sequence[T]
}

// Tables is part of pawl.Effect.
func (p *Projection[T]) Tables() ([]*pawl.Table, error) {
	return p.declared.do(func() ([]*pawl.Table, error) {
		bad := &problems{what: fmt.Sprintf("projection %q", p.Table)}
		bad.need("Table", p.Table)
		p.sequence = sequence[T]{rule: p.Rule, early: p.Early, columns: p.Columns, states: p.States}
		p.sequence.open(p.Table, p.Stream, p.Version, bad)
		return bad.tables(p.sequence.table)
	})
}

// Gaps is part of pawl.Effect.
func (p *Projection[T]) Gaps() bool { return p.Early.Hold > 0 }

// Fold is part of pawl.Effect.
func (p *Projection[T]) Fold(ctx context.Context, rows pawl.Rows, b *pawl.Batch[T]) error {
	if _, err := p.Tables(); err != nil {
		return pawl.Classed(pawl.Misconfigured, err)
	}
	return p.sequence.fold(ctx, rows, b)
}

// Ask is part of pawl.Asker.
func (p *Projection[T]) Ask(ctx context.Context, streams []string) (map[string]pawl.Answer, error) {
	return p.sequence.ask(ctx, streams)
}
