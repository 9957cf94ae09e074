package pipeline

import (
	"testing"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
)

const benchRecord = `{"eventId":"0198c9a6-5b5f-7e7a-9d5e-2f6c8a1b3c4d","caseId":"C-1234567","version":17,"eventType":"EVIDENCE_SUBMITTED","occurredAt":"2026-07-01T09:00:00Z","assignee":"kim","amount":1234.50,"tags":["a","b"],"customer":{"id":"K-99","tier":"gold","country":"NL"}}`

type benchBody struct {
	EventID    string   `json:"eventId"`
	CaseID     string   `json:"caseId"`
	Version    int64    `json:"version"`
	EventType  string   `json:"eventType"`
	OccurredAt string   `json:"occurredAt"`
	Assignee   string   `json:"assignee"`
	Tags       []string `json:"tags"`
	Customer   struct {
		ID      string `json:"id"`
		Tier    string `json:"tier"`
		Country string `json:"country"`
	} `json:"customer"`
}

// What a declared pipeline costs in Go code, beside the same in Go: decoding, identity, and columns.
func BenchmarkDeclared(b *testing.B) {
	set, err := load(b, nil, "a.yaml", body("event: {id: $.eventId, stream: $.caseId, version: $.version, type: $.eventType, at: $.occurredAt}", once,
		"projection: {table: rows, columns: {a: stream, v: version, assignee: $.assignee, amount: decimal($.amount), tier: $.customer.tier}}"))
	if err != nil {
		b.Fatal(err)
	}
	d := set.Pipelines[0].decoder
	amount, err := compile("decimal($.amount)", exprScope)
	if err != nil {
		b.Fatal(err)
	}
	r := pawl.Record{Value: []byte(benchRecord)}
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := decodeRecord(d, r); err != nil {
				b.Fatal(err)
			}
		}
	})
	got, err := decodeRecord(d, r)
	if err != nil {
		b.Fatal(err)
	}
	e := &pawl.Envelope[*Document]{Identity: got.Identity, Body: got.Body}
	b.Run("column", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := amount.eval(inputOf(e)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("cel", func(b *testing.B) {
		p, err := compile(`$.amount > 1000 && $.customer.tier in ["gold", "platinum"]`, exprScope)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := p.eval(inputOf(e)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkInGo(b *testing.B) {
	d := decode.JSON(func(_ pawl.Meta, v benchBody) pawl.Identity {
		return pawl.Identity{Key: v.EventID, EventID: v.EventID, Stream: v.CaseID, Version: v.Version, Type: v.EventType}
	})
	r := pawl.Record{Value: []byte(benchRecord)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Decode(pawl.NewMeta(&r), r.Value); err != nil {
			b.Fatal(err)
		}
	}
}
