package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// COPY of the rows that Pawl writes is what this server can do at most with these columns and indexes: no log to read,
// nothing decoded, nothing looked up, no row written twice. The rows are real ones: those of a run of Pawl, kept in the
// schema "reference".

const keepReference = `
drop schema if exists reference cascade;
create schema reference;
create table reference.decision as table pawl_decision;
create table reference.projection as table case_projection;`

const createCopy = `
create table copy_decision (like pawl_decision including all);
create table copy_projection (like case_projection including all)`

// part is what one connection copies: a share of the partitions, as a worker of a consumer would have.
type part struct {
	db   *pgx.Conn
	data [2]bytes.Buffer
}

var copied = [2]struct{ from, to string }{
	{`copy (select * from reference.decision where progress_id %% %d = %d order by ctid) to stdout (format binary)`, `copy copy_decision from stdin (format binary)`},
	{`copy (select * from reference.projection where abs(hashtext(case_id)) %% %d = %d order by case_id) to stdout (format binary)`, `copy copy_projection from stdin (format binary)`},
}

func runCopy1(ctx context.Context, t *task, w *stopwatch) error { return runCopy(ctx, t, w, 1) }
func runCopy2(ctx context.Context, t *task, w *stopwatch) error { return runCopy(ctx, t, w, 2) }

// runCopy loads the rows into memory, as bytes that need no more work, and then copies them in one transaction a
// connection.
func runCopy(ctx context.Context, t *task, w *stopwatch, conns int) error {
	parts := make([]part, conns)
	for i := range parts {
		p := &parts[i]
		var err error
		if p.db, err = pgx.Connect(ctx, t.Postgres); err != nil {
			return err
		}
		defer p.db.Close(context.WithoutCancel(ctx))
		for j, c := range copied {
			if _, err := p.db.PgConn().CopyTo(ctx, &p.data[j], fmt.Sprintf(c.from, conns, i)); err != nil {
				return fmt.Errorf("load rows to copy: %w", err)
			}
		}
	}
	w.begin()
	var group errgroup.Group
	for i := range parts {
		group.Go(func() error { return parts[i].copy(ctx) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	w.settle(t.Records)
	return nil
}

func (p *part) copy(ctx context.Context) error {
	return pgx.BeginFunc(ctx, p.db, func(pgx.Tx) error {
		for j, c := range copied {
			if _, err := p.db.PgConn().CopyFrom(ctx, bytes.NewReader(p.data[j].Bytes()), c.to); err != nil {
				return err
			}
		}
		return nil
	})
}

func checkCopy(w want) []count {
	return []count{{"copied decisions", `select count(*) from copy_decision`, w.unique}}
}
