package main

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
	"github.com/pawlhq/pawl/kafka"
	"github.com/pawlhq/pawl/metrics"
	"github.com/pawlhq/pawl/postgres"
)

var decoder = decode.JSON(func(_ pawl.Meta, b body) pawl.Identity {
	return pawl.Identity{
		Key: b.EventID, EventID: b.EventID, StreamType: "case", Stream: b.CaseID, Version: b.Version, Type: b.EventType,
		OccurredAt: b.OccurredAt,
	}
})

// runPawl is a consumer on Pawl; register gives it its handler.
func runPawl(ctx context.Context, t *task, w *stopwatch, register func(*pawl.Runner[pgx.Tx], pawl.Route)) error {
	pool, err := openPool(ctx, t.Postgres, max(t.Workers, 16)+2)
	if err != nil {
		return err
	}
	defer pool.Close()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	source := kafka.New(kafka.Config{Brokers: t.Brokers, Group: t.Group, Options: []kgo.Opt{kgo.WithHooks(w)}, Logger: log})
	signals, err := hooksOf(t)
	if err != nil {
		return err
	}
	r := pawl.NewRunner(postgres.New(pool), source, pawl.Config{
		Consumer: consumer, Workers: t.Workers, Version: "bench", Logger: log,
		Hooks: pawl.JoinHooks(signals, pawl.Hooks{Settled: func(s pawl.Settled) {
			n := 0
			for _, d := range s.Decisions {
				if d.Kept == nil {
					n++
				}
			}
			w.settle(n)
			if w.finished() {
				cancel()
			}
		}}),
	})
	register(r, pawl.Route{Name: "project", Topics: []string{t.Topic}})
	return r.Run(ctx)
}

// hooksOf are the signals of the contender that has them all.
func hooksOf(t *task) (pawl.Hooks, error) {
	if t.Contender != "pawl-guarded" {
		return pawl.Hooks{}, nil
	}
	m, err := metrics.New(prometheus.NewRegistry(), metrics.Config{Consumer: consumer})
	if err != nil {
		return pawl.Hooks{}, err
	}
	return m.Hooks(), nil
}

// runPawlGuarded is pawl-batch with all that may be turned on for when something goes wrong: streams that are blocked behind what
// is set aside, and metrics.
func runPawlGuarded(ctx context.Context, t *task, w *stopwatch) error {
	return runPawl(ctx, t, w, func(r *pawl.Runner[pgx.Tx], route pawl.Route) {
		route.Quarantine = pawl.QuarantineStream
		pawl.HandleBatch(r, route, decoder, projectBatch)
	})
}

func migratePawl(ctx context.Context, pool *pgxpool.Pool) error {
	return postgres.New(pool).Migrate(ctx)
}

func runPawlBatch(ctx context.Context, t *task, w *stopwatch) error {
	return runPawl(ctx, t, w, func(r *pawl.Runner[pgx.Tx], route pawl.Route) {
		pawl.HandleBatch(r, route, decoder, projectBatch)
	})
}

const upsertCases = `
insert into case_projection as p (case_id, state, version, applied, updated_at)
select case_id, state, version, applied, now()
from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) as k (case_id, state, version, applied)
on conflict (case_id) do update
set state = excluded.state,
    version = excluded.version,
    applied = p.applied + excluded.applied,
    updated_at = excluded.updated_at
where p.version < excluded.version`

// folded is what the events of a batch make of one case.
type folded struct {
	id, state        string
	version, applied int64
}

// projectBatch folds the batch in memory, in order, and writes each case once. Rows are written in the order of their
// keys, so that two batches cannot wait for each other.
func projectBatch(ctx context.Context, tx pgx.Tx, b *pawl.Batch[body]) error {
	at := make(map[string]int, b.Len())
	rows := make([]folded, 0, b.Len())
	for _, e := range b.All() {
		i, ok := at[e.Stream]
		if !ok {
			i = len(rows)
			at[e.Stream] = i
			rows = append(rows, folded{id: e.Stream})
		}
		row := &rows[i]
		row.applied++
		if e.Version > row.version {
			row.version, row.state = e.Version, e.Body.State
		}
	}
	slices.SortFunc(rows, func(a, b folded) int { return strings.Compare(a.id, b.id) })
	ids, states := make([]string, len(rows)), make([]string, len(rows))
	versions, applied := make([]int64, len(rows)), make([]int64, len(rows))
	for i, row := range rows {
		ids[i], states[i], versions[i], applied[i] = row.id, row.state, row.version, row.applied
	}
	_, err := tx.Exec(ctx, upsertCases, ids, states, versions, applied)
	return err
}

func runPawlRecord(ctx context.Context, t *task, w *stopwatch) error {
	return runPawl(ctx, t, w, func(r *pawl.Runner[pgx.Tx], route pawl.Route) {
		pawl.Handle(r, route, decoder, projectRecord)
	})
}

const lockCase = `select version from case_projection where case_id = $1 for update`

// projectRecord is a handler as most are written: it reads, and then it writes. Two statements, whatever it reads.
func projectRecord(ctx context.Context, tx pgx.Tx, e pawl.Envelope[body]) error {
	var version int64
	if err := tx.QueryRow(ctx, lockCase, e.Stream).Scan(&version); err != nil && err != pgx.ErrNoRows {
		return err
	}
	_, err := tx.Exec(ctx, upsertCase, e.Stream, e.Body.State, e.Version)
	return err
}

func checkPawl(w want) []count {
	return []count{
		{"decisions", `select count(*) from pawl_decision where outcome = 1 and position_offset >= 0`, w.unique},
		{"decisions of any outcome", `select count(*) from pawl_decision where position_offset >= 0`, w.unique},
		{"duplicates", `select count(*) from pawl_redelivery where outcome = 2`, w.records - w.unique},
		{"quarantined records", `select count(*) from pawl_quarantine`, 0},
		{"settled offsets", `select coalesce(sum(next_offset), 0)::bigint from pawl_progress`, w.records},
	}
}
