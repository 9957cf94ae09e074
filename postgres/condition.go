package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawlhq/pawl"
)

// Raise keeps a condition. See pawl.BoundStore.
func (s *bound[Tx]) Raise(ctx context.Context, c pawl.Condition) (*pawl.Resolution, error) {
	p := c.Partition
	topic := pgtype.UUID{Bytes: p.TopicID, Valid: true}
	var answer *pawl.Resolution
	err := s.link.exec(ctx,
		stmt{sql: s.query["raise_condition"], args: []any{
			s.consumer, topic, p.Topic, p.Index, string(c.State), c.Reason, c.Hint, c.Next, c.Start, c.End, c.Since,
		}},
		stmt{sql: s.query["condition_answer"], args: []any{s.consumer, topic, p.Topic, p.Index, string(c.State)}, row: func(scan func(...any) error) error {
			answer = &pawl.Resolution{}
			return scan(&answer.To, &answer.By, &answer.Why, &answer.At)
		}})
	if err != nil {
		return nil, fmt.Errorf("raise %s of %s: %w", c.State, p, err)
	}
	return answer, nil
}

// Standing lists conditions. See pawl.BoundStore.
func (s *bound[Tx]) Standing(ctx context.Context, p pawl.Partition) ([]pawl.Condition, error) {
	var all []pawl.Condition
	topic := pgtype.UUID{Bytes: p.TopicID, Valid: true}
	err := s.link.exec(ctx, stmt{sql: s.query["standing_conditions"], args: []any{s.consumer, topic, p.Topic, p.Index}, row: func(scan func(...any) error) error {
		c := pawl.Condition{Partition: p}
		err := scan((*string)(&c.State), &c.Reason, &c.Hint, &c.Next, &c.Start, &c.End, &c.Since)
		all = append(all, c)
		return err
	}})
	if err != nil {
		return nil, fmt.Errorf("list conditions of %s: %w", p, err)
	}
	return all, nil
}

// Clear ends conditions. See pawl.BoundStore.
func (s *bound[Tx]) Clear(ctx context.Context, p pawl.Partition, states ...pawl.State) error {
	topic := pgtype.UUID{Bytes: p.TopicID, Valid: true}
	err := s.link.exec(ctx, stmt{sql: s.query["clear_conditions"], args: []any{
		s.consumer, topic, p.Topic, p.Index, texts(states), time.Now(),
	}})
	if err != nil {
		return fmt.Errorf("clear conditions of %s: %w", p, err)
	}
	return nil
}

func texts(states []pawl.State) []string {
	out := make([]string, len(states))
	for i, s := range states {
		out[i] = string(s)
	}
	return out
}
