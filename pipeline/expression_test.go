package pipeline

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
)

var exprScope = scope{
	"$": dynKind, "headers": mapKind, "meta.key": textKind, "meta.topic": textKind, "meta.timestamp": timeKind,
	"event.id": textKind, "event.type": textKind, "event.version": intKind, "event.at": timeKind, "event.stream": textKind,
}

const exprDocument = `{"id":"e1","n":9007199254740993,"amount":12.50,"whole":100.00,"big":123456789012345678901234567890,
	"status":"open","tier":"gold","ok":true,"none":null,"at":"2026-07-01T10:20:30Z","huge":1e400,
	"a":{"b":{"c":"deep"},"list":[{"x":1},{"x":2}]},"odd name":"yes"}`

func exprInput(t testing.TB, document string) *input {
	t.Helper()
	got, err := decode.JSON[any](noIdentity).Decode(pawl.Meta{}, []byte(document))
	if err != nil {
		t.Fatal(err)
	}
	return &input{
		doc: &Document{Body: got.Body, Key: []byte("k"), Topic: "orders", Timestamp: time.Unix(1, 0).UTC()},
		id:  &pawl.Identity{Key: "e1", EventID: "e1", Type: "OPENED", Version: 7, OccurredAt: time.Date(2026, 7, 1, 10, 20, 30, 0, time.UTC)},
		headers: []pawl.Header{
			{Key: "tenant", Value: []byte("old")}, {Key: "tenant", Value: []byte("acme")}, {Key: "x-id", Value: []byte("7")}, {Key: "bad", Value: []byte{0xff}},
		},
	}
}

// shown is a value as text, with its kind.
func shown(v any) string {
	switch v := v.(type) {
	case decimal:
		return "decimal " + v.text()
	case nil:
		return "null"
	}
	if v == absent {
		return "absent"
	}
	text, err := convert(v, textKind)
	if err != nil {
		return describe(v)
	}
	return describe(v) + " " + text.(string)
}

func TestExpressions(t *testing.T) {
	in := exprInput(t, exprDocument)
	for _, c := range []struct{ text, want string }{
		// Plain paths.
		{"$.id", "a text e1"},
		{"$.a.b.c", "a text deep"},
		{"$.a.list[1].x", "a number 2"},
		{`$["odd name"]`, "a text yes"},
		{"$.none", "null"},
		{"$.?nothing", "absent"},
		{"$.?nothing.at.all", "absent"},
		{"$.?none.x", "absent"},
		{"$.a.?list", "a list"},
		{"$", "an object"},
		{"event.id", "a text e1"},
		{"event.version", "a number 7"},
		{"event.at", "a time 2026-07-01T10:20:30Z"},
		{"event.stream", "absent"},
		{"headers.tenant", "a text acme"},
		{`headers["x-id"]`, "a text 7"},
		{"headers.?other", "absent"},
		{"meta.key", "a text k"},
		{"meta.topic", "a text orders"},
		{"42", "a number 42"},
		{"'EUR'", "a text EUR"},
		// Types around paths.
		{"int($.n)", "a number 9007199254740993"},
		{"int($.whole)", "a number 100"},
		{"int(headers['x-id'])", "a number 7"},
		{"decimal($.amount)", "decimal 12.50"},
		{"decimal($.big)", "decimal 123456789012345678901234567890"},
		{"decimal($.n)", "decimal 9007199254740993"},
		{"string($.n)", "a text 9007199254740993"},
		{"string($.whole)", "a text 100"},
		{"timestamp($.at)", "a time 2026-07-01T10:20:30Z"},
		{"bool($.ok)", "a boolean true"},
		{"json($.a.list)", "a list"},
		{"int($.?nothing)", "absent"},
		{"int($.none)", "null"},
		// CEL.
		{`$.amount > 10 && $.status == "open" && $.tier in ["gold", "platinum"]`, "a boolean true"},
		{`10 < $.amount`, "a boolean true"},
		{`$.amount == decimal("12.5")`, "a boolean true"},
		{`$.whole == 100`, "a boolean true"},
		{`$.n == 9007199254740993`, "a boolean true"},
		{`$.n == 9007199254740992`, "a boolean false"},
		{`decimal($.amount) * 3`, "decimal 37.50"},
		{`1 + $.amount`, "decimal 13.50"},
		{`$.amount - 12`, "decimal 0.50"},
		{`-decimal("1.10")`, "decimal -1.10"},
		{`decimal("0.1") + decimal("0.2") == decimal("0.3")`, "a boolean true"},
		{`$.tier + "/" + $.status`, "a text gold/open"},
		{`"$" + $.tier + '\'$'`, "a text $gold'$"},
		{`string($.amount)`, "a text 12.5"},
		{`event.type == "OPENED" && event.version + 1 == 8`, "a boolean true"},
		{`headers.tenant == "acme"`, "a boolean true"},
		{`$.a.list.exists(l, l.x == 2)`, "a boolean true"},
		{`$.?nothing.orValue("none")`, "a text none"},
		{`has($.nothing) ? "a" : "b"`, "a text b"},
		{`truncate(event.at, duration("1h"))`, "a time 2026-07-01T10:00:00Z"},
		{`$.a.list.map(l, l.x)`, "a list"},
		{`true`, "a boolean true"},
		{`7 / 2`, "a number 3"},
	} {
		p, err := compile(c.text, exprScope)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if v, err := p.eval(in); err != nil || shown(v) != c.want {
			t.Errorf("%s is %s, %v; want %s", c.text, shown(v), err, c.want)
		}
	}
}

// What is missing or of another type is an error: nothing stands in for it.
func TestAnExpressionThatFailsHasNoValue(t *testing.T) {
	in := exprInput(t, exprDocument)
	deep := strings.Repeat("[1].map(x, ", 20) + "[1]" + strings.Repeat(")", 20)
	for _, c := range []struct{ text, want string }{
		{"$.nothing", "$.nothing is missing"},
		{"$.a.nothing.more", "$.a.nothing is missing"},
		{"$.none.x", "what it is in is null"},
		{"$.id.x", "what it is in is a text"},
		{"$.a[0]", "an object has no element 0"},
		{"$.a.list.x", `a list has no member "x"`},
		{"$.a.list[2]", "is missing"},
		{"headers.nothing", "headers.nothing is missing"},
		{"headers.bad", "not UTF-8"},
		{"int($.amount)", "no whole number"},
		{"int($.big)", "no whole number"},
		{"int($.status)", "no whole number"},
		{"bool($.status)", "a text is no bool"},
		{"timestamp($.status)", "no time of RFC 3339"},
		{"decimal($.status)", "no decimal number"},
		{"decimal($.huge)", ""}, // 401 digits are within bounds
		{`$.nothing == "x"`, "no such key: nothing"},
		{`$.status > 1`, "no such overload"},
		{`$.id + 1 == 2`, "no such overload"},
		{`event.stream == "x"`, "there is no event.stream"},
		{`$.amount / 2 > 1`, "no such overload"},
		{`decimal("1e9999") + 1 > 0`, "more than 1000 digits"},
		{`decimal("1e9999") > 0`, "more than 1000 digits"},
		{`decimal("NaN") > 0`, "no decimal number"},
		{`9223372036854775807 + event.version > 0`, "overflow"},
		{`["a","b"].all(x, ` + deep + `.size() == 1)`, ""},
		{`$.a.list.all(a, $.a.list.all(b, range($.n, a, b)))`, "undeclared"},
	} {
		p, err := compile(c.text, exprScope)
		if err == nil {
			_, err = p.eval(in)
		}
		if c.want == "" {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", c.text, err, c.want)
		}
	}
}

// allocates fails what allocates more than so many MiB in all.
func allocates(t *testing.T, most int, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	used := int((after.TotalAlloc - before.TotalAlloc) >> 20)
	t.Logf("%d MiB", used)
	if used > most {
		t.Errorf("it allocated %d MiB; %d MiB are allowed", used, most)
	}
}

func TestAnExpressionThatCostsTooMuchIsStopped(t *testing.T) {
	in := exprInput(t, `{"l":[`+strings.Repeat("1,", 999)+`1],"s":"`+strings.Repeat("x", 5000)+`"}`)
	for _, text := range []string{
		`$.l.all(a, $.l.all(b, $.l.all(c, a + b + c == 3)))`,
		`$.l.map(x, $.s + $.s + $.s).size() == 0`,
	} {
		p, err := compile(text, exprScope)
		if err != nil {
			t.Fatal(err)
		}
		allocates(t, 20, func() {
			if v, err := p.eval(in); err == nil || !strings.Contains(err.Error(), "cost limit") {
				t.Errorf("%s: %v, %v", text, v, err)
			}
		})
	}
}

func TestAnExpressionThatDoesNotCompileSaysWhy(t *testing.T) {
	for _, c := range []struct{ text, want, hint string }{
		{"evnt.type == 'x'", "undeclared reference to 'evnt.type'", ""},
		{"event.typ", "event.typ is not known here", "did you mean event.type?"},
		{"event.supersedes", "event.supersedes is not known", "declare it in the event section"},
		{"event.typ == 'x'", "undeclared", ""},
		{"meta.offset", "meta.offset is not known", ""},
		{"$.amount > 1.5", "a float", `decimal("12.50")`},
		{"$.amount == 12.5", "a float", `decimal("12.50")`},
		{"[1, 2.5].size() == 2", "a float", ""},
		{"double($.n) > 0", "undeclared reference to 'double'", ""},
		{"$.a +", "it ends too early", ""},
		{"truncat(event.at, duration('1h'))", "undeclared", "did you mean truncate?"},
		{"event.version + 'x'", "does not take", ""},
		{"$.?tenant == 'a'", "== does not take (any value that may be absent, text)", `$.?name.orValue("")`},
		{"string($.?tenant) == 'a'", "string does not take (any value that may be absent)", "orValue"},
		{"json($.a + $.b)", "json() takes a plain path", ""},
		{"event.id.x", "it has no members", ""},
		{strings.Repeat("(", 100) + "1" + strings.Repeat(")", 100), "", ""},
		{strings.Repeat("1+", 3000) + "1", "at most 4096", ""},
	} {
		p, err := compile(c.text, exprScope)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v; want %s", clip(c.text, 60), p, err, c.want)
		}
		if e, ok := err.(*celError); c.hint != "" && (!ok || !strings.Contains(e.hint, c.hint)) {
			t.Errorf("%s: %#v; want the hint %s", clip(c.text, 60), err, c.hint)
		}
	}
}

func TestTheKindOfAnExpressionIsKnownWhenItIsCompiled(t *testing.T) {
	for text, want := range map[string]kind{
		"$.a": dynKind, "event.version": intKind, "event.at": timeKind, "decimal($.a)": decimalKind, "decimal($.a) + 1": decimalKind,
		"$.a == 1": boolKind, "'a' + event.id": textKind, "json($.a)": jsonKind, "truncate(event.at, duration('1h'))": timeKind, "1": intKind,
		"{'a': $.b}": jsonKind,
	} {
		if p, err := compile(text, exprScope); err != nil || p.kind != want {
			t.Errorf("%s: %v, %v; want %s", text, p, err, want)
		}
	}
}

func TestOnlyDecimalNumbersAreDecimals(t *testing.T) {
	for text, ok := range map[string]bool{
		"0": true, "-12.50": true, "1e3": true, "1E+3": true, "1.5e-3": true, "007": true,
		"": false, "-": false, "+1": false, ".5": false, "5.": false, "1e": false, "1e+": false, "NaN": false, "Infinity": false, "1_000": false, "0x1f": false, " 1": false, "1 ": false, "1e1234567890": false, "--1": false, "1.2.3": false,
	} {
		if _, err := parseDecimal(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}
