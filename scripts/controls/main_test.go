package main

import (
	"os"
	"path/filepath"
	"slices"
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

func TestEachPlantedBugHasAControlAndIsInTheGuarantee(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "guarantee.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range planted {
		i := slices.IndexFunc(controls, func(c control) bool { return c.protection == p[1] })
		if i < 0 {
			t.Errorf("%s: there is no control %q", p[0], p[1])
			continue
		}
		test, _, _ := strings.Cut(controls[i].run, "/")
		found := false
		for line := range strings.Lines(string(doc)) {
			found = found || strings.HasPrefix(line, "| "+p[0]+" |") && strings.Contains(line, test)
		}
		if !found {
			t.Errorf("%s: docs/guarantee.md has no line with it and %s", p[0], test)
		}
	}
}
