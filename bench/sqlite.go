package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/pawltest"
	"github.com/pawlhq/pawl/sqlite"
)

// The bar of -sqlite: how many times its own form with a transaction per record.
const sqliteTimes = 8.0

// onSQLite measures effect.Projection on SQLite next to the classic consumer on the same file, both as durable as Pawl insists
// on, and without a broker.
func (b *bench) onSQLite(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "pawl-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if inMemory(dir) {
		return fmt.Errorf("%s is in memory, where a commit costs nothing: set TMPDIR to a disk", dir)
	}
	share := 20
	ratios := make([]float64, b.rounds)
	for round := range ratios {
		name := func(kind string) string { return filepath.Join(dir, fmt.Sprintf("%s-%d.db", kind, round)) }
		classic, err := classicSQLite(ctx, name("classic"), b.events[:b.n/share])
		if err != nil {
			return err
		}
		effect, err := pawlSQLite(ctx, name("pawl"), b.events)
		if err != nil {
			return err
		}
		was, is := float64(b.n/share)/classic.Seconds(), float64(b.n)/effect.Seconds()
		ratios[round] = is / was
		fmt.Printf("round %d  classic %9s records/s  pawl-projection %9s records/s  %.1f×\n", round+1, thousands(was), thousands(is), is/was)
	}
	fmt.Printf("\nbar pawl-projection on SQLite ≥ %g× a transaction per record: %.1f×, %s\n", sqliteTimes, median(ratios), reached(median(ratios) >= sqliteTimes))
	return nil
}

const createSQLite = `
create table case_state (case_id text primary key, version integer not null, state text, occurred_at text) strict;
create table processed_event (consumer text not null, event_id text not null, primary key (consumer, event_id)) strict, without rowid`

func openSQLite(ctx context.Context, path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(ctx, createSQLite)
	return db, err
}

func classicSQLite(ctx context.Context, path string, events []event) (time.Duration, error) {
	db, err := openSQLite(ctx, path)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	values := make([][]byte, len(events))
	for i := range events {
		values[i] = events[i].json()
	}
	began := time.Now()
	for _, value := range values {
		var b body
		if err := json.Unmarshal(value, &b); err != nil {
			return 0, err
		}
		if err := classicOnSQLite(ctx, db, &b); err != nil {
			return 0, err
		}
	}
	took := time.Since(began)
	return took, checkSQLite(ctx, db, model(events))
}

func classicOnSQLite(ctx context.Context, db *sql.DB, b *body) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	done, err := tx.ExecContext(ctx, `insert into processed_event (consumer, event_id) values (?, ?) on conflict do nothing`, consumer, b.EventID)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return err
	}
	var version int64
	err = tx.QueryRowContext(ctx, `select version from case_state where case_id = ?`, b.CaseID).Scan(&version)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if b.Version != version+1 {
		return fmt.Errorf("case %s is at version %d, the event is %d", b.CaseID, version, b.Version)
	}
	_, err = tx.ExecContext(ctx, `
insert into case_state (case_id, version, state, occurred_at) values (?, ?, ?, ?)
on conflict (case_id) do update set version = excluded.version, state = excluded.state, occurred_at = excluded.occurred_at`,
		b.CaseID, b.Version, b.State, b.OccurredAt.Format(time.RFC3339Nano))
	if err != nil {
		return err
	}
	return tx.Commit()
}

func pawlSQLite(ctx context.Context, path string, events []event) (time.Duration, error) {
	db, err := openSQLite(ctx, path)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	store, err := sqlite.Open(ctx, path)
	if err != nil {
		return 0, err
	}
	defer store.Close()
	if err := store.Migrate(ctx); err != nil {
		return 0, err
	}
	records := make([]pawl.Record, len(events))
	for i := range events {
		records[i] = pawl.Record{
			Partition: pawl.Partition{Topic: "events", TopicID: pawl.TopicID{1}}, Offset: int64(i), Value: events[i].json(), Timestamp: time.Now(),
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var settled, last atomic.Int64
	began := time.Now()
	r := pawl.NewRunner(store, pawltest.NewLog(records), pawl.Config{
		Consumer: consumer, Logger: slog.New(slog.DiscardHandler), MaxBuffered: 1 << 30,
		Hooks: pawl.Hooks{Settled: func(s pawl.Settled) {
			if settled.Add(int64(len(s.Decisions))) == int64(len(records)) {
				last.Store(int64(time.Since(began)))
				cancel()
			}
		}},
	})
	pawl.Apply(r, pawl.Route{Name: "project", Topics: []string{"events"}}, decoder, newProjection())
	if err := r.Run(ctx); err != nil {
		return 0, err
	}
	return time.Duration(last.Load()), checkSQLite(context.WithoutCancel(ctx), db, model(events))
}

// checkSQLite compares what both must have left.
func checkSQLite(ctx context.Context, db *sql.DB, w want) error {
	var rows, versions int
	if err := db.QueryRowContext(ctx, `select count(*), coalesce(sum(version), 0) from case_state`).Scan(&rows, &versions); err != nil {
		return err
	}
	if rows != w.cases || versions != w.unique {
		return fmt.Errorf("WRONG RESULT: %d cases with %d versions, want %d with %d", rows, versions, w.cases, w.unique)
	}
	return nil
}
