package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl"
)

// Evidence lists what was decided. See pawl.Admin.
func (a *admin) Evidence(ctx context.Context, consumer string, q pawl.EvidenceQuery) ([]pawl.Evidence, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	args := []any{sql.Named("limit", listed(q.Limit)), sql.Named("as_of", asOf(q.AsOf))}
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
	var scopes []int64
	err := a.each(ctx, "scopes_of_consumer", func(scan func(...any) error) error {
		var id int64
		err := scan(&id)
		scopes = append(scopes, id)
		return err
	}, consumer)
	if err != nil {
		return nil, fmt.Errorf("look for evidence of %q: %w", consumer, err)
	}
	text := strings.Replace(query("evidence"), "{{keys}}", query(by), 1)
	var all []pawl.Evidence
	for _, scope := range scopes {
		err := a.eachOf(ctx, text, func(scan func(...any) error) error {
			e, err := scanEvidence(scan)
			all = append(all, e)
			return err
		}, append(args, sql.Named("scope", scope))...)
		if err != nil {
			return nil, fmt.Errorf("look for evidence of %q: %w", consumer, err)
		}
	}
	slices.SortStableFunc(all, func(x, y pawl.Evidence) int { // each scope's are in order
		return cmp.Or(x.ProcessedAt.Compare(y.ProcessedAt), cmp.Compare(claims(&x), claims(&y)), cmp.Compare(x.Identity.Version, y.Identity.Version))
	})
	return all, nil
}

func claims(e *pawl.Evidence) int {
	if e.Claim {
		return 1
	}
	return 0
}

// asOf is a moment as it is kept; zero is the end of time.
func asOf(t time.Time) int64 {
	if t.IsZero() {
		return math.MaxInt64
	}
	return micros(t)
}

func scanEvidence(scan func(...any) error) (e pawl.Evidence, err error) {
	var topic, keyID, key, print, by []byte
	var form, version, versionBefore, schema, occurred sql.NullInt64
	var ingested, processed int64
	var accepted, reason, kind, streamKind, stream, event, message, correlation, causation, row, before, after sql.NullString
	err = scan(&e.Route, &e.Partition.Topic, &topic, &e.Partition.Index, &e.Offset, &form, &keyID, &key, &print, &accepted,
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
