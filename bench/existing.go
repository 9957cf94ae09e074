package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/postgres"
)

// The bars of -existing: how much more of the database's CPU a record may take beside many decisions, and how long a search
// for evidence may take among them.
const (
	mostGrowth = 1.25
	mostSearch = 100 * time.Millisecond
)

// The scope of the contenders, which is the first of its database, and another.
const (
	ownScope   = 1
	otherScope = 1_000_000
)

// indexesApart drops the indexes of decisions, and indexesBack makes them again: rows are inserted faster in between.
const (
	indexesApart = `
create temporary table apart as
select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as ddl
from pg_index
where indrelid = 'pawl_decision'::regclass and not indisprimary;
do $$ declare i record; begin for i in select * from apart loop execute 'drop index ' || i.name; end loop; end $$;
`
	indexesBack = `
do $$ declare i record; begin for i in select * from apart loop execute i.ddl; end loop; end $$;
drop table apart`
)

// makeHistory are decisions as a long run would have left them: keys in the order of time, streams at random.
const makeHistory = indexesApart + `insert into pawl_decision (
    key_id, fingerprint, position_offset, version, version_before, occurred_at, ingested_at, processed_at, scope_id, progress_id,
    type_id, code_id, key_form, outcome, mode, stream)
select (lpad(to_hex((extract(epoch from timestamptz '2020-01-01') * 1000)::bigint + g), 12, '0') || '70008' || substr(md5(g::text), 1, 15))::uuid,
       md5(g::text)::uuid, -g, g %% 20 + 1, g %% 20, now(), now(), now(), %d, 1, 1, 1, 1, 1, 1,
       'CASE-' || lpad(((g * 2654435761) %% %d)::text, 8, '0')
from generate_series(1::bigint, %d) as g;
` + indexesBack

// existing measures pawl-batch on tables that hold n decisions already, of its own scope and of another's, next to empty
// ones; and how long people wait for evidence there.
func (b *bench) existing(ctx context.Context, n int) error {
	c, _ := find("pawl-batch")
	cases := []struct {
		name  string
		scope int
	}{{"empty tables", 0}, {"of its own", ownScope}, {"of another", otherScope}}
	all := make([][]figures, len(cases))
	var search time.Duration
	for round := range b.rounds {
		for i := range cases {
			at := (i + round) % len(cases)
			b.before = nil
			if scope := cases[at].scope; scope != 0 {
				b.before = func() error { return b.history(ctx, scope, n) }
			}
			f, err := b.once(ctx, c, b.n, false)
			if err != nil {
				return err
			}
			all[at] = append(all[at], f)
			fmt.Printf("round %d  %-14s %9s records/s\n", round+1, cases[at].name, thousands(f.rate()))
			if cases[at].scope == ownScope {
				if search, err = b.search(ctx); err != nil {
					return err
				}
			}
		}
	}
	server := func(f figures) float64 { return f.Postgres / float64(f.Records) * 1e6 }
	fmt.Printf("\n%s decisions exist\n\n", thousands(float64(n)))
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "they are\trecords/s\tPG µs\tof empty\tWAL B\t")
	for i, k := range cases {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t\n", k.name, thousands(median(each(all[i], figures.rate))), decimals(median(each(all[i], server)), 1),
			percent(median(each(all[i], server))/median(each(all[0], server))),
			decimals(median(each(all[i], func(f figures) float64 { return float64(f.WAL) / float64(f.Records) })), 0))
	}
	t.Flush()
	growth := median(each(all[1], server)) / median(each(all[0], server))
	beside := median(each(all[2], server)) / median(each(all[0], server))
	fmt.Printf("\nbar database CPU ≤ %s of that on empty tables: %s beside its own, %s beside another's, %s\n", percent(mostGrowth), percent(growth),
		percent(beside), reached(growth <= mostGrowth && beside <= mostGrowth))
	fmt.Printf("bar evidence of a stream, an event and a key within %s: the slowest took %s, %s\n", mostSearch, search.Round(100*time.Microsecond),
		reached(search <= mostSearch))
	return nil
}

// history fills the tables, and leaves the server with nothing to do for it.
func (b *bench) history(ctx context.Context, scope, n int) error {
	if err := b.server.script(ctx, fmt.Sprintf(makeHistory, scope, n/20, n)); err != nil {
		return fmt.Errorf("make a history: %w", err)
	}
	for _, statement := range []string{"vacuum analyze pawl_decision", "checkpoint"} {
		if err := b.server.script(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// search asks for evidence as people do, and returns the longest that one of them waited.
func (b *bench) search(ctx context.Context) (time.Duration, error) {
	pool, err := openPool(ctx, b.server.url, 2)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	admin := postgres.New(pool).Admin()
	var took []time.Duration
	for i := range 20 {
		e := &b.events[(i+1)*len(b.events)/21]
		id := e.eventID()
		for _, q := range []pawl.EvidenceQuery{{Stream: e.caseID()}, {EventID: id}, {Key: id}} {
			began := time.Now()
			found, err := admin.Evidence(ctx, consumer, q)
			if err != nil || len(found) == 0 {
				return 0, fmt.Errorf("evidence of %+v: %d found, %w", q, len(found), err)
			}
			took = append(took, time.Since(began))
		}
	}
	return slices.Max(took), nil
}
