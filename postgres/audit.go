package postgres

import (
	"context"
	"encoding/json"
	"fmt"
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
	var form, key any
	if q.Key != "" {
		k := pawl.NewKeyID(q.Key)
		form, key = int16(k.Form), uuid(k.ID)
	}
	var all []pawl.AuditEntry
	err := a.link.exec(ctx, stmt{sql: a.query["list_audit"], args: []any{
		consumer, q.Operation, form, key, orNull(storable(q.Stream)), listed(q.Limit),
	}, row: func(scan func(...any) error) error {
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
