package dev

import (
	"context"
	"database/sql"
	"embed"
	"fmt"

	"github.com/pawlhq/pawl/internal/sqlfile"
	"github.com/pawlhq/pawl/kafka/embedded"
)

//go:embed sql/*.sql
var files embed.FS

var queries = sqlfile.Queries(files, "sql")

// Finding is what the check found. Every number but the totals must be 0.
type Finding struct {
	Events     int `json:"events"`     // different ones in the topic
	Deliveries int `json:"deliveries"` // records in the topic
	Rows       int `json:"rows"`       // that must be there

	Lost        int      `json:"lost"`        // events that should have counted and did not
	Doubled     int      `json:"doubled"`     // that counted more than once
	Different   int      `json:"different"`   // rows that are not what the model has
	Unexplained int      `json:"unexplained"` // deliveries whose evidence is missing, or says something else than the model
	Details     []string `json:"details,omitempty"`

	Outcomes map[string]int `json:"outcomes"` // deliveries by what became of them
}

// OK reports whether nothing is wrong.
func (f *Finding) OK() bool { return f.Lost+f.Doubled+f.Different+f.Unexplained == 0 }

// blame remembers the first few things that are wrong.
func (f *Finding) blame(format string, args ...any) {
	if len(f.Details) < 10 {
		f.Details = append(f.Details, fmt.Sprintf(format, args...))
	}
}

// Check compares a database with what the model makes of the topic.
func Check(ctx context.Context, db *sql.DB, deliveries []embedded.Message) (*Finding, error) {
	m := newModel(deliveries)
	f := &Finding{Events: len(m.first), Deliveries: len(deliveries), Rows: len(m.rows), Outcomes: map[string]int{}}
	for _, step := range []func(context.Context, *sql.DB, *model) error{f.rows, f.counts, f.evidence} {
		if err := step(ctx, db, m); err != nil {
			return nil, fmt.Errorf("check: %w", err)
		}
	}
	return f, nil
}

// rows compares the state machine's table.
func (f *Finding) rows(ctx context.Context, db *sql.DB, m *model) error {
	have := map[string]row{}
	err := each(ctx, db, "rows", func(scan func(...any) error) error {
		var id string
		var r row
		err := scan(&id, &r.status, &r.version, &r.last)
		have[id] = r
		return err
	})
	f.Different += compare(have, m.rows, f.blame)
	return err
}

// compare counts rows that differ, are missing, or should not be there.
func compare(have, want map[string]row, blame func(string, ...any)) (different int) {
	for id, w := range want {
		if h, ok := have[id]; !ok || h != w {
			different++
			blame("%s is %v, and should be %v", id, h, w)
		}
	}
	for id := range have {
		if _, ok := want[id]; !ok {
			different++
			blame("%s should not be there", id)
		}
	}
	return different
}

// counts compares the sums: what takes effect twice is seen here and nowhere else.
func (f *Finding) counts(ctx context.Context, db *sql.DB, m *model) error {
	have := map[string]int{}
	err := each(ctx, db, "counts", func(scan func(...any) error) error {
		var eventType string
		var n int
		err := scan(&eventType, &n)
		have[eventType] = n
		return err
	})
	for eventType, n := range have {
		if n > m.counts[eventType] {
			f.Doubled += n - m.counts[eventType]
			f.blame("%s was counted %d times, and happened %d times", eventType, n, m.counts[eventType])
		}
	}
	for eventType, n := range m.counts {
		if have[eventType] < n {
			f.Lost += n - have[eventType]
			f.blame("%s was counted %d times, and happened %d times", eventType, have[eventType], n)
		}
	}
	return err
}

// evidence compares what is written down about each delivery.
func (f *Finding) evidence(ctx context.Context, db *sql.DB, m *model) error {
	have := map[place]string{}
	err := each(ctx, db, "deliveries", func(scan func(...any) error) error {
		var at place
		var outcome string
		if err := scan(&at.partition, &at.offset, &outcome); err != nil {
			return err
		}
		if _, again := have[at]; again {
			f.Unexplained++
			f.blame("partition %d, offset %d was decided twice", at.partition, at.offset)
		}
		have[at] = outcome
		f.Outcomes[outcome]++
		return nil
	})
	for at, want := range m.want {
		if have[at] != want && have[at] != m.also[at] {
			f.Unexplained++
			f.blame("partition %d, offset %d should be %s, and is %q", at.partition, at.offset, want, have[at])
		}
	}
	for at := range have {
		if _, ok := m.want[at]; !ok {
			f.Unexplained++
			f.blame("partition %d, offset %d was decided, and is not in the topic", at.partition, at.offset)
		}
	}
	return err
}

func each(ctx context.Context, db *sql.DB, name string, f func(scan func(...any) error) error) error {
	rows, err := db.QueryContext(ctx, queries[name])
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
