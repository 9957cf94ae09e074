package dev

import (
	"context"
	"database/sql"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/kafka/embedded"
	_ "github.com/pawlhq/pawl/sqlite" // the driver
)

// topicOf gives messages their offsets, as a broker would.
func topicOf(messages []embedded.Message) []embedded.Message {
	next := map[int32]int64{}
	for i := range messages {
		messages[i].Offset = next[messages[i].Partition]
		next[messages[i].Partition]++
	}
	return messages
}

func traffic(seed uint64) []embedded.Message {
	t := NewTraffic(seed)
	var all []embedded.Message
	for range 5 {
		all = append(all, t.Next(40)...)
	}
	return topicOf(all)
}

// Whether an event that overtook another waits or is set aside must not change a row: else the check would depend on how
// records fall into transactions.
func TestRowsDoNotDependOnHowRecordsFallIntoTransactions(t *testing.T) {
	overtaken := 0
	for seed := range uint64(20) {
		strict, patient := newMachine(false), newMachine(true)
		for _, d := range traffic(seed) {
			strict.take(place{d.Partition, d.Offset}, d.Value)
			patient.take(place{d.Partition, d.Offset}, d.Value)
		}
		if !maps.Equal(strict.rows, patient.rows) {
			t.Fatalf("seed %d: rows differ", seed)
		}
		if !maps.Equal(strict.became, patient.became) {
			overtaken++
		}
	}
	if overtaken == 0 {
		t.Error("nothing was ever overtaken: the test looks at nothing")
	}
}

func TestTheSameSeedMakesTheSameStream(t *testing.T) {
	a, b := traffic(7), traffic(7)
	for i := range a {
		if string(a[i].Value) != string(b[i].Value) || a[i].Partition != b[i].Partition {
			t.Fatalf("delivery %d differs", i)
		}
	}
	if h := NewTraffic(7); len(h.Next(200)) == 0 || len(h.Hostilities) < 8 {
		t.Errorf("not everything goes wrong: %v", h.Hostilities)
	}
}

// database writes what the model wants into tables: the check must hold. Then it is broken in each way.
func database(t *testing.T, deliveries []embedded.Message) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "x.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	do := func(query string, args ...any) {
		t.Helper()
		if _, err := db.Exec(query, args...); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range []string{
		`create table case_projection (case_id text, status text, version int, last_event_id text)`,
		`create table events_by_type (type text, events int)`,
		`create table pawl_progress (id int, partition int)`, `create table pawl_scope (id int, route text)`,
		`create table pawl_decision (scope_id int, progress_id int, position_offset int, outcome int)`,
		`create table pawl_redelivery (scope_id int, progress_id int, position_offset int, outcome int)`,
		`create table pawl_quarantine (scope_id int, progress_id int, position_offset int, cause text)`,
		`insert into pawl_scope values (1, 'workflow')`, `insert into pawl_progress values (0, 0), (1, 1), (2, 2), (3, 3)`,
		`begin`,
	} {
		do(q)
	}
	m := newModel(deliveries)
	for id, r := range m.rows {
		do(`insert into case_projection values (?, ?, ?, ?)`, id, r.status, r.version, r.last)
	}
	for eventType, n := range m.counts {
		do(`insert into events_by_type values (?, ?)`, eventType, n)
	}
	for at, outcome := range m.want {
		switch cause, quarantined := strings.CutPrefix(outcome, "quarantined: "); {
		case quarantined:
			do(`insert into pawl_redelivery values (1, ?, ?, 7)`, at.partition, at.offset)
			do(`insert into pawl_quarantine values (1, ?, ?, ?)`, at.partition, at.offset, cause)
		case outcome == Duplicate:
			do(`insert into pawl_redelivery values (1, ?, ?, 2)`, at.partition, at.offset)
		default:
			do(`insert into pawl_decision values (1, ?, ?, ?)`, at.partition, at.offset, map[string]int{Applied: 1, Stale: 3}[outcome])
		}
	}
	do(`commit`)
	return db
}

func TestTheCheckFindsWhatIsWrong(t *testing.T) {
	deliveries := traffic(3)
	for _, c := range []struct {
		name, breaks string
		found        func(*Finding) bool
	}{
		{"nothing", ``, (*Finding).OK},
		{"an effect twice", `update events_by_type set events = events + 1 where type = 'OPENED'`, func(f *Finding) bool { return f.Doubled == 1 }},
		{"an effect lost", `update events_by_type set events = events - 1 where type = 'OPENED'`, func(f *Finding) bool { return f.Lost == 1 }},
		{"a row behind", `update case_projection set version = version - 1 where rowid = 5`, func(f *Finding) bool { return f.Different == 1 }},
		{"a row missing", `delete from case_projection where rowid = 5`, func(f *Finding) bool { return f.Different == 1 }},
		{"a row of nobody", `insert into case_projection values ('nobody', 'OPENED', 1, 'e')`, func(f *Finding) bool { return f.Different == 1 }},
		{"no reason", `delete from pawl_redelivery where rowid = 1`, func(f *Finding) bool { return f.Unexplained == 1 }},
		{"a wrong reason", `update pawl_decision set outcome = 4 where rowid = 1`, func(f *Finding) bool { return f.Unexplained == 1 }},
		{"decided twice", `insert into pawl_decision select * from pawl_decision where rowid = 1`, func(f *Finding) bool { return f.Unexplained == 1 }},
		{"decided and not sent", `insert into pawl_decision values (1, 0, 999999, 1)`, func(f *Finding) bool { return f.Unexplained == 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := database(t, deliveries)
			if c.breaks != "" {
				if _, err := db.Exec(c.breaks); err != nil {
					t.Fatal(err)
				}
			}
			f, err := Check(context.Background(), db, deliveries)
			if err != nil || !c.found(f) || f.OK() != (c.breaks == "") {
				t.Errorf("%+v, %v", f, err)
			}
		})
	}
}

func TestTheNaiveConsumerIsJudgedByTheSameModel(t *testing.T) {
	a, b := encode(Event{EventID: "e1", CaseID: "c", Version: 1, EventType: "OPENED"}), encode(Event{EventID: "e2", CaseID: "c", Version: 2, EventType: "EVIDENCE_SUBMITTED"})
	deliveries := topicOf([]embedded.Message{a, b, a, {Value: []byte("x"), Partition: a.Partition}})
	path := filepath.Join(t.TempDir(), "naive")
	if err := os.WriteFile(path, []byte(string(a.Value)+"\n"+string(a.Value)+"\n"+string(b.Value[:10])), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Judge(path, deliveries)
	if want := (Mistakes{Effects: 2, Doubled: 1, Lost: 1, Different: 1, Dropped: 1}); err != nil || *got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}
