package metrics_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/pawltest"
)

// records of every fate, with keys of their own by prefix.
func everyFate(prefix string) []pawl.Record {
	id := func(s string) string { return prefix + s }
	return []pawl.Record{
		json(id("1"), "", 0), json(id("2"), "", 0),
		json(id("1"), "", 0), // a copy
		json(id("1"), "", 5), // a conflict
		json(id("3"), "ignore", 0), json(id("4"), "stale", 0),
		json(id("5"), "reject", 0), json(id("6"), "corrupt", 0), json(id("7"), "poison", 0), json(id("8"), "fail", 0),
		{Value: []byte("{")},       // poison before any handler
		json(id("5"), "reject", 0), // a copy of what claims nothing
		json(id("9"), "", 0),
	}
}

// What came in is what was decided, by route and outcome, in the metrics and in the database, row for row.
func TestCountsAreConservedInMetricsAndInTheDatabase(t *testing.T) {
	b := newBench(t)
	now := time.Now()
	records := slices.Concat(
		lay(partition("first", 0), now, everyFate("f0-")...), lay(partition("first", 1), now, everyFate("f1-")...),
		lay(partition("second", 2), now, everyFate("s2-")...), lay(partition("second", 3), now, everyFate("s2-")...), // the same keys again
	)
	log := pawltest.NewLog(records)
	_, stop := b.run(log)
	per := len(everyFate(""))
	total := 6 * per // first is read by one route, second by two
	b.until("all settled", func() bool { return b.sum("pawl_outcomes_total") == total })
	b.until("offsets committed", func() bool { return log.Committed(partition("second", 3)) == int64(per) })
	b.agree(map[string]int{"a": 4 * per, "b": 2 * per})
	b.wantSums(per)
	if n := b.sum("pawl_unapplied_records"); n != 0 {
		t.Errorf("%d unapplied, and nothing waits", n)
	}
	stop()

	// Someone resets the group to the beginning, and that is accepted: everything is delivered again. What was decided from its
	// very position writes nothing, and is counted as what it is.
	b.cfg.Reset = pawl.ResetAccept
	for _, p := range []pawl.Partition{partition("first", 0), partition("first", 1), partition("second", 2), partition("second", 3)} {
		log.SetCommitted(p, 0, "")
	}
	before := b.rows(`select (select count(*) from pawl_decision) + (select count(*) from pawl_redelivery)`)
	_, stop = b.run(log)
	b.until("all settled again", func() bool { return b.sum("pawl_outcomes_total") == 2*total })
	stop()
	if after := b.rows(`select (select count(*) from pawl_decision) + (select count(*) from pawl_redelivery)`); after != before {
		t.Errorf("%d rows, and %d before everything was delivered again", after, before)
	}
	if n, want := b.sum("pawl_duplicates_total", "kind=same_position"), b.rows(`select count(*) from pawl_decision`); n != want {
		t.Errorf("%d copies of the same position, want %d: as many as there are decisions", n, want)
	}
	if got, want := b.sum("pawl_records_received_total"), 2*len(records); got != want {
		t.Errorf("received %d, want %d", got, want)
	}
}

// agree holds the metrics against the rows: deliveries by route, each outcome, each cause.
func (b *bench) agree(deliveries map[string]int) {
	b.Helper()
	for route, want := range deliveries {
		if n := b.sum("pawl_outcomes_total", "route="+route); n != want {
			b.Errorf("route %s: %d outcomes of %d deliveries", route, n, want)
		}
		for _, o := range []pawl.Outcome{pawl.Applied, pawl.Duplicate, pawl.WasStale, pawl.Ignored, pawl.Quarantined} {
			rows := b.rows(`select (select count(*) from pawl_decision d join pawl_scope s on s.id = d.scope_id where s.route = ?1 and d.outcome = ?2)
				+ (select count(*) from pawl_redelivery r join pawl_scope s on s.id = r.scope_id where s.route = ?1 and r.outcome = ?2)`, route, o)
			if n := b.sum("pawl_outcomes_total", "route="+route, "outcome="+o.String()); n != rows || rows == 0 {
				b.Errorf("route %s: %d %s in the metrics, %d in the database", route, n, o, rows)
			}
		}
		for _, cause := range []string{pawl.CausePoison, pawl.CauseConflict, pawl.CauseValidation, pawl.CauseCorruption, pawl.CauseFailure} {
			rows := b.rows(`select count(*) from pawl_quarantine q join pawl_scope s on s.id = q.scope_id where s.route = ? and q.cause = ?`, route, cause)
			if n := b.sum("pawl_quarantined_total", "route="+route, "cause="+cause); n != rows || rows == 0 {
				b.Errorf("route %s: %d quarantined for %s in the metrics, %d in the database", route, n, cause, rows)
			}
		}
	}
	positions := b.rows(`select (select count(*) from pawl_decision) + (select count(*) from pawl_redelivery)`)
	if n := b.sum("pawl_outcomes_total"); n != positions {
		b.Errorf("%d outcomes, and %d rows", n, positions)
	}
}

// wantSums holds the metrics against each other.
func (b *bench) wantSums(per int) {
	b.Helper()
	if n := b.sum("pawl_records_received_total"); n != 4*per {
		b.Errorf("received %d, want %d", n, 4*per)
	}
	if in, out := b.sum("pawl_records_received_total", "topic=second"), b.sum("pawl_outcomes_total", "route=b"); in != out {
		b.Errorf("route b: %d received, %d decided", in, out)
	}
	for _, v := range []struct{ name, outcome string }{
		{"pawl_effects_applied_total", "applied"}, {"pawl_duplicates_total", "duplicate"}, {"pawl_stale_total", "stale"},
		{"pawl_quarantined_total", "quarantined"}, {"pawl_event_to_effect_seconds", "applied"},
	} {
		if n, want := b.sum(v.name), b.sum("pawl_outcomes_total", "outcome="+v.outcome); n != want {
			b.Errorf("%s is %d, and %d are %s", v.name, n, want, v.outcome)
		}
	}
	if n, want := b.sum("pawl_conflicts_total"), b.sum("pawl_quarantined_total", "cause=conflict"); n != want {
		b.Errorf("%d conflicts, %d quarantined for it", n, want)
	}
	for p, n := range b.gather("pawl_partition_offset") {
		if int(n) != per {
			b.Errorf("%s is at %v, want %d", p, n, per)
		}
	}
	if n := len(b.gather("pawl_partition_offset")); n != 16 {
		b.Errorf("%d offsets, want 4 of each of 4 partitions", n)
	}
	for _, name := range []string{"pawl_consumer_lag_records", "pawl_consumer_lag_seconds", "pawl_buffered_bytes", "pawl_partition_halted"} {
		if g := b.gather(name); len(g) != 4 || b.sum(name) != 0 {
			b.Errorf("%s: %v, want 0 of each of 4 partitions", name, g)
		}
	}
	if n := b.sum("pawl_consumer_state", "state=running"); n != 1 {
		b.Errorf("states: %v", b.gather("pawl_consumer_state"))
	}
	if n := b.sum("pawl_tx_retries_total", fmt.Sprintf("class=%s", pawl.Unknown)); n == 0 {
		b.Error("records failed for an unknown reason, and no retry is counted")
	}
	if b.sum("pawl_offset_commits_total", "result=success") == 0 || b.sum("pawl_assignments_total", "change=assigned") != 4 {
		b.Errorf("commits %v, assignments %v", b.gather("pawl_offset_commits_total"), b.gather("pawl_assignments_total"))
	}
}
