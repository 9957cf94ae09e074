package tracing

import (
	"context"
	"strconv"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlhq/pawl"
)

// Config is what spans say beside what hooks see. The zero value works.
type Config struct {
	// Provider makes the tracer. Default: the global one.
	Provider trace.TracerProvider

	// Consumer and Group are attributes of every batch: the names in the runner's and the source's configuration. Default:
	// left out.
	Consumer string
	Group    string
}

// Bounds of what one batch may add to a trace, whatever its size.
const (
	MaxLinks       = 128 // to producers; contexts that several records share are one
	MaxQuarantined = 32  // spans of quarantined records
)

// Hooks returns what to put into pawl.Config.Hooks; pawl.JoinHooks joins it with others.
func Hooks(cfg Config) pawl.Hooks {
	provider := cfg.Provider
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	t := &tracer{Tracer: provider.Tracer("github.com/pawlhq/pawl/tracing", trace.WithSchemaURL(semconv.SchemaURL))}
	t.always = []attribute.KeyValue{semconv.MessagingSystemKafka, semconv.MessagingOperationName("process"), semconv.MessagingOperationTypeProcess}
	if cfg.Group != "" {
		t.always = append(t.always, semconv.MessagingConsumerGroupName(cfg.Group))
	}
	if cfg.Consumer != "" {
		t.always = append(t.always, attribute.String("pawl.consumer", cfg.Consumer))
	}
	return pawl.Hooks{Trying: t.trying}
}

type tracer struct {
	trace.Tracer
	always []attribute.KeyValue
}

// trying opens the span of a batch. It is a root: its records have many producers, and the context that Run was given, if it
// is one of a span, lasts for days.
func (t *tracer) trying(ctx context.Context, try pawl.Try) (context.Context, func(pawl.Tried)) {
	ctx, span := t.Start(ctx, "process "+try.Partition.Topic, trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithLinks(links(try.Decisions)...), trace.WithAttributes(t.always...), trace.WithAttributes(
			semconv.MessagingDestinationName(try.Partition.Topic),
			semconv.MessagingDestinationPartitionID(strconv.Itoa(int(try.Partition.Index))),
			semconv.MessagingBatchMessageCount(try.Records),
		))
	return ctx, func(how pawl.Tried) {
		defer span.End()
		if !span.IsRecording() {
			return
		}
		switch {
		case how.Committed:
			t.committed(ctx, span, try)
		case how.Err != nil:
			span.RecordError(how.Err)
			span.SetAttributes(semconv.ErrorTypeKey.String(how.Class.String()))
			span.SetStatus(codes.Error, "not committed")
		}
		span.SetAttributes(attribute.Bool("pawl.committed", how.Committed))
	}
}

// committed says what was decided, and gives each quarantined record its span.
func (t *tracer) committed(ctx context.Context, span trace.Span, try pawl.Try) {
	var counts [256]int // by outcome, which is a byte
	told := 0
	for _, d := range try.Decisions {
		counts[d.Outcome]++
		if d.Outcome == pawl.Quarantined && told < MaxQuarantined {
			told++
			t.quarantined(ctx, try, d)
		}
	}
	for o, n := range counts {
		if n > 0 {
			span.SetAttributes(attribute.Int("pawl.outcome."+pawl.Outcome(o).String(), n))
		}
	}
}

func (t *tracer) quarantined(ctx context.Context, try pawl.Try, d *pawl.Decision) {
	_, span := t.Start(ctx, "quarantine "+try.Partition.Topic, trace.WithLinks(links([]*pawl.Decision{d})...), trace.WithAttributes(
		semconv.MessagingSystemKafka, semconv.MessagingDestinationName(try.Partition.Topic),
		semconv.MessagingDestinationPartitionID(strconv.Itoa(int(try.Partition.Index))), semconv.MessagingKafkaOffset(int(d.Record.Offset)),
		semconv.ErrorTypeKey.String(d.Cause),
		attribute.String("pawl.route", try.Routes[d.Route]), attribute.String("pawl.cause", d.Cause), attribute.Int("pawl.tries", d.Tries),
	))
	span.SetStatus(codes.Error, d.Reason)
	span.End()
}
