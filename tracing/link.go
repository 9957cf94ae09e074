package tracing

import (
	"encoding/hex"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlhq/pawl"
)

// Producers may write anything: what is longer than the standard allows is not looked at.
const maxHeader = 512

// links are the contexts that the records were produced in, each once and at most MaxLinks. They are there when the span
// begins, because samplers may ask for them.
func links(decisions []*pawl.Decision) []trace.Link {
	var all []trace.Link
	var seen map[string]struct{}
	for _, d := range decisions {
		parent := header(d.Record.Headers, "traceparent")
		if len(parent) == 0 {
			continue
		}
		if _, ok := seen[string(parent)]; ok {
			continue // the same record on another route, or one that was produced together with others
		}
		if len(all) == MaxLinks {
			break
		}
		if seen == nil {
			seen = make(map[string]struct{}, min(len(decisions), MaxLinks))
			all = make([]trace.Link, 0, min(len(decisions), MaxLinks))
		}
		seen[string(parent)] = struct{}{}
		if of := producer(parent, header(d.Record.Headers, "tracestate")); of.IsValid() {
			all = append(all, trace.Link{SpanContext: of, Attributes: []attribute.KeyValue{semconv.MessagingKafkaOffset(int(d.Record.Offset))}})
		}
	}
	return all
}

// producer reads a context as W3C writes it, version-traceid-spanid-flags in small hexadecimal digits; an invalid one is the
// zero value. It does what propagation.TraceContext does, without a context and a carrier for each: a batch has many.
func producer(parent, state []byte) trace.SpanContext {
	const length = 55
	var version, flags [1]byte
	var cfg trace.SpanContextConfig
	ok := len(parent) >= length && parent[2] == '-' && parent[35] == '-' && parent[52] == '-' &&
		digits(version[:], parent[0:2]) && digits(cfg.TraceID[:], parent[3:35]) && digits(cfg.SpanID[:], parent[36:52]) && digits(flags[:], parent[53:55])
	switch {
	case !ok, version[0] == 0xff, version[0] == 0 && (len(parent) != length || flags[0] > 3), len(parent) > length && parent[length] != '-':
		return trace.SpanContext{}
	}
	cfg.TraceFlags, cfg.Remote = trace.TraceFlags(flags[0])&(trace.FlagsSampled|trace.FlagsRandom), true
	if len(state) > 0 {
		cfg.TraceState, _ = trace.ParseTraceState(string(state)) // one that is not valid is as good as none
	}
	return trace.NewSpanContext(cfg)
}

func digits(to, from []byte) bool {
	for _, c := range from {
		if c >= 'A' && c <= 'F' {
			return false
		}
	}
	_, err := hex.Decode(to, from)
	return err == nil
}

// header is the value of the last header of a name, unless it is too long.
func header(hs []pawl.Header, key string) []byte {
	for i := len(hs) - 1; i >= 0; i-- {
		if hs[i].Key == key && len(hs[i].Value) <= maxHeader {
			return hs[i].Value
		}
	}
	return nil
}
