package pipeline

import (
	"context"
	"fmt"

	"github.com/pawlhq/pawl"
)

// filter ignores events for which a condition is false, and sets aside those for which one cannot be told.
type filter struct {
	pawl.Effect[*Document]
	when    *program // nil: none
	deleted *program // nil: none. It is only tried: the effect itself asks
}

// Fold is part of pawl.Effect.
func (f *filter) Fold(ctx context.Context, rows pawl.Rows, b *pawl.Batch[*Document]) error {
	var pass []int
	for i, e := range b.All() {
		switch ok, err := f.passes(inputOf(&e)); {
		case err != nil:
			b.Reject(i, err)
		case ok:
			pass = append(pass, i)
		default:
			b.Ignore(i, "when: "+clip(f.when.text, 200))
		}
	}
	if len(pass) == 0 {
		return nil
	}
	return b.Delegate(ctx, rows, f.Effect, pass)
}

func (f *filter) passes(in *input) (bool, error) {
	if f.when != nil {
		if ok, err := f.when.required(in, boolKind); err != nil {
			return false, fmt.Errorf("when: %w", err)
		} else if ok != true {
			return false, nil
		}
	}
	if f.deleted != nil && !in.doc.Tombstone {
		if _, err := f.deleted.required(in, boolKind); err != nil {
			return false, fmt.Errorf("deleted: %w", err)
		}
	}
	return true, nil
}

// Ask is part of pawl.Asker.
func (f *filter) Ask(ctx context.Context, streams []string) (map[string]pawl.Answer, error) {
	if a, ok := f.Effect.(pawl.Asker); ok {
		return a.Ask(ctx, streams)
	}
	return nil, nil
}
