package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl"
)

// Consumers lists who is known. See pawl.Admin.
func (a *admin) Consumers(ctx context.Context) ([]pawl.BoundConsumer, error) {
	var all []pawl.BoundConsumer
	err := a.each(ctx, "list_consumers", func(scan func(...any) error) error {
		var c pawl.BoundConsumer
		var since int64
		var by, why sql.NullString
		var at sql.NullInt64
		var routes string
		if err := scan(&c.Name, &c.Cluster, &c.Group, &since, &by, &why, &at, &routes); err != nil {
			return err
		}
		c.Since = time.UnixMicro(since)
		if at.Valid {
			c.Paused = &pawl.Pause{By: by.String, Why: why.String, At: timeOf(at)}
		}
		err := json.Unmarshal([]byte(routes), &c.Routes)
		all = append(all, c)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list consumers: %w", err)
	}
	return all, nil
}

// Audit lists what operators did. See pawl.Admin.
func (a *admin) Audit(ctx context.Context, consumer string, q pawl.AuditQuery) ([]pawl.AuditEntry, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	text := query("list_audit")
	args := []any{sql.Named("consumer", consumer), sql.Named("as_of", asOf(q.AsOf)), sql.Named("limit", listed(q.Limit))}
	switch {
	case q.Key != "":
		k := pawl.NewKeyID(q.Key)
		text = strings.Replace(query("list_audit_of_records"), "{{records}}", query("records_of_key"), 1)
		args = append(args, sql.Named("form", int64(k.Form)), sql.Named("key", k.ID[:]))
	case q.Stream != "":
		text = strings.Replace(query("list_audit_of_records"), "{{records}}", query("records_of_stream"), 1)
		args = append(args, sql.Named("stream", q.Stream))
	default:
		args = append(args, sql.Named("operation", q.Operation))
	}
	var all []pawl.AuditEntry
	err := a.eachOf(ctx, text, func(scan func(...any) error) error {
		var e pawl.AuditEntry
		var at int64
		var topic []byte
		err := scan(&e.ID, &e.What, &e.By, &e.Why, &at, &e.Operation, &e.Quarantine, &e.Partition.Topic, &topic, &e.Partition.Index,
			&e.Offset, &e.Outcome, &e.Reason)
		copy(e.Partition.TopicID[:], topic)
		e.At = time.UnixMicro(at)
		all = append(all, e)
		return err
	}, args...)
	if err != nil {
		return nil, fmt.Errorf("read the audit of %q: %w", consumer, err)
	}
	return all, nil
}
