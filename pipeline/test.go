package pipeline

import (
	"context"
	"time"
)

// Result is what became of one case of a fixture.
type Result struct {
	File     string        `json:"file"`
	Line     int           `json:"line"`
	Pipeline string        `json:"pipeline"`
	Case     string        `json:"case"`
	Failures []string      `json:"failures,omitempty"` // none: it passed
	Took     time.Duration `json:"took"`
}

// Test runs the cases of the set's fixtures, each in a new SQLite database in the folder dir, without a network. The error
// is a [*Refused] if a fixture cannot be read.
func Test(ctx context.Context, set *Set, env Env, dir string) ([]Result, error) { panic("not yet") }
