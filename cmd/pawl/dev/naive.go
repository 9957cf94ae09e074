package dev

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/pawlhq/pawl/kafka/embedded"
)

// NaiveGroup is the consumer group of the naive consumer.
const NaiveGroup = "dev-naive"

// Naive is a consumer as it is often written: for each record it applies the effect, and then it commits the offsets. Its database is a file to which each effect adds a line. It runs until ctx ends.
func Naive(ctx context.Context, addrs []string, path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("open the naive consumer's file: %w", err)
	}
	defer f.Close()
	return embedded.Consume(ctx, addrs, NaiveGroup, []string{Topic}, func(m embedded.Message) error {
		e, ok := read(m.Value)
		if !ok {
			return nil // logged and forgotten, as it is often written
		}
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		_, err = f.Write(append(line, '\n'))
		return err
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
	m := NewModel(deliveries)
	wrong := &Mistakes{}
	for _, outcome := range m.want {
		if outcome == Undecodable {
			wrong.Dropped++
		}
	}
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read what the naive consumer did: %w", err)
	}
	seen, rows := map[string]int{}, map[string]row{}
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		e, ok := read(lines.Bytes())
		if !ok {
			continue // cut off by a kill
		}
		wrong.Effects++
		if seen[e.EventID]++; seen[e.EventID] > 1 {
			wrong.Doubled++
		}
		rows[e.CaseID] = row{e.EventType, e.Version, e.EventID}
	}
	for id := range m.first {
		if seen[id] == 0 {
			wrong.Lost++
		}
	}
	wrong.Different = compare(rows, m.rows, func(string, ...any) {})
	return wrong, lines.Err()
}
