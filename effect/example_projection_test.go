package effect_test

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/effect"
)

// A case as a read model: one row per case, which follows the case's versions. An event that comes before its turn waits ten
// minutes for what is missing.
func ExampleProjection() {
	type CaseEvent struct{ Status string }

	cases := &effect.Projection[CaseEvent]{
		Table: "case_projection", Stream: "case_id", Version: "version", Rule: effect.Next,
		Columns: []effect.Column[CaseEvent]{
			effect.Text("status", func(e *pawl.Envelope[CaseEvent]) string { return e.Body.Status }),
			effect.Note(effect.Text("last_event_id", func(e *pawl.Envelope[CaseEvent]) string { return e.EventID })),
		},
		Early: effect.Early{Hold: 10 * time.Minute, Then: effect.Quarantine},
	}
	// In a program: pawl.Apply(runner, route, decoder, cases)

	event := func(key string, version int64, status string) pawl.Envelope[CaseEvent] {
		return pawl.Envelope[CaseEvent]{Identity: pawl.Identity{Key: key, Stream: "C-1", Version: version}, Body: CaseEvent{status}}
	}
	trial := pawl.Trial[CaseEvent]{Events: []pawl.Envelope[CaseEvent]{
		event("a", 1, "OPENED"), event("b", 3, "CLOSED"), event("c", 2, "HEARD"), event("d", 2, "LOST"), event("e", 5, "REOPENED"),
	}}
	verdicts, err := trial.Fold(context.Background(), cases, newMemory())
	if err != nil {
		fmt.Println(err)
	}
	for i, v := range verdicts {
		fmt.Println(trial.Events[i].Version, trial.Events[i].Body.Status, v.Outcome)
	}
	fmt.Println(verdicts[4].Reason)
	// Output:
	// 1 OPENED applied
	// 3 CLOSED applied
	// 2 HEARD applied
	// 2 LOST stale
	// 5 REOPENED held
	// out of order: version 5 came, and version 4 is missing
}
