package decode_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
)

func fingerprint(t testing.TB, doc string, opts ...decode.Option) pawl.Fingerprint {
	t.Helper()
	return mustDecode[json.RawMessage](t, doc, opts...).Fingerprint
}

// TestFingerprintsAreFrozen holds values that stores have kept. If it fails, every copy of an event that was decided
// before becomes a conflict: change the code back, not the values.
func TestFingerprintsAreFrozen(t *testing.T) {
	for doc, want := range map[string]string{
		`null`:                                   "7c9f59eaefe68a21522d6967a1314daf",
		`true`:                                   "9661fcbe25e8b89966c2344f87802475",
		`0`:                                      "d2c397e344d913c93e00cc66ba7d8c04",
		`-12.50e3`:                               "29cae6961dcdbb35de8180f5c86d9823",
		`"pawl ü"`:                               "0194f1883db204dce1f9b8b672454fdf",
		`[]`:                                     "e44ab654e4bd5c60d59f6843724a6b9f",
		`{}`:                                     "b721a827a194f13dacf4fbd5342223ea",
		`{"b":[1,{"z":null,"y":false}],"a":"x"}`: "ad018a5897b8936ad0cc97be3851e105",
		paymentDoc:                               "d8bece9a74cddc5ef5bba8d421a4fed9",
	} {
		f := fingerprint(t, doc)
		if got := hex.EncodeToString(f[:]); got != want {
			t.Errorf("%s: fingerprint is %s, want %s", doc, got, want)
		}
	}
}

// TestFingerprintIsOfTheWrittenForm spells the form out once, as the comment on content describes it.
func TestFingerprintIsOfTheWrittenForm(t *testing.T) {
	const doc = `{"b":[1,-250,0.5,{"z":null,"y":false}],"":true,"a":"é"}`
	const form = "pawl/json/1\n" + "{" +
		"k\x00" + "t" +
		"k\x01a" + "s\x02é" +
		"k\x01b" + "[" + "n\x011\x00" + "m\x0225\x02" + "n\x015\x01" + "{" + "k\x01y" + "f" + "k\x01z" + "z" + "}" + "]" +
		"}"
	sum := sha256.Sum256([]byte(form))
	if got := fingerprint(t, doc); string(got[:]) != string(sum[:16]) {
		t.Errorf("fingerprint is %x, want %x", got, sum[:16])
	}
}

// Each line holds spellings of one content. No two lines are the same content.
var contents = [][]string{
	{`null`, ` null `, "\t\r\nnull\n"},
	{`true`}, {`false`},
	{`0`, `-0`, `0.0`, `-0.000`, `0e5`, `0E-999999999`, `-0.0e+7`},
	{`1`, `1.0`, `1e0`, `10e-1`, `0.1e1`, `0.01E+2`, `1.000`, `1000e-3`},
	{`-1`, `-1.0`, `-10e-1`},
	{`10`, `1e1`, `1E1`, `1e+1`, `1e01`, `100e-1`, `10.0`},
	{`100`, `1e2`}, {`101`}, {`1.01`}, {`0.1`, `1e-1`, `0.10`},
	{`9007199254740992`, `9007199254740992.0`, `9.007199254740992e15`},
	{`9007199254740993`, `9007199254740993e0`, `0.9007199254740993e16`},
	{`0.30000000000000004`}, {`0.3`},
	{`1e400000`, `10e399999`, `0.1e400001`}, {`1e400001`}, {`1e-400000`},
	{`1e999999999`, `10e999999998`}, {`10e999999999`},
	{`""`}, {`"a"`, `"\u0061"`}, {`"A"`}, {`"1"`}, {`"null"`}, {`"0"`},
	{`"/"`, `"\/"`, `"\u002f"`, `"\u002F"`},
	{`"\n"`, `"\u000a"`}, {`"\\n"`, `"\u005cn"`},
	{`"😀"`, `"\ud83d\ude00"`, `"\uD83D\uDE00"`},
	{`"é"`, `"\u00e9"`}, {`"e\u0301"`}, {`"\u0000"`}, {`"\u0000\u0000"`}, {`"\ufffd"`, `"�"`},
	{`[]`, `[ ]`}, {`[[]]`}, {`[[],[]]`}, {`[[[]]]`}, {`[null]`}, {`[null,null]`}, {`[""]`}, {`["",""]`},
	{`[1,2]`, `[1.0 , 2e0]`}, {`[2,1]`}, {`[12]`}, {`["1","2"]`}, {`["12"]`}, {`["1,2"]`}, {`["a","bc"]`}, {`["ab","c"]`}, {`[[1],2]`}, {`[1,[2]]`},
	{`{}`, `{ }`}, {`[{}]`}, {`{"":null}`}, {`{"a":null}`}, {`{"a":{}}`}, {`{"a":""}`}, {`{"a":"null"}`}, {`["a",null]`},
	{`{"a":1,"b":2}`, `{"b":2,"a":1}`, "{ \"b\" : 2e0 ,\n\"\\u0061\":1.0}"},
	{`{"a":2,"b":1}`}, {`{"a":1}`}, {`{"a":1,"b":2,"c":null}`}, {`{"a":{"b":2}}`}, {`{"ab":1}`},
	// These would meet if text or names were written without their length.
	{`["a","b"]`}, {`["asb"]`}, {`{"a":true,"b":true}`}, {`{"atkb":true}`}, {`{"a":[]}`, `{"a":[ ]}`}, {`{"a[":true}`},
	{`{"a":"kb","b":1}`, `{"b":1,"a":"kb"}`}, {`{"a":"","kb":1}`},
	{
		`{"z":{"b":[{"d":1,"c":2}],"a":3},"y":{"a":1,"b":2},"x":[{"q":{"2":0,"1":0}}]}`,
		`{"x":[{"q":{"1":0,"2":0}}],"y":{"b":2,"a":1},"z":{"a":3,"b":[{"c":2,"d":1}]}}`,
		`{"y":{"a":1,"b":2},"x":[{"q":{"2":0,"1":0}}],"z":{"a":3,"b":[{"d":1,"c":2}]}}`,
	},
	{`{"abcdefgh":1,"abcdefgh1":2,"abcdefg":3}`, `{"abcdefg":3,"abcdefgh":1,"abcdefgh1":2}`, `{"abcdefgh1":2,"abcdefgh":1,"abcdefg":3}`},
	{`{"a":1,"a\u0000":2}`, `{"a\u0000":2,"a":1}`}, {`{"a":2,"a\u0000":1}`},
	{`{"` + strings.Repeat("n", 255) + `":1}`}, {`{"` + strings.Repeat("n", 127) + `":1}`}, {`{"` + strings.Repeat("n", 128) + `":1}`},
}

func TestFingerprintIsOfTheContent(t *testing.T) {
	seen := map[pawl.Fingerprint]string{}
	for _, spellings := range contents {
		first := fingerprint(t, spellings[0])
		for _, s := range spellings[1:] {
			if fingerprint(t, s) != first {
				t.Errorf("%s and %s say the same and have other fingerprints", spellings[0], s)
			}
		}
		if other, ok := seen[first]; ok {
			t.Errorf("%s and %s have one fingerprint", other, spellings[0])
		}
		seen[first] = spellings[0]
	}
}

func TestFingerprintDoesNotDependOnTheType(t *testing.T) {
	want := fingerprint(t, paymentDoc)
	for name, got := range map[string]pawl.Fingerprint{
		"struct": mustDecode[payment](t, paymentDoc).Fingerprint,
		"any":    mustDecode[any](t, paymentDoc).Fingerprint,
		"lossy":  mustDecode[struct{}](t, paymentDoc).Fingerprint,
		"known":  mustDecode[payment](t, paymentDoc, decode.KnownFieldsOnly()).Fingerprint,
	} {
		if got != want {
			t.Errorf("%s: another fingerprint", name)
		}
	}
	// A type that keeps only the id must not hide that the amount differs.
	type lossy struct{ ID string }
	if mustDecode[lossy](t, `{"ID":"1","amount":1}`).Fingerprint == mustDecode[lossy](t, `{"ID":"1","amount":2}`).Fingerprint {
		t.Error("a field that the type does not keep is not in the fingerprint")
	}
}

func TestEnvelopeFieldsAreLeftOut(t *testing.T) {
	env := decode.EnvelopeFields("messageId", "sentAt")
	want := fingerprint(t, `{"a":1,"z":{"y":1,"x":2}}`)
	for _, doc := range []string{
		`{"a":1,"z":{"x":2,"y":1}}`,
		`{"messageId":"m1","a":1,"z":{"y":1,"x":2}}`,
		`{"a":1,"messageId":{"b":[1],"a":2},"sentAt":5,"z":{"y":1,"x":2}}`,
		`{"z":{"y":1,"x":2},"sentAt":[{"q":1,"p":2}],"a":1,"message\u0049d":null}`,
	} {
		if fingerprint(t, doc, env) != want {
			t.Errorf("%s: another fingerprint", doc)
		}
	}
	for _, doc := range []string{
		`{"a":1,"z":{"y":1,"x":2},"MessageId":1}`,   // names are exact
		`{"a":1,"z":{"y":1,"x":2,"messageId":1}}`,   // and of the outermost object
		`[{"a":1,"z":{"y":1,"x":2},"messageId":1}]`, // which an array is not
		`{"a":1,"z":{"y":1,"x":2},"other":"messageId"}`,
	} {
		if f := fingerprint(t, doc, env); f == want || f != fingerprint(t, doc) {
			t.Errorf("%s: something was left out", doc)
		}
	}
	if fingerprint(t, `{"messageId":1}`, env) != fingerprint(t, `{}`) {
		t.Error("an object of envelope fields is not an empty one")
	}
	refused[any](t, `{"messageId":1,"a":2,"messageId":3}`, `"messageId" at the root: the name is there twice`, env)
	got := mustDecode[payment](t, `{"messageId":"m1"}`, env).Body
	if got.MessageID != "m1" {
		t.Error("an envelope field was not decoded")
	}
}

func TestFingerprintBy(t *testing.T) {
	type body struct {
		ID     string         `json:"id"`
		Amount json.Number    `json:"amount"`
		Trace  string         `json:"trace"`
		More   map[string]any `json:"more"`
	}
	whole := with[body]()
	by := whole.FingerprintBy(func(b body) any {
		return map[string]any{"id": b.ID, "amount": b.Amount, "more": b.More}
	})
	m := pawl.NewMeta(&pawl.Record{})
	sum := func(d pawl.Decoder[body], doc string) pawl.Fingerprint {
		got, err := d.Decode(m, []byte(doc))
		if err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
		return got.Fingerprint
	}
	const first = `{"id":"1","amount":9007199254740993,"trace":"t1","more":{"b":1.0,"a":["x"]}}`
	const again = `{"trace":"t2","unknown":true,"more":{"a":["\u0078"],"b":1},"amount":9007199254740993.0,"id":"1"}`
	const other = `{"id":"1","amount":9007199254740992,"trace":"t1","more":{"b":1.0,"a":["x"]}}`
	if sum(by, first) != sum(by, again) || sum(by, first) == sum(by, other) {
		t.Error("the fingerprint is not of the content")
	}
	if sum(whole, first) == sum(whole, again) {
		t.Error("FingerprintBy changed the decoder it was called on")
	}
	if want := fingerprint(t, `{"more":{"a":["x"],"b":1},"id":"1","amount":9007199254740993}`); sum(by, first) != want {
		t.Error("the fingerprint is not that of the document with this content")
	}
	for name, content := range map[string]any{
		"broken text": "\xff", "no JSON": func() {}, "no number": json.Number("1e1000000000"), "not a number at all": json.Number("x"),
	} {
		d := whole.FingerprintBy(func(body) any { return content })
		if _, err := d.Decode(m, []byte(`{}`)); err == nil || !strings.HasPrefix(err.Error(), "fingerprint: ") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}

func TestDecodersAreSafeForSeveralGoroutines(t *testing.T) {
	d := decode.JSON(paymentIdentity, decode.EnvelopeFields("messageId"))
	m := pawl.NewMeta(&pawl.Record{})
	want, err := d.Decode(m, []byte(paymentDoc))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 500 {
				if i%3 == 0 {
					_, _ = d.Decode(m, []byte(paymentDoc[:i%len(paymentDoc)])) // leaves a scanner in the middle
				}
				if got, err := d.Decode(m, []byte(paymentDoc)); err != nil || got != want {
					t.Errorf("decoded %+v, error %v", got, err)
					return
				}
			}
		})
	}
	wg.Wait()
}
