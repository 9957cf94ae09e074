package postgres

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawlhq/pawl"
)

// Columns of the set-based statements: one array a column. An array that is null throughout is sent as null, which unnest
// extends to the length of the others.

type keyColumns struct {
	scope []int32
	form  []int16
	id    []pgtype.UUID
}

func (k *keyColumns) add(scope int32, id pawl.KeyID) {
	k.scope = append(k.scope, scope)
	k.form = append(k.form, int16(id.Form))
	k.id = append(k.id, uuid(id.ID))
}

func uuid(b [16]byte) pgtype.UUID { return pgtype.UUID{Bytes: b, Valid: true} }

// column collects a value per row that may be absent.
type column[E any] struct {
	values  []E
	present []bool
	n       int // how many are present
}

func newColumn[E any](n int) column[E] {
	return column[E]{values: make([]E, 0, n), present: make([]bool, 0, n)}
}

func (c *column[E]) add(v E, present bool) {
	c.values, c.present = append(c.values, v), append(c.present, present)
	if present {
		c.n++
	}
}

// arg is the cheapest array that says it: null if none is present, plain if all are.
func (c *column[E]) arg() any {
	switch c.n {
	case 0:
		return nil
	case len(c.values):
		return c.values
	}
	all := make([]*E, len(c.values))
	for i := range c.values {
		if c.present[i] {
			all[i] = &c.values[i]
		}
	}
	return all
}

// decisionColumns are the arguments $4… of insert_decision, in key order.
func (s *bound[Tx]) decisionColumns(ds []*pawl.Decision, named map[string]int32) []any {
	slices.SortFunc(ds, func(a, b *pawl.Decision) int {
		if a.Route != b.Route {
			return int(s.scopes[a.Route]) - int(s.scopes[b.Route])
		}
		if a.KeyID.Form != b.KeyID.Form {
			return int(a.KeyID.Form) - int(b.KeyID.Form)
		}
		return bytes.Compare(a.KeyID.ID[:], b.KeyID.ID[:])
	})
	n := len(ds)
	var key keyColumns
	mode, outcome := make([]int16, n), make([]int16, n)
	fingerprint, offset, ingested := make([]pgtype.UUID, n), make([]int64, n), make([]time.Time, n)
	readable, hasReadable := make([][]byte, n), false
	occurred := newColumn[time.Time](n)
	kind, streamKind, schema := newColumn[int32](n), newColumn[int32](n), newColumn[int32](n)
	version, before := newColumn[int64](n), newColumn[int64](n)
	stream, reason, event := newColumn[string](n), newColumn[string](n), newColumn[string](n)
	message, correlation, causation := newColumn[string](n), newColumn[string](n), newColumn[string](n)
	for i, d := range ds {
		id := &d.Identity
		key.add(s.scopes[d.Route], d.KeyID)
		mode[i], outcome[i] = int16(d.Mode), int16(d.Outcome)
		fingerprint[i], offset[i], ingested[i] = uuid(d.Fingerprint), d.Record.Offset, d.Record.Timestamp
		if d.KeyID.Form == pawl.KeyHashed {
			readable[i], hasReadable = []byte(id.Key), true
		}
		occurred.add(id.OccurredAt, !id.OccurredAt.IsZero())
		kind.add(named[id.Type], id.Type != "")
		streamKind.add(named[id.StreamType], id.StreamType != "")
		schema.add(id.SchemaVersion, id.SchemaVersion != 0)
		version.add(id.Version, id.Version != 0)
		before.add(d.VersionBefore, d.VersionBefore != 0)
		stream.add(id.Stream, id.Stream != "")
		reason.add(storable(d.Reason), d.Reason != "")
		event.add(id.EventID, id.EventID != "" && id.EventID != id.Key) // the key says it already
		message.add(id.MessageID, id.MessageID != "" && id.MessageID != id.Key)
		correlation.add(id.CorrelationID, id.CorrelationID != "")
		causation.add(id.CausationID, id.CausationID != "")
	}
	var readableArg any
	if hasReadable {
		readableArg = readable
	}
	return []any{
		key.scope, mode, key.form, key.id, readableArg, fingerprint, outcome, offset, ingested, occurred.arg(), kind.arg(),
		streamKind.arg(), stream.arg(), version.arg(), schema.arg(), reason.arg(), event.arg(), message.arg(),
		correlation.arg(), causation.arg(), before.arg(),
	}
}

// redeliveryColumns are the arguments $4… of insert_redelivery.
func (s *bound[Tx]) redeliveryColumns(ds []*pawl.Decision) []any {
	n := len(ds)
	scope, mode, offset, outcome := make([]int32, n), make([]int16, n), make([]int64, n), make([]int16, n)
	form, ingested := newColumn[int16](n), make([]time.Time, n)
	id, fingerprint := make([]pgtype.UUID, n), make([]pgtype.UUID, n)
	reason := newColumn[string](n)
	for i, d := range ds {
		scope[i], mode[i], offset[i], outcome[i] = s.scopes[d.Route], int16(d.Mode), d.Record.Offset, int16(d.Outcome)
		decoded := d.Identity.Key != ""
		form.add(int16(d.KeyID.Form), decoded)
		if decoded {
			id[i], fingerprint[i] = uuid(d.KeyID.ID), uuid(d.Fingerprint)
		}
		ingested[i] = d.Record.Timestamp
		reason.add(storable(d.Reason), d.Reason != "")
	}
	return []any{scope, mode, offset, outcome, form.arg(), id, fingerprint, ingested, reason.arg()}
}

// wholeColumns are what is kept of a record that is kept whole.
type wholeColumns struct {
	scope                 []int32
	mode                  []int16
	offset                []int64
	epoch                 []int32
	form                  column[int16]
	id                    []pgtype.UUID
	key, recordKey, value [][]byte
	headers               column[string]
	ingested              []time.Time
}

func (s *bound[Tx]) wholeColumns(ds []*pawl.Decision) *wholeColumns {
	n := len(ds)
	w := &wholeColumns{
		scope: make([]int32, n), mode: make([]int16, n), offset: make([]int64, n), epoch: make([]int32, n), form: newColumn[int16](n),
		id: make([]pgtype.UUID, n), key: make([][]byte, n), recordKey: make([][]byte, n), value: make([][]byte, n),
		headers: newColumn[string](n), ingested: make([]time.Time, n),
	}
	for i, d := range ds {
		w.scope[i], w.mode[i], w.offset[i], w.epoch[i] = s.scopes[d.Route], int16(d.Mode), d.Record.Offset, d.Record.LeaderEpoch
		decoded := d.Identity.Key != ""
		w.form.add(int16(d.KeyID.Form), decoded)
		if decoded {
			w.id[i], w.key[i] = uuid(d.KeyID.ID), []byte(d.Identity.Key)
		}
		w.recordKey[i], w.value[i] = d.Record.Key, d.Record.Value
		w.headers.add(pawl.EncodeHeaders(d.Record.Headers), len(d.Record.Headers) > 0)
		w.ingested[i] = d.Record.Timestamp
	}
	return w
}

// quarantineColumns are the arguments $4… of insert_quarantine.
func (s *bound[Tx]) quarantineColumns(ds []*pawl.Decision) []any {
	n := len(ds)
	w := s.wholeColumns(ds)
	cause, reason, tries, blocks := make([]string, n), make([]string, n), make([]int32, n), make([]bool, n)
	fingerprint, stream := make([]pgtype.UUID, n), newColumn[string](n)
	for i, d := range ds {
		cause[i], reason[i], tries[i], blocks[i] = d.Cause, storable(d.Reason), int32(d.Tries), blocksStream(d)
		if d.Identity.Key != "" {
			fingerprint[i] = uuid(d.Fingerprint)
		}
		stream.add(d.Identity.Stream, d.Identity.Stream != "")
	}
	return []any{
		w.scope, w.mode, w.offset, w.epoch, cause, reason, tries, blocks, w.form.arg(), w.id, w.key, fingerprint, stream.arg(),
		w.recordKey, w.value, w.headers.arg(), w.ingested,
	}
}

// holdColumns are the arguments $4… of insert_hold.
func (s *bound[Tx]) holdColumns(ds []*pawl.Decision) []any {
	w := s.wholeColumns(ds)
	stream := make([]string, len(ds))
	for i, d := range ds {
		stream[i] = d.Identity.Stream
	}
	return []any{
		w.scope, w.mode, w.offset, w.epoch, stream, w.form.arg(), w.id, w.key, w.recordKey, w.value, w.headers.arg(), w.ingested,
	}
}

// storable makes a reason fit for a text column: an error may quote any bytes.
func storable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "�"), "\x00", "�")
}
