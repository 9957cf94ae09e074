package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
	"github.com/pawlhq/pawl/pawltest"
	"github.com/pawlhq/pawl/postgres"
)

// orderWorkers is how many handlers may run at once, each with a connection.
const orderWorkers = 16

// slowBar: what slow handlers in the order of streams must reach of what their number, and that of the workers, allows.
const slowBar = 0.9

// ordered measures handlers that take a while, on one partition in the order of streams, against the ideal: as many at once
// as there are streams or workers, each busy all the time.
func (b *bench) ordered(ctx context.Context) error {
	fmt.Printf("\n%d workers, one partition, order by stream; each handler waits, and writes nothing\n\n", orderWorkers)
	fmt.Printf("%8s %8s %9s %12s %12s %7s\n", "handler", "streams", "records", "records/s", "ideal", "of it")
	for _, wait := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond} {
		work := calibrate(wait)
		for _, streams := range []int{1, 5, 20, 1000, 10_000} {
			n := 100_000
			ideal := 0.0
			if wait > 0 {
				ideal = float64(min(streams, orderWorkers)) / work.Seconds()
				n = max(int(10*ideal), 500)
			}
			took, err := b.orderOnce(ctx, n, streams, wait)
			if err != nil {
				return err
			}
			rate := float64(n) / took.Seconds()
			if wait == 0 {
				fmt.Printf("%8s %8d %9d %12s %12s %7s\n", wait, streams, n, thousands(rate), "–", "–")
				continue
			}
			fmt.Printf("%8s %8d %9d %12s %12s %7s  %s\n", wait, streams, n, thousands(rate), thousands(ideal), percent(rate/ideal), reached(rate/ideal >= slowBar))
		}
	}
	return nil
}

// calibrate is how long a wait takes here: a timer is never early.
func calibrate(wait time.Duration) time.Duration {
	if wait == 0 {
		return 0
	}
	const n = 50
	began := time.Now()
	for range n {
		time.Sleep(wait)
	}
	return time.Since(began) / n
}

func (b *bench) orderOnce(ctx context.Context, n, streams int, wait time.Duration) (time.Duration, error) {
	if err := b.server.reset(ctx); err != nil {
		return 0, fmt.Errorf("empty the tables: %w", err)
	}
	pool, err := openPool(ctx, b.server.url, orderWorkers+2)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	store := postgres.New(pool)
	if err := store.Migrate(ctx); err != nil {
		return 0, err
	}
	type note struct{ ID, Stream string }
	records := make([]pawl.Record, n)
	for i := range records {
		value, err := json.Marshal(note{fmt.Sprint(i), fmt.Sprint(i % streams)})
		if err != nil {
			return 0, err
		}
		records[i] = pawl.Record{
			Partition: pawl.Partition{Topic: "notes", TopicID: pawl.TopicID{1}}, Offset: int64(i), Value: value, Timestamp: time.Now(),
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var settled atomic.Int64
	var last atomic.Int64 // nanoseconds since began
	began := time.Now()
	r := pawl.NewRunner(store, pawltest.NewLog(records), pawl.Config{
		Consumer: "order", Workers: orderWorkers, Logger: slog.New(slog.DiscardHandler), MaxBuffered: 1 << 30,
		Hooks: pawl.Hooks{Settled: func(s pawl.Settled) {
			if settled.Add(int64(len(s.Decisions))) == int64(n) {
				last.Store(int64(time.Since(began)))
				cancel()
			}
		}},
	})
	dec := decode.JSON(func(_ pawl.Meta, e note) pawl.Identity { return pawl.Identity{Key: e.ID, Stream: e.Stream} })
	pawl.Handle(r, pawl.Route{Name: "wait", Topics: []string{"notes"}, Order: pawl.OrderStream}, dec,
		func(ctx context.Context, _ pgx.Tx, _ pawl.Envelope[note]) error {
			if wait > 0 {
				time.Sleep(wait)
			}
			return nil
		})
	if err := r.Run(ctx); err != nil {
		return 0, err
	}
	return time.Duration(last.Load()), nil
}
