package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/fault"
)

// Acquire raises the epoch, and reads the position only after that has committed. See pawl.BoundStore.
func (s *bound[Tx]) Acquire(ctx context.Context, p pawl.Partition, start int64) (*pawl.Ownership, error) {
	topic := pgtype.UUID{Bytes: p.TopicID, Valid: true}
	now := time.Now()
	var row int32
	o := &pawl.Ownership{Partition: p, Token: rand.Text()}
	stmts := make([]stmt, 0, 2)
	if start != pawl.NoStart {
		stmts = append(stmts, stmt{sql: s.query["acquire_insert"], args: []any{s.consumer, topic, p.Index, p.Topic, start, now}})
	}
	found := false
	stmts = append(stmts, stmt{sql: s.query["acquire_raise"], args: []any{s.consumer, topic, p.Index, o.Token, p.Topic, now}, row: func(scan func(...any) error) error {
		found = true
		return scan(&row, &o.Epoch)
	}})
	err := s.link.exec(ctx, stmts...)
	for n := 1; n < 5 && strings.HasPrefix(code(err), "40"); n++ { // the role's default isolation may be stricter than ours
		err = s.link.exec(ctx, stmts...)
	}
	if err != nil {
		return nil, fmt.Errorf("raise epoch: %w", err)
	}
	if !found {
		return nil, s.noPosition(ctx, p)
	}
	if err := fault.Hit(ctx, fault.Acquired); err != nil {
		return nil, err
	}
	var epoch int64
	var token string
	err = s.link.exec(ctx, stmt{sql: s.query["read_progress"], args: []any{row}, row: func(scan func(...any) error) error {
		return scan(&epoch, &token, &o.Seq, &o.Next, &o.Crashes, &o.Ahead, &o.Again)
	}})
	if err != nil {
		return nil, fmt.Errorf("read position: %w", err)
	}
	if epoch != o.Epoch || token != o.Token {
		return nil, pawl.ErrFenced
	}
	o.Row = int64(row)
	return o, nil
}

// noPosition tells a partition of a topic that was made again from one that was never seen.
func (s *bound[Tx]) noPosition(ctx context.Context, p pawl.Partition) error {
	answer := pawl.ErrNoPosition
	topic := pgtype.UUID{Bytes: p.TopicID, Valid: true}
	err := s.link.exec(ctx, stmt{sql: s.query["other_topic"], args: []any{s.consumer, topic, p.Topic, p.Index}, row: func(scan func(...any) error) error {
		answer = pawl.ErrOtherTopic
		var one int
		return scan(&one)
	}})
	if err != nil {
		return fmt.Errorf("look for an earlier topic: %w", err)
	}
	return answer
}

// Move sets the position. See pawl.BoundStore.
func (s *bound[Tx]) Move(ctx context.Context, o *pawl.Ownership, next int64) error {
	moved := false
	var seq, ahead, again int64
	err := s.link.exec(ctx, stmt{sql: s.query["move"], args: []any{int32(o.Row), o.Epoch, o.Token, next}, row: func(scan func(...any) error) error {
		moved = true
		return scan(&seq, &ahead, &again)
	}})
	switch {
	case err != nil:
		return fmt.Errorf("move position: %w", err)
	case !moved:
		return pawl.ErrFenced
	}
	o.Seq, o.Next, o.Ahead, o.Again, o.Crashes = seq, next, ahead, again, 0
	return nil
}

// Release gives a partition back. See pawl.BoundStore.
func (s *bound[Tx]) Release(ctx context.Context, o *pawl.Ownership) error {
	if err := s.link.exec(ctx, stmt{sql: s.query["release_partition"], args: []any{int32(o.Row), o.Epoch, o.Token}}); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return fault.Hit(ctx, fault.Released)
}
