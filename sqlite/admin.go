package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl"
)

// Admin returns what people and tools use. It needs no consumer, and no runner beside it.
func (s *Store) Admin() pawl.Admin { return &admin{s} }

type admin struct{ *Store }

// Progress lists partitions. See pawl.Admin.
func (a *admin) Progress(ctx context.Context, consumer string) ([]pawl.PartitionProgress, error) {
	rows, err := a.reader.QueryContext(ctx, query("list_progress"), consumer)
	if err != nil {
		return nil, fmt.Errorf("list progress of %q: %w", consumer, err)
	}
	defer rows.Close()
	var all []pawl.PartitionProgress
	for rows.Next() {
		var p pawl.PartitionProgress
		var topic []byte
		var acquired, advanced sql.NullInt64
		err := rows.Scan(&p.Partition.Topic, &topic, &p.Partition.Index, &p.Next, &p.Received, &p.Epoch, &p.Owned, &p.Crashes, &acquired, &advanced)
		if err != nil {
			return nil, fmt.Errorf("list progress of %q: %w", consumer, err)
		}
		copy(p.Partition.TopicID[:], topic)
		p.AcquiredAt, p.AdvancedAt = timeOf(acquired), timeOf(advanced)
		all = append(all, p)
	}
	return all, rows.Err()
}

// Conditions lists what is the matter. See pawl.Admin.
func (a *admin) Conditions(ctx context.Context, consumer string) ([]pawl.OpenCondition, error) {
	rows, err := a.reader.QueryContext(ctx, query("list_conditions"), consumer)
	if err != nil {
		return nil, fmt.Errorf("list conditions of %q: %w", consumer, err)
	}
	defer rows.Close()
	var all []pawl.OpenCondition
	for rows.Next() {
		var c pawl.OpenCondition
		var topic []byte
		var to, since, at sql.NullInt64
		var by, why sql.NullString
		err := rows.Scan(&c.ID, &c.Partition.Topic, &topic, &c.Partition.Index, &c.State, &c.Reason, &c.Hint, &c.Next, &c.Start,
			&c.End, &since, &to, &by, &why, &at)
		if err != nil {
			return nil, fmt.Errorf("list conditions of %q: %w", consumer, err)
		}
		copy(c.Partition.TopicID[:], topic)
		c.Since = timeOf(since)
		if at.Valid {
			c.Resolution = &pawl.Resolution{To: to.Int64, By: by.String, Why: why.String, At: timeOf(at)}
		}
		all = append(all, c)
	}
	return all, rows.Err()
}

// Resolve answers a condition. See pawl.Admin.
func (a *admin) Resolve(ctx context.Context, condition int64, r pawl.Resolution) error {
	if err := r.Validate(); err != nil {
		return err
	}
	return a.write(ctx, func(tx *transaction) error {
		var state pawl.State
		err := tx.QueryRowContext(ctx, query("find_condition"), condition).Scan(&state)
		if errors.Is(err, sql.ErrNoRows) {
			return pawl.NoSuchCondition(condition)
		}
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, query("answer_condition"), sql.Named("id", condition), sql.Named("to", r.To),
			sql.Named("by", r.By), sql.Named("why", r.Why), sql.Named("at", r.At.UnixMicro()), sql.Named("halts", state.Halts()))
		if err != nil {
			return err
		}
		return tx.note(ctx, "answer_act", condition)
	})
}

func timeOf(micros sql.NullInt64) time.Time {
	if !micros.Valid {
		return time.Time{}
	}
	return time.UnixMicro(micros.Int64)
}
