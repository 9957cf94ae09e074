package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl"
)

// Evidence lists what was decided. See pawl.Admin.
func (a *admin) Evidence(ctx context.Context, consumer string, q pawl.EvidenceQuery) ([]pawl.Evidence, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	args := []any{sql.Named("consumer", consumer), sql.Named("limit", listed(q.Limit))}
	by := "evidence_by_stream"
	if asked := q.Key + q.EventID; asked != "" { // one of them is empty
		k := pawl.NewKeyID(asked)
		args = append(args, sql.Named("key_form", k.Form), sql.Named("key_id", k.ID[:]))
		by = "evidence_by_key"
	}
	if q.EventID != "" {
		by = "evidence_by_event"
	}
	if text := q.EventID + q.Stream; text != "" {
		args = append(args, sql.Named("text", text))
	}
	var all []pawl.Evidence
	rows, err := a.reader.QueryContext(ctx, strings.Replace(query("evidence"), "{{keys}}", query(by), 1), args...)
	if err != nil {
		return nil, fmt.Errorf("look for evidence of %q: %w", consumer, err)
	}
	defer rows.Close()
	for rows.Next() {
		e, err := scanEvidence(rows)
		if err != nil {
			return nil, fmt.Errorf("look for evidence of %q: %w", consumer, err)
		}
		all = append(all, e)
	}
	return all, rows.Err()
}

func scanEvidence(rows *sql.Rows) (e pawl.Evidence, err error) {
	var topic, keyID, key, print, by []byte
	var form, version, versionBefore, schema, occurred sql.NullInt64
	var ingested, processed int64
	var accepted, reason, kind, streamKind, stream, event, message, correlation, causation, row, before, after sql.NullString
	err = rows.Scan(&e.Route, &e.Partition.Topic, &topic, &e.Partition.Index, &e.Offset, &form, &keyID, &key, &print, &accepted,
		&e.Outcome, &reason, &e.Claim, &e.Mode, &e.Code, &kind, &streamKind, &stream, &version, &versionBefore, &schema, &event,
		&message, &correlation, &causation, &occurred, &ingested, &processed, &row, &before, &after, &by)
	if err != nil {
		return e, err
	}
	copy(e.Partition.TopicID[:], topic)
	copy(e.Fingerprint[:], print)
	e.Reason, e.VersionBefore, e.RowAffected = reason.String, versionBefore.Int64, row.String
	e.SupersededBy = string(by)
	e.StateBefore, e.StateAfter = before.String, after.String
	e.IngestedAt, e.ProcessedAt = time.UnixMicro(ingested), time.UnixMicro(processed)
	e.Identity = pawl.Identity{
		Key: keyText(form, keyID, key), EventID: event.String, MessageID: message.String, StreamType: streamKind.String,
		Stream: stream.String, Version: version.Int64, Type: kind.String, SchemaVersion: int32(schema.Int64),
		OccurredAt: timeOf(occurred), CorrelationID: correlation.String, CausationID: causation.String,
	}
	return e, parseAccepted(&e.Accepted, accepted.String)
}
