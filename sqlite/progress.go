package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/fault"
)

// Acquire takes a partition: it raises the epoch, commits, and only then reads the position, so that nothing an earlier
// owner commits can be missed.
func (s *bound) Acquire(ctx context.Context, p pawl.Partition, start int64) (*pawl.Ownership, error) {
	o := &pawl.Ownership{Partition: p, Token: rand.Text()}
	err := s.write(ctx, func(tx *transaction) error {
		args := []any{
			sql.Named("consumer", s.consumer), sql.Named("topic_id", p.TopicID[:]), sql.Named("partition", p.Index),
			sql.Named("topic", p.Topic), sql.Named("start", start), sql.Named("owner", o.Token),
			sql.Named("now", time.Now().UnixMicro()),
		}
		if start != pawl.NoStart {
			if _, err := tx.ExecContext(ctx, query("acquire_insert"), args...); err != nil {
				return err
			}
		}
		err := tx.QueryRowContext(ctx, query("acquire_raise"), args...).Scan(&o.Row, &o.Epoch)
		if errors.Is(err, sql.ErrNoRows) {
			return noPosition(ctx, tx, args)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("acquire %s: %w", p, err)
	}
	if err := fault.Hit(ctx, fault.Acquired); err != nil {
		return nil, err
	}
	at, err := s.readProgress(ctx, o.Row)
	if err != nil {
		return nil, fmt.Errorf("acquire %s: read position: %w", p, err)
	}
	o.Seq, o.Next, o.Crashes, o.Ahead, o.Again = at.seq, at.next, at.crashes, at.ahead, at.again
	return o, nil
}

// noPosition tells a partition of a topic that was made again from one that was never seen.
func noPosition(ctx context.Context, tx *transaction, args []any) error {
	var one int
	err := tx.QueryRowContext(ctx, query("other_topic"), args...).Scan(&one)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return pawl.ErrNoPosition
	case err != nil:
		return err
	}
	return pawl.ErrOtherTopic
}

// Move sets the position. See pawl.BoundStore.
func (s *bound) Move(ctx context.Context, o *pawl.Ownership, next int64) error {
	var seq, ahead, again int64
	err := s.write(ctx, func(tx *transaction) error {
		err := tx.QueryRowContext(ctx, query("move"), sql.Named("id", o.Row), sql.Named("epoch", o.Epoch), sql.Named("token", o.Token),
			sql.Named("next", next)).Scan(&seq, &ahead, &again)
		if errors.Is(err, sql.ErrNoRows) {
			return pawl.ErrFenced
		}
		if err != nil {
			return err
		}
		return forgetAttempts(ctx, tx, o.Row, math.MaxInt64) // they do not count against records that are read again
	})
	if err != nil {
		return fmt.Errorf("move position of %s: %w", o.Partition, err)
	}
	o.Seq, o.Next, o.Ahead, o.Again, o.Crashes = seq, next, ahead, again, 0
	return nil
}

// Release gives a partition back, unless another owner has taken it.
func (s *bound) Release(ctx context.Context, o *pawl.Ownership) error {
	err := s.write(ctx, func(tx *transaction) error {
		res, err := tx.ExecContext(ctx, query("release_partition"), sql.Named("id", o.Row), sql.Named("epoch", o.Epoch),
			sql.Named("token", o.Token))
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); n == 0 || err != nil {
			return err // another's by now
		}
		// Who gives back has not died of what it tried.
		_, err = tx.ExecContext(ctx, query("forget_attempts"), sql.Named("id", o.Row), sql.Named("before", int64(math.MaxInt64)))
		return err
	})
	if err != nil {
		return fmt.Errorf("release %s: %w", o.Partition, err)
	}
	return fault.Hit(ctx, fault.Released)
}

// Survive takes a try back. See pawl.BoundStore.
func (s *bound) Survive(ctx context.Context, o *pawl.Ownership, offset int64) error {
	err := s.write(ctx, func(tx *transaction) error {
		_, err := tx.ExecContext(ctx, query("survive_attempt"), sql.Named("id", o.Row), sql.Named("offset", offset))
		return err
	})
	if err != nil {
		return fmt.Errorf("take back an attempt at %s@%d: %w", o.Partition, offset, err)
	}
	return nil
}

// Attempt notes a try. See pawl.BoundStore.
func (s *bound) Attempt(ctx context.Context, o *pawl.Ownership, offset int64) (before int, err error) {
	err = s.write(ctx, func(tx *transaction) error {
		at, err := scanProgress(tx.QueryRowContext(ctx, query("read_progress"), o.Row))
		if err != nil {
			return err
		}
		if err := at.prove(o); err != nil {
			return err
		}
		if err := forgetAttempts(ctx, tx, o.Row, at.next); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, query("note_attempt"), sql.Named("id", o.Row), sql.Named("offset", offset),
			sql.Named("now", time.Now().UnixMicro())).Scan(&before)
	})
	if err != nil {
		return 0, own(fmt.Sprintf("note an attempt at %s@%d", o.Partition, offset), err)
	}
	return before, nil
}

func forgetAttempts(ctx context.Context, tx *transaction, row, before int64) error {
	_, err := tx.ExecContext(ctx, query("forget_attempts"), sql.Named("id", row), sql.Named("before", before))
	return err
}

// progress is what a progress row says.
type progress struct {
	epoch, seq, next int64
	token            string
	crashes          int
	ahead, again     int64
}

// prove reports why o is not the owner, if it is not.
func (at progress) prove(o *pawl.Ownership) error {
	switch {
	case at.epoch > o.Epoch:
		return fmt.Errorf("%w: epoch is %d, owner holds %d", pawl.ErrFenced, at.epoch, o.Epoch)
	case at.epoch < o.Epoch, at.token != o.Token:
		return fmt.Errorf("%w: epoch is %d of another history, owner holds %d", pawl.ErrStoreWentBack, at.epoch, o.Epoch)
	case at.seq < o.Seq:
		return fmt.Errorf("%w: seq is %d, owner has seen %d", pawl.ErrStoreWentBack, at.seq, o.Seq)
	}
	return nil
}

// readProgress reads on the writer connection: what it sees is committed, and nothing of this store's is under way.
func (s *Store) readProgress(ctx context.Context, row int64) (progress, error) {
	return scanProgress(s.writer.QueryRowContext(ctx, query("read_progress"), row))
}

func scanProgress(row *sql.Row) (at progress, err error) {
	err = row.Scan(&at.epoch, &at.token, &at.seq, &at.next, &at.crashes, &at.ahead, &at.again)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("%w: the progress row is gone", pawl.ErrStoreWentBack)
	}
	return at, err
}
