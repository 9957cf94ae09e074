package main

import (
	"context"
	"fmt"
	"os"
	"text/tabwriter"
	"time"
)

// ways are how evidence could be found by stream, and by event, in a table whose key is neither.
var ways = []struct{ name, ddl, find string }{
	{"no index", ``, `stream = $1`},
	{"btree (stream)", `create index way on pawl_decision (stream)`, `stream = $1`},
	{"btree (scope, stream)", `create index way on pawl_decision (scope_id, stream)`, `scope_id = 1 and stream = $1`},
	{"hash (stream)", `create index way on pawl_decision using hash (stream)`, `stream = $1`},
	{"btree (hash of stream)", `create index way on pawl_decision (hashtextextended(stream, 0))`, `hashtextextended(stream, 0) = hashtextextended($1, 0) and stream = $1`},
	{"btree (hash of scope and stream, time)", `create index way on pawl_decision (hashtextextended(stream, scope_id), processed_at)`,
		`hashtextextended(stream, scope_id) = hashtextextended($1, 1) and stream = $1`},
	{"gin (hashes of stream and event)", `create index way on pawl_decision using gin ((array[hashtext(stream), hashtext(coalesce(event_id, key_id::text))]))`,
		`array[hashtext(stream), hashtext(coalesce(event_id, key_id::text))] @> array[hashtext($1)] and stream = $1`},
}

// dropWay takes away the one that Pawl has.
const dropWay = `drop index pawl_decision_stream;`

// evidence measures what it costs to find decisions by their stream: each way is an index beside the primary key while
// pawl-batch works, in turn with the others.
func (b *bench) evidence(ctx context.Context) error {
	c, _ := find("pawl-batch")
	all := make([][]figures, len(ways))
	sizes, finds := make([]int64, len(ways)), make([]time.Duration, len(ways))
	for round := range b.rounds {
		for i := range ways {
			at := (i + round) % len(ways)
			b.before = func() error { return b.server.script(ctx, dropWay+ways[at].ddl) }
			f, err := b.once(ctx, c, b.n, false)
			if err != nil {
				return err
			}
			all[at] = append(all[at], f)
			if sizes[at], finds[at], err = b.find(ctx, ways[at].find); err != nil {
				return err
			}
			fmt.Printf("round %d  %-34s %9s records/s\n", round+1, ways[at].name, thousands(f.rate()))
		}
	}
	fmt.Println()
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "way\trecords/s\tof none\tPG µs\tof none\tWAL B\tof none\tindex B/record\tfind\t")
	rate := func(f figures) float64 { return f.rate() }
	server := func(f figures) float64 { return f.Postgres / float64(f.Records) * 1e6 }
	wal := func(f figures) float64 { return float64(f.WAL) / float64(f.Records) }
	for i, w := range ways {
		of := func(v func(figures) float64) string {
			return percent(median(each(all[i], v)) / median(each(all[0], v)))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", w.name,
			thousands(median(each(all[i], rate))), of(rate), decimals(median(each(all[i], server)), 1), of(server),
			decimals(median(each(all[i], wal)), 0), of(wal), decimals(float64(sizes[i])/float64(b.n), 1), finds[i].Round(10*time.Microsecond))
	}
	return t.Flush()
}

// find is how large the index has become, and how long a search takes.
func (b *bench) find(ctx context.Context, where string) (size int64, took time.Duration, err error) {
	err = b.server.db.QueryRow(ctx, `select coalesce(pg_relation_size(to_regclass('way')), 0)`).Scan(&size)
	if err != nil {
		return 0, 0, err
	}
	const searches = 20
	for i := range searches {
		e := b.events[i*len(b.events)/searches]
		began := time.Now()
		var n int
		if err := b.server.db.QueryRow(ctx, `select count(*) from pawl_decision where `+where, e.caseID()).Scan(&n); err != nil {
			return 0, 0, err
		}
		took += time.Since(began)
		if n == 0 {
			return 0, 0, fmt.Errorf("nothing found of %s", e.caseID())
		}
	}
	return size, took / searches, nil
}
