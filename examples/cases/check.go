package main

import (
	"context"
	"database/sql"
	"fmt"
)

// finding is the result of the check. Every number but the totals must be 0.
type finding struct {
	lost        int // events that must have an effect and have none
	doubled     int // effects that are there once too often
	different   int // rows that are not what the model has
	unexplained int // deliveries whose evidence is missing, or says something else than the model

	effects, cases, deliveries int // how much was looked at
	table                      tally
	details                    []string // the first few of what is wrong
}

func (f *finding) ok() bool { return f.lost+f.doubled+f.different+f.unexplained == 0 }

// blame counts something that is wrong and remembers the first of it.
func (f *finding) blame(n *int, format string, args ...any) {
	const most = 10
	if *n++; len(f.details) < most {
		f.details = append(f.details, fmt.Sprintf(format, args...))
	}
}

// check compares the database with what the model makes of the topic. It reads tables, by SQL of its own, and asks Pawl
// nothing.
func check(ctx context.Context, db *sql.DB, records []delivered) (*finding, error) {
	m := newModel()
	want := map[position]string{}
	for _, r := range strayLast(records) {
		want[r.at] = m.take(r.value)
	}
	f := &finding{effects: len(m.effects), cases: len(m.cases), deliveries: len(records)}
	if err := f.checkEffects(ctx, db, m); err != nil {
		return nil, err
	}
	if err := f.checkCases(ctx, db, m); err != nil {
		return nil, err
	}
	if err := f.checkEvidence(ctx, db, records, want); err != nil {
		return nil, err
	}
	return f, nil
}

// checkEffects compares case_history, which keeps one row for each time that an effect happened.
func (f *finding) checkEffects(ctx context.Context, db *sql.DB, m *model) error {
	seen := map[effect]int{}
	err := each(ctx, db, `select case_id, version, event_id from case_history`, func(rows *sql.Rows) error {
		var e effect
		if err := rows.Scan(&e.caseID, &e.version, &e.eventID); err != nil {
			return err
		}
		switch seen[e]++; {
		case !m.effects[e]:
			f.blame(&f.different, "%s must not have had an effect on %s", e.eventID, e.caseID)
		case seen[e] > 1:
			f.blame(&f.doubled, "%s took effect on %s again", e.eventID, e.caseID)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for e := range m.effects {
		if seen[e] == 0 {
			f.blame(&f.lost, "%s had no effect on %s", e.eventID, e.caseID)
		}
	}
	return nil
}

// checkCases compares case_projection.
func (f *finding) checkCases(ctx context.Context, db *sql.DB, m *model) error {
	seen := map[string]bool{}
	err := each(ctx, db, `select case_id, status, version, last_event_id, updated_at from case_projection`, func(rows *sql.Rows) error {
		var id string
		var is caseRow
		if err := rows.Scan(&id, &is.status, &is.version, &is.lastEventID, &is.updatedAt); err != nil {
			return err
		}
		if seen[id] = true; is != m.cases[id] {
			f.blame(&f.different, "%s is %+v, the model has %+v", id, is, m.cases[id])
		}
		return nil
	})
	if err != nil {
		return err
	}
	for id := range m.cases {
		if !seen[id] {
			f.blame(&f.different, "%s has no row", id)
		}
	}
	return nil
}

// evidence is what Pawl has written down about each delivery: the decision for its key, or why it did not make one.
const evidence = `
select p.partition, d.position_offset,
       case d.outcome when 1 then 'applied' when 3 then 'stale' else 'outcome ' || d.outcome end
from pawl_decision as d
join pawl_progress as p on p.id = d.progress_id
union all
select p.partition, r.position_offset,
       case
           when r.outcome = 2 then 'duplicate'
           when q.cause = 'poison' then 'quarantined: not decodable'
           when q.cause = 'conflict' then 'quarantined: same id, other content'
           when q.reason like 'version gap:%' then 'quarantined: version gap'
           when q.reason like 'illegal transition:%' then 'quarantined: illegal transition'
           else 'outcome ' || r.outcome || coalesce(', ' || q.cause || ', ' || q.reason, '')
       end
from pawl_redelivery as r
join pawl_progress as p on p.id = r.progress_id
left join pawl_quarantine as q using (scope_id, progress_id, position_offset)`

// checkEvidence compares what is written down with the model, event by event. Not delivery by delivery: which of two copies
// on two partitions comes first is for nobody to say.
func (f *finding) checkEvidence(ctx context.Context, db *sql.DB, records []delivered, want map[position]string) error {
	is := map[position]string{}
	err := each(ctx, db, evidence, func(rows *sql.Rows) error {
		var at position
		var outcome string
		if err := rows.Scan(&at.partition, &at.offset, &outcome); err != nil {
			return err
		}
		if _, again := is[at]; again {
			f.blame(&f.unexplained, "partition %d, offset %d: decided twice", at.partition, at.offset)
		}
		is[at] = outcome
		if _, sent := want[at]; !sent {
			f.blame(&f.unexplained, "partition %d, offset %d: decided, and not in the topic", at.partition, at.offset)
		}
		return nil
	})
	if err != nil {
		return err
	}
	type cell struct{ eventID, outcome string }
	balance := map[cell]int{}
	for _, r := range records {
		c, _ := read(r.value)
		balance[cell{c.EventID, want[r.at]}]++
		if outcome, there := is[r.at]; there {
			balance[cell{c.EventID, outcome}]--
			f.table.add(c.EventID, outcome)
		}
	}
	for c, n := range balance {
		for range max(n, 0) {
			f.blame(&f.unexplained, "event %q: must be %s, and is not", c.eventID, c.outcome)
		}
	}
	return nil
}

// each calls f for every row of a query.
func each(ctx context.Context, db *sql.DB, query string, f func(*sql.Rows) error) error {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return fmt.Errorf("check: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	return nil
}
