package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawlhq/pawl"
)

// Evidence lists what was decided. See pawl.Admin.
func (a *admin[Tx]) Evidence(ctx context.Context, consumer string, q pawl.EvidenceQuery) ([]pawl.Evidence, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	by, text := "evidence_by_stream", q.Stream
	var form, id any
	if asked := q.Key + q.EventID; asked != "" { // one of them is empty
		by, text = "evidence_by_key", asked
		if q.Key == "" {
			by = "evidence_by_event"
		}
		k := pawl.NewKeyID(asked)
		form, id = int16(k.Form), uuid(k.ID)
	}
	query := strings.Replace(a.query["evidence"], "{{keys}}", a.query[by], 1)
	var all []pawl.Evidence
	search := stmt{sql: query, args: []any{consumer, form, id, storable(text), listed(q.Limit), asOf(q.AsOf)}, row: func(scan func(...any) error) error {
		e, err := scanEvidence(scan)
		all = append(all, e)
		return err
	}}
	err := a.link.atomically(ctx, func(run func(...stmt) error) error {
		all = nil
		return run(stmt{sql: a.query["plain_search"]}, search)
	})
	if err != nil {
		return nil, fmt.Errorf("look for evidence of %q: %w", consumer, err)
	}
	return all, nil
}

// asOf is a moment; zero is later than anything that is kept.
func asOf(t time.Time) time.Time {
	if t.IsZero() {
		return time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	}
	return t
}

func scanEvidence(scan func(...any) error) (e pawl.Evidence, err error) {
	var topic pgtype.UUID
	var form, outcome, mode int16
	var keyID, key, print, by []byte
	var accepted, reason, kind, streamKind, stream, event, message, correlation, causation, row, before, after *string
	var version, versionBefore *int64
	var schema *int32
	var occurred *time.Time
	err = scan(&e.Route, &e.Partition.Topic, &topic, &e.Partition.Index, &e.Offset, &form, &keyID, &key, &print, &accepted, &outcome,
		&reason, &e.Claim, &mode, &e.Code, &kind, &streamKind, &stream, &version, &versionBefore, &schema, &event, &message,
		&correlation, &causation, &occurred, &e.IngestedAt, &e.ProcessedAt, &row, &before, &after, &by)
	if err != nil {
		return e, err
	}
	e.Partition.TopicID, e.Outcome, e.Mode, e.Reason = topic.Bytes, pawl.Outcome(outcome), pawl.Mode(mode), textOf(reason)
	e.Identity = pawl.Identity{
		Key: string(key), EventID: textOf(event), MessageID: textOf(message), StreamType: textOf(streamKind), Stream: textOf(stream),
		Type: textOf(kind), OccurredAt: timeOf(occurred), CorrelationID: textOf(correlation), CausationID: textOf(causation),
	}
	if version != nil {
		e.Identity.Version = *version
	}
	if versionBefore != nil {
		e.VersionBefore = *versionBefore
	}
	if schema != nil {
		e.Identity.SchemaVersion = *schema
	}
	k := pawl.KeyID{Form: pawl.KeyForm(form)}
	copy(k.ID[:], keyID)
	if text, ok := k.Key(); ok {
		e.Identity.Key = text
	}
	copy(e.Fingerprint[:], print)
	e.SupersededBy = string(by)
	e.RowAffected, e.StateBefore, e.StateAfter = textOf(row), textOf(before), textOf(after)
	if accepted != nil {
		e.Accepted, err = parseAccepted(*accepted)
	}
	return e, err
}
