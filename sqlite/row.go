package sqlite

import (
	"context"
	"strings"
	"time"

	"github.com/pawlhq/pawl"
)

// The rows of a decision, in the order of the columns in sql/apply.sql.

func (a *application) decisionRow(ctx context.Context, d *pawl.Decision) ([]any, error) {
	typeID, err := a.name(ctx, d.Identity.Type)
	if err != nil {
		return nil, err
	}
	streamTypeID, err := a.name(ctx, d.Identity.StreamType)
	if err != nil {
		return nil, err
	}
	id := &d.Identity
	return []any{
		a.bound.scopes[d.Route], a.rowOf(d), a.bound.code, d.Mode, micros(a.work.Now),
		d.KeyID.Form, d.KeyID.ID[:], hashedKey(d), d.Fingerprint[:], d.Outcome, d.Record.Offset, a.ingested(d),
		timeOrNull(id.OccurredAt), typeID, streamTypeID, orNull(id.Stream), orNull(id.Version), orNull(id.SchemaVersion),
		orNull(clean(d.Reason)), beside(id.Key, id.EventID), beside(id.Key, id.MessageID), orNull(id.CorrelationID), orNull(id.CausationID),
		accepted(d), orNull(d.VersionBefore), orNull(d.RowAffected), orNull(d.StateBefore), orNull(d.StateAfter),
	}, nil
}

func (a *application) redeliveryRow(d *pawl.Decision) ([]any, error) {
	var form, key, print any
	if d.Identity.Key != "" {
		form, key, print = d.KeyID.Form, d.KeyID.ID[:], d.Fingerprint[:]
	}
	return []any{
		a.bound.scopes[d.Route], a.rowOf(d), a.bound.code, d.Mode, micros(a.work.Now),
		d.Record.Offset, d.Outcome, form, key, print, a.ingested(d), orNull(clean(d.Reason)),
	}, nil
}

func (a *application) quarantineRow(d *pawl.Decision) ([]any, error) {
	var form, id, print any
	if d.Identity.Key != "" {
		form, id, print = d.KeyID.Form, d.KeyID.ID[:], d.Fingerprint[:]
	}
	return []any{
		a.bound.scopes[d.Route], a.rowOf(d), a.bound.code, d.Mode, micros(a.work.Now),
		d.Record.Offset, d.Record.LeaderEpoch, d.Cause, clean(d.Reason), d.Tries, blocksStream(d), form, id, hashedKey(d), print,
		orNull(d.Identity.Stream), d.Record.Key, d.Record.Value, orNull(pawl.EncodeHeaders(d.Record.Headers)), a.ingested(d),
	}, nil
}

// name returns the id of an interned name, nil for none.
func (a *application) name(ctx context.Context, name string) (any, error) {
	if name == "" {
		return nil, nil
	}
	return a.bound.names.id(ctx, a.tx, name, a.fresh)
}

// hashedKey is the key where its id does not tell it.
func hashedKey(d *pawl.Decision) any {
	if d.Identity.Key == "" || d.KeyID.Form != pawl.KeyHashed {
		return nil
	}
	return []byte(d.Identity.Key)
}

// ingested is when the log took the record.
func (a *application) ingested(d *pawl.Decision) int64 {
	if d.Record.Timestamp.IsZero() {
		return micros(a.work.Now)
	}
	return micros(d.Record.Timestamp)
}

func micros(t time.Time) int64 { return t.UnixMicro() }

func timeOrNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return micros(t)
}

// orNull is v, or null where there is none.
func orNull[T comparable](v T) any {
	var none T
	if v == none {
		return nil
	}
	return v
}

// beside is an id that the key does not say already.
func beside(key, id string) any {
	if id == key {
		return nil
	}
	return orNull(id)
}

// clean makes a reason text: it may quote the very bytes that could not be read.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
