package decode_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
)

// with returns a decoder of T whose identity does not matter.
func with[T any](opts ...decode.Option) *decode.JSONDecoder[T] {
	return decode.JSON(func(pawl.Meta, T) pawl.Identity { return pawl.Identity{Key: "k"} }, opts...)
}

func decodeAs[T any](value string, opts ...decode.Option) (pawl.Decoded[T], error) {
	return with[T](opts...).Decode(pawl.NewMeta(&pawl.Record{}), []byte(value))
}

func mustDecode[T any](t testing.TB, value string, opts ...decode.Option) pawl.Decoded[T] {
	t.Helper()
	d, err := decodeAs[T](value, opts...)
	if err != nil {
		t.Fatalf("Decode(%.200q): %v", value, err)
	}
	return d
}

// refused decodes value and fails the test unless the error holds want.
func refused[T any](t testing.TB, value, want string, opts ...decode.Option) *decode.Error {
	t.Helper()
	d, err := decodeAs[T](value, opts...)
	if err == nil {
		t.Fatalf("Decode(%.200q) = %+v, want an error with %q", value, d.Body, want)
	}
	if !strings.Contains(err.Error(), want) {
		t.Fatalf("Decode(%.200q): %v, want an error with %q", value, err, want)
	}
	e, ok := errors.AsType[*decode.Error](err)
	if !ok {
		t.Fatalf("Decode(%.200q): error is a %T", value, err)
	}
	if len(err.Error()) > 2000 {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
	return e
}

func TestIdentityComesFromMetaAndBody(t *testing.T) {
	d := decode.JSON(func(m pawl.Meta, p payment) pawl.Identity {
		trace, _ := m.Header("trace")
		return pawl.Identity{Key: m.Topic + "/" + p.AttemptID, CorrelationID: string(trace), Version: p.Version}
	})
	m := pawl.NewMeta(&pawl.Record{
		Partition: pawl.Partition{Topic: "payments"},
		Headers:   []pawl.Header{{Key: "trace", Value: []byte("t1")}},
	})
	got, err := d.Decode(m, []byte(`{"attemptId":"a1","version":3,"amount":5}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := (pawl.Identity{Key: "payments/a1", CorrelationID: "t1", Version: 3}); got.Identity != want {
		t.Errorf("identity is %+v, want %+v", got.Identity, want)
	}
	if want := (payment{AttemptID: "a1", Version: 3, Amount: 5}); got.Body != want {
		t.Errorf("body is %+v, want %+v", got.Body, want)
	}
	if got.Fingerprint == (pawl.Fingerprint{}) {
		t.Error("no fingerprint")
	}
}

func TestBodyDoesNotAliasTheValue(t *testing.T) {
	type body struct {
		S string
		B []byte
		R json.RawMessage
		A any
		N json.Number
	}
	value := []byte(`{"S":"text","B":"AAEC","R":{"x":[1]},"A":{"k":["v",12]},"N":345}`)
	d, err := with[body]().Decode(pawl.NewMeta(&pawl.Record{}), value)
	if err != nil {
		t.Fatal(err)
	}
	for i := range value {
		value[i] = '?'
	}
	want := body{"text", []byte{0, 1, 2}, json.RawMessage(`{"x":[1]}`), map[string]any{"k": []any{"v", json.Number("12")}}, "345"}
	if !reflect.DeepEqual(d.Body, want) {
		t.Errorf("body is %+v, want %+v", d.Body, want)
	}
}

type named interface{}

type numbers struct {
	I   int64          `json:"i"`
	U   uint64         `json:"u"`
	I8  int8           `json:"i8"`
	N   json.Number    `json:"n"`
	A   any            `json:"a"`
	M   map[string]any `json:"m"`
	X   named          `json:"x"`
	F   float64        `json:"f"`
	S   int64          `json:"s,string"`
	PN  *json.Number   `json:"pn"`
	Raw map[string]int `json:"raw"`
}

func TestNumbersAreExact(t *testing.T) {
	const big = "9007199254740993" // 2^53+1, which no float64 holds
	n := json.Number(big)
	doc := strings.ReplaceAll(`{"i":N,"u":N,"n":N,"a":N,"m":{"k":[N,{"l":N}]},"x":{"y":N},"s":"N","pn":N,"raw":{"r":N}}`, "N", big)
	want := numbers{
		I: 9007199254740993, U: 9007199254740993, N: n, A: n, S: 9007199254740993, PN: &n,
		M:   map[string]any{"k": []any{n, map[string]any{"l": n}}},
		X:   map[string]any{"y": n},
		Raw: map[string]int{"r": 9007199254740993},
	}
	if got := mustDecode[numbers](t, doc).Body; !reflect.DeepEqual(got, want) {
		t.Errorf("body is %+v, want %+v", got, want)
	}
	if got := mustDecode[any](t, big).Body; got != any(n) {
		t.Errorf("any is %T %v, want json.Number", got, got)
	}
	if got := mustDecode[map[string]any](t, `{"v":1e400000}`).Body["v"]; got != json.Number("1e400000") {
		t.Errorf("any is %T %v, want json.Number", got, got)
	}
}

func TestNumberThatDoesNotFitIsRefused(t *testing.T) {
	for doc, where := range map[string]string{
		`{"i":9223372036854775808}`:          "/i",
		`{"i":-9223372036854775809}`:         "/i",
		`{"u":18446744073709551616}`:         "/u",
		`{"u":-1}`:                           "/u",
		`{"i8":128}`:                         "/i8",
		`{"i":1.5}`:                          "/i",
		`{"i":1.0}`:                          "/i",
		`{"i":1e2}`:                          "/i",
		`{"f":1e400000}`:                     "/f",
		`{"s":"1.5"}`:                        "/s",
		`{"s":"NaN"}`:                        "/s",
		`{"s":12}`:                           "/s",
		`{"n":"12x"}`:                        "/n",
		`{"n":" 12"}`:                        "/n",
		`{"n":true}`:                         "/n",
		`{"raw":{"r":99999999999999999999}}`: "/raw/r",
		`{"i":` + strings.Repeat("9", 1000) + `}`:       "/i",
		`{"f":` + strings.Repeat("9", 1000) + `.5e999}`: "/f",
	} {
		if e := refused[numbers](t, doc, "does not fit"); e.Pointer != where {
			t.Errorf("%.100s: pointer is %q, want %q", doc, e.Pointer, where)
		}
	}
}

func TestMalformedDocumentIsRefused(t *testing.T) {
	for _, c := range []struct{ doc, want string }{
		{"", "empty"},
		{" ", "cut off"},
		{"\xef\xbb\xbf{}", "0xef at the root: a value is due (byte 0)"},
		{"{} {}", `'{' at the root: the document has ended (byte 3)`},
		{"1 2", "the document has ended"},
		{"nul", "a value is due"},
		{"nulll", "the document has ended"},
		{"True", "a value is due"},
		{"{", "cut off"},
		{"[", "cut off"},
		{`{"a"`, "cut off"},
		{`{"a":`, "cut off"},
		{`{"a":1`, "cut off"},
		{`{"a":1,`, "cut off"},
		{`{"a":1,}`, "the name of a member is due"},
		{`{,}`, "the name of a member is due"},
		{`{a:1}`, "the name of a member is due"},
		{`{"a" 1}`, "a colon is due"},
		{`{"a":1 "b":2}`, "a comma or } is due"},
		{`{"a":1]`, "a comma or } is due"},
		{`[1,]`, "a value is due"},
		{`[1 2]`, "a comma or ] is due"},
		{`[1}`, "a comma or ] is due"},
		{`]`, "a value is due"},
		{`'a'`, "a value is due"},
		{"[1,\v2]", "a value is due"},
		{"\u00a01", "a value is due"},
		{`"a`, "cut off"},
		{`"abcdefgh`, "cut off"},
		{`"a\`, "cut off"},
		{`"a\"`, "cut off"},
		{"\"a\nb\"", "the control character 0x0a at the root: it must be escaped in a string (byte 2)"},
		{"\"\\t\x00\"", "0x00"},
		{`"\x41"`, "there is no such escape"},
		{`"\u12"`, "four hexadecimal digits"},
		{`"\u12g4"`, "four hexadecimal digits"},
		{`"\u123`, "four hexadecimal digits"},
		{"\"\xff\"", "the byte 0xff at the root: it is not valid UTF-8 (byte 1)"},
		{"{\"k\":\"\\n\ufffd\xc3\x28\"}", "the byte 0xc3 at /k: it is not valid UTF-8 (byte 11)"},
		{"{\"\xed\xa0\x80\":1}", "UTF-8"},
		{"\"\xc0\xaf\"", "UTF-8"},
		{`"\ud800"`, `"\\ud800" at the root: half a surrogate pair`},
		{`["ok","\ud800\ud800"]`, `at /1: half a surrogate pair`},
		{`"\udc00\ud800"`, "half a surrogate pair"},
		{`"\ud800x"`, "half a surrogate pair"},
		{`"\ud800\`, "half a surrogate pair"},
		{"-", "cut off"},
		{"-a", "a digit is due"},
		{"+1", "a value is due"},
		{".5", "a value is due"},
		{"01", "it must not start with a zero"},
		{"-00", "it must not start with a zero"},
		{"1.", "cut off"},
		{"1.e1", "a digit is due"},
		{"1e", "cut off"},
		{"1e+", "cut off"},
		{"1ex", "a digit is due"},
		{"0x10", "the document has ended"},
		{"NaN", "a value is due"},
		{"Infinity", "a value is due"},
		{"-Infinity", "a digit is due"},
		{`{"a":{"b":[0,{"c":tru}]}}`, "at /a/b/1/c: a value is due (byte 18)"},
		{`{"a/b~":[?]}`, "at /a~1b~0/0:"},
	} {
		refused[any](t, c.doc, c.want)
	}
}

func TestTombstoneIsRefusedByName(t *testing.T) {
	if _, err := with[any]().Decode(pawl.NewMeta(&pawl.Record{}), nil); err == nil || !strings.Contains(err.Error(), "tombstone") {
		t.Errorf("error is %v", err)
	}
}

func TestNameThatIsThereTwiceIsRefused(t *testing.T) {
	for doc, want := range map[string]string{
		`{"a":1,"a":1}`:            `"a" at the root: the name is there twice (byte 7)`,
		`{"a":1,"b":2,"\u0061":3}`: `"a" at the root: the name is there twice (byte 13)`,
		`{"b":1,"a":2,"b":3}`:      `"b" at the root: the name is there twice (byte 13)`,
		`{"x":[{"q":{"long name 1":1,"long name 2":2,"long name 1":3}}]}`: `"long name 1" at /x/0/q: the name is there twice`,
		`{"":1,"":2}`:                          `"" at the root: the name is there twice`,
		`{"unknown":{"deep":[{"k":0,"k":0}]}}`: `"k" at /unknown/deep/0`,
	} {
		refused[any](t, doc, want)
		refused[struct{ Z int }](t, doc, want)
		refused[json.RawMessage](t, doc, want)
	}
	// What only looks alike is not the same name.
	for _, doc := range []string{`{"a":1,"a\u0000":2}`, `{"abcdefgh":1,"abcdefgh\u0000":2,"abcdefg":3}`, `{"é":1,"e\u0301":2}`, `{"k":1,"K":2}`} {
		mustDecode[any](t, doc)
	}
}

func TestErrorsOfUnmarshalJSONAreUnwrapped(t *testing.T) {
	e := refused[struct{ V stubborn }](t, `{"V":[1,2]}`, "at /V: it does not fit decode_test.stubborn: never")
	if !errors.Is(e, errNever) {
		t.Errorf("%v does not unwrap", e)
	}
}

var errNever = errors.New("never")

type stubborn struct{}

func (*stubborn) UnmarshalJSON([]byte) error { return errNever }

func TestErrorsAreShortAndPrintable(t *testing.T) {
	long := strings.Repeat("é", 1<<19)
	refused[any](t, `{"`+long+`":?}`, "at /éé")
	refused[any](t, `{"`+long+`":1,"`+long+`":1}`, "twice")
	refused[struct{ ID int }](t, `{"id\u001b[31m":{"id\n":`+strings.Repeat("[", 90), "MaxDepth")
	e := refused[any](t, `{"a\n\u001b[31m":?}`, `at "/a\n\x1b[31m": a value`)
	if e.Pointer != "/a\n\x1b[31m" {
		t.Errorf("pointer is %q", e.Pointer)
	}
	refused[struct{ N int }](t, `{"N":`+strings.Repeat("1", 1<<20)+`}`, "does not fit int")
	deep := strings.Repeat(`{"a name of some length":`, 9000)
	refused[any](t, deep+"?", "a value is due", decode.MaxDepth(10_000))
}

func ExampleJSON() {
	type Payment struct {
		ID        string `json:"id"`
		MessageID string `json:"messageId"`
		Amount    int64  `json:"amount"`
	}
	payments := decode.JSON(func(m pawl.Meta, p Payment) pawl.Identity {
		return pawl.Identity{Key: p.ID, MessageID: p.MessageID}
	}, decode.EnvelopeFields("messageId"))

	m := pawl.NewMeta(&pawl.Record{})
	first, _ := payments.Decode(m, []byte(`{"id":"p1","messageId":"m1","amount":9007199254740993}`))
	again, _ := payments.Decode(m, []byte(`{"amount": 9007199254740993, "id": "p1", "messageId": "m2"}`))
	other, _ := payments.Decode(m, []byte(`{"id":"p1","messageId":"m3","amount":9007199254740992}`))
	fmt.Println("sent again, same content:", first.Fingerprint == again.Fingerprint)
	fmt.Println("another amount, same content:", first.Fingerprint == other.Fingerprint)

	_, err := payments.Decode(m, []byte(`{"ID":"p1","amount":5}`))
	fmt.Println(err)
	// Output:
	// sent again, same content: true
	// another amount, same content: false
	// json: "ID" at the root: the field is "id" (byte 1)
}
