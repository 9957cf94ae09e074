package pawl

import (
	"context"
	"errors"
)

// apply is one try of a batch of n records, between the two calls of who observes it.
func (l *lane[Tx]) apply(ctx context.Context, n int, w *Work[Tx]) error {
	h := l.r.cfg.Hooks.Trying
	if h == nil {
		return l.bound.Apply(ctx, l.owned, w)
	}
	ctx, over := h(ctx, Try{l.assignment.Partition, l.r.routeNames, w.Decisions, n})
	ended := Tried{Err: errGoexit}
	defer func() { // also where a handler ends the goroutine
		if over != nil {
			over(ended)
		}
	}()
	err := l.bound.Apply(ctx, l.owned, w)
	ended = l.tried(err)
	return err
}

// tried tells a failure from what only changes how the batch is tried next.
func (l *lane[Tx]) tried(err error) Tried {
	var later *verb
	switch {
	case err == nil:
		return Tried{Committed: true}
	case l.ctx.Err() != nil, errors.Is(err, errNeedsCare), errors.As(err, new(*splitError)), errors.As(err, &later) && later.kind == verbLater:
		return Tried{}
	}
	return Tried{Err: err, Class: l.class(err)}
}
