package main

import (
	"context"
	"database/sql"
	"fmt"
)

// questions find one event each that had no effect, and say why, from the evidence alone.
var questions = []string{
	// A copy on another partition.
	`select cast(d.key as text) || ' came again on partition ' || p.partition || ', offset ' || r.position_offset || ': ' || r.reason
	     || ' from partition ' || first.partition || ', offset ' || d.position_offset || '.'
	 from pawl_redelivery as r
	 join pawl_decision as d using (scope_id, key_form, key_id)
	 join pawl_progress as p on p.id = r.progress_id
	 join pawl_progress as first on first.id = d.progress_id
	 where r.outcome = 2 and r.progress_id <> d.progress_id
	 order by r.processed_at desc, r.position_offset
	 limit 1`,
	`select cast(d.key as text) || ' of ' || d.stream || ' was stale: ' || d.reason || '.'
	 from pawl_decision as d
	 where d.outcome = 3
	 order by d.progress_id, d.position_offset
	 limit 1`,
	`select cast(q.key as text) || ' of ' || q.stream || ' is in quarantine: ' || q.reason || '.'
	 from pawl_quarantine as q
	 where q.cause = 'validation'
	 order by q.progress_id, q.position_offset
	 limit 1`,
	`select cast(q.key as text) || ' of ' || q.stream || ' came again and is in quarantine: ' || q.reason || '.'
	 from pawl_quarantine as q
	 where q.cause = 'conflict'
	 order by q.progress_id, q.position_offset
	 limit 1`,
}

// explain returns a sentence for each kind of reason that occurred.
func explain(ctx context.Context, db *sql.DB) ([]string, error) {
	var sentences []string
	for _, q := range questions {
		err := each(ctx, db, q, func(rows *sql.Rows) error {
			var s string
			if err := rows.Scan(&s); err != nil {
				return err
			}
			sentences = append(sentences, s)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("explain: %w", err)
		}
	}
	return sentences, nil
}
