package test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
	"github.com/pawlhq/pawl/internal/pgtest"
)

// fact is the event of the proofs of declared effects.
type fact struct {
	Key      string `json:"key"`
	Stream   string `json:"stream"`
	Version  int64  `json:"version"`
	Corrects string `json:"corrects,omitempty"`
	State    string `json:"state,omitempty"`
	Fee      string `json:"fee,omitempty"`
	Team     string `json:"team,omitempty"`
	Bad      string `json:"bad,omitempty"`
}

func (f fact) bytes() []byte {
	if f.Bad == "garbage" {
		return []byte("{")
	}
	value, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	return value
}

func facts() pawl.Decoder[fact] {
	return decode.JSON(func(_ pawl.Meta, f fact) pawl.Identity {
		return pawl.Identity{Key: f.Key, EventID: f.Key, Stream: f.Stream, Version: f.Version, Supersedes: f.Corrects, Type: "fact"}
	})
}

// declared is a declared effect on a route.
type declared struct {
	pawl.Route
	effect pawl.Effect[fact]
}

// house is a store whose kind of transaction does not matter: declared effects never see it.
type house struct {
	testing.TB
	db    *sql.DB
	admin pawl.Admin
	run   func(ctx context.Context, source pawl.Source, cfg pawl.Config, effects []declared) error
}

func newHouse[Tx any](t testing.TB, o *opened[Tx]) *house {
	return &house{t, o.db, o.Store.Admin(), func(ctx context.Context, source pawl.Source, cfg pawl.Config, effects []declared) error {
		r := pawl.NewRunner(o.Store, source, cfg)
		for _, d := range effects {
			pawl.Apply(r, d.Route, facts(), d.effect)
		}
		return r.Run(ctx)
	}}
}

func sqliteHouse(t testing.TB) *house {
	return newHouse(t, openSQLite(t, strings.ReplaceAll(factTables, "numeric", "text")))
}

func pgxHouse(t testing.TB) *house {
	return newHouse[pgx.Tx](t, openPgx(t, pgtest.Migrated(t), factTables))
}

func databaseSQLHouse(t testing.TB) *house {
	return newHouse(t, openDatabaseSQL(t, pgtest.Migrated(t), factTables))
}

var houses = []struct {
	name string
	open func(testing.TB) *house
}{{"sqlite", sqliteHouse}, {"pgx", pgxHouse}, {"databasesql", databaseSQLHouse}}

// inEveryHouse runs body on every store.
func inEveryHouse(t *testing.T, body func(t *testing.T, open func(testing.TB) *house)) {
	t.Parallel()
	for _, h := range houses {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			body(t, h.open)
		})
	}
}

// rows are those of a query, with - for NULL.
func (h *house) rows(query string) (all [][]string) {
	h.Helper()
	rows, err := h.db.Query(query)
	if err != nil {
		h.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		h.Fatal(err)
	}
	for rows.Next() {
		values, to, text := make([]sql.NullString, len(columns)), make([]any, len(columns)), make([]string, len(columns))
		for i := range values {
			to[i] = &values[i]
		}
		if err := rows.Scan(to...); err != nil {
			h.Fatal(err)
		}
		for i, v := range values {
			if text[i] = v.String; !v.Valid {
				text[i] = "-"
			}
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil {
		h.Fatal(err)
	}
	return all
}

// lines are the rows of a query, with spaces between columns.
func (h *house) lines(query string) (all []string) {
	h.Helper()
	for _, values := range h.rows(query) {
		all = append(all, strings.Join(values, " "))
	}
	return all
}

func (h *house) int(query string) (n int64) {
	h.Helper()
	if err := h.db.QueryRow(query).Scan(&n); err != nil {
		h.Fatalf("%s: %v", query, err)
	}
	return n
}

// wantRows compares a table with what it should hold, in any order.
func (h *house) wantRows(table string, want ...string) {
	h.Helper()
	got := h.lines(`select * from ` + table)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		h.Errorf("%s:\n got %q\nwant %q", table, got, want)
	}
}

const (
	gapCount     = `select count(*) from pawl_gap`
	earlyCount   = `select count(*) from pawl_early`
	settledCount = `select coalesce(sum(next_offset), 0) from pawl_progress`
)

// stage is a house with a log and the processes that read it.
type stage struct {
	*house
	group   *group
	cfg     pawl.Config
	effects []declared

	mu       sync.Mutex
	failures []pawl.Failure
	settled  int // batches
	early    int // records that were held because they came early
	raised   []string
}

func (h *house) stage(partitions int, cfg pawl.Config, effects ...declared) *stage {
	s := &stage{house: h, group: newGroup("effects", partitions), cfg: cfg, effects: effects}
	s.cfg.Consumer, s.cfg.Logger = "effects", slog.New(slog.DiscardHandler)
	s.cfg.Budget = pawl.Budget{Records: 1 << 30, Share: 1}
	if s.cfg.CommitInterval == 0 {
		s.cfg.CommitInterval = 10 * time.Millisecond
	}
	if s.cfg.BatchTime == 0 {
		s.cfg.BatchTime = time.Minute // what a test writes as one batch is one, also where the machine is slow
	}
	if s.cfg.MaxTries == 0 {
		s.cfg.MaxTries = 2
	}
	s.cfg.Hooks = pawl.JoinHooks(s.cfg.Hooks, pawl.Hooks{
		Failed: func(f pawl.Failure) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.failures = append(s.failures, f)
		},
		Settled: func(b pawl.Settled) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.settled++
			for _, d := range b.Decisions {
				if d.Outcome == pawl.Held && d.Expected > 0 && d.Kept == nil {
					s.early++
				}
			}
		},
		Raised: func(c pawl.Condition) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.raised = append(s.raised, fmt.Sprintf("%s: %s", c.State, c.Reason))
		},
	})
	return s
}

// live starts a process, which has no partition yet.
func (s *stage) live(b *bomb) *life {
	s.Helper()
	return s.group.live(s, b, func(ctx context.Context, source pawl.Source) error { return s.run(ctx, source, s.cfg, s.effects) })
}

// up starts a process that has every partition, until the test ends.
func (s *stage) up() *life {
	s.Helper()
	l := s.live(nil)
	s.Cleanup(func() {
		if err := l.stop(); err != nil {
			s.Errorf("a process ended: %v", err)
		}
	})
	for p := range s.group.parts {
		l.take(p)
	}
	return l
}

func (s *stage) add(p int, all ...fact) {
	for _, f := range all {
		s.group.add(p, f.bytes())
	}
}

// play adds events to the first partition, one after the other has been settled, as if each were alone in its batch.
func (s *stage) play(all ...fact) {
	s.Helper()
	for _, f := range all {
		s.add(0, f)
		s.settle()
	}
}

// batch adds events to the first partition as one.
func (s *stage) batch(all ...fact) {
	s.Helper()
	values := make([][]byte, len(all))
	for i, f := range all {
		values[i] = f.bytes()
	}
	s.group.add(0, values...)
	s.settle()
}

const factPatience = 60 * time.Second

// await waits until a query gives n.
func (s *stage) await(n int64, query string) {
	s.Helper()
	deadline := time.Now().Add(factPatience)
	for got := int64(-1); got != n; {
		if got = s.int(query); got == n {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("%s: %d, want %d\n%s", query, got, n, s.trouble())
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// settle waits until the whole log is settled.
func (s *stage) settle() {
	s.Helper()
	var end int64
	for p := range s.group.parts {
		end += s.group.end(p)
	}
	s.await(end, settledCount)
}

// trouble is what has failed, for who reads a failure.
func (s *stage) trouble() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := slices.Clone(s.raised)
	for _, f := range s.failures[max(0, len(s.failures)-10):] {
		lines = append(lines, fmt.Sprintf("%s@%d, %d records: %v", f.Partition, f.First, f.Records, f.Err))
	}
	return strings.Join(lines, "\n")
}

func (s *stage) failed() []pawl.Failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.failures)
}

// batches is how many were settled.
func (s *stage) batches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settled
}

// waited is how many records came early and were held.
func (s *stage) waited() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.early
}

// evidence is what was decided for a key on the first route, oldest first.
func (s *stage) evidence(q pawl.EvidenceQuery) (of []pawl.Evidence) {
	s.Helper()
	all, err := s.admin.Evidence(s.Context(), "effects", q)
	if err != nil {
		s.Fatal(err)
	}
	for _, e := range all {
		if e.Route == s.effects[0].Name {
			of = append(of, e)
		}
	}
	return of
}

// claim is the decision for a key on the first route.
func (s *stage) claim(key string) pawl.Evidence {
	s.Helper()
	for _, e := range s.evidence(pawl.EvidenceQuery{Key: key}) {
		if e.Claim {
			return e
		}
	}
	return pawl.Evidence{}
}

// wantClaim compares the decision for a key with an outcome and the beginning of its reason.
func (s *stage) wantClaim(key string, outcome pawl.Outcome, reason string) {
	s.Helper()
	if e := s.claim(key); e.Outcome != outcome || !strings.HasPrefix(e.Reason, reason) {
		s.Errorf("%s is %s (%q), want %s (%q)", key, e.Outcome, e.Reason, outcome, reason)
	}
}

// wantSaid compares all that was said about a key, as "outcome reason": each the beginning of it.
func (s *stage) wantSaid(key string, want ...string) {
	s.Helper()
	var got []string
	for _, e := range s.evidence(pawl.EvidenceQuery{Key: key}) {
		got = append(got, strings.TrimSpace(e.Outcome.String()+" "+e.Reason))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		s.Errorf("%s:\n got %q\nwant %q", key, got, want)
	}
}

// wantAside compares what is open in quarantine, as "key cause".
func (s *stage) wantAside(want ...string) {
	s.Helper()
	items, err := s.admin.Quarantine(s.Context(), "effects", pawl.QuarantineFilter{}, 0, 0)
	if err != nil {
		s.Fatal(err)
	}
	var got []string
	for _, q := range items {
		if q.Status == pawl.QuarantineOpen {
			got = append(got, strings.TrimSpace(q.Key+" "+q.Cause))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		s.Errorf("quarantine:\n got %q\nwant %q", got, want)
	}
}

// replay has an operator replay all that is open in quarantine.
func (s *stage) replay() {
	s.Helper()
	op, err := s.admin.Start(s.Context(), pawl.OperationRequest{
		Consumer: "effects", Kind: pawl.OperationReplay, By: "ops", Why: "repaired", At: time.Now(),
	})
	if err != nil {
		s.Fatal(err)
	}
	s.await(1, fmt.Sprintf(`select count(*) from pawl_operation where id = %d and state = 'done'`, op.ID))
}
