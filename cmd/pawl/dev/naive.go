package dev

import (
	"context"

	"github.com/pawlhq/pawl/cmd/pawl/dev/naive"
	"github.com/pawlhq/pawl/kafka/embedded"
)

// Naive runs the naive consumer until ctx ends.
func Naive(ctx context.Context, addrs []string, path string) error {
	return naive.Run(ctx, addrs, []string{Topic}, path, func(m embedded.Message) []any {
		if e, ok := read(m.Value); ok {
			return []any{e}
		}
		return nil
	})
}

// Mistakes are what the naive consumer got wrong, by the same model.
type Mistakes struct {
	Effects   int `json:"effects"`
	Doubled   int `json:"doubled"`   // effects of events that had taken effect
	Lost      int `json:"lost"`      // events without any
	Different int `json:"different"` // rows that are not what the model has
	Dropped   int `json:"dropped"`   // records that did not decode, of which nothing is left
}

// Judge reads what the naive consumer has done.
func Judge(path string, deliveries []embedded.Message) (*Mistakes, error) {
	m := newModel(deliveries)
	wrong := &Mistakes{}
	for _, outcome := range m.want {
		if outcome == Undecodable {
			wrong.Dropped++
		}
	}
	seen, rows := map[string]int{}, map[string]row{}
	err := naive.Each(path, func(line []byte) {
		e, ok := read(line)
		if !ok {
			return // cut off by a kill
		}
		wrong.Effects++
		if seen[e.EventID]++; seen[e.EventID] > 1 {
			wrong.Doubled++
		}
		rows[e.CaseID] = row{e.EventType, e.Version, e.EventID}
	})
	for id := range m.first {
		if seen[id] == 0 {
			wrong.Lost++
		}
	}
	wrong.Different = compare(rows, m.rows, func(string, ...any) {})
	return wrong, err
}
