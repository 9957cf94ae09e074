// Package tracing makes OpenTelemetry spans of what a runner does.
//
//	pawl.Config{Consumer: "billing", Hooks: pawl.JoinHooks(m.Hooks(), tracing.Hooks(tracing.Config{Group: "billing"}))}
//
// Every try of a batch is a span "process <topic>", the root of a trace of its own, linked to the spans that produced its
// records (the W3C traceparent in their headers). Handlers run within it: what they trace is below it. A try that fails ends
// as an error; a record that is quarantined has a span of its own below the batch's. Names and attributes are the messaging
// conventions of OpenTelemetry, and for what those do not know, the nouns of Pawl: see docs/signals.md.
//
// It needs OpenTelemetry's API only. Which spans are kept, and where they go, is up to the provider.
package tracing
