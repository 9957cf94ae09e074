//go:build unix

package pipeline

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pawlhq/pawl"
)

// costs fails what allocates more than so many MiB in all, or computes for long. It is the time of the processor that
// counts: others may be at work on this machine.
func costs(t *testing.T, most int, f func()) {
	t.Helper()
	const longest = time.Minute // with the race detector, and far more than it takes: what grows with a square takes many
	begin := computed(t)
	allocates(t, most, f)
	if took := computed(t) - begin; took > longest {
		t.Errorf("it took %s; %s are allowed", took, longest)
	}
}

func computed(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Whatever is in a file, reading it costs little: what would cost more is refused before.
func TestAHostileFileCostsLittle(t *testing.T) {
	lines := func(n int, line func(i int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(line(i))
		}
		return b.String()
	}
	repeat := func(part string, most int) string { return strings.Repeat(part, most/len(part)) }
	for name, text := range map[string]string{
		"aliases of aliases": "a0: &a0 [x]\n" + lines(60, func(i int) string {
			return fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 20), ","))
		}),
		"merges of merges": "a0: &a0 {x: y}\n" + lines(60, func(i int) string {
			return fmt.Sprintf("a%d: &a%d\n  <<: [*a%d, *a%d]\n", i+1, i+1, i, i)
		}),
		"an alias of itself":            "a: &a [*a, *a]\npipelines: *a\n",
		"lists in lists":                "a: " + strings.Repeat("[", 200000),
		"lists in lists, line by line":  lines(200000, func(int) string { return "[\n" }),
		"mappings in mappings":          lines(1400, func(i int) string { return strings.Repeat(" ", i) + "a:\n" }),
		"lists without brackets":        repeat("- ", maxLineBytes-1),
		"keys of keys":                  repeat("? ", maxLineBytes-1),
		"both in turn":                  repeat("- ? ", maxLineBytes-1),
		"tags of tags":                  "a: " + repeat("!t ", maxLineBytes-10),
		"anchors of anchors":            "a: " + repeat("&t ", maxLineBytes-10),
		"a bracket closed too often":    lines(500, func(int) string { return "]]]]]]]]]][[[[[[[[[[\n" }),
		"brackets within texts":         lines(5000, func(int) string { return "\"[\": '{'\n" }),
		"many keys":                     lines(90000, func(i int) string { return fmt.Sprintf("k%d: 1\n", i) }),
		"many keys in flow":             "a: {" + lines(60000, func(i int) string { return fmt.Sprintf("k%d: 1,\n", i) }) + "}",
		"one key many times":            lines(999, func(int) string { return "a: 1\n" }),
		"many pipelines":                "version: 1\npipelines:\n" + lines(20000, func(i int) string { return fmt.Sprintf("  p%d: {topic: t, a: b}\n", i) }),
		"many documents":                lines(100000, func(int) string { return "---\na: b\n" }),
		"a long text":                   "a: |\n" + lines(100000, func(int) string { return "  xxxxxxx\n" }),
		"a long folded text":            "a: >\n" + lines(100000, func(int) string { return "  xxxxxxx\n" }),
		"a long text over lines":        "a: \"" + lines(100000, func(int) string { return "  xxxxxxx\n" }) + "\"",
		"a long comment":                lines(100000, func(int) string { return "# xxxxxxx\n" }),
		"a large number":                "version: 1e999999999\npipelines: {p: {limits: {workers: 99999999999999999999999}}}",
		"a large duration":              "version: 1\npipelines: {p: {retention: {topic: 99999999999999999999999d, keys: 65535d}}}",
		"variables of variables":        "a: ${A:-${A:-${A:-${A}}}}\n" + lines(20000, func(int) string { return "  ${A:-x}\n" }),
		"variables that are not closed": "version: " + repeat("${", maxLineBytes-20),
		"names that almost are known":   "version: 1\npipelines:\n  p:\n" + lines(30000, func(i int) string { return fmt.Sprintf("    topi%d: x\n", i) }),
		"a long name":                   "version: 1\npipelines:\n  " + repeat("p", maxLineBytes-20) + ": {}\n",
		"many mappings": lines(22, func(i int) string {
			return fmt.Sprintf("g%d:\n", i) + lines(900, func(i int) string { return fmt.Sprintf(" k%d: 1\n", i) })
		}),
		"many items": "a:\n" + lines(19000, func(i int) string { return fmt.Sprintf("- k%d: 1\n", i) }),
		"many keys on long lines": "a: {" + lines(60, func(i int) string {
			return lines(1200, func(j int) string { return fmt.Sprintf("k%d-%d: 1, ", i, j) }) + "\n"
		}) + "}",
		"many pipelines on long lines": "version: 1\npipelines: {" + lines(60, func(i int) string {
			return lines(400, func(j int) string { return fmt.Sprintf("p%d-%d: {topic: t, a: b}, ", i, j) }) + "\n"
		}) + "}",
		"names that almost are known on long lines": "version: 1\npipelines: {p: {" + lines(60, func(i int) string {
			return lines(900, func(j int) string { return fmt.Sprintf("topi%d-%d: x, ", i, j) }) + "\n"
		}) + "}}",
		"as many pipelines as are read": "version: 1\npipelines: {" + lines(80, func(i int) string {
			return lines(20, func(j int) string { return fmt.Sprintf("p%d-%d: {topic: t, a: b}, ", i, j) }) + "\n"
		}) + "}",
		"as many expressions as are read": body(events, once, "projection: {table: rows, columns: {a: stream, v: version,\n"+
			lines(20, func(i int) string {
				return lines(200, func(j int) string { return fmt.Sprintf("c%d_%d: '[1,2].map(x, x + 1)[0] + 1', ", i, j) }) + "\n"
			})+"    }}"),
		"lines that end with a carriage return alone": strings.Repeat(repeat("k: 1\r", maxLineBytes)+"\n", 60),
		"columns without end": body(events, once, "projection: {table: rows, columns: {a: stream, v: version,\n"+
			lines(60, func(i int) string {
				return lines(800, func(j int) string { return fmt.Sprintf("c%d_%d: $.x, ", i, j) }) + "\n"
			})+"    }}"),
		"expressions without end": body(events, once, "projection: {table: rows, columns: {a: stream, v: version,\n"+
			lines(60, func(i int) string {
				return lines(300, func(j int) string { return fmt.Sprintf("c%d_%d: '[1,2].map(x, x + 1)[0] + 1', ", i, j) }) + "\n"
			})+"    }}"),
	} {
		t.Run(name, func(t *testing.T) {
			costs(t, 512, func() {
				_, err := Load([]string{"a.yaml"}, Env{Files: fstest.MapFS{"a.yaml": {Data: []byte(text)}}})
				if err == nil && name != "as many expressions as are read" {
					t.Error("it was taken")
				}
				if err != nil && len(err.Error()) > 8<<20 {
					t.Errorf("the findings have %d bytes", len(err.Error()))
				}
			})
		})
	}
}

// Whatever a record holds, an expression that runs over it costs little.
func TestAHostileRecordCostsAnExpressionLittle(t *testing.T) {
	long := strings.Repeat("a", 1<<20)
	in := exprInput(t, `{"id": "`+long+`", "n": 1e999999999, "small": 1e-999999999, "list": [`+strings.Repeat("1,", 300000)+`1]}`)
	for _, text := range []string{
		`$.id + $.id + $.id + $.id + $.id + $.id + $.id + $.id`,
		`[$.id].map(a, a+a).map(a, a+a).map(a, a+a).map(a, a+a).map(a, a+a).map(a, a+a).map(a, a+a).map(a, a+a)[0]`,
		`["a"].map(a, a+a+a+a+a+a+a+a+a+a).map(a, a+a+a+a+a+a+a+a+a+a).map(a, a+a+a+a+a+a+a+a+a+a).map(a, a+a+a+a+a+a+a+a+a+a).map(a, a+a+a+a+a+a+a+a+a+a).map(a, a+a+a+a+a+a+a+a+a+a).map(a, a+a+a+a+a+a+a+a+a+a)[0]`,
		`[[1]].map(a, a+a+a+a+a+a+a+a).map(a, a+a+a+a+a+a+a+a).map(a, a+a+a+a+a+a+a+a).map(a, a+a+a+a+a+a+a+a).map(a, a+a+a+a+a+a+a+a).map(a, a+a+a+a+a+a+a+a)[0]`,
		`[1,2,3,4,5,6,7,8].map(a, [1,2,3,4,5,6,7,8].map(b, [1,2,3,4,5,6,7,8].map(c, [1,2,3,4,5,6,7,8].map(d, [1,2,3,4,5,6,7,8].map(e, [1,2,3,4,5,6,7,8].map(f, [1,2,3,4,5,6,7,8].map(g, "x")))))))`,
		`$.list.map(a, $.list.map(b, $.list))`,
		`$.list.exists(a, $.list.exists(b, a + b == 3))`,
		`json($.list.map(a, $.id))`,
		`$.id.split("").map(a, $.id.split(""))`,
		`$.id.replace("a", "` + strings.Repeat("b", 600) + `")`,
		`$.id.replace("", $.id.substring(0, 2000))`,
		`$.id.replace("a", $.id.substring(0, 2000), 1000000)`,
		`$.id.matches("(a?){100}(a*)*$")`, `$.id.substring(0, 60000).matches("(a?){100}(a*)*$")`, `matches($.id, "(a?){100}(a*)*$")`,
		`"a".matches($.id)`, `$.id.substring(0, 60000).matches($.id.substring(0, 900) + "(a?){100}(a*)*$")`,
		`$.id.matches("((((a{1,100}){1,100}){1,100}){1,100})")`,
		`decimal($.n) + 1 > 0`, `$.n + 1 > 0`, `$.n * $.n`, `string($.n)`, `int($.n)`, `decimal($.small) * decimal($.small)`, `string(decimal($.small))`,
		`decimal("1e999") * decimal("1e999")`, `decimal("1e1000") + decimal("1e-1000")`, `string(decimal("1e999999999"))`,
		`[decimal("1e900")].map(a, a*a).map(a, a*a).map(a, a*a)[0]`,
		`timestamp("9999-12-31T23:59:59Z") + duration("2540400h")`, `duration("99999999999h")`, `9223372036854775807 + 1`, `-9223372036854775808 / -1`, `1 / 0`,
		`$.list[999999999999]`, `$.list[-1]`, `"a".charAt(999999999999)`, `$.id.substring(0, 99999999999)`,
	} {
		t.Run(clip(text, 60), func(t *testing.T) {
			costs(t, 256, func() {
				p, err := compile(text, exprScope)
				if err != nil {
					t.Logf("refused: %v", err)
					return
				}
				v, err := p.eval(in)
				if err == nil && p.kind != noKind {
					_, err = stored(v, p.kind, text)
				}
				if err != nil {
					t.Logf("%s", clip(err.Error(), 200))
				}
				if err != nil && len(err.Error()) > 4096 {
					t.Errorf("the error has %d bytes", len(err.Error()))
				}
			})
		})
	}
}

// What is bounded does what it did before.
func TestFunctionsOnTextAreThoseOfCEL(t *testing.T) {
	in := exprInput(t, exprDocument)
	for text, want := range map[string]string{
		`"banana".replace("a", "o")`: "bonono", `"banana".replace("a", "o", 2)`: "bonona", `"banana".replace("a", "o", 0)`: "banana",
		`"banana".replace("a", "", -1)`: "bnn", `"aé".replace("", "-")`: "-a-é-", `"banana".replace("x", "yy")`: "banana",
		`$.id.replace("e", $.tier)`: "gold1", `string($.id.matches("^e[0-9]$"))`: "true", `string(matches($.id, "x"))`: "false",
		`string($.id.matches("^" + "e"))`: "true", `string($.status.matches($.tier))`: "false",
	} {
		p, err := compile(text, exprScope)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if v, err := p.eval(in); err != nil || v != want {
			t.Errorf("%s is %v, %v; want %s", text, v, err, want)
		}
	}
	for _, text := range []string{`$.id.matches("(")`, `$.id.matches("` + strings.Repeat("a", maxPattern+1) + `")`} {
		if _, err := compile(text, exprScope); err == nil {
			t.Errorf("%s compiles", clip(text, 60))
		}
	}
}

// Whatever is in a record, decoding it costs a small multiple of its size.
func TestAHostileRecordCostsTheDecoderLittle(t *testing.T) {
	d := decoderOf(t, "event: {id: $.id, version: $.?v}", once,
		"audit: {table: log, columns: {k: key, n: decimal($.?n), i: int($.?n), j: json($)}}")
	for name, value := range map[string]string{
		"a large exponent":          `{"id":"a","n":1e999999999}`,
		"a small exponent":          `{"id":"a","n":1e-999999999}`,
		"an exponent without bound": `{"id":"a","n":1e99999999999999999999}`,
		"a large version":           `{"id":"a","v":1e999999999}`,
		"an id that is a number":    `{"id":1e999999999}`,
		"a long number":             `{"id":"a","n":` + strings.Repeat("9", 1<<20) + `}`,
		"a long fraction":           `{"id":"a","n":0.` + strings.Repeat("9", 1<<20) + `}`,
		"deep lists":                `{"id":"a","x":` + strings.Repeat("[", 1<<20),
		"deep objects":              strings.Repeat(`{"id":`, 1<<18),
		"deep and closed":           `{"id":"a","x":` + strings.Repeat("[", 1<<19) + strings.Repeat("]", 1<<19) + `}`,
		"many members": `{"id":"a"` + func() string {
			var b strings.Builder
			for i := range 100000 {
				fmt.Fprintf(&b, `,"m%d":%d`, i, i)
			}
			return b.String()
		}() + `}`,
		"one member many times": `{"id":"a"` + strings.Repeat(`,"m":1`, 200000) + `}`,
		"many elements":         `{"id":"a","x":[` + strings.Repeat("1,", 1<<20) + `1]}`,
		"a long id":             `{"id":"` + strings.Repeat("k", 1<<20) + `"}`,
		"a long name":           `{"id":"a","` + strings.Repeat("k", 1<<20) + `":1}`,
		"escapes":               `{"id":"` + strings.Repeat(`\u0041`, 1<<18) + `"}`,
		"more than is read":     `{"id":"` + strings.Repeat("k", 5<<20) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			costs(t, 256, func() {
				_, err := decodeRecord(d, pawl.Record{Value: []byte(value)})
				if err != nil && len(err.Error()) > 4096 {
					t.Errorf("the error has %d bytes", len(err.Error()))
				}
			})
		})
	}
}
