package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl"
)

// Raise keeps a condition. See pawl.BoundStore.
func (s *bound) Raise(ctx context.Context, c pawl.Condition) (answer *pawl.Resolution, err error) {
	args := append(s.conditionArgs(c.Partition, c.State), sql.Named("reason", c.Reason), sql.Named("hint", c.Hint),
		sql.Named("next", c.Next), sql.Named("start", c.Start), sql.Named("end", c.End), sql.Named("since", c.Since.UnixMicro()))
	err = s.write(ctx, func(tx *transaction) error {
		if _, err := tx.ExecContext(ctx, query("raise_condition"), args...); err != nil {
			return err
		}
		var r pawl.Resolution
		var at int64
		err := tx.QueryRowContext(ctx, query("condition_answer"), args[:5]...).Scan(&r.To, &r.By, &r.Why, &at)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		r.At = time.UnixMicro(at)
		answer = &r
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("raise %s of %s: %w", c.State, c.Partition, err)
	}
	return answer, nil
}

// Standing lists conditions. See pawl.BoundStore.
func (s *bound) Standing(ctx context.Context, p pawl.Partition) ([]pawl.Condition, error) {
	rows, err := s.reader.QueryContext(ctx, query("standing_conditions"), s.conditionArgs(p, "")[:4]...)
	if err != nil {
		return nil, fmt.Errorf("list conditions of %s: %w", p, err)
	}
	defer rows.Close()
	var all []pawl.Condition
	for rows.Next() {
		c := pawl.Condition{Partition: p}
		var since int64
		if err := rows.Scan(&c.State, &c.Reason, &c.Hint, &c.Next, &c.Start, &c.End, &since); err != nil {
			return nil, fmt.Errorf("list conditions of %s: %w", p, err)
		}
		c.Since = time.UnixMicro(since)
		all = append(all, c)
	}
	return all, rows.Err()
}

// Clear ends conditions. See pawl.BoundStore.
func (s *bound) Clear(ctx context.Context, p pawl.Partition, states ...pawl.State) error {
	err := s.write(ctx, func(tx *transaction) error {
		for _, state := range states {
			args := append(s.conditionArgs(p, state), sql.Named("now", time.Now().UnixMicro()))
			if _, err := tx.ExecContext(ctx, query("clear_condition"), args...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("clear conditions of %s: %w", p, err)
	}
	return nil
}

func (s *bound) conditionArgs(p pawl.Partition, state pawl.State) []any {
	return []any{
		sql.Named("consumer", s.consumer), sql.Named("topic_id", p.TopicID[:]), sql.Named("topic", p.Topic),
		sql.Named("partition", p.Index), sql.Named("state", string(state)),
	}
}
