package pawl

import "iter"

// Batch is the records that a batch handler is to apply together. A record that is not marked is applied. Mark before
// writing: a mark does not undo.
type Batch[T any] struct {
	all   []Envelope[T]
	at    []int   // which of all are in this batch
	marks []error // verbs, by place in at
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

// Ignore marks record i as a valid event that needs no effect.
func (b *Batch[T]) Ignore(i int, why string) { b.marks[i] = Ignore(why) }

// Stale marks record i as an event that the state is already past.
func (b *Batch[T]) Stale(i int, why string) { b.marks[i] = Stale(why) }

// Reject marks record i as one that can never apply: it is quarantined.
func (b *Batch[T]) Reject(i int, err error) { b.marks[i] = Reject(err) }
