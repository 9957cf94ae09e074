package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/pipeline"
)

// ask runs a command line in this process.
func ask(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = newApp(strings.NewReader(""), &out, &err).run(t.Context(), args)
	return code, out.String(), err.String()
}

// The contracts are what reviewers read: a change of a word is looked at. go test ./cmd/pawl -run TestTheContracts -update.
func TestTheContractsOfTheExamplesAreAsReviewed(t *testing.T) {
	files, err := filepath.Glob("../../examples/*/pipeline.yaml")
	if err != nil || len(files) != 5 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		for format, ext := range map[string]string{formatTable: ".md", formatJSON: ".json"} {
			t.Run(name+ext, func(t *testing.T) {
				code, got, stderr := ask(t, "contract", file, "-o", format)
				if code != exitDone {
					t.Fatalf("exit code %d: %s", code, stderr)
				}
				golden := filepath.Join("testdata", "contract", name+ext)
				if *update {
					if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(golden)
				if err != nil || got != string(want) {
					t.Errorf("%s is not what is written (%v): go test ./cmd/pawl -run TestTheContracts -update, and read the difference", golden, err)
				}
			})
		}
	}
}

// Every list is answered to its last point, and what is open says what closes it.
func TestAContractLeavesNoPointOut(t *testing.T) {
	for _, file := range []string{"case-lifecycle", "account-ledger", "order-projection", "sla-counters", "customer-state"} {
		_, out, _ := ask(t, "contract", "../../examples/"+file+"/pipeline.yaml", "-o", "json")
		var doc struct{ Items []pipeline.Contract }
		if err := json.Unmarshal([]byte(out), &doc); err != nil || len(doc.Items) != 1 {
			t.Fatalf("%s: %d contracts, %v", file, len(doc.Items), err)
		}
		c := doc.Items[0]
		for i, want := range []int{17, 23, 12, 15} {
			if got := len(c.Checklists[i].Points); got != want {
				t.Errorf("%s: %s has %d points, want %d", file, c.Checklists[i].Title, got, want)
			}
		}
		for _, l := range c.Checklists {
			for _, p := range l.Points {
				if p.Answer == "" || p.Question == "" || (p.Basis == pipeline.Open) != (p.Todo != "") {
					t.Errorf("%s: %+v", file, p)
				}
			}
		}
		for _, term := range c.Terms {
			if term.Text == "" {
				t.Errorf("%s: %s is empty", file, term.Name)
			}
		}
	}
}
