package effect_test

import (
	"context"
	"fmt"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/effect"
)

// The life of a case: only the transitions that the domain allows. What is refused says why.
func ExampleWorkflow() {
	type CaseEvent struct{ Status string }

	lifecycle := &effect.Workflow[CaseEvent]{
		Table: "case_workflow", Stream: "case_id", Version: "version", State: "state",
		Initial: []string{"OPENED"},
		Transitions: map[string][]string{
			"OPENED":        {"NOTICE_ISSUED"},
			"NOTICE_ISSUED": {"PENALTY", "CLOSED"},
			"PENALTY":       {"CLOSED"},
		},
		To: func(e *pawl.Envelope[CaseEvent]) (string, error) { return e.Body.Status, nil },
	}
	// In a program: pawl.Apply(runner, route, decoder, lifecycle)

	event := func(key string, version int64, status string) pawl.Envelope[CaseEvent] {
		return pawl.Envelope[CaseEvent]{Identity: pawl.Identity{Key: key, Stream: "C-1", Version: version}, Body: CaseEvent{status}}
	}
	trial := pawl.Trial[CaseEvent]{Events: []pawl.Envelope[CaseEvent]{
		event("a", 1, "OPENED"), event("b", 2, "PENALTY"), event("c", 2, "NOTICE_ISSUED"), event("d", 3, "CLOSED"),
	}}
	verdicts, err := trial.Fold(context.Background(), lifecycle, newMemory())
	if err != nil {
		fmt.Println(err)
	}
	for i, v := range verdicts {
		fmt.Println(trial.Events[i].Body.Status, v.Outcome)
	}
	fmt.Println(verdicts[1].Reason)
	// Output:
	// OPENED applied
	// PENALTY quarantined
	// NOTICE_ISSUED applied
	// CLOSED applied
	// illegal transition: from "OPENED" to "PENALTY"
}
