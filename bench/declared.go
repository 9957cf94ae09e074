package main

import (
	"context"
	"fmt"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/pipeline"
)

// declared is newProjection as a file.
const declared = `
version: 1
store: {postgres: "postgres://bench"}
kafka: {brokers: ["localhost:1"]}
pipelines:
  bench:
    topic: %s
    owner: bench
    event: {id: $.eventId, stream: $.caseId, version: $.caseVersion, type: $.eventType, at: $.occurredAt}
    once_per: event.id
    projection:
      table: case_state
      columns: {case_id: stream, version: version, state: $.newState, occurred_at: at}
`

// runDeclared is pawl-projection from a file: documents instead of a Go type, paths instead of functions.
func runDeclared(ctx context.Context, t *task, w *stopwatch) error {
	files := fstest.MapFS{"bench.yaml": {Data: fmt.Appendf(nil, declared, t.Topic)}}
	set, err := pipeline.Load([]string{"bench.yaml"}, pipeline.Env{Files: files})
	if err != nil {
		return err
	}
	return runPawl(ctx, t, w, func(r *pawl.Runner[pgx.Tx], _ pawl.Route) { pipeline.Register(r, set.Pipelines[0]) })
}
