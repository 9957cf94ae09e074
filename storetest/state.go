package storetest

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/pawlhq/pawl"
)

// row is one row of pawl_decision with the names its numbers stand for.
type row struct {
	scope       string // consumer and route
	key         string // as keyText writes it
	fingerprint string
	outcome     pawl.Outcome
	partition   int32
	offset      int64
	position    int64 // of the partition, now
}

// decisions reads every claim in the database.
func (w *world[Tx]) decisions() []row {
	w.Helper()
	rows, err := w.DB.QueryContext(w.ctx, `
		select c.name, s.route, d.key_form, d.key_id, d.fingerprint, d.outcome, p.partition, d.position_offset, p.next_offset
		from pawl_decision d
		join pawl_scope s on s.id = d.scope_id
		join pawl_consumer c on c.id = s.consumer_id
		join pawl_progress p on p.id = d.progress_id
		order by c.name, s.route, p.partition, d.position_offset`)
	if err != nil {
		w.Fatalf("read decisions: %v", err)
	}
	defer rows.Close()
	var all []row
	for rows.Next() {
		var r row
		var consumer, route string
		var form uint8
		var id, print any
		if err := rows.Scan(&consumer, &route, &form, &id, &print, &r.outcome, &r.partition, &r.offset, &r.position); err != nil {
			w.Fatalf("read decisions: %v", err)
		}
		r.scope, r.key, r.fingerprint = consumer+" "+route, fmt.Sprintf("%d-%s", form, id16(id)), id16(print)
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		w.Fatalf("read decisions: %v", err)
	}
	return all
}

// id16 is 16 bytes in hex, however the driver hands them over.
func id16(v any) string {
	switch v := v.(type) {
	case [16]byte:
		return hex.EncodeToString(v[:])
	case []byte:
		if len(v) == 16 {
			return hex.EncodeToString(v)
		}
		return strings.ReplaceAll(string(v), "-", "")
	case string:
		return strings.ReplaceAll(v, "-", "")
	}
	return fmt.Sprint(v)
}

// lines reads rows as text, one line each, in order.
func (w *world[Tx]) lines(query string, args ...any) []string {
	w.Helper()
	rows, err := w.DB.QueryContext(w.ctx, w.rewrite(query), args...)
	if err != nil {
		w.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		w.Fatalf("%s: %v", query, err)
	}
	var all []string
	for rows.Next() {
		values := make([]any, len(columns))
		pointers := make([]any, len(columns))
		for i := range values {
			pointers[i] = &values[i]
		}
		if err := rows.Scan(pointers...); err != nil {
			w.Fatalf("%s: %v", query, err)
		}
		all = append(all, strings.TrimSuffix(fmt.Sprintln(values...), "\n"))
	}
	if err := rows.Err(); err != nil {
		w.Fatalf("%s: %v", query, err)
	}
	slices.Sort(all)
	return all
}

// state is everything that an apply may change, to compare before and after.
func (w *world[Tx]) state() []string {
	w.Helper()
	all := w.positions()
	for _, d := range w.decisions() {
		all = append(all, fmt.Sprintf("decision %+v", d))
	}
	for _, table := range []string{"pawl_redelivery", "pawl_quarantine"} {
		for _, l := range w.lines(`select scope_id, progress_id, position_offset from ` + table) {
			all = append(all, table+" "+l)
		}
	}
	for _, query := range []string{
		`select scope, key from effect`,
		`select id, status, cause, reason, tries, blocks, replays from pawl_quarantine`,
		`select scope_id, stream, blocked_by from pawl_stream`,
		`select id, scope_id, stream, progress_id, position_offset from pawl_hold`,
		`select scope_id, stream, expected from pawl_gap`,
		`select id, scope_id, stream, version, progress_id, position_offset from pawl_early`,
		`select id, state, total, done, failed, resumed_done from pawl_operation`,
		`select id, operation_id, quarantine_id, outcome, reason from pawl_operation_item`,
		`select id, operation_id, item_id, what, actor from pawl_audit`,
		`select progress_id, position_offset, attempts from pawl_attempt`,
		`select quarantine_id, number from pawl_revision`,
		`select consumer_id, actor from pawl_pause`,
	} {
		for _, l := range w.lines(query) {
			all = append(all, query+": "+l)
		}
	}
	return all
}

// positions reads the progress rows.
func (w *world[Tx]) positions() []string {
	return w.lines(`select consumer_id, topic, partition, next_offset, epoch, seq from pawl_progress`)
}

// consistent checks marker ⇔ effect ⇔ position: every applied decision has its one effect, every effect its decision, and
// the position is past every decision. And streams: each is there for a reason, each blocker is open, and none that should
// block is forgotten; each gap has records that wait.
func (w *world[Tx]) consistent() {
	w.Helper()
	effects := map[string]int{}
	for _, l := range w.lines(`select scope, key from effect`) {
		effects[l]++
	}
	for _, d := range w.decisions() {
		if d.position <= d.offset {
			w.Errorf("decision %+v: the position does not cover it", d)
		}
		if d.outcome != pawl.Applied {
			continue
		}
		at := d.scope + " " + d.key
		if effects[at] != 1 {
			w.Errorf("decision %+v: %d effects, want 1", d, effects[at])
		}
		delete(effects, at)
	}
	for at := range effects {
		w.Errorf("effect %s without its decision", at)
	}
	w.wantInt(0, `
		select count(*)
		from pawl_stream s
		where s.blocked_by is null
		  and not exists (select 1 from pawl_hold h where h.scope_id = s.scope_id and h.stream = s.stream)`)
	w.wantInt(0, `select count(*) from pawl_stream s join pawl_quarantine q on q.id = s.blocked_by where q.status <> 1`)
	w.wantInt(0, `
		select count(*)
		from pawl_gap g
		where not exists (select 1 from pawl_early e where e.scope_id = g.scope_id and e.stream = g.stream)`)
	w.wantInt(0, `
		select count(*)
		from pawl_quarantine q
		where q.status = 1
		  and q.blocks
		  and not exists (
			  select 1 from pawl_stream s where s.scope_id = q.scope_id and s.stream = q.stream and s.blocked_by is not null)`)
}
