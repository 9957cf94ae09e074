package decode_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
)

func TestLimits(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	mustDecode[any](t, nested(decode.DefaultMaxDepth))
	refused[any](t, nested(decode.DefaultMaxDepth+1), "it is nested deeper than 64 levels (MaxDepth) (byte 64)")
	refused[any](t, strings.Repeat(`{"a":`, 65), "nested deeper than 64 levels")
	refused[struct{ A int }](t, `{"unknown":`+nested(64)+`}`, "nested deeper") // also where nothing is decoded
	mustDecode[any](t, nested(3), decode.MaxDepth(3))
	refused[any](t, nested(4), "deeper than 3 levels", decode.MaxDepth(3))
	mustDecode[any](t, nested(10_000), decode.MaxDepth(10_000))
	mustDecode[any](t, `[`+strings.Repeat(`[[]],`, 1000)+`{}]`, decode.MaxDepth(3)) // depth, not number

	mustDecode[any](t, `"12345678"`, decode.MaxBytes(10))
	refused[any](t, `"123456789"`, "the value has 11 bytes; at most 10 are read (MaxBytes)", decode.MaxBytes(10))
	mustDecode[any](t, "1"+strings.Repeat(" ", decode.DefaultMaxBytes-1))
	refused[any](t, "1"+strings.Repeat(" ", decode.DefaultMaxBytes), "MaxBytes")

	mustDecode[any](t, `[1e999999999,-1e-999999999,1e+0000000000000000001]`)
	refused[any](t, `{"a":1e1000000000}`, "the number 1e1000000000 at /a: its exponent is beyond ±999999999")
	refused[any](t, `1e-`+strings.Repeat("9", 1<<20), "its exponent is beyond")
}

// TestHostileDocumentsCostTheirSize decodes documents of 256 KiB that are built to be expensive, and bounds the time
// and the memory. The bounds are far above what is measured, for slow machines and the race detector.
func TestHostileDocumentsCostTheirSize(t *testing.T) {
	const size = 256 << 10
	fill := func(open, item, last, end string) string {
		return open + strings.Repeat(item, (size-len(open)-len(end)-len(last))/len(item)) + last + end
	}
	var members, shared, spread bytes.Buffer
	for i := 0; members.Len() < size-20; i++ {
		fmt.Fprintf(&members, `,"%x":0`, uint32(i)*2654435761) // out of order
	}
	for i := 0; shared.Len() < size-64; i++ {
		fmt.Fprintf(&shared, `,"a prefix that is shared %x":0`, uint32(i)*2654435761)
	}
	// Each level is out of order and holds most of the document: moving it at each level would cost the depth.
	inner := strings.Repeat("x", size-64*20)
	for range 62 {
		spread.WriteString(`{"z":0,"a":`)
	}
	spread.WriteString(`"` + inner + `"` + strings.Repeat("}", 62))
	docs := map[string]string{
		"10k nested arrays":     strings.Repeat("[", 10_000),
		"nested to the end":     strings.Repeat("[", size),
		"nested objects":        strings.Repeat(`{"":`, size/4),
		"many numbers":          fill("[", "1,", "1", "]"),
		"empty objects":         fill("[", "{},", "{}", "]"),
		"digits":                fill("0.", "1234567890", "1", ""),
		"zeros":                 fill("1", "0000000000", "0", ""),
		"zeros behind a point":  fill("0.", "0000000000", "1", ""),
		"exponents":             fill("[", "1e400000,", "1e-400000", "]"),
		"digits of an exponent": fill("1e", "0000000000", "1", ""),
		"escapes":               fill(`"`, `\u0000`, "", `"`),
		"surrogates":            fill(`"`, `\ud83d\ude00`, "", `"`),
		"U+FFFD":                fill(`"`, "\ufffd", "\xff", `"`),
		"members":               "{" + members.String()[1:] + "}",
		"members of one prefix": "{" + shared.String()[1:] + "}",
		"the same member":       fill("{", `"a":0,`, `"a":0`, "}"),
		"out of order":          spread.String(),
		"a long name":           fill(`{"`, "N", "", `":0}`),
	}
	for name, doc := range docs {
		if len(doc) > decode.DefaultMaxBytes {
			t.Fatalf("%s: %d bytes", name, len(doc))
		}
		check := func(kind string, decode func() error) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			err := decode()
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			spent := (after.TotalAlloc - before.TotalAlloc) >> 20
			t.Logf("%s: %s: %v, %d MiB, error %.80v", name, kind, took.Round(time.Millisecond), spent, err)
			if took > time.Minute || spent > 100 {
				t.Errorf("%s: %s: took %v and %d MiB", name, kind, took, spent)
			}
		}
		check("skipped", func() error { _, err := decodeAs[struct{ N int }](doc); return err })
		check("any", func() error { _, err := decodeAs[any](doc); return err })
		check("by content", func() error {
			_, err := with[any]().FingerprintBy(func(body any) any { return body }).Decode(pawl.NewMeta(&pawl.Record{}), []byte(doc))
			return err
		})
	}
}
