package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/effect"
)

// Declared effects, each next to the classic consumer that does the same, and to COPY of the rows that it leaves: "full"
// evidence is that of every decision, with the version before; states are not asked for.

const createEffects = `
create table case_state (
    case_id text primary key,
    version bigint not null,
    state text,
    occurred_at timestamptz
) with (fillfactor = 70);
create table copy_state (like case_state including all)`

func newProjection() *effect.Projection[body] {
	return &effect.Projection[body]{
		Table: "case_state", Stream: "case_id", Version: "version",
		Columns: []effect.Column[body]{
			effect.Text("state", func(e *pawl.Envelope[body]) string { return e.Body.State }),
			effect.Note(effect.Time("occurred_at", occurredAt)),
		},
	}
}

func occurredAt(e *pawl.Envelope[body]) time.Time { return e.OccurredAt }

func newWorkflow() *effect.Workflow[body] {
	all := states[:]
	to := map[string][]string{}
	for _, s := range all {
		to[s] = all
	}
	return &effect.Workflow[body]{
		Table: "case_state", Stream: "case_id", Version: "version", State: "state", Initial: all, Transitions: to,
		To:      func(e *pawl.Envelope[body]) (string, error) { return e.Body.State, nil },
		Columns: []effect.Column[body]{effect.Note(effect.Time("occurred_at", occurredAt))},
	}
}

func runPawlProjection(ctx context.Context, t *task, w *stopwatch) error {
	return runPawl(ctx, t, w, func(r *pawl.Runner[pgx.Tx], route pawl.Route) { pawl.Apply(r, route, decoder, newProjection()) })
}

func runPawlWorkflow(ctx context.Context, t *task, w *stopwatch) error {
	return runPawl(ctx, t, w, func(r *pawl.Runner[pgx.Tx], route pawl.Route) { pawl.Apply(r, route, decoder, newWorkflow()) })
}

// The classic forms: the marker, the row locked and read, the rule in Go, the row written.

const (
	lockState   = `select version, state from case_state where case_id = $1 for update`
	insertState = `insert into case_state (case_id, version, state, occurred_at) values ($1, $2, $3, $4)`
	updateState = `update case_state set version = $2, state = $3, occurred_at = $4 where case_id = $1`
)

func classicProjection(ctx context.Context, tx pgx.Tx, b *body) error {
	return classicState(ctx, tx, b, func(string) bool { return true })
}

func classicWorkflow(ctx context.Context, tx pgx.Tx, b *body) error {
	return classicState(ctx, tx, b, func(from string) bool {
		for _, s := range states {
			if s == from {
				return true
			}
		}
		return from == ""
	})
}

func classicState(ctx context.Context, tx pgx.Tx, b *body, allowed func(from string) bool) error {
	var version int64
	var state string
	err := tx.QueryRow(ctx, lockState, b.CaseID).Scan(&version, &state)
	if err != nil && err != pgx.ErrNoRows {
		return err
	}
	if b.Version != version+1 || !allowed(state) {
		return fmt.Errorf("case %s is at version %d, the event is %d", b.CaseID, version, b.Version)
	}
	write := updateState
	if err == pgx.ErrNoRows {
		write = insertState
	}
	_, err = tx.Exec(ctx, write, b.CaseID, b.Version, b.State, b.OccurredAt)
	return err
}

// classicEffect is runClassic1 with another effect.
func classicEffect(apply func(context.Context, pgx.Tx, *body) error) func(context.Context, *task, *stopwatch) error {
	return func(ctx context.Context, t *task, w *stopwatch) error {
		c, err := openClassic(ctx, t, w, 2)
		if err != nil {
			return err
		}
		defer c.close()
		c.apply = apply
		return c.serve(ctx)
	}
}
