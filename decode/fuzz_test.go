package decode_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
)

// seeds are the bytes that have hurt others, and one of each thing there is.
func seeds(f *testing.F) {
	for _, spellings := range contents {
		for _, s := range spellings {
			f.Add([]byte(s))
		}
	}
	for _, s := range []string{
		paymentDoc, "", " ", "\x00", "\xff", "\xef\xbb\xbf{}", "{", "[", `"`, `"\`, `"\u`, `"\ud800"`, `"\ud800\u0041"`,
		"\"\xed\xa0\x80\"", "\"\xc0\x80\"", "\"\xf4\x90\x80\x80\"", `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"ID":"1","id":"2"}`,
		`{"key":"\u0000"}`, `[1e400000,-1e-400000,1e999999999999]`, `0.` + strings.Repeat("1", 400), strings.Repeat("[", 70),
		strings.Repeat(`{"a":`, 20) + "1" + strings.Repeat("}", 20), `{"n":01}`, `-`, `1.`, `1e`, "[1]x", "nulll", "\u00a0null",
		`{"key":"` + strings.Repeat("k", 2705) + `"}`, `{"i":9223372036854775807,"u":18446744073709551615}`,
		`{"i":1,"s":"x","sub":{"list":[1,2,{"deep":null}],"when":"2026-09-18T05:43:03Z"},"by":{"a":{"i":2}},"raw":[ 1 ],"data":"AAEC","f":1.5,"n":12,"any":{"x":[1.50]},"q":"12","d":5,"p":null}`,
	} {
		f.Add([]byte(s))
	}
}

// FuzzJSON holds that no bytes make the decoder panic, that it takes nothing encoding/json calls invalid, and that the
// fingerprint and the body survive being written again by another encoder.
func FuzzJSON(f *testing.F) {
	seeds(f)
	d := with[any]()
	f.Fuzz(func(t *testing.T, value []byte) {
		original := bytes.Clone(value)
		got, err := d.Decode(pawl.NewMeta(&pawl.Record{}), value)
		if !bytes.Equal(value, original) {
			t.Fatal("the value was changed")
		}
		if err != nil {
			e, ok := errors.AsType[*decode.Error](err)
			if !ok || e.Offset < 0 || e.Offset > int64(len(value)) || len(err.Error()) > 2000 {
				t.Fatalf("error is %T %v", err, err)
			}
			return
		}
		if !json.Valid(value) {
			t.Fatalf("accepted %q", value)
		}
		dec := json.NewDecoder(bytes.NewReader(value))
		dec.UseNumber()
		var body any
		if err := dec.Decode(&body); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got.Body, body) {
			t.Fatalf("body is %#v, encoding/json has %#v", got.Body, body)
		}
		written, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		again, err := d.Decode(pawl.NewMeta(&pawl.Record{}), written)
		if err != nil {
			t.Fatalf("accepted %q and refused %q: %v", value, written, err)
		}
		if again.Fingerprint != got.Fingerprint {
			t.Fatalf("%q and %q have other fingerprints", value, written)
		}
		by, err := fingerprintByBody.Decode(pawl.NewMeta(&pawl.Record{}), value)
		if err != nil || by.Fingerprint != got.Fingerprint {
			t.Fatalf("%q: FingerprintBy the whole body gives another fingerprint, error %v", value, err)
		}
	})
}

var fingerprintByBody = with[any]().FingerprintBy(func(body any) any { return body })

type fuzzed struct {
	I    int64             `json:"i"`
	U    uint8             `json:"u"`
	S    string            `json:"s"`
	F    float64           `json:"f"`
	N    json.Number       `json:"n"`
	B    *bool             `json:"b"`
	P    *fuzzed           `json:"p"`
	Q    int               `json:"q,string"`
	Any  any               `json:"any"`
	Raw  json.RawMessage   `json:"raw"`
	Data []byte            `json:"data"`
	By   map[string]fuzzed `json:"by"`
	Sub  struct {
		List []any    `json:"list"`
		Ints []int16  `json:"ints"`
		Pair []string `json:"pair"`
	} `json:"sub"`
	FuzzedBase
}

type FuzzedBase struct {
	D int    `json:"d"`
	S string `json:"s"`
}

// FuzzJSONStruct holds that a document that is accepted becomes what encoding/json makes of it. That also shows that no
// name is taken for a field it only resembles: encoding/json takes it, so the bodies would differ.
func FuzzJSONStruct(f *testing.F) {
	seeds(f)
	d, known := with[fuzzed](), with[fuzzed](decode.KnownFieldsOnly())
	f.Fuzz(func(t *testing.T, value []byte) {
		got, err := d.Decode(pawl.NewMeta(&pawl.Record{}), value)
		strict, errStrict := known.Decode(pawl.NewMeta(&pawl.Record{}), value)
		if err != nil {
			if errStrict == nil {
				t.Fatalf("refused %q only without KnownFieldsOnly: %v", value, err)
			}
			return
		}
		if errStrict == nil && !reflect.DeepEqual(got, strict) {
			t.Fatalf("%q: KnownFieldsOnly makes another body", value)
		}
		dec := json.NewDecoder(bytes.NewReader(value))
		dec.UseNumber()
		if errStrict == nil {
			dec.DisallowUnknownFields()
		}
		var want fuzzed
		if err := dec.Decode(&want); err != nil {
			t.Fatalf("accepted %q, encoding/json says %v", value, err)
		}
		if !reflect.DeepEqual(got.Body, want) {
			t.Fatalf("%q:\nbody is           %+v\nencoding/json has %+v", value, got.Body, want)
		}
	})
}
