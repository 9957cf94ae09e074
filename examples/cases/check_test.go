package main

import (
	"bytes"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
)

// A check that cannot fail proves nothing: each case spoils one row of a good database.
func TestTheCheckSeesOneSpoiltRow(t *testing.T) {
	dir := t.TempDir()
	status, out, errs := runIt(t, "-cases", "100", "-seed", "8", "-dir", dir)
	wantHeld(t, status, out, errs)
	l, err := open(t.Context(), dir)
	must(t, err)
	records, err := readTopic(t.Context(), l.addrs)
	must(t, err)
	must(t, l.close())

	for _, c := range []struct {
		name  string
		spoil string
		want  finding // the four numbers
	}{
		{"nothing", `update case_projection set version = version where case_id = (select min(case_id) from case_projection)`, finding{}},
		{"an effect is missing", `delete from case_history where rowid = 1`, finding{lost: 1}},
		{"an effect happened twice", `insert into case_history select * from case_history where rowid = 1`, finding{doubled: 1}},
		{"an effect that must not be", `insert into case_history values ('case-8-0001', 99, 'evt-none')`, finding{different: 1}},
		{"an effect of another event", `update case_history set event_id = 'evt-none' where rowid = 1`, finding{lost: 1, different: 1}},
		{"a status", `update case_projection set status = 'SHREDDED' where rowid = 1`, finding{different: 1}},
		{"a version", `update case_projection set version = version + 1 where rowid = 1`, finding{different: 1}},
		{"a last event", `update case_projection set last_event_id = 'evt-none' where rowid = 1`, finding{different: 1}},
		{"a time", `update case_projection set updated_at = '' where rowid = 1`, finding{different: 1}},
		{"a case is missing", `delete from case_projection where rowid = 1`, finding{different: 1}},
		{"a case that must not be", `insert into case_projection values ('case-none', 'OPENED', 1, 'evt-none', '')`, finding{different: 1}},
		{"a decision is missing", `delete from pawl_decision where key = (select min(key) from pawl_decision)`, finding{unexplained: 1}},
		{"a decision is another", `update pawl_decision set outcome = 4 where key = (select min(key) from pawl_decision)`, finding{unexplained: 1}},
		{"a copy is not on record", `delete from pawl_redelivery where (progress_id, position_offset) in
			(select progress_id, position_offset from pawl_redelivery where outcome = 2 limit 1)`, finding{unexplained: 1}},
		{"a reason is another", `update pawl_quarantine set reason = 'version gap: none' where id =
			(select min(id) from pawl_quarantine where reason like 'illegal%')`, finding{unexplained: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			spoilt := t.TempDir()
			withDatabase(t, dir, func(db *sql.DB) {
				_, err := db.Exec(`vacuum into ?`, filepath.Join(spoilt, "cases.db"))
				must(t, err)
			})
			exec(t, spoilt, c.spoil)
			l := &lab{database: filepath.Join(spoilt, "cases.db")}
			must(t, l.createTables(t.Context()))
			got, err := check(t.Context(), l.db, records)
			must(t, err)
			must(t, l.close())
			if got.lost != c.want.lost || got.doubled != c.want.doubled || got.different != c.want.different || got.unexplained != c.want.unexplained {
				t.Errorf("lost %d, doubled %d, different %d, unexplained %d: %v", got.lost, got.doubled, got.different, got.unexplained, got.details)
			}
			var text bytes.Buffer
			newPrinter(&text).finding(got)
			if failed := c.want.lost+c.want.doubled+c.want.different+c.want.unexplained > 0; got.ok() == failed ||
				strings.Contains(text.String(), "THE CHECK FAILED") != failed {
				t.Errorf("ok is %v:\n%s", got.ok(), text.String())
			}
		})
	}
}

func TestTheTableAddsUp(t *testing.T) {
	records, _ := laid(generate(9, 300))
	m := newModel()
	var table tally
	ids := map[string]bool{}
	for _, r := range strayLast(records) {
		c, ok := read(r.value)
		if ok {
			ids[c.EventID] = true
		}
		table.add(c.EventID, m.take(r.value))
	}
	deliveries, events := 0, 0
	for _, o := range outcomes {
		deliveries += table.deliveries[o]
		events += table.events()[o]
	}
	if deliveries != len(records) || events != len(ids) {
		t.Errorf("%d deliveries of %d, %d events of %d", deliveries, len(records), events, len(ids))
	}
}
