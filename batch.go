package pawl

import (
	"fmt"
	"iter"
	"slices"
	"time"
)

// Batch is the records that a batch handler is to apply together. A record that is not marked is applied. Mark before
// writing: a mark does not undo.
type Batch[T any] struct {
	all []Envelope[T]
	at  []int // which of all are in this batch
	*hearing
}

// hearing is what is said about the records of a batch, by their place in it, and what is known beside them.
type hearing struct {
	marks    []error   // verbs
	verdicts []Verdict // nil until one is given; without an Outcome: none
	steps    []*Decision
	gaps     map[string]*Gap
	now      time.Time
	full     bool
	answers  map[string]Answer
}

// Len is the number of records.
func (b *Batch[T]) Len() int { return len(b.at) }

// All yields the records in order, with the index that marks refer to; those that are marked already are left out. What a
// body points to (a map, a slice) must not be changed: if the batch is tried again, it is the same.
func (b *Batch[T]) All() iter.Seq2[int, Envelope[T]] {
	return func(yield func(int, Envelope[T]) bool) {
		for i, at := range b.at {
			if b.marks[i] == nil && !yield(i, b.all[at]) {
				return
			}
		}
	}
}

// At returns record i, which must not be changed.
func (b *Batch[T]) At(i int) *Envelope[T] { return &b.all[b.at[i]] }

// Ignore marks record i as a valid event that needs no effect.
func (b *Batch[T]) Ignore(i int, why string) { b.marks[i] = Ignore(why) }

// Stale marks record i as an event that the state is already past.
func (b *Batch[T]) Stale(i int, why string) { b.marks[i] = Stale(why) }

// Reject marks record i as one that can never apply: it is quarantined.
func (b *Batch[T]) Reject(i int, err error) { b.marks[i] = Reject(err) }

// Decide gives record i a verdict. It is how declared effects say more than the verbs do.
func (b *Batch[T]) Decide(i int, v Verdict) {
	if b.verdicts == nil {
		b.verdicts = make([]Verdict, len(b.at))
	}
	b.verdicts[i] = v
}

// Now is the time that the evidence of this batch will bear.
func (b *Batch[T]) Now() time.Time { return b.now }

// Fingerprint is that of record i's content.
func (b *Batch[T]) Fingerprint(i int) Fingerprint { return b.steps[i].Fingerprint }

// Early reports whether record i is not new: it came early, was held, and is in this batch because what it waits for may be.
// Such records stand behind the others, though they came before them.
func (b *Batch[T]) Early(i int) bool { return b.steps[i].Kept != nil && b.steps[i].Kept.Early != 0 }

// Expired reports whether record i came early, was held, and has waited for as long as it was to.
func (b *Batch[T]) Expired(i int) bool { return b.steps[i].Kept != nil && b.steps[i].Kept.Expired }

// Waiting is how many early records of a stream are held, those in this batch included.
func (b *Batch[T]) Waiting(stream string) int {
	if g := b.gaps[stream]; g != nil {
		return g.Waiting
	}
	return 0
}

// Full reports whether no more records may be held: see Config.MaxHeld. Those that are may stay.
func (b *Batch[T]) Full() bool { return b.full }

// Answer is what the source of truth said about a stream, if it was asked and knows it.
func (b *Batch[T]) Answer(stream string) (a Answer, known, asked bool) {
	a, asked = b.answers[stream]
	return a, a.Version > 0, asked
}

// Ask is returned by Fold to have the source of truth asked about streams: see [Asker].
func (b *Batch[T]) Ask(streams ...string) error { return &askError{slices.Clone(streams)} }

// askError: the batch cannot be decided before a source of truth has been asked.
type askError struct{ streams []string }

func (e *askError) Error() string {
	return fmt.Sprintf("the source of truth must be asked about %d streams", len(e.streams))
}
