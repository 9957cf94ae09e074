package pawl

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Identity says what an event is. Its fields are separate on purpose: a message may be sent twice for one event, and an
// event may cause several effects.
type Identity struct {
	// Key is the idempotency key of the effect: within a route, each Key takes effect once. It may be of any length and
	// hold any bytes. An empty Key is poison: the record is quarantined. Where the source has no identity of its own, a
	// key made from the position must be asked for by name: [Meta.PositionKey].
	Key string

	EventID   string // the domain fact, stable when it is sent again
	MessageID string // the physical message, new each time it is sent

	StreamType string // the kind of aggregate, such as "case"
	Stream     string // the aggregate whose events have an order
	Version    int64  // the event's place in its stream, from 1; 0 means none

	Type          string    // what happened, such as "NOTICE_ISSUED"
	SchemaVersion int32     // of the body; 0 means none
	OccurredAt    time.Time // when it happened at its source; zero means unknown

	// Supersedes is the Key of an earlier event that this one corrects: when this one is applied, that one is marked, and if it
	// comes only afterwards it takes no effect.
	Supersedes string

	CorrelationID string // the business flow it belongs to
	CausationID   string // what caused it
}

// validate refuses what no store could keep as text or time, so that a batch never fails as a whole for one record.
func (id *Identity) validate() error {
	if id.Key == "" {
		return ErrNoKey
	}
	for _, f := range [...]struct{ name, value string }{
		{"event id", id.EventID}, {"message id", id.MessageID}, {"stream type", id.StreamType}, {"stream", id.Stream},
		{"type", id.Type}, {"correlation id", id.CorrelationID}, {"causation id", id.CausationID},
	} {
		switch {
		case len(f.value) > maxNameBytes:
			return fmt.Errorf("%s is %d bytes long; at most %d are kept", f.name, len(f.value), maxNameBytes)
		case strings.IndexByte(f.value, 0) >= 0:
			return fmt.Errorf("%s holds a NUL byte", f.name)
		case !utf8.ValidString(f.value):
			return fmt.Errorf("%s is not valid UTF-8", f.name)
		}
	}
	if id.Supersedes == id.Key {
		return errors.New("it supersedes itself")
	}
	if id.Version < 0 {
		return fmt.Errorf("version %d is negative", id.Version)
	}
	if storableTime(id.OccurredAt) != id.OccurredAt {
		return fmt.Errorf("occurred in year %d, outside 1 to 9999", id.OccurredAt.Year())
	}
	return nil
}

// maxNameBytes bounds the text fields of an Identity other than Key.
const maxNameBytes = 1024

// Mode says why a record is being handled. Outward effects (mail, payments, webhooks) must refuse unless it is Live.
type Mode uint8

// Live is the ordinary course of events. It is the only mode until replays exist.
const Live Mode = 1

func (m Mode) String() string {
	if m == Live {
		return "live"
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// Envelope is what a handler sees of a record: who it is, what it says, and nothing of where it was in the log.
type Envelope[T any] struct {
	Identity
	Mode    Mode
	Headers []Header
	Body    T
}

// Meta is what a decoder may use beside the bytes. It is valid only during the call.
type Meta struct {
	Topic     string
	RecordKey []byte // Kafka's record key; it routes, it does not identify
	Headers   []Header
	Timestamp time.Time

	record *Record
}

// NewMeta returns the meta of r, for tests of decoders.
func NewMeta(r *Record) Meta {
	return Meta{Topic: r.Partition.Topic, RecordKey: r.Key, Headers: r.Headers, Timestamp: r.Timestamp, record: r}
}

// Header returns the value of the last header named key.
func (m Meta) Header(key string) ([]byte, bool) {
	for i := len(m.Headers) - 1; i >= 0; i-- {
		if m.Headers[i].Key == key {
			return m.Headers[i].Value, true
		}
	}
	return nil, false
}

// PositionKey returns a Key made from the record's place in the log (topic id, partition, offset), for logs whose events
// have no identity. It tells one log entry from another and no more: an event that is sent again, copied to another
// topic or replayed through one gets another PositionKey and takes effect again.
func (m Meta) PositionKey() string {
	return fmt.Sprintf("position/%s/%d/%d", m.record.Partition.TopicID, m.record.Partition.Index, m.record.Offset)
}

// Decoder turns a record's bytes into a body and its identity. A returned error is poison: the record is quarantined
// with its bytes. Decode is called from several goroutines and must not keep m or value.
type Decoder[T any] interface {
	Decode(m Meta, value []byte) (Decoded[T], error)
}

// Decoded is what a [Decoder] makes of a record.
type Decoded[T any] struct {
	Identity    Identity
	Body        T
	Fingerprint Fingerprint
}

// Fingerprint tells whether two records with one Key say the same: a hash of the canonical content without the fields of
// the envelope. Equal is a duplicate; unequal is a conflict, which is quarantined and never dropped.
type Fingerprint [16]byte
