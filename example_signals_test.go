package pawl_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/metrics"
	"github.com/pawlhq/pawl/pawltest"
	"github.com/pawlhq/pawl/sqlite"
	"github.com/pawlhq/pawl/tracing"
)

// Metrics and traces of one runner. A program would serve its registry with promhttp, and send spans to a collector.
func ExampleJoinHooks() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	dir, err := os.MkdirTemp("", "pawl")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(ctx, filepath.Join(dir, "shop.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if err := store.Migrate(ctx); err != nil {
		log.Fatal(err)
	}

	registry := prometheus.NewRegistry()
	m, err := metrics.New(registry, metrics.Config{Consumer: "shop"})
	if err != nil {
		log.Fatal(err)
	}
	spans := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(spans))

	records := []pawl.Record{pawltest.JSON(payment{ID: "1"}), pawltest.JSON(payment{ID: "1"}), {Value: []byte("{")}}
	for i := range records {
		records[i].Partition, records[i].Offset = pawl.Partition{Topic: "payments", TopicID: pawl.TopicID{1}}, int64(i)
	}
	r := pawl.NewRunner(store, pawltest.NewLog(records), pawl.Config{
		Consumer: "shop",
		Logger:   slog.New(slog.DiscardHandler),
		Hooks: pawl.JoinHooks(
			m.Hooks(),
			tracing.Hooks(tracing.Config{Provider: provider, Consumer: "shop"}),
			pawl.Hooks{Settled: func(s pawl.Settled) { stop() }}, // this example has one batch
		),
	})
	m.Watch(r)
	m.WatchStore(store.Admin())
	pawl.Handle(r, pawl.Route{Name: "charge", Topics: []string{"payments"}}, payments(),
		func(context.Context, pawl.SQLTx, pawl.Envelope[payment]) error { return nil })
	if err := r.Run(ctx); err != nil {
		log.Fatal(err)
	}

	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "pawl_outcomes_total" {
			continue
		}
		for _, series := range f.GetMetric() {
			for _, l := range series.GetLabel() {
				if l.GetName() == "outcome" {
					fmt.Println(l.GetValue(), series.GetCounter().GetValue())
				}
			}
		}
	}
	var names []string
	for _, s := range spans.GetSpans() {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	fmt.Println(names)
	// Output:
	// applied 1
	// duplicate 1
	// quarantined 1
	// [process payments quarantine payments]
}
