package pipeline

import (
	"cmp"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
)

// Document is a record's value, decoded once: what the expressions of a pipeline see.
type Document struct {
	// Body is the document: nil, bool, string, json.Number, []any or map[string]any.
	Body any
	// Tombstone says that the record has no value. Only pipelines that keep a state decode those.
	Tombstone bool
	// Attributes are those of a CloudEvent.
	Attributes map[string]string

	Key       []byte // of the record
	Topic     string
	Timestamp time.Time

	position string
}

// identity is where an event says what it is.
type identity struct {
	id, stream, streamType, version, typ, at, messageID, schemaVersion, supersedes, correlation, causation *program
	key                                                                                                    *program
	positions                                                                                              bool // meta.position is used
}

// decoder makes documents of records.
type decoder struct {
	identity
	json        *decode.JSONDecoder[any]
	cloudevents bool
	tombstones  bool     // are documents too
	when        *program // nil: none
}

// tombstone is the fingerprint of what has no content.
var tombstone = pawl.Fingerprint([]byte("pawl/tombstone/1"))

// Decode implements pawl.Decoder.
func (d *decoder) Decode(m pawl.Meta, value []byte) (pawl.Decoded[*Document], error) {
	doc := &Document{Key: append([]byte(nil), m.RecordKey...), Topic: m.Topic, Timestamp: m.Timestamp}
	if d.positions {
		doc.position = m.PositionKey()
	}
	out := pawl.Decoded[*Document]{Body: doc}
	var err error
	switch {
	case value == nil && d.tombstones:
		doc.Tombstone, out.Fingerprint = true, tombstone
	case d.cloudevents:
		out.Fingerprint, err = d.decodeCloudEvent(m, value, doc)
	default:
		var got pawl.Decoded[any]
		got, err = d.json.Decode(m, value)
		doc.Body, out.Fingerprint = got.Body, got.Fingerprint
	}
	if err == nil {
		err = d.identify(&out.Identity, &input{doc: doc, headers: m.Headers})
	}
	return out, err
}

// identify evaluates the event section. What it says of an event is either there or may be missing by name; nothing else is. An
// event that the condition refuses needs none of it: events of other kinds may share the topic.
func (d *decoder) identify(id *pawl.Identity, in *input) error {
	var failed error
	get := func(p *program, to kind) any {
		v, err := p.part(in, to)
		if err != nil && failed == nil {
			failed = err
		}
		return v
	}
	for _, f := range [...]struct {
		p  *program
		to *string
	}{
		{d.id, &id.EventID}, {d.stream, &id.Stream}, {d.streamType, &id.StreamType}, {d.typ, &id.Type},
		{d.messageID, &id.MessageID},
		{d.supersedes, &id.Supersedes}, {d.correlation, &id.CorrelationID}, {d.causation, &id.CausationID},
	} {
		if v, ok := get(f.p, textKind).(string); ok {
			*f.to = v
		}
	}
	if n, ok := get(d.version, intKind).(int64); ok {
		if id.Version = n; n < 1 && failed == nil {
			id.Version, failed = 0, fmt.Errorf("%s is %d: versions begin at 1", d.version.text, n)
		}
	}
	if n, ok := get(d.schemaVersion, intKind).(int64); ok {
		if id.SchemaVersion = int32(n); (n < 0 || n > math.MaxInt32) && failed == nil {
			id.SchemaVersion, failed = 0, fmt.Errorf("%s is %d, which is no version of a schema", d.schemaVersion.text, n)
		}
	}
	if t, ok := get(d.at, timeKind).(time.Time); ok {
		id.OccurredAt = t
	}
	in.id = id
	key, err := d.key.word(in)
	if err != nil {
		return cmp.Or(failed, err) // the key may be missing for what failed before
	}
	id.Key = key
	if failed != nil && d.when != nil {
		if ok, err := d.when.required(in, boolKind); err == nil && ok == false {
			return nil // the effect ignores it
		}
	}
	return failed
}

// part evaluates a part of an identity: nil where there is none, and none is needed.
func (p *program) part(in *input, to kind) (any, error) {
	if p == nil || in.doc.Tombstone && p.uses["$"] {
		return nil, nil
	}
	v, err := p.eval(in)
	switch {
	case err != nil:
		return nil, err
	case v == absent && p.optional, v == nil && p.optional:
		return nil, nil
	case v == absent, v == nil:
		return nil, fmt.Errorf("%s has no value", p.text)
	}
	if v, err = convert(v, to); err != nil {
		return nil, fmt.Errorf("%s: %w", p.text, err)
	}
	if v == "" {
		return nil, fmt.Errorf("%s is empty", p.text)
	}
	return v, nil
}

func headerText(value []byte, what string) (any, error) {
	if !utf8.Valid(value) {
		return nil, fmt.Errorf("%s is not UTF-8", what)
	}
	return string(value), nil
}

func noIdentity(pawl.Meta, any) pawl.Identity { return pawl.Identity{} }
