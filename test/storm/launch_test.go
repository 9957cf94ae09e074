//go:build !synctests

package storm

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestStorm builds this package once more, for fake time, and runs it.
func TestStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the Kafka client anew and runs for most of a minute")
	}
	args := []string{"test", "-tags=synctests", "-overlay=" + overlay(t), "-run=^TestStorm$", "-vet=off", "-count=1", "-v"}
	if raceEnabled {
		args = append(args, "-race")
	}
	if deadline, ok := t.Deadline(); ok {
		// It has to end first, so that it is the one to say where it hangs.
		args = append(args, fmt.Sprintf("-timeout=%s", (time.Until(deadline)-10*time.Second).Round(time.Second)))
	}
	args = append(args, ".", fmt.Sprintf("-storm.seed=%d", *oneSeed), fmt.Sprintf("-storm.first=%d", *firstSeed),
		fmt.Sprintf("-storm.seeds=%d", *seedCount), fmt.Sprintf("-storm.log=%t", *showLog))
	out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
	var kept []string
	for line := range strings.Lines(string(out)) {
		// Of seeds that pass, only the summary is of interest.
		if l := strings.TrimSpace(line); strings.HasPrefix(l, "=== ") || strings.HasPrefix(l, "--- PASS: TestStorm/") {
			continue
		}
		kept = append(kept, line)
	}
	t.Log("\n" + strings.Join(kept, ""))
	if err != nil {
		t.Errorf("go %s: %v", strings.Join(args, " "), err)
	}
}

// overlay writes what the go command needs to build Pawl with mutexes that fake time knows of, and returns its name.
func overlay(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	locks, err := filepath.Abs("testdata/locks.go")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	replace := map[string]string{filepath.Join(root, "internal", "locks", "locks.go"): locks}
	replaced := 0
	for _, pkg := range []string{".", "kafka"} {
		names, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			src, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			text := string(src)
			n := strings.Count(text, "sync.Mutex") + strings.Count(text, "sync.RWMutex")
			if n == 0 {
				continue
			}
			replaced += n
			text = strings.NewReplacer("sync.Mutex", "locks.Mutex", "sync.RWMutex", "locks.RWMutex").Replace(text)
			text = strings.Replace(text, "import ", "import \"github.com/pawlhq/pawl/internal/locks\"\n\nimport ", 1)
			text += "\nvar _ sync.Locker = (*locks.Mutex)(nil)\n" // sync may have no other use
			out := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
			if err := os.WriteFile(out, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			replace[name] = out
		}
	}
	if replaced < 5 {
		t.Fatalf("%d mutexes were found to replace: the overlay looks in the wrong place", replaced)
	}
	doc, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(name, doc, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
