package rehearsal

import (
	"context"
	"encoding/json"

	"github.com/pawlhq/pawl/cmd/pawl/dev/naive"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/kafka/embedded"
	"github.com/pawlhq/pawl/pipeline"
)

// effect is what the naive consumer writes down for each effect.
type effect struct {
	Pipeline string `json:"pipeline"`
	Key      string `json:"key"`
}

// Naive runs the naive consumer until ctx ends. The ids are those of the topics.
func Naive(ctx context.Context, addrs []string, set *pipeline.Set, ids map[string]pawl.TopicID, path string) error {
	return naive.Run(ctx, addrs, topicsOf(set), path, func(m embedded.Message) (effects []any) {
		r := recordOf(m, ids)
		for _, p := range readers(set, m.Topic) {
			if id, err := p.Identify(&r); err == nil {
				effects = append(effects, effect{p.Name, id.Key})
			}
		}
		return effects
	})
}

// NaiveKey is what a line of the naive consumer's file is about; "": it was cut off by a kill.
func NaiveKey(line []byte) string {
	var e effect
	if json.Unmarshal(line, &e) != nil || e.Pipeline == "" {
		return ""
	}
	return e.Pipeline + "/" + e.Key
}

// Mistakes are what the naive consumer got wrong with the events that took effect in the quiet run.
type Mistakes struct {
	Effects int `json:"effects"`
	Doubled int `json:"doubled"` // effects of events that had taken effect
	Lost    int `json:"lost"`    // events without any
	Dropped int `json:"dropped"` // records that did not decode, of which nothing is left
}

// Judge reads what the naive consumer has done.
func (f *Finding) Judge(path string) (*Mistakes, error) {
	wrong := &Mistakes{Dropped: f.unnamed}
	seen := map[string]int{}
	err := naive.Each(path, func(line []byte) {
		key := NaiveKey(line)
		if !f.took[key] {
			return
		}
		wrong.Effects++
		if seen[key]++; seen[key] > 1 {
			wrong.Doubled++
		}
	})
	for key := range f.took {
		if seen[key] == 0 {
			wrong.Lost++
		}
	}
	return wrong, err
}
