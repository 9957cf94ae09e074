package pipeline

import (
	"context"
	"net/http"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/effect"
)

// truth is a source of truth that a file declares.
type truth struct {
	effect.HTTPSource
	headers Headers
}

func (r *Requery) source() effect.Source {
	s := effect.HTTPSource{URL: r.URL, Version: r.Version, Values: r.Values}
	if len(r.Headers) == 0 {
		return s
	}
	// A redirect may lead to another host, which is not to see what is secret.
	s.Client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return truth{s, r.Headers}
}

// Ask is part of effect.Source. Headers are read each time: one that was rotated is picked up.
func (t truth) Ask(ctx context.Context, stream string) (pawl.Answer, bool, error) {
	s := t.HTTPSource
	s.Header = http.Header{}
	for _, h := range t.headers {
		value, err := h.Value.Resolve(ctx)
		if err != nil {
			return pawl.Answer{}, false, pawl.Classed(pawl.Misconfigured, err)
		}
		s.Header.Set(h.Name, value)
	}
	return s.Ask(ctx, stream)
}
