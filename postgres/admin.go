package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawlhq/pawl"
)

// Admin returns what people and tools use. It needs no consumer, and no runner beside it.
func (s *Store[Tx]) Admin() pawl.Admin { return &admin[Tx]{s} }

type admin[Tx any] struct{ *Store[Tx] }

// Progress lists partitions. See pawl.Admin.
func (a *admin[Tx]) Progress(ctx context.Context, consumer string) ([]pawl.PartitionProgress, error) {
	var all []pawl.PartitionProgress
	err := a.link.exec(ctx, stmt{sql: a.query["list_progress"], args: []any{consumer}, row: func(scan func(...any) error) error {
		var p pawl.PartitionProgress
		var topic pgtype.UUID
		var acquired, advanced *time.Time
		err := scan(&p.Partition.Topic, &topic, &p.Partition.Index, &p.Next, &p.Received, &p.Epoch, &p.Owned, &p.Crashes, &acquired, &advanced)
		p.Partition.TopicID, p.AcquiredAt, p.AdvancedAt = topic.Bytes, timeOf(acquired), timeOf(advanced)
		all = append(all, p)
		return err
	}})
	if err != nil {
		return nil, fmt.Errorf("list progress of %q: %w", consumer, err)
	}
	return all, nil
}

// Conditions lists what is the matter. See pawl.Admin.
func (a *admin[Tx]) Conditions(ctx context.Context, consumer string) ([]pawl.OpenCondition, error) {
	var all []pawl.OpenCondition
	err := a.link.exec(ctx, stmt{sql: a.query["list_conditions"], args: []any{consumer}, row: func(scan func(...any) error) error {
		var c pawl.OpenCondition
		var topic pgtype.UUID
		var to *int64
		var by, why *string
		var at *time.Time
		err := scan(&c.ID, &c.Partition.Topic, &topic, &c.Partition.Index, (*string)(&c.State), &c.Reason, &c.Hint, &c.Next,
			&c.Start, &c.End, &c.Since, &to, &by, &why, &at)
		c.Partition.TopicID = topic.Bytes
		if at != nil {
			c.Resolution = &pawl.Resolution{To: *to, By: *by, Why: *why, At: *at}
		}
		all = append(all, c)
		return err
	}})
	if err != nil {
		return nil, fmt.Errorf("list conditions of %q: %w", consumer, err)
	}
	return all, nil
}

// Resolve answers a condition. See pawl.Admin.
func (a *admin[Tx]) Resolve(ctx context.Context, condition int64, r pawl.Resolution) error {
	if err := r.Validate(); err != nil {
		return err
	}
	found := false
	err := a.link.atomically(ctx, func(run func(...stmt) error) error {
		err := run(stmt{sql: a.query["answer_condition"], args: []any{
			condition, r.To, r.By, r.Why, r.At, texts(pawl.HaltingStates()),
		}, row: func(scan func(...any) error) error {
			found = true
			var id int64
			return scan(&id)
		}})
		if err != nil || !found {
			return err
		}
		return run(stmt{sql: a.query["audit_answer"], args: []any{condition}})
	})
	if err != nil {
		return fmt.Errorf("resolve condition %d: %w", condition, err)
	}
	if !found {
		return pawl.NoSuchCondition(condition)
	}
	return nil
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
