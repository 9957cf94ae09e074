package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// applied counts how often a case was changed: an effect that happens twice shows there, though the version guard would
// hide it everywhere else.
const createProjection = `
create table case_projection (
    case_id text primary key,
    state text not null,
    version bigint not null,
    applied bigint not null,
    updated_at timestamptz not null
) with (fillfactor = 60)`

const projectionDigest = `
select count(*),
       coalesce(md5(string_agg(format(E'%%s %%s %%s %%s\n', case_id, version, %s, state), '' order by case_id collate "C")), '')
from %s`

// checkProjection compares every row with the model.
func checkProjection(ctx context.Context, db *pgx.Conn, table string, w want) error {
	var rows int
	var digest string
	times := "applied"
	if table == caseState.name || table == caseState.copyName() { // which go from version to version, and so say it themselves
		times = "version"
	}
	if err := db.QueryRow(ctx, fmt.Sprintf(projectionDigest, times, table)).Scan(&rows, &digest); err != nil {
		return fmt.Errorf("read %s: %w", table, err)
	}
	if rows != w.cases || digest != w.digest {
		return fmt.Errorf("WRONG RESULT: %s has %d rows with digest %s; the model has %d with %s", table, rows, digest, w.cases, w.digest)
	}
	return nil
}

// checkCount compares the answer of a counting query.
func checkCount(ctx context.Context, db *pgx.Conn, what, query string, want int) error {
	var got int
	if err := db.QueryRow(ctx, query).Scan(&got); err != nil {
		return fmt.Errorf("count %s: %w", what, err)
	}
	if got != want {
		return fmt.Errorf("WRONG RESULT: %d %s, want %d", got, what, want)
	}
	return nil
}

// count is a query and its right answer.
type count struct {
	what, query string
	want        int
}

func checkCounts(ctx context.Context, db *pgx.Conn, counts []count) error {
	for _, c := range counts {
		if err := checkCount(ctx, db, c.what, c.query, c.want); err != nil {
			return err
		}
	}
	return nil
}
