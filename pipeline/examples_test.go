package pipeline_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawlhq/pawl/pipeline"
)

// disk opens what it is asked for, as a command does.
type disk struct{}

func (disk) Open(name string) (fs.File, error) { return os.Open(name) }

var onDisk = pipeline.Env{Files: disk{}, Offline: true}

func TestTheExamplesPassTheirFixtures(t *testing.T) {
	folders, err := filepath.Glob("../examples/*/pipeline.yaml")
	if err != nil || len(folders) == 0 {
		t.Fatalf("%d examples, %v", len(folders), err)
	}
	began := time.Now()
	for _, file := range folders {
		folder := filepath.Dir(file)
		t.Run(filepath.Base(folder), func(t *testing.T) {
			set, err := pipeline.Load([]string{folder}, onDisk)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range set.Findings {
				t.Errorf("%s", f)
			}
			results, err := pipeline.Test(t.Context(), set, onDisk, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if len(results) < 2 {
				t.Errorf("%d cases", len(results))
			}
			for _, r := range results {
				t.Logf("%s: %s", r.Case, r.Took)
				for _, f := range r.Failures {
					t.Errorf("%s:%d: %s: %s", r.File, r.Line, r.Case, f)
				}
			}
		})
	}
	t.Logf("all took %s", time.Since(began))
}
