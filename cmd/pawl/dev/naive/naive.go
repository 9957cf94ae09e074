// Package naive is the consumer without Pawl that `pawl dev` has beside it, as such consumers are often written: for each record it
// applies the effects, and then it commits the offsets. Its database is a file to which each effect adds a line.
package naive

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/pawlhq/pawl/kafka/embedded"
)

// Group is its consumer group.
const Group = "dev-naive"

// mostLine bounds an effect: what is read of a record is never longer.
const mostLine = 8 << 20

// Run consumes topics until ctx ends. effects are what it writes down for a record; none: it is logged and forgotten.
func Run(ctx context.Context, addrs, topics []string, path string, effects func(embedded.Message) []any) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("open the naive consumer's file: %w", err)
	}
	defer f.Close()
	return embedded.Consume(ctx, addrs, Group, topics, func(m embedded.Message) error {
		for _, e := range effects(m) {
			line, err := json.Marshal(e)
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

// Each calls do with each line that it has written. The last may be cut off by a kill.
func Each(path string, do func(line []byte)) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it did nothing
	}
	if err != nil {
		return fmt.Errorf("read what the naive consumer did: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, mostLine)
	for lines.Scan() {
		do(lines.Bytes())
	}
	return lines.Err()
}
