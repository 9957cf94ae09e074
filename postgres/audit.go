package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawlhq/pawl"
)

// Consumers lists who is known. See pawl.Admin.
func (a *admin[Tx]) Consumers(ctx context.Context) ([]pawl.BoundConsumer, error) {
	var all []pawl.BoundConsumer
	err := a.link.exec(ctx, stmt{sql: a.query["list_consumers"], row: func(scan func(...any) error) error {
		var c pawl.BoundConsumer
		var by, why *string
		var at *time.Time
		var routes string
		if err := scan(&c.Name, &c.Cluster, &c.Group, &c.Since, &by, &why, &at, &routes); err != nil {
			return err
		}
		if at != nil {
			c.Paused = &pawl.Pause{By: textOf(by), Why: textOf(why), At: *at}
		}
		err := json.Unmarshal([]byte(routes), &c.Routes)
		all = append(all, c)
		return err
	}})
	if err != nil {
		return nil, fmt.Errorf("list consumers: %w", err)
	}
	return all, nil
}

// Audit lists what operators did. See pawl.Admin.
func (a *admin[Tx]) Audit(ctx context.Context, consumer string, q pawl.AuditQuery) ([]pawl.AuditEntry, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	text, args := a.query["list_audit"], []any{consumer, q.Operation, asOf(q.AsOf), listed(q.Limit)}
	if q.Key+q.Stream != "" { // one of them is empty
		of := "records_of_stream"
		var form, key any
		if q.Key != "" {
			of = "records_of_key"
			k := pawl.NewKeyID(q.Key)
			form, key = int16(k.Form), uuid(k.ID)
		}
		text = strings.Replace(a.query["list_audit_of_records"], "{{records}}", a.query[of], 1)
		args = []any{consumer, storable(q.Stream), form, key, asOf(q.AsOf), listed(q.Limit)}
	}
	var all []pawl.AuditEntry
	err := a.link.exec(ctx, stmt{sql: text, args: args, row: func(scan func(...any) error) error {
		var e pawl.AuditEntry
		var topic pgtype.UUID
		var outcome int16
		err := scan(&e.ID, &e.What, &e.By, &e.Why, &e.At, &e.Operation, &e.Quarantine, &e.Partition.Topic, &topic, &e.Partition.Index,
			&e.Offset, &outcome, &e.Reason)
		e.Partition.TopicID, e.Outcome = topic.Bytes, pawl.Outcome(outcome)
		all = append(all, e)
		return err
	}})
	if err != nil {
		return nil, fmt.Errorf("read the audit of %q: %w", consumer, err)
	}
	return all, nil
}
