package pipeline

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

var update = flag.Bool("update", false, "write schema.json")

func TestTheCommittedSchemaIsThatOfTheTypes(t *testing.T) {
	want := makeSchema()
	if *update {
		if err := os.WriteFile("schema.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(Schema(), want) {
		t.Error("schema.json is not what the types say: run go generate ./pipeline")
	}
}

// The schema serves editors: what it accepts and refuses is what Load accepts and refuses, as far as a schema can say it.
func TestTheSchemaAgreesWithLoad(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(makeSchema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("pawl.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("pawl.json")
	if err != nil {
		t.Fatal(err)
	}
	check := func(name, text string) error {
		s := &source{name: name}
		root := s.parse([]byte(text))
		if root == nil {
			t.Fatalf("%s: %v", name, s.findings)
		}
		var out strings.Builder
		root.toJSON(&out)
		var v any
		d := json.NewDecoder(strings.NewReader(out.String()))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		return schema.Validate(v)
	}
	files, _ := filepath.Glob("../examples/*/pipeline.yaml")
	if len(files) < 5 {
		t.Fatalf("%d examples", len(files))
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := check(f, string(text)); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
	if err := check("good", goodFile); err != nil {
		t.Errorf("%v", err)
	}
	for _, c := range []struct{ old, new string }{
		{"once_per: event.id", "onec_per: event.id"},
		{"once_per: event.id", "owner: x"},
		{"order: partition", "order: sideways"},
		{"topic: t", "topic: []"},
		{"hold: 10m", "hold: soon"},
		{"version: 1\n", "version: 2\n"},
		{"columns: {a: stream, v: version}", "columns: {}"},
		{"columns: {a: stream, v: version}", "columns: {a: {valeu: stream}}"},
		{"limits: {batch: 10}", "limits: {batch: 0}"},
	} {
		text := strings.Replace(goodFile, c.old, c.new, 1)
		if text == goodFile {
			t.Fatalf("%q is not in the file", c.old)
		}
		if check("bad", text) == nil {
			t.Errorf("the schema accepts %s", c.new)
		}
	}
}
