package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/twmb/franz-go/pkg/kgo"
)

// fixtureFile is a file of fixtures, read apart from the code that pawl test reads it with.
type fixtureFile struct {
	Cases []struct {
		Name    string
		Records []struct {
			JSON      *jsonText
			Text      *string
			Tombstone bool
			Again     int
			Key       string
			Headers   map[string]string
		}
	}
}

func readFixtures(t *testing.T, name string) *fixtureFile {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixtureFile{}
	if err := yaml.Unmarshal(content, f); err != nil {
		t.Fatal(err)
	}
	return f
}

// sent are the records of a case as a producer sends them.
func (f *fixtureFile) sent(t *testing.T, number int, topic string) []*kgo.Record {
	t.Helper()
	var all []*kgo.Record
	for i, r := range f.Cases[number].Records {
		rec := &kgo.Record{Topic: topic}
		switch {
		case r.Again > 0:
			*rec = *all[r.Again-1]
		case r.JSON != nil:
			rec.Value = []byte(*r.JSON)
		case r.Text != nil:
			rec.Value = []byte(*r.Text)
		case !r.Tombstone:
			t.Fatalf("record %d of %q is of a kind that this test does not know", i+1, f.Cases[number].Name)
		}
		if r.Key != "" {
			rec.Key = []byte(r.Key)
		}
		for name, value := range r.Headers {
			rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
		}
		slices.SortFunc(rec.Headers, func(a, b kgo.RecordHeader) int { return strings.Compare(a.Key, b.Key) })
		all = append(all, rec)
	}
	return all
}

// jsonText is YAML as JSON, numbers as they are written.
type jsonText string

func (j *jsonText) UnmarshalYAML(n ast.Node) error {
	text, err := jsonOf(n)
	*j = jsonText(text)
	return err
}

func jsonOf(n ast.Node) (string, error) {
	var parts []string
	switch n := n.(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			value, err := jsonOf(v.Value)
			if err != nil {
				return "", err
			}
			key, err := json.Marshal(v.Key.String())
			if err != nil {
				return "", err
			}
			parts = append(parts, string(key)+":"+value)
		}
		return "{" + strings.Join(parts, ",") + "}", nil
	case *ast.SequenceNode:
		for _, v := range n.Values {
			value, err := jsonOf(v)
			if err != nil {
				return "", err
			}
			parts = append(parts, value)
		}
		return "[" + strings.Join(parts, ",") + "]", nil
	case *ast.StringNode:
		text, err := json.Marshal(n.Value)
		return string(text), err
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return n.GetToken().Value, nil
	}
	return "", fmt.Errorf("%s: this test does not know it", n.Type())
}
