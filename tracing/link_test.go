package tracing

import (
	"strings"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// What OpenTelemetry's own propagator makes of a header is what we make of it.
func FuzzProducer(f *testing.F) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, p := range []string{
		good, "", "00", good + "-x", good + "x", strings.ToUpper(good), "ff" + good[2:], "cc" + good[2:], "cc" + good[2:] + "-more", "cc" + good[2:] + "more",
		good[:53] + "03", good[:53] + "04", "cc" + good[2:53] + "ff", good[:53] + "zz", strings.Replace(good, "-", "_", 1),
		"00-00000000000000000000000000000000-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
	} {
		f.Add(p, "")
		f.Add(p, "vendor=1,other=2")
		f.Add(p, "not valid =")
	}
	f.Fuzz(func(t *testing.T, parent, state string) {
		if strings.HasSuffix(parent, "-") && len(parent) == 56 {
			t.Skip("the propagator takes an empty field after the last for none")
		}
		carrier := propagation.MapCarrier{"traceparent": parent, "tracestate": state}
		want := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(t.Context(), carrier))
		got := producer([]byte(parent), []byte(state))
		if got.IsValid() != want.IsValid() || want.IsValid() && !got.Equal(want) {
			t.Errorf("%q, %q: %+v, want %+v", parent, state, got, want)
		}
	})
}
