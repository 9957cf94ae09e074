package pawl

import "context"

// Delegate has another effect decide the records at some places of the batch, as a batch of their own: for effects that are
// made of effects. What it decides about them holds here.
func (b *Batch[T]) Delegate(ctx context.Context, rows Rows, e Effect[T], places []int) error {
	part := *b.hearing
	part.marks, part.verdicts, part.steps = make([]error, len(places)), nil, make([]*Decision, len(places))
	at := make([]int, len(places))
	for j, i := range places {
		part.steps[j], at[j] = b.steps[i], b.at[i]
	}
	if err := e.Fold(ctx, rows, &Batch[T]{all: b.all, at: at, hearing: &part}); err != nil {
		return err
	}
	for j, i := range places {
		b.marks[i] = part.marks[j]
		if part.verdicts != nil && part.verdicts[j].Outcome != 0 {
			b.Decide(i, part.verdicts[j])
		}
	}
	return nil
}
