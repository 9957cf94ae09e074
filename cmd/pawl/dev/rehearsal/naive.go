package rehearsal

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/kafka/embedded"
	"github.com/pawlhq/pawl/pipeline"
)

// NaiveGroup is the consumer group of the naive consumer.
const NaiveGroup = "dev-naive"

// effect is what the naive consumer writes down for each effect.
type effect struct {
	Pipeline string `json:"pipeline"`
	Key      string `json:"key"`
}

// Naive is a consumer as it is often written: for each record it applies the effects, and then it commits the offsets. Its database
// is a file to which each effect adds a line. It runs until ctx ends. The ids are those of the topics.
func Naive(ctx context.Context, addrs []string, set *pipeline.Set, ids map[string]pawl.TopicID, path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("open the naive consumer's file: %w", err)
	}
	defer f.Close()
	return embedded.Consume(ctx, addrs, NaiveGroup, topicsOf(set), func(m embedded.Message) error {
		r := RecordOf(m, ids)
		for _, p := range readers(set, m.Topic) {
			id, err := p.Identify(&r)
			if err != nil {
				continue // logged and forgotten, as it is often written
			}
			line, err := json.Marshal(effect{p.Name, id.Key})
			if err != nil {
				return err
			}
			if _, err := f.Write(append(line, '\n')); err != nil {
				return err
			}
		}
		return nil
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
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read what the naive consumer did: %w", err)
	}
	wrong := &Mistakes{Dropped: f.unnamed}
	seen := map[string]int{}
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, mostLine)
	for lines.Scan() {
		key := NaiveKey(lines.Bytes())
		if !f.took[key] {
			continue
		}
		wrong.Effects++
		if seen[key]++; seen[key] > 1 {
			wrong.Doubled++
		}
	}
	for key := range f.took {
		if seen[key] == 0 {
			wrong.Lost++
		}
	}
	return wrong, lines.Err()
}
