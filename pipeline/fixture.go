package pipeline

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl"
)

// fixtures is a file of cases.
type fixtures struct {
	Version  int    `yaml:"version" need:"yes" enum:"1" doc:"The version of this format."`
	Pipeline string `yaml:"pipeline" doc:"The pipeline that is tested. Default: the only one there is."`
	Cases    cases  `yaml:"cases" need:"yes" doc:"What is tested, each with a database of its own."`
}

type cases []*fixture

// fixture is a case: records, what becomes of each, and the rows that are there in the end.
type fixture struct {
	Name    string  `yaml:"name" need:"yes" doc:"What the case shows."`
	Records records `yaml:"records" need:"yes" doc:"What is in the topic, in order."`
	Rows    tables  `yaml:"rows" doc:"For each table, all the rows that are there in the end; of each, the columns that matter."`

	at place
}

type records []*record

type record struct {
	JSON      value   `yaml:"json" doc:"The value, written as YAML, sent as JSON."`
	Text      *string `yaml:"text" doc:"The value as it is."`
	Base64    string  `yaml:"base64" doc:"The value as bytes."`
	Tombstone bool    `yaml:"tombstone" doc:"There is no value."`
	Again     int     `yaml:"again" doc:"The same as the record with this number, from 1: it is sent again."`

	Topic     string  `yaml:"topic" doc:"Default: the pipeline's first."`
	Partition index   `yaml:"partition" doc:"Default: 0."`
	Key       string  `yaml:"key" doc:"The record's key."`
	Headers   headers `yaml:"headers" doc:"The record's headers."`
	At        string  `yaml:"at" doc:"The record's timestamp."`

	Outcome string `yaml:"outcome" enum:"applied|duplicate|stale|ignored|superseded|held|quarantined" doc:"What becomes of it in the end. Default: applied."`
	Cause   string `yaml:"cause" enum:"poison|conflict|validation|corruption|failure|gap|transition" doc:"Why it is quarantined."`
	Reason  string `yaml:"reason" doc:"A part of the reason that is given."`

	at place
}

type (
	value   struct{ node *node }
	index   int32
	headers []pawl.Header
	tables  []tableRows
)

type tableRows struct {
	name string
	rows []*node
	at   place
}

func (c *cases) bind(b *binder, n *node, path string) {
	each(b, n, path, func(n *node, path string) {
		f := &fixture{at: n.at}
		b.fields(n, f, path)
		*c = append(*c, f)
	})
}

func (r *records) bind(b *binder, n *node, path string) {
	each(b, n, path, func(n *node, path string) {
		rec := &record{at: n.at}
		b.fields(n, rec, path)
		*r = append(*r, rec)
	})
}

func each(b *binder, n *node, path string, do func(n *node, path string)) {
	if n.kind != listNode {
		b.fault("type", n.at, path, "", "%s must be a list, and is %s", name(path), n.kind)
		return
	}
	for i, item := range n.items {
		do(item, fmt.Sprintf("%s[%d]", path, i))
	}
}

func (v *value) bind(_ *binder, n *node, _ string) { v.node = n }

func (i *index) bind(b *binder, n *node, path string) {
	v, err := strconv.ParseUint(n.text, 10, 16)
	if err != nil {
		b.fault("type", n.at, path, "", "%s must be a whole number", name(path))
	}
	*i = index(v)
}

func (h *headers) bind(b *binder, n *node, path string) {
	if !b.mapping(n, path) {
		return
	}
	for i, k := range n.keys {
		if text, ok := b.text(n.items[i], join(path, k.name)); ok {
			*h = append(*h, pawl.Header{Key: k.name, Value: []byte(text)})
		}
	}
}

func (t *tables) bind(b *binder, n *node, path string) {
	if !b.mapping(n, path) {
		return
	}
	for i, k := range n.keys {
		tr := tableRows{name: k.name, at: k.at}
		if n.items[i].kind != nullNode {
			each(b, n.items[i], join(path, k.name), func(n *node, path string) {
				if b.mapping(n, path) {
					tr.rows = append(tr.rows, n)
				}
			})
		}
		*t = append(*t, tr)
	}
}

func anything() map[string]any          { return map[string]any{} }
func (*cases) schema() map[string]any   { return anything() }
func (*records) schema() map[string]any { return anything() }
func (*value) schema() map[string]any   { return anything() }
func (*index) schema() map[string]any   { return anything() }
func (*headers) schema() map[string]any { return anything() }
func (*tables) schema() map[string]any  { return anything() }

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// toJSON writes a value of a fixture as JSON: numbers as they are written.
func (n *node) toJSON(out *strings.Builder) {
	switch n.kind {
	case nullNode:
		out.WriteString("null")
	case mappingNode:
		out.WriteByte('{')
		for i, k := range n.keys {
			if i > 0 {
				out.WriteByte(',')
			}
			out.Write(quoted(k.name))
			out.WriteByte(':')
			n.items[i].toJSON(out)
		}
		out.WriteByte('}')
	case listNode:
		out.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				out.WriteByte(',')
			}
			item.toJSON(out)
		}
		out.WriteByte(']')
	default:
		if !n.literal && (jsonNumber.MatchString(n.text) || n.text == "true" || n.text == "false") {
			out.WriteString(n.text)
		} else {
			out.Write(quoted(n.text))
		}
	}
}

func quoted(text string) []byte {
	out, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string has JSON
	}
	return out
}

// log lays the records of a case out in topics.
func (f *fixture) log(b *binder, p *Pipeline) ([]pawl.Record, bool) {
	before := b.faults()
	next := map[pawl.Partition]int64{}
	var all []pawl.Record
	for i, r := range f.Records {
		bad := func(format string, args ...any) {
			b.fault("fixture", r.at, fmt.Sprintf("records[%d]", i), "", format, args...)
		}
		var rec pawl.Record
		ways := 0
		if r.JSON.node != nil {
			var out strings.Builder
			r.JSON.node.toJSON(&out)
			rec.Value = []byte(out.String())
			ways++
		}
		if r.Text != nil {
			rec.Value = []byte(*r.Text)
			ways++
		}
		if r.Base64 != "" {
			v, err := base64.StdEncoding.DecodeString(r.Base64)
			if err != nil {
				bad("base64: %v", err)
			}
			rec.Value = v
			ways++
		}
		if r.Tombstone {
			ways++
		}
		if r.Again > 0 {
			if ways++; r.Again > i {
				bad("again: %d is no earlier record", r.Again)
			} else {
				rec = all[r.Again-1]
			}
		}
		if ways != 1 {
			bad("a record has one of json, text, base64, tombstone and again")
		}
		rec.Partition.Topic = p.Topic[0]
		if r.Topic != "" {
			rec.Partition.Topic = r.Topic
		}
		copy(rec.Partition.TopicID[:], rec.Partition.Topic)
		if r.Partition > 0 || r.Again == 0 {
			rec.Partition.Index = int32(r.Partition)
		}
		rec.Offset = next[rec.Partition]
		next[rec.Partition]++
		if r.Key != "" {
			rec.Key = []byte(r.Key)
		}
		if r.Headers != nil {
			rec.Headers = r.Headers
		}
		rec.Timestamp = time.Date(2026, 7, 1, 10, 0, i, 0, time.UTC)
		if r.At != "" {
			at, err := time.Parse(time.RFC3339Nano, r.At)
			if err != nil {
				bad("at: %v", err)
			}
			rec.Timestamp = at
		}
		if (r.Cause != "") && r.Outcome != "quarantined" {
			bad("a cause is that of outcome: quarantined")
		}
		all = append(all, rec)
	}
	return all, b.faults() == before
}

// eachCase reads the fixtures, and calls do with each case of files that can be read. It returns what is wrong with any.
func (s *Set) eachCase(env Env, do func(b *binder, p *Pipeline, c *fixture)) (findings []Finding) {
	for _, file := range s.Fixtures {
		content, err := read(env.Files, file)
		if err != nil {
			findings = append(findings, unreadable(file, err))
			continue
		}
		b := &binder{source: &source{name: file, most: maxCaseNodes}, env: env, places: map[string]span{}}
		var f fixtures
		if root := b.parse(content); root != nil {
			b.bind(root, &f, "")
			if p := b.pipelineOf(&f, s); p != nil && b.faults() == 0 {
				for _, c := range f.Cases {
					do(b, p, c)
				}
			}
		}
		findings = append(findings, b.masked()...)
	}
	return sorted(findings)
}

func (b *binder) pipelineOf(f *fixtures, set *Set) *Pipeline {
	var names []string
	for _, p := range set.Pipelines {
		names = append(names, p.Name)
	}
	switch p := set.Get(f.Pipeline); {
	case p != nil:
		return p
	case f.Pipeline == "" && len(names) == 1:
		return set.Pipelines[0]
	case f.Pipeline == "":
		b.fault("fixture", place{line: 1, col: 1}, "pipeline", "write pipeline: and one of "+strings.Join(names, ", "),
			"it does not say which pipeline it tests")
	default:
		hint := "there are " + strings.Join(names, ", ")
		if w := nearest(f.Pipeline, names); w != "" {
			hint = "did you mean " + w + "?"
		}
		b.fault("fixture", b.place("pipeline"), "pipeline", hint, "there is no pipeline %q", clip(f.Pipeline, 60))
	}
	return nil
}
