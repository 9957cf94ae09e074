package pipeline

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/effect"
)

func placesOf(t *testing.T, format, event, key string) []Place {
	t.Helper()
	set, err := load(t, nil, "a.yaml", `version: 1
store: {sqlite: x.db}
kafka: {brokers: ["localhost:9092"]}
pipelines:
  p: {topic: t, owner: o, format: `+format+`, event: `+event+`, once_per: '`+key+`', audit: {table: seen}}
`)
	if err != nil {
		t.Fatal(err)
	}
	return set.Get("p").Places()
}

// What is replaced is the value at its place, and nothing else: not a byte of the rest of the document.
func TestAPlaceIsReplacedAndNothingElse(t *testing.T) {
	ce := func(headers ...string) (all []pawl.Header) {
		for i := 0; i < len(headers); i += 2 {
			all = append(all, pawl.Header{Key: headers[i], Value: []byte(headers[i+1])})
		}
		return all
	}
	structured := ce("content-type", "application/cloudevents+json")
	for _, c := range []struct {
		name, format, event, key string
		in, want                 pawl.Record
	}{
		{
			"members, deep and by index", "json", "{id: $.a.b, stream: '$.list[1][\"x y\"]'}", "event.id",
			pawl.Record{Value: []byte(`{ "z": "v", "a": {"b" : "v", "c": 1.50}, "list":["v", {"x y":"v"}] }`)},
			pawl.Record{Value: []byte(`{ "z": "v", "a": {"b" : "[v]", "c": 1.50}, "list":["v", {"x y":"[v]"}] }`)},
		},
		{
			"numbers stay numbers", "json", "{id: $.id, stream: $.s}", "event.id",
			pawl.Record{Value: []byte(`{"id":17,"s":1.5}`)}, pawl.Record{Value: []byte(`{"id":99,"s":1.5}`)},
		},
		{
			"the key and a header", "json", "{id: headers.id, stream: meta.key}", "event.id",
			pawl.Record{Key: []byte("k"), Headers: ce("id", "v", "other", "v"), Value: []byte(`"v"`)},
			pawl.Record{Key: []byte("[k]"), Headers: ce("id", "[v]", "other", "v"), Value: []byte(`"v"`)},
		},
		{
			"a structured CloudEvent", "cloudevents", "{stream: $.s}", "event.id",
			pawl.Record{Headers: structured, Value: []byte(`{"id":"v","s":"v","data":{"s":"v","id":"v"}}`)},
			pawl.Record{Headers: structured, Value: []byte(`{"id":"[v]","s":"v","data":{"s":"[v]","id":"v"}}`)},
		},
		{
			"a binary CloudEvent", "cloudevents", "{stream: $.s}", "event.id",
			pawl.Record{Headers: ce("ce_id", "v", "ce_type", "v"), Value: []byte(`{"s":"v","id":"v"}`)},
			pawl.Record{Headers: ce("ce_id", "[v]", "ce_type", "v"), Value: []byte(`{"s":"[v]","id":"v"}`)},
		},
		{
			"what is missing, null or no JSON", "json", "{id: $.id, stream: $.a.b}", "event.id",
			pawl.Record{Value: []byte(`{"id":null,"a":5,"b":"v"}`)}, pawl.Record{Value: []byte(`{"id":null,"a":5,"b":"v"}`)},
		},
		{"no JSON", "json", "{id: $.id}", "event.id", pawl.Record{Value: []byte(`{"id":"v",`)}, pawl.Record{Value: []byte(`{"id":"v",`)}},
		{"what is computed", "json", `{id: '$.id + "x"'}`, "event.id", pawl.Record{Value: []byte(`{"id":"v"}`)}, pawl.Record{Value: []byte(`{"id":"v"}`)}},
		{"the key by itself", "json", `{type: $.type}`, "$.id", pawl.Record{Value: []byte(`{"type":"v","id":"v"}`)}, pawl.Record{Value: []byte(`{"type":"v","id":"[v]"}`)}},
	} {
		got := c.in
		for _, pl := range placesOf(t, c.format, c.event, c.key) {
			got = pl.Replace(got, func(old string, number bool) string {
				if number {
					return "99"
				}
				return "[" + old + "]"
			})
		}
		if string(got.Value) != string(c.want.Value) || string(got.Key) != string(c.want.Key) || headerLine(got) != headerLine(c.want) {
			t.Errorf("%s:\n%s %s %s\nwant\n%s %s %s", c.name, got.Key, headerLine(got), got.Value, c.want.Key, headerLine(c.want), c.want.Value)
		}
	}
}

func headerLine(r pawl.Record) string {
	var b strings.Builder
	for _, h := range r.Headers {
		b.WriteString(h.Key + "=" + string(h.Value) + " ")
	}
	return b.String()
}

func TestARehearsalWaitsAsksNobodyAndSaysSo(t *testing.T) {
	set, err := load(t, nil, "a.yaml", `version: 1
store: {sqlite: x.db}
kafka: {brokers: ["localhost:9092"]}
pipelines:
  asks:
    topic: t
    owner: o
    event: {id: $.id, stream: $.s, version: $.v}
    once_per: event.id
    projection:
      table: a
      columns: {s: stream, v: version}
      requery: {url: "http://127.0.0.1:1/{stream}"}
    when: '$.x == 1'
    on: {early: {hold: 1s, then: requery, most: 2}, poison: stop}
    order: stream
  gives-up:
    topic: t
    owner: o
    event: {id: $.id, stream: $.s, version: $.v, type: $.t}
    once_per: event.id
    workflow: {table: b, columns: {s: stream, v: version, state: state}, state: event.type, initial: [A], transitions: {A: [A]}}
    on: {early: quarantine}
`)
	if err != nil {
		t.Fatal(err)
	}
	p := set.Get("asks")
	said := strings.Join(p.Rehearse(), "\n")
	for _, want := range []string{"poison: stop", "order: stream", "requery"} {
		if !strings.Contains(said, want) {
			t.Errorf("%s is not said:\n%s", want, said)
		}
	}
	early := earlyOf(p.routes[0].effect)
	if early.Hold < 24*time.Hour || early.Then != effect.Quarantine || early.Source != nil || early.Most != 0 {
		t.Errorf("%+v", early)
	}
	if _, err := p.routes[0].effect.Tables(); err != nil || p.Config().OnPoison == pawl.PoisonStop || p.TakesInTurn() {
		t.Errorf("%v, %+v", err, p.Config())
	}
	other := set.Get("gives-up")
	if said := other.Rehearse(); len(said) > 0 || !other.TakesInTurn() || earlyOf(other.routes[0].effect).Hold != 0 {
		t.Errorf("%v, %+v", said, earlyOf(other.routes[0].effect))
	}
}

func TestFixturesAreTemplates(t *testing.T) {
	files := fstest.MapFS{
		"a.yaml": {Data: []byte(goodFile)},
		"a_test.yaml": {Data: []byte(`version: 1
cases:
  - name: one
    records: [{json: {id: e1}}, {again: 1, outcome: duplicate}]
  - name: two
    records: [{text: x, key: k}]
`)},
	}
	env := Env{Files: files, Offline: true}
	set, err := Load([]string{"a.yaml"}, env)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Templates(set, env)
	if err != nil || len(got) != 2 || len(got[0].Records) != 2 || string(got[0].Records[1].Value) != `{"id":"e1"}` || string(got[1].Records[0].Key) != "k" {
		t.Errorf("%+v, %v", got, err)
	}
	files["a_test.yaml"].Data = []byte("version: 1\ncases: [{name: x, records: [{}]}]")
	if _, err := Templates(set, env); err == nil {
		t.Error("a record of nothing is a template")
	}
}
