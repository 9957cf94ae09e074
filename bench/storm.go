package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/effect"
)

// The bar of -storm: what disorder may cost, as a multiple of the ordered run.
const mostDisorder = 3.0

const (
	blockOf    = 10 // events of a stream that come in reverse
	stormDepth = 60 // events of a stream
)

// storm is n events whose streams come in order, or in reverse by blocks of ten.
func storm(n int, reversed bool) []event {
	rnd := rand.New(rand.NewPCG(7, 0))
	streams := max(n/stormDepth, 1)
	seen := make([]int32, streams)
	total := make([]int32, streams)
	of := make([]int32, n)
	for i := range of {
		of[i] = int32(rnd.IntN(streams))
		total[of[i]]++
	}
	start := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	all := make([]event, n)
	for i := range all {
		e := &all[i]
		e.of, e.at, e.state = of[i], start.Add(time.Duration(i)*100*time.Microsecond), int8(rnd.IntN(len(states)))
		k := seen[e.of]
		seen[e.of]++
		e.version = k + 1
		if first := k - k%blockOf; reversed {
			last := min(first+blockOf, total[e.of]) - 1
			e.version = first + last - k + 1
		}
		e.id = newID(rnd, "v7", e.at)
	}
	return all
}

func runPawlStorm(ctx context.Context, t *task, w *stopwatch) error {
	p := newProjection()
	p.Early = effect.Early{Hold: time.Hour}
	return runPawl(ctx, t, w, func(r *pawl.Runner[pgx.Tx], route pawl.Route) { pawl.Apply(r, route, decoder, p) })
}

// storms measures what disorder costs: the same projection over the same log, in order and in reverse.
func (b *bench) storms(ctx context.Context) error {
	topics := map[string]bool{"ordered": false, "reversed": true}
	broker, err := startBroker([]string{"ordered", "reversed"})
	if err != nil {
		return err
	}
	defer broker.stop()
	events := map[string][]event{}
	for topic, reversed := range topics {
		events[topic] = storm(b.n, reversed)
		if err := broker.produce(ctx, topic, events[topic]); err != nil {
			return err
		}
	}
	all := map[string][]figures{}
	held := 0
	for round := range b.rounds {
		order := []string{"ordered", "reversed"}
		if round%2 == 1 {
			order[0], order[1] = order[1], order[0]
		}
		for _, topic := range order {
			f, err := b.stormOnce(ctx, broker, topic, events[topic], round)
			if err != nil {
				return err
			}
			all[topic] = append(all[topic], f)
			if topic == "reversed" {
				err := b.server.db.QueryRow(ctx, `select count(*) from pawl_redelivery where outcome = 6`).Scan(&held)
				if err != nil {
					return err
				}
			}
			fmt.Printf("round %d  %-9s %9s records/s\n", round+1, topic, thousands(f.rate()))
		}
	}
	ratios := make([]float64, b.rounds)
	for i := range ratios {
		ratios[i] = all["ordered"][i].rate() / all["reversed"][i].rate()
	}
	fmt.Printf("\nof %s records in reverse, %s were held in the store for a while; nothing is in quarantine, and no gap is left\n",
		thousands(float64(b.n)), thousands(float64(held)))
	fmt.Printf("bar disorder costs ≤ %g× the ordered run: %.2f×, %s\n", mostDisorder, median(ratios), reached(median(ratios) <= mostDisorder))
	return nil
}

func (b *bench) stormOnce(ctx context.Context, broker *broker, topic string, events []event, round int) (figures, error) {
	if err := b.server.reset(ctx); err != nil {
		return figures{}, fmt.Errorf("empty the tables: %w", err)
	}
	t := &task{
		Contender: "pawl-storm", Postgres: b.server.url, Brokers: broker.addrs, BrokerPID: broker.cmd.Process.Pid,
		Topic: topic, Group: fmt.Sprintf("%s-%d", topic, round), Records: len(events), Workers: b.workers,
	}
	f, err := runTask(ctx, t)
	if err != nil {
		return f, err
	}
	w := model(events)
	if err := checkCounts(ctx, b.server.db, []count{
		{"decisions", `select count(*) from pawl_decision where outcome = 1`, w.unique},
		{"quarantined records", `select count(*) from pawl_quarantine`, 0},
		{"records that still wait", `select count(*) from pawl_early`, 0},
		{"gaps", `select count(*) from pawl_gap`, 0},
	}); err != nil {
		return f, err
	}
	return f, checkProjection(ctx, b.server.db, caseState.name, w)
}
