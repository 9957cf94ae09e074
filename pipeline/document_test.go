package pipeline

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
)

func decoderOf(t testing.TB, lines ...string) *decoder {
	t.Helper()
	set, err := load(t, nil, "a.yaml", body(lines...))
	if err != nil {
		t.Fatal(err)
	}
	return set.Pipelines[0].decoder
}

func decodeRecord(d *decoder, r pawl.Record) (pawl.Decoded[*Document], error) {
	return d.Decode(pawl.NewMeta(&r), r.Value)
}

const everything = `event: {id: $.id, stream: $.s, stream_type: '"case"', version: $.v, type: $.t, at: $.at, message_id: headers.m, schema_version: $.sv, supersedes: $.?c, correlation: $.co, causation: $.ca}`

func TestTheIdentityIsWhatTheEventSectionFinds(t *testing.T) {
	d := decoderOf(t, everything, `once_per: event.stream + "@" + string(event.version)`, audit)
	got, err := decodeRecord(d, pawl.Record{
		Value:   []byte(`{"id":"e1","s":17,"v":3,"t":"OPENED","at":"2026-07-01T09:00:00.5+02:00","sv":2,"co":"x","ca":"y"}`),
		Headers: []pawl.Header{{Key: "m", Value: []byte("m1")}},
	})
	want := pawl.Identity{
		Key: "17@3", EventID: "e1", MessageID: "m1", StreamType: "case", Stream: "17", Version: 3, Type: "OPENED", SchemaVersion: 2,
		OccurredAt: time.Date(2026, 7, 1, 7, 0, 0, 5e8, time.UTC), CorrelationID: "x", CausationID: "y",
	}
	got.Identity.OccurredAt = got.Identity.OccurredAt.UTC()
	if err != nil || got.Identity != want {
		t.Errorf("%+v, %v", got.Identity, err)
	}
}

// A number that is a key has one spelling: else one event would be two.
func TestNumbersThatAreKeysHaveOneSpelling(t *testing.T) {
	d := decoderOf(t, "event: {id: $.id}", once, audit)
	keys := map[string]string{}
	for spelling, want := range map[string]string{
		"100": "100", "1e2": "100", "100.0": "100", "1.0e+2": "100", "9007199254740993": "9007199254740993", "-0": "0", "0.10": "0.1", "1e-1": "0.1",
		"123456789012345678901234567890": "123456789012345678901234567890",
	} {
		got, err := decodeRecord(d, pawl.Record{Value: []byte(`{"id":` + spelling + `}`)})
		if err != nil || got.Identity.Key != want {
			t.Errorf("%s is %q, %v; want %q", spelling, got.Identity.Key, err, want)
		}
		keys[got.Identity.Key] = spelling
	}
	if len(keys) != 5 {
		t.Errorf("%v", keys)
	}
}

func TestWhatHasNoIdentityIsRefused(t *testing.T) {
	d := decoderOf(t, everything, once, audit)
	good := `{"id":"e1","s":"s","v":3,"t":"OPENED","at":"2026-07-01T09:00:00Z","sv":2,"co":"x","ca":"y"}`
	for _, c := range []struct{ old, new, want string }{
		{`"id":"e1",`, ``, "$.id is missing"},
		{`"e1"`, `""`, "$.id is empty"},
		{`"e1"`, `null`, "$.id has no value"},
		{`"e1"`, `{"a":1}`, "an object is no text"},
		{`"v":3`, `"v":"x"`, "no whole number"},
		{`"v":3`, `"v":3.5`, "no whole number"},
		{`"v":3`, `"v":0`, "versions begin at 1"},
		{`"v":3`, `"v":-1`, "versions begin at 1"},
		{`"v":3`, `"v":99999999999999999999`, "no whole number"},
		{`"sv":2`, `"sv":4294967296`, "no version of a schema"},
		{`2026-07-01T09:00:00Z`, `yesterday`, "no time of RFC 3339"},
		{`"co":"x"`, `"co":"x","co":"y"`, "twice"},
		{`"co":"x"`, `"co":"x","deep":` + strings.Repeat("[", 100) + strings.Repeat("]", 100), "deep"},
		{good, ``, ""},
		{good, `[]`, "a list has no member"},
		{good, `{`, ""},
	} {
		value := strings.Replace(good, c.old, c.new, 1)
		_, err := decodeRecord(d, pawl.Record{Value: []byte(value), Headers: []pawl.Header{{Key: "m", Value: []byte("m1")}}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", clip(value, 80), err, c.want)
		}
	}
	if _, err := decodeRecord(d, pawl.Record{Value: []byte(good)}); err == nil || !strings.Contains(err.Error(), "headers.m is missing") {
		t.Errorf("without a header: %v", err)
	}
	if _, err := decodeRecord(d, pawl.Record{}); err == nil {
		t.Error("a tombstone decodes")
	}
}

func TestTheLimitsOfAFileHold(t *testing.T) {
	d := decoderOf(t, "event: {id: $.id}", once, audit, "limits: {record_bytes: 20, depth: 2}")
	for value, ok := range map[string]bool{
		`{"id":"e1"}`: true, `{"id":"e1","a":[1]}`: true, `{"id":"e","a":[[1]]}`: false, `{"id":"` + strings.Repeat("x", 20) + `"}`: false,
	} {
		if _, err := decodeRecord(d, pawl.Record{Value: []byte(value)}); (err == nil) != ok {
			t.Errorf("%s: %v", value, err)
		}
	}
}

func TestWhatIsExceptedDoesNotCount(t *testing.T) {
	d := decoderOf(t, "event: {id: $.id}", once, audit, "content: {except: [sentAt]}")
	print := func(value string) pawl.Fingerprint {
		got, err := decodeRecord(d, pawl.Record{Value: []byte(value)})
		if err != nil {
			t.Fatal(err)
		}
		return got.Fingerprint
	}
	if print(`{"id":"e1","sentAt":1}`) != print(`{"sentAt":2,"id":"e1"}`) {
		t.Error("sentAt counts")
	}
	if print(`{"id":"e1","n":1}`) == print(`{"id":"e1","n":2}`) {
		t.Error("n does not count")
	}
}

func cloudEvent(mode string, attributes map[string]string, data string) pawl.Record {
	if mode == "binary" {
		r := pawl.Record{Value: []byte(data), Headers: []pawl.Header{{Key: "content-type", Value: []byte("application/json; charset=utf-8")}}}
		for k, v := range attributes {
			r.Headers = append(r.Headers, pawl.Header{Key: "ce_" + k, Value: []byte(v)})
		}
		return r
	}
	var b strings.Builder
	for k, v := range attributes {
		fmt.Fprintf(&b, "%s:%s,", quoted(k), quoted(v))
	}
	return pawl.Record{
		Value:   []byte("{" + b.String() + `"data":` + data + "}"),
		Headers: []pawl.Header{{Key: "content-type", Value: []byte("application/cloudevents+json; charset=UTF-8")}},
	}
}

func TestACloudEventIsTheSameHoweverItIsSent(t *testing.T) {
	d := decoderOf(t, "format: cloudevents", once, "content: {except: [sentAt]}", "audit: {table: log, columns: {k: key, x: $.x, src: ce.source}}")
	attributes := map[string]string{
		"specversion": "1.0", "id": "e1", "source": "/s", "type": "T", "subject": "s1", "time": "2026-07-01T09:00:00Z", "traceparent": "1",
	}
	one, err := decodeRecord(d, cloudEvent("structured", attributes, `{"x":1.0,"sentAt":1}`))
	if err != nil {
		t.Fatal(err)
	}
	attributes["traceparent"] = "2" // added on the way
	two, err := decodeRecord(d, cloudEvent("binary", attributes, ` {"sentAt":2,"x":1} `))
	if err != nil {
		t.Fatal(err)
	}
	if one.Identity != two.Identity || one.Fingerprint != two.Fingerprint || one.Identity.Key != "e1" || one.Identity.Stream != "s1" || one.Identity.Type != "T" || one.Identity.OccurredAt.IsZero() {
		t.Errorf("%+v\n%+v", one, two)
	}
	for what, change := range map[string]func(){"the data": func() {}, "the type": func() { attributes["type"] = "U" }, "the subject": func() { attributes["subject"] = "s2" }} {
		change()
		data := `{"x":1}`
		if what == "the data" {
			data = `{"x":2}`
		}
		other, err := decodeRecord(d, cloudEvent("binary", attributes, data))
		if err != nil || other.Fingerprint == one.Fingerprint {
			t.Errorf("%s does not count: %v", what, err)
		}
		attributes["type"], attributes["subject"] = "T", "s1"
	}
	delete(attributes, "subject")
	delete(attributes, "time")
	if got, err := decodeRecord(d, cloudEvent("binary", attributes, `{}`)); err != nil || got.Identity.Stream != "" {
		t.Errorf("without a subject and a time: %+v, %v", got.Identity, err)
	}
}

func TestWhatIsNoCloudEventIsRefused(t *testing.T) {
	d := decoderOf(t, "format: cloudevents", once, audit)
	whole := map[string]string{"specversion": "1.0", "id": "e1", "source": "/s", "type": "T"}
	without := func(name string) map[string]string {
		m := map[string]string{}
		for k, v := range whole {
			if k != name {
				m[k] = v
			}
		}
		return m
	}
	header := func(r pawl.Record, name, value string) pawl.Record {
		r.Headers = append(r.Headers, pawl.Header{Key: name, Value: []byte(value)})
		return r
	}
	for _, c := range []struct {
		r    pawl.Record
		want string
	}{
		{cloudEvent("binary", without("id"), "{}"), `"id" is missing`},
		{cloudEvent("structured", without("type"), "{}"), `"type" is missing`},
		{cloudEvent("binary", without("specversion"), "{}"), "specversion"},
		{cloudEvent("binary", whole, `{}, "id": "e2"`), "not JSON"}, // it would replace an attribute
		{cloudEvent("binary", whole, `{"a":1,"a":2}`), "twice"},
		{header(cloudEvent("binary", whole, "{}"), "ce_id", "e2"), "twice"},
		{header(cloudEvent("binary", whole, "{}"), "ce_data", "e2"), "no attribute"},
		{header(cloudEvent("binary", whole, "{}"), "content-type", "text/plain"), "only JSON is read"},
		{header(cloudEvent("binary", whole, "[]"), "content-type", "application/cloudevents-batch+json"), "batch"},
		{header(cloudEvent("structured", whole, "{}"), "content-type", "application/cloudevents+avro"), "send JSON"},
		{pawl.Record{Value: []byte("[]")}, "is an object"},
		{pawl.Record{Value: []byte(`{"specversion":"1.0","id":"e1","source":"/s","type":"T","data_base64":"AA=="}`)}, "data_base64"},
		{pawl.Record{Value: []byte(`{"specversion":"1.0","id":["e1"],"source":"/s","type":"T"}`)}, `attribute "id"`},
		{pawl.Record{}, ""},
	} {
		if got, err := decodeRecord(d, c.r); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: %+v, %v; want %s", c.r.Value, c.r.Headers, got.Identity, err, c.want)
		}
	}
}

func TestTombstonesAreDocumentsWhereAStateIsKept(t *testing.T) {
	d := decoderOf(t, "event: {stream: meta.key, version: $.v}", "once_per: meta.position", state)
	got, err := decodeRecord(d, pawl.Record{Key: []byte("k1"), Offset: 7})
	if err != nil || !got.Body.Tombstone || got.Identity.Stream != "k1" || got.Identity.Key == "" || got.Fingerprint == (pawl.Fingerprint{}) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := decodeRecord(d, pawl.Record{Key: []byte("k1"), Value: []byte{}}); err == nil {
		t.Error("an empty value is no tombstone")
	}
	if _, err := decodeRecord(d, pawl.Record{}); err == nil {
		t.Error("a tombstone without a key has a stream")
	}
	if _, err := decodeRecord(d, pawl.Record{Key: []byte{0xff}}); err == nil || !strings.Contains(err.Error(), "UTF-8") {
		t.Errorf("a key that is no text: %v", err)
	}
	d = decoderOf(t, "event: {id: $.id, stream: $.s}", once, strings.Replace(state, "state: {", "state: {deleted: $.op == 'd', ", 1))
	if _, err := decodeRecord(d, pawl.Record{Key: []byte("k1")}); err == nil {
		t.Error("where events say what deletes, one without a document decodes")
	}
}
