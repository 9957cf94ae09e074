package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
	"github.com/pawlhq/pawl/pawltest"
	"github.com/pawlhq/pawl/sqlite"
	"github.com/pawlhq/pawl/tracing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type event struct {
	ID string `json:"id"`
	Do string `json:"do,omitempty"`
}

// parent is a traceparent; trace and span are told by n.
func parent(n int) string { return fmt.Sprintf("00-%032x-%016x-01", n, n) }

// lay gives records their positions.
func lay(records ...pawl.Record) []pawl.Record {
	for i := range records {
		records[i].Partition = pawl.Partition{Topic: "orders", TopicID: pawl.TopicID{1}, Index: 3}
		records[i].Offset, records[i].Timestamp = int64(i), time.Unix(1, 0)
	}
	return records
}

func record(id, do, traceparent string) pawl.Record {
	r := pawltest.JSON(event{id, do})
	if traceparent != "" {
		r.Headers = append(r.Headers, pawl.Header{Key: "traceparent", Value: []byte(traceparent)})
	}
	return r
}

type handler = func(context.Context, pawl.SQLTx, pawl.Envelope[event]) error

// run delivers records to two routes, and returns the spans when all are settled or the runner has stopped by itself.
func run(t *testing.T, provider trace.TracerProvider, h handler, records []pawl.Record) error {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "pawl.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var settled atomic.Int64
	r := pawl.NewRunner(store, pawltest.NewLog(records), pawl.Config{
		Consumer: "shop", Workers: 2, MaxTries: 2, Logger: slog.New(slog.DiscardHandler), Budget: pawl.Budget{Share: 1},
		Hooks: pawl.JoinHooks(
			tracing.Hooks(tracing.Config{Provider: provider, Consumer: "shop", Group: "g"}),
			pawl.Hooks{Settled: func(s pawl.Settled) {
				if settled.Add(int64(s.Records)) == int64(len(records)) {
					cancel()
				}
			}}),
	})
	dec := decode.JSON(func(_ pawl.Meta, e event) pawl.Identity { return pawl.Identity{Key: e.ID} })
	pawl.Handle(r, pawl.Route{Name: "a", Topics: []string{"orders"}}, dec, h)
	pawl.Handle(r, pawl.Route{Name: "b", Topics: []string{"orders"}}, dec, func(context.Context, pawl.SQLTx, pawl.Envelope[event]) error { return nil })
	return r.Run(ctx)
}

func recording() (*tracetest.SpanRecorder, *sdk.TracerProvider) {
	rec := tracetest.NewSpanRecorder()
	return rec, sdk.NewTracerProvider(sdk.WithSpanProcessor(rec))
}

// named are the spans of a name; that no span is left open is seen on the way.
func named(t *testing.T, rec *tracetest.SpanRecorder, name string) (spans []sdk.ReadOnlySpan) {
	t.Helper()
	if n := len(rec.Started()) - len(rec.Ended()); n != 0 {
		t.Errorf("%d spans were never ended", n)
	}
	for _, s := range rec.Ended() {
		if s.Name() == name {
			spans = append(spans, s)
		}
	}
	return spans
}

func attr(s sdk.ReadOnlySpan, key string) string {
	for _, kv := range s.Attributes() {
		if string(kv.Key) == key {
			return kv.Value.String()
		}
	}
	return ""
}

func TestABatchIsOneSpanLinkedToItsProducers(t *testing.T) {
	rec, provider := recording()
	err := run(t, provider, func(ctx context.Context, _ pawl.SQLTx, e pawl.Envelope[event]) error {
		_, span := provider.Tracer("handler").Start(ctx, "handle "+e.Key)
		span.End()
		return nil
	}, lay(
		record("1", "", parent(1)), record("2", "", parent(2)), record("3", "", parent(2)), // two of one producer's batch
		record("4", "", ""), record("5", "", "nonsense"), record("6", "", parent(6)+strings.Repeat(" ", 600)),
		record("1", "", parent(7)),
	))
	if err != nil {
		t.Fatal(err)
	}
	batches := named(t, rec, "process orders")
	if len(batches) != 1 {
		t.Fatalf("%d batches, want 1", len(batches))
	}
	b := batches[0]
	if b.Parent().IsValid() || b.SpanKind() != trace.SpanKindConsumer || b.Status().Code != codes.Unset {
		t.Errorf("parent %v, kind %v, status %v", b.Parent(), b.SpanKind(), b.Status())
	}
	var linked []string
	for _, l := range b.Links() {
		linked = append(linked, l.SpanContext.SpanID().String()+" "+l.Attributes[0].Value.String())
	}
	if want := []string{"0000000000000001 0", "0000000000000002 1", "0000000000000007 6"}; !slices.Equal(linked, want) {
		t.Errorf("links %q, want %q", linked, want)
	}
	for key, want := range map[string]string{
		"messaging.system": "kafka", "messaging.operation.name": "process", "messaging.operation.type": "process",
		"messaging.destination.name": "orders", "messaging.destination.partition.id": "3", "messaging.consumer.group.name": "g",
		"messaging.batch.message_count": "7", "pawl.consumer": "shop", "pawl.committed": "true", "pawl.outcome.applied": "12",
		"pawl.outcome.duplicate": "2", "pawl.outcome.quarantined": "", "error.type": "",
	} {
		if got := attr(b, key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	for _, id := range []string{"1", "2", "6"} {
		h := named(t, rec, "handle "+id)
		if len(h) != 1 || h[0].Parent().SpanID() != b.SpanContext().SpanID() || h[0].SpanContext().TraceID() != b.SpanContext().TraceID() {
			t.Errorf("what the handler of %s traced is not below its batch", id)
		}
	}
}

func TestFailuresShow(t *testing.T) {
	rec, provider := recording()
	boom := errors.New("boom")
	err := run(t, provider, func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[event]) error {
		if _, err := tx.ExecContext(ctx, `select 1`); err != nil { // from here on there is something to undo
			return err
		}
		switch e.Body.Do {
		case "fail":
			return boom
		case "reject":
			return pawl.Reject(errors.New("never"))
		}
		return nil
	}, lay(record("1", "", ""), record("2", "fail", parent(2)), record("3", "reject", parent(3))))
	if err != nil {
		t.Fatal(err)
	}
	failed, neither := 0, 0
	for _, b := range named(t, rec, "process orders") {
		switch {
		case b.Status().Code == codes.Error:
			failed++
			if attr(b, "error.type") != "unknown" || attr(b, "pawl.committed") != "false" || len(b.Events()) != 1 || b.Events()[0].Name != "exception" {
				t.Errorf("failed: %v %v", b.Attributes(), b.Events())
			}
		case attr(b, "pawl.committed") == "false":
			neither++ // run again with a mark before each record
		}
	}
	if failed == 0 || neither == 0 {
		t.Errorf("%d failed, %d were cut or run otherwise: want some of both", failed, neither)
	}
	aside := named(t, rec, "quarantine orders")
	if len(aside) != 2 {
		t.Fatalf("%d spans of quarantined records, want 2", len(aside))
	}
	for i, want := range []struct{ cause, reason, offset, producer string }{
		{pawl.CauseFailure, "boom", "1", "0000000000000002"}, {pawl.CauseValidation, "never", "2", "0000000000000003"},
	} {
		s := aside[i]
		batch := slices.IndexFunc(rec.Ended(), func(b sdk.ReadOnlySpan) bool { return b.SpanContext().SpanID() == s.Parent().SpanID() })
		if batch < 0 || attr(rec.Ended()[batch], "pawl.committed") != "true" {
			t.Error("a quarantined record is not below the batch that settled it")
		}
		if attr(s, "pawl.cause") != want.cause || attr(s, "pawl.route") != "a" || attr(s, "messaging.kafka.offset") != want.offset ||
			s.Status() != (sdk.Status{Code: codes.Error, Description: want.reason}) || len(s.Links()) != 1 || s.Links()[0].SpanContext.SpanID().String() != want.producer {
			t.Errorf("quarantined: %v %v %v", s.Attributes(), s.Status(), s.Links())
		}
	}
}

// A handler that ends its goroutine, as t.FailNow does, leaves no span open.
func TestAHandlerThatNeverReturnsLeavesNoSpan(t *testing.T) {
	rec, provider := recording()
	err := run(t, provider, func(context.Context, pawl.SQLTx, pawl.Envelope[event]) error {
		runtime.Goexit()
		return nil
	}, lay(record("1", "", "")))
	if err == nil {
		t.Fatal("no error")
	}
	if b := named(t, rec, "process orders"); len(b) == 0 || b[0].Status().Code != codes.Error {
		t.Errorf("%v", b)
	}
}

func TestWhatABatchAddsIsBounded(t *testing.T) {
	rec, provider := recording()
	var records []pawl.Record
	for i := range 1000 {
		records = append(records, record(fmt.Sprint(i), "", parent(i+1)))
	}
	decisions := make([]*pawl.Decision, len(records))
	for i := range records {
		decisions[i] = &pawl.Decision{Record: &records[i], Outcome: pawl.Quarantined, Cause: pawl.CausePoison}
	}
	// Once the limit of the SDK does not hide ours.
	limits := sdk.NewSpanLimits()
	limits.LinkCountLimit = -1
	provider = sdk.NewTracerProvider(sdk.WithSpanProcessor(rec), sdk.WithRawSpanLimits(limits))
	_, over := tracing.Hooks(tracing.Config{Provider: provider}).Trying(t.Context(), pawl.Try{Routes: []string{"r"}, Decisions: decisions, Records: 1000})
	over(pawl.Tried{Committed: true})
	if n := len(named(t, rec, "quarantine ")); n != tracing.MaxQuarantined {
		t.Errorf("%d spans, want %d", n, tracing.MaxQuarantined)
	}
	b := named(t, rec, "process ")[0]
	if n := len(b.Links()); n != tracing.MaxLinks {
		t.Errorf("%d links, want %d", n, tracing.MaxLinks)
	}
	if !slices.Contains(b.Attributes(), attribute.Int("pawl.outcome.quarantined", 1000)) {
		t.Errorf("%v", b.Attributes())
	}
}

// A batch of the usual largest size, by what becomes of its span.
func BenchmarkBatch(b *testing.B) {
	records := make([]pawl.Record, 2000)
	decisions := make([]*pawl.Decision, len(records))
	for i := range records {
		records[i] = record(fmt.Sprint(i), "", parent(i+1))
		decisions[i] = &pawl.Decision{Record: &records[i], Outcome: pawl.Applied}
	}
	for name, provider := range map[string]trace.TracerProvider{
		"off": noop.NewTracerProvider(), "dropped": sdk.NewTracerProvider(sdk.WithSampler(sdk.NeverSample())),
		"kept": sdk.NewTracerProvider(sdk.WithSpanProcessor(discard{})),
	} {
		b.Run(name, func(b *testing.B) {
			h := tracing.Hooks(tracing.Config{Provider: provider})
			b.ReportAllocs()
			for b.Loop() {
				_, over := h.Trying(b.Context(), pawl.Try{Routes: []string{"r"}, Decisions: decisions, Records: 2000})
				over(pawl.Tried{Committed: true})
			}
		})
	}
}

type discard struct{}

func (discard) OnStart(context.Context, sdk.ReadWriteSpan) {}
func (discard) OnEnd(sdk.ReadOnlySpan)                     {}
func (discard) Shutdown(context.Context) error             { return nil }
func (discard) ForceFlush(context.Context) error           { return nil }
