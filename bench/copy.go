package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// COPY of the rows that Pawl writes is what this server can do at most with these columns and indexes: no log to read,
// nothing decoded, nothing looked up, no row written twice. The rows are real ones: those of a run of Pawl, kept in the
// schema "reference".

const createCopy = `create table copy_decision (like pawl_decision including all); create table copy_projection (like case_projection including all)`

// copyable is a table whose rows a run of Pawl has left.
type copyable struct{ name, order, split string }

var (
	decisions  = copyable{"pawl_decision", "ctid", "progress_id"}
	projection = copyable{"case_projection", "case_id", "abs(hashtext(case_id))"}
	caseState  = copyable{"case_state", "case_id", "abs(hashtext(case_id))"}
)

// copyName is where the rows of a table are copied to.
func (c copyable) copyName() string {
	return "copy_" + strings.TrimPrefix(strings.TrimPrefix(c.name, "pawl_"), "case_")
}

// keep is the statement that keeps the rows for COPY.
func (c copyable) keep() string {
	return fmt.Sprintf(`create table reference.%s as table %[1]s`, c.name)
}

// part is what one connection copies: a share of the partitions, as a worker of a consumer would have.
type part struct {
	db   *pgx.Conn
	of   []copyable
	data []bytes.Buffer
}

// copyOf copies the rows of tables, each connection a share of them.
func copyOf(conns int, tables ...copyable) func(context.Context, *task, *stopwatch) error {
	return func(ctx context.Context, t *task, w *stopwatch) error { return runCopy(ctx, t, w, conns, tables) }
}

// runCopy loads the rows into memory, as bytes that need no more work, and then copies them in one transaction a
// connection.
func runCopy(ctx context.Context, t *task, w *stopwatch, conns int, tables []copyable) error {
	parts := make([]part, conns)
	for i := range parts {
		p := &parts[i]
		p.of, p.data = tables, make([]bytes.Buffer, len(tables))
		var err error
		if p.db, err = pgx.Connect(ctx, t.Postgres); err != nil {
			return err
		}
		defer p.db.Close(context.WithoutCancel(ctx))
		for j, c := range tables {
			from := fmt.Sprintf(`copy (select * from reference.%s where %s %% %d = %d order by %s) to stdout (format binary)`, c.name, c.split, conns, i, c.order)
			if _, err := p.db.PgConn().CopyTo(ctx, &p.data[j], from); err != nil {
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
		for j, c := range p.of {
			to := fmt.Sprintf(`copy %s from stdin (format binary)`, c.copyName())
			if _, err := p.db.PgConn().CopyFrom(ctx, bytes.NewReader(p.data[j].Bytes()), to); err != nil {
				return err
			}
		}
		return nil
	})
}

func checkCopy(w want) []count {
	return []count{{"copied decisions", `select count(*) from copy_decision`, w.unique}}
}
