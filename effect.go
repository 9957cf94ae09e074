package pawl

import (
	"context"
	"time"
)

// Effect is a declared effect: what becomes of the events of a route, stated instead of programmed. Package effect has them.
//
// Fold decides a batch: it reads the rows that the batch is about, folds the events into them in memory, in order, says for
// each event what it decided (see [Batch.Decide]; what it says nothing about is Applied), and writes the rows as sets. It may
// be called several times for one batch, and keeps nothing between calls. An error undoes everything; where no record can be
// named, the batch is tried in halves until the one that fails is alone.
type Effect[T any] interface {
	// Tables checks the declaration and returns the tables that Fold uses.
	Tables() ([]*Table, error)
	// Fold is called inside the transaction.
	Fold(ctx context.Context, rows Rows, b *Batch[T]) error
	// Gaps says that events have versions and may be Held until their turn comes.
	Gaps() bool
}

// Verdict is what an effect decided about one record, and what it has to say about it as evidence.
type Verdict struct {
	Outcome Outcome // any but Skipped
	Reason  string  // why, for everything but Applied
	Cause   string  // a Cause… constant, for Quarantined

	VersionBefore int64  // of the stream, before this event
	RowAffected   string // what it changed, where the stream does not say it
	StateBefore   string // JSON, where it was asked for
	StateAfter    string

	// Of what is Held because it came early: the version that its stream waits for, and until when.
	Expected int64
	Until    time.Time
}

// Answer is what a source of truth says about a stream, for effects that ask one.
type Answer struct {
	Version int64
	Values  map[string]any // by column
}

// Asker is an Effect that asks a source of truth about streams that events are missing of. Ask is called outside any
// transaction, with what [Batch.Ask] was given; the batch is then tried again, and finds the answers with [Batch.Answer]. A
// stream that the source does not know is left out of the answers.
type Asker interface {
	Ask(ctx context.Context, streams []string) (map[string]Answer, error)
}

// Apply registers a declared effect. What is wrong with it is reported by Run.
func Apply[Tx, T any](r *Runner[Tx], route Route, dec Decoder[T], e Effect[T]) {
	var tables []*Table
	var err error
	gaps := false
	if e != nil {
		tables, err = e.Tables()
		gaps = e.Gaps()
	}
	r.register(route, dec == nil || e == nil, func(n int) section[Tx] { return &folds[Tx, T]{envelopes: newEnvelopes(dec, n), e: e} })
	r.declare(tables, gaps, err)
}
