package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A control whose text has moved on tests nothing.
func TestEveryControlFindsItsPlace(t *testing.T) {
	for _, c := range controls {
		text, err := os.ReadFile(filepath.Join("..", "..", c.file))
		if err != nil {
			t.Errorf("%s: %v", c.protection, err)
			continue
		}
		if n := strings.Count(string(text), c.old); n != 1 {
			t.Errorf("%s: %s has %d times\n%s", c.protection, c.file, n, c.old)
		}
	}
}
