package pipeline

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pawlhq/pawl"
)

// inTime fails what takes far too long for its size, on however busy a machine.
func inTime(t *testing.T, what string) func() {
	begin := time.Now()
	return func() {
		if took := time.Since(begin); took > time.Minute {
			t.Errorf("%s took %s", what, took)
		}
	}
}

// FuzzLoad: whatever is in a file, it is read or refused, and each finding has a rule.
func FuzzLoad(f *testing.F) {
	files, _ := filepath.Glob("../examples/*/*.yaml")
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(content))
	}
	for _, c := range lintCases {
		f.Add(c.files[0])
	}
	f.Add("a: &x [*x]\n<<: *x\n? - - x\n")
	known := map[string]bool{}
	for _, r := range Rules {
		known[r.ID] = true
	}
	f.Fuzz(func(t *testing.T, text string) {
		defer inTime(t, "loading")()
		env := Env{Files: fstest.MapFS{"a.yaml": {Data: []byte(strings.ReplaceAll(text, "${file:", "${fiel:"))}}}
		set, err := Load([]string{"a.yaml"}, env)
		if set == nil {
			t.Fatal("no set")
		}
		faults := 0
		for _, f := range set.Findings {
			if !known[f.Rule] || f.Message == "" {
				t.Errorf("%+v", f)
			}
			_ = f.Text()
			if f.Severity == Fault {
				faults++
			}
		}
		if (err != nil) != (faults > 0) {
			t.Errorf("%d faults, and %v", faults, err)
		}
		if err != nil {
			return
		}
		for _, p := range set.Pipelines {
			if len(p.Tables()) == 0 || p.decoder.key == nil {
				t.Errorf("%s loads, and has no effect", p.Name)
			}
			_, _ = decodeRecord(p.decoder, pawl.Record{Key: []byte("k"), Value: []byte(exprDocument)})
		}
	})
}

// FuzzExpression: whatever is written, it compiles or not; and what compiles has a value or an error, soon.
func FuzzExpression(f *testing.F) {
	for _, text := range []string{
		"$.a.b", "event.id", `$["odd name"]`, "decimal($.amount) * 3 > 10", "$.a.list.map(x, x.x)", "truncate(event.at, duration('1h'))",
		"$.?a.orValue(1)", "'$' + $.id", `"a" in $.a.list`, "[1,2].exists(x, x == $.n)", "int($.n)", "json($)", "{'a': [$.a, decimal('1e1000')]}",
		"$.id.matches('(a+)+$')", "$.id.split('').map(x, $.id)", "-$.amount", "1e400", "timestamp('9999-12-31T23:59:59Z') + duration('9000h')",
	} {
		f.Add(text)
	}
	in := exprInput(f, exprDocument)
	f.Fuzz(func(t *testing.T, text string) {
		defer inTime(t, text)()
		p, err := compile(text, exprScope)
		if err != nil {
			return
		}
		v, err := p.eval(in)
		if err != nil {
			return
		}
		if _, isFloat := v.(float64); isFloat {
			t.Errorf("%s is a float", text)
		}
		if p.kind == noKind || p.kind == mapKind {
			return // no column takes it
		}
		if s, err := stored(v, p.kind, text); err == nil && p.kind != dynKind {
			if _, isFloat := s.(float64); isFloat {
				t.Errorf("%s is stored as a float", text)
			}
		}
	})
}

// FuzzDecode: whatever a record holds, it decodes or not; and what decodes has a key, the same each time.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(exprDocument), []byte("k"), "tenant", []byte("acme"))
	f.Add([]byte(`{"specversion":"1.0","id":"e1","source":"/s","type":"T","data":{"id":1e2}}`), []byte(nil), "content-type", []byte("application/cloudevents+json"))
	f.Add([]byte(`{"id":1e2}`), []byte{0xff}, "ce_id", []byte("x"))
	f.Add([]byte(nil), []byte("k"), "ce_specversion", []byte("1.0"))
	var all []*decoder
	for _, lines := range [][]string{
		{"event: {id: $.id, stream: $.?s, version: $.?v, type: $.?status, at: $.?at}", once, "audit: {table: log, columns: {k: key, a: decimal($.?amount), j: json($)}}"},
		{"format: cloudevents", once, audit},
		{"event: {stream: meta.key, version: $.?v}", "once_per: meta.position", state},
	} {
		all = append(all, decoderOf(f, lines...))
	}
	f.Fuzz(func(t *testing.T, value, key []byte, name string, header []byte) {
		defer inTime(t, "decoding")()
		if len(value) == 0 {
			value = nil
		}
		for _, d := range all {
			r := pawl.Record{Key: key, Value: value, Headers: []pawl.Header{{Key: name, Value: header}}, Offset: 7}
			one, err := decodeRecord(d, r)
			if err != nil {
				continue
			}
			if one.Identity.Key == "" || one.Fingerprint == (pawl.Fingerprint{}) {
				t.Errorf("%+v", one)
			}
			two, err := decodeRecord(d, r)
			if err != nil || two.Identity != one.Identity || two.Fingerprint != one.Fingerprint {
				t.Errorf("%+v\n%+v\n%v", one, two, err)
			}
		}
	})
}
