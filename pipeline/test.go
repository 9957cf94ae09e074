package pipeline

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/apd/v3"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/sqlite"
)

// Result is what became of one case of a fixture.
type Result struct {
	File     string        `json:"file"`
	Line     int           `json:"line"`
	Pipeline string        `json:"pipeline"`
	Case     string        `json:"case"`
	Failures []string      `json:"failures,omitempty"` // none: it passed
	Took     time.Duration `json:"took"`
}

// patience bounds a case: what takes longer hangs.
const patience = 20 * time.Second

// Test runs the cases of the set's fixtures, each in a new SQLite database in the folder dir, without a network. The error
// is a [*Refused] if a fixture cannot be read; the others are run all the same.
func Test(ctx context.Context, set *Set, env Env, dir string) ([]Result, error) {
	var results []Result
	findings := set.eachCase(env, func(b *binder, p *Pipeline, c *fixture) {
		if log, ok := c.log(b, p); ok {
			begin := time.Now()
			r := Result{File: b.name, Line: c.at.line, Pipeline: p.Name, Case: c.Name}
			r.Failures = c.run(ctx, p, log, path.Join(dir, fmt.Sprintf("%d.db", len(results))))
			r.Took = time.Since(begin)
			results = append(results, r)
		}
	})
	return results, refused(findings)
}

// run runs a case, and says what is not as it should be.
func (f *fixture) run(ctx context.Context, p *Pipeline, log []pawl.Record, dsn string) []string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	store, err := sqlite.Open(ctx, dsn)
	if err != nil {
		return []string{err.Error()}
	}
	defer store.Close()
	if err := store.Migrate(ctx); err != nil {
		return []string{err.Error()}
	}
	if err := CreateTables(ctx, dsn, p.Tables()); err != nil {
		return []string{err.Error()}
	}
	return runOn(ctx, f, p, log, store, store.DB())
}

// runOn runs a case on a store whose tables are there, and reads them through db.
func runOn[Tx any](ctx context.Context, f *fixture, p *Pipeline, log []pawl.Record, store pawl.Store[Tx], db *sql.DB) []string {
	w := &watch{left: map[pawl.Partition]int64{}, decided: map[position]pawl.Decision{}, done: make(chan struct{})}
	for _, r := range log {
		w.left[r.Partition] = r.Offset + 1
	}
	if err := until(ctx, w, p, store, log); err != nil {
		return []string{err.Error()}
	}
	failures := f.outcomes(w, log)
	return append(failures, f.rows(ctx, db, p)...)
}

// CreateTables makes tables in a SQLite database of its own: for tests and rehearsals. In a database of yours, Pawl makes none.
func CreateTables(ctx context.Context, dsn string, tables []*pawl.Table) error {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	for _, t := range tables {
		if _, err := db.ExecContext(ctx, sqlite.DDL(t)); err != nil {
			return fmt.Errorf("create the table %s: %w", t.Name, err)
		}
	}
	return nil
}

type position struct {
	pawl.Partition
	offset int64
}

// watch follows a run by its hooks.
type watch struct {
	mu      sync.Mutex
	left    map[pawl.Partition]int64 // where each partition ends
	decided map[position]pawl.Decision
	failure error
	done    chan struct{}
}

// until runs the pipeline until every record is settled.
func until[Tx any](ctx context.Context, w *watch, p *Pipeline, store pawl.Store[Tx], log []pawl.Record) error {
	if len(log) == 0 {
		return errors.New("there are no records")
	}
	cfg := p.Config()
	cfg.Workers, cfg.CommitInterval, cfg.Version = 1, time.Hour, "test"
	cfg.MaxTries = 2
	cfg.Budget = pawl.Budget{Records: 1 << 30, Share: 1} // a case may be about nothing else
	cfg.Logger = slog.New(slog.DiscardHandler)
	halted := make(chan error, 1)
	cfg.Hooks = pawl.Hooks{Settled: w.settled, Failed: w.failed, Raised: func(c pawl.Condition) {
		if c.State.Halts() || p.On.Poison == "stop" {
			select {
			case halted <- fmt.Errorf("the pipeline stops: %s: %s (%s)", c.State, c.Reason, c.Hint):
			default:
			}
		}
	}}
	r := pawl.NewRunner(store, script(log), cfg)
	Register(r, p)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	select {
	case <-w.done:
		cancel()
		return <-ended
	case err := <-halted:
		cancel()
		<-ended
		return err
	case err := <-ended:
		w.mu.Lock()
		defer w.mu.Unlock()
		return errors.Join(err, w.failure)
	case <-ctx.Done():
		<-ended
		w.mu.Lock()
		defer w.mu.Unlock()
		return errors.Join(fmt.Errorf("not settled within %s", patience), w.failure)
	}
}

func (w *watch) settled(s pawl.Settled) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range s.Decisions {
		if d.Route == 0 { // what stands beside the effect decides for itself
			w.decided[position{d.Record.Partition, d.Record.Offset}] = *d
		}
	}
	if end, ok := w.left[s.Partition]; ok && s.Next >= end {
		if delete(w.left, s.Partition); len(w.left) == 0 {
			close(w.done)
		}
	}
}

func (w *watch) failed(f pawl.Failure) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failure = f.Err
}

func (f *fixture) outcomes(w *watch, log []pawl.Record) (failures []string) {
	for i, r := range f.Records {
		d := w.decided[position{log[i].Partition, log[i].Offset}]
		want := r.Outcome
		if want == "" {
			want = "applied"
		}
		why := ""
		if d.Reason != "" {
			why = fmt.Sprintf(" (%s)", strings.TrimPrefix(d.Cause+": "+d.Reason, ": "))
		}
		switch {
		case d.Outcome.String() != want:
			failures = append(failures, fmt.Sprintf("record %d, line %d: it is %s%s, want %s", i+1, r.at.line, d.Outcome, why,
				want))
		case r.Cause != "" && d.Cause != r.Cause:
			failures = append(failures, fmt.Sprintf("record %d, line %d: the cause is %s%s, want %s", i+1, r.at.line, d.Cause,
				why, r.Cause))
		case r.Reason != "" && !strings.Contains(d.Reason, r.Reason):
			failures = append(failures, fmt.Sprintf("record %d, line %d: the reason is %q, want %q in it", i+1, r.at.line,
				d.Reason, r.Reason))
		}
	}
	return failures
}

// rows compares tables with what is wanted of them.
func (f *fixture) rows(ctx context.Context, db *sql.DB, p *Pipeline) (failures []string) {
	for _, want := range f.Rows {
		i := slices.IndexFunc(p.Tables(), func(t *pawl.Table) bool { return t.Name == want.name })
		if i < 0 {
			failures = append(failures, fmt.Sprintf("line %d: the pipeline keeps no table %q", want.at.line, want.name))
			continue
		}
		table := p.Tables()[i]
		got, err := all(ctx, db, table)
		if err != nil {
			failures = append(failures, fmt.Sprintf("read the table %s: %v", table.Name, err))
			continue
		}
		used := make([]bool, len(got))
		for _, row := range want.rows {
			found := false
			for j, g := range got {
				if !used[j] && matches(table, g, row) {
					used[j], found = true, true
					break
				}
			}
			if !found {
				var text strings.Builder
				row.toJSON(&text)
				failures = append(failures, fmt.Sprintf("line %d: %s has no row %s", row.at.line, table.Name, text.String()))
			}
		}
		for j, g := range got {
			if !used[j] {
				failures = append(failures, fmt.Sprintf("line %d: %s has a row that is not expected: %s", want.at.line,
					table.Name, showRow(table, g)))
			}
		}
	}
	return failures
}

func all(ctx context.Context, db *sql.DB, t *pawl.Table) ([][]any, error) {
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = `"` + c.Name + `"`
	}
	rows, err := db.QueryContext(ctx, `select `+strings.Join(names, ", ")+` from "`+t.Name+`" order by 1`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out [][]any
	for rows.Next() {
		row, to := make([]any, len(names)), make([]any, len(names))
		for i := range row {
			to[i] = &row[i]
		}
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		for i, v := range row {
			if text, ok := v.([]byte); ok && t.Columns[i].Kind != pawl.KindBytes {
				row[i] = string(text)
			}
		}
		out = append(out, row)
	}
	return out, rows.Err()
}

// matches reports whether a row has what is wanted in the columns that are named.
func matches(t *pawl.Table, row []any, want *node) bool {
	for i, k := range want.keys {
		at := slices.IndexFunc(t.Columns, func(c pawl.Column) bool { return c.Name == k.name })
		if at < 0 || !same(t.Columns[at].Kind, row[at], want.items[i]) {
			return false
		}
	}
	return true
}

func same(k pawl.Kind, got any, want *node) bool {
	if got == nil || want.kind == nullNode {
		return got == nil && want.kind == nullNode
	}
	if k == pawl.KindJSON {
		var a, b any
		var text strings.Builder
		want.toJSON(&text)
		return unmarshal(fmt.Sprint(got), &a) == nil && unmarshal(text.String(), &b) == nil && reflect.DeepEqual(a, b)
	}
	if want.kind != scalarNode {
		return false
	}
	text := fmt.Sprint(got)
	switch k {
	case pawl.KindBool:
		return want.text == boolText(got) // 1 and yes are neither
	case pawl.KindDecimal:
		a, _, err := apd.NewFromString(text)
		b, _, err2 := apd.NewFromString(want.text)
		return err == nil && err2 == nil && a.Cmp(b) == 0
	case pawl.KindTime:
		if t, ok := got.(time.Time); ok {
			text = t.UTC().Format(time.RFC3339Nano)
		}
		a, err := time.Parse(time.RFC3339Nano, text)
		b, err2 := time.Parse(time.RFC3339Nano, want.text)
		return err == nil && err2 == nil && a.Equal(b)
	}
	return text == want.text
}

// boolText is how a fixture says a bool, which some databases keep as a number.
func boolText(v any) string {
	switch fmt.Sprint(v) {
	case "1", "true":
		return "true"
	}
	return "false"
}

func unmarshal(text string, to *any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return d.Decode(to)
}

func showRow(t *pawl.Table, row []any) string {
	var b strings.Builder
	for i, c := range t.Columns {
		if i > 0 {
			b.WriteString(", ")
		}
		v := row[i]
		switch {
		case v == nil:
			v = "null"
		case c.Kind == pawl.KindBool:
			v = boolText(v)
		}
		fmt.Fprintf(&b, "%s: %v", c.Name, v)
	}
	return "{" + b.String() + "}"
}
