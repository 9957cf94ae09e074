package decode_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
)

type payment struct {
	ID         string    `json:"id"`
	MessageID  string    `json:"messageId"`
	AttemptID  string    `json:"attemptId"`
	Account    string    `json:"account"`
	Amount     int64     `json:"amount"`
	Currency   string    `json:"currency"`
	Version    int64     `json:"version"`
	OccurredAt time.Time `json:"occurredAt"`
	Note       string    `json:"note"`
}

func paymentIdentity(_ pawl.Meta, p payment) pawl.Identity {
	return pawl.Identity{Key: p.AttemptID, EventID: p.ID, MessageID: p.MessageID, Stream: p.Account, Version: p.Version, OccurredAt: p.OccurredAt}
}

const paymentDoc = `{"id":"0198f2a4-5c1e-7b32-9d1a-0c4f5e6a7b8c","messageId":"0198f2a4-6000-7000-8000-000000000001",` +
	`"attemptId":"0198f2a4-5c1e-7b32-9d1a-0c4f5e6a7b8d","account":"acc-000123456","amount":9007199254740993,` +
	`"currency":"EUR","version":42,"occurredAt":"2026-09-18T05:43:03.123456Z","note":"second attempt, 3 cafés"}`

func BenchmarkJSON(b *testing.B) {
	m := pawl.NewMeta(&pawl.Record{})
	run := func(name, doc string, d pawl.Decoder[payment]) {
		b.Run(name, func(b *testing.B) {
			// Other identities each time, as in a log: the package that makes the body reuses strings that repeat.
			var values [512][]byte
			for i := range values {
				values[i] = []byte(strings.ReplaceAll(doc, "0198f2a4", fmt.Sprintf("%08x", i)))
			}
			b.SetBytes(int64(len(doc)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := d.Decode(m, values[i%len(values)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("payment", paymentDoc, decode.JSON(paymentIdentity))
	run("payment/envelope", paymentDoc, decode.JSON(paymentIdentity, decode.EnvelopeFields("messageId")))
	run("payment/spaced", strings.ReplaceAll(strings.ReplaceAll(paymentDoc, `,"`, ",\n  \""), `":`, `": `), decode.JSON(paymentIdentity))
}

// BenchmarkEncodingJSON is what a consumer pays that takes none of the care: the body alone.
func BenchmarkEncodingJSON(b *testing.B) {
	value := []byte(paymentDoc)
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	for b.Loop() {
		var p payment
		if err := json.Unmarshal(value, &p); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkJSONAny(b *testing.B) {
	d := decode.JSON(func(pawl.Meta, map[string]any) pawl.Identity { return pawl.Identity{Key: "k"} })
	m, value := pawl.NewMeta(&pawl.Record{}), []byte(paymentDoc)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Decode(m, value); err != nil {
			b.Fatal(err)
		}
	}
}
