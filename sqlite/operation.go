package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl"
)

// Plan counts items. See pawl.Admin.
func (a *admin) Plan(ctx context.Context, r pawl.OperationRequest) (count int, err error) {
	if err := r.Validate(); err != nil {
		return 0, err
	}
	args, err := filterArgs(r.Consumer, &r.Filter)
	if err != nil {
		return 0, err
	}
	if err := a.reader.QueryRowContext(ctx, query("plan_operation"), args...).Scan(&count); err != nil {
		return 0, fmt.Errorf("plan a %s of %q: %w", r.Kind, r.Consumer, err)
	}
	if r.Limit > 0 {
		count = min(count, r.Limit)
	}
	return count, nil
}

// Start freezes the items of an operation. See pawl.Admin.
func (a *admin) Start(ctx context.Context, r pawl.OperationRequest) (*pawl.Operation, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	filter, err := filterArgs(r.Consumer, &r.Filter)
	if err != nil {
		return nil, err
	}
	var id int64
	err = a.write(ctx, func(tx *transaction) (err error) {
		id, err = start(ctx, tx, &r, filter)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("start %s of %q: %w", r.Kind, r.Consumer, err)
	}
	return a.Operation(ctx, id)
}

func start(ctx context.Context, tx *transaction, r *pawl.OperationRequest, filter []any) (id int64, err error) {
	asked, err := json.Marshal(r.Filter)
	if err != nil {
		return 0, err
	}
	consumer, err := findConsumer(ctx, tx, r.Consumer)
	if err != nil {
		return 0, err
	}
	by := []any{sql.Named("by", r.By), sql.Named("why", r.Why), sql.Named("at", micros(r.At))}
	err = tx.QueryRowContext(ctx, query("insert_operation"), append(by[:3:3], sql.Named("consumer", consumer), sql.Named("kind", string(r.Kind)),
		sql.Named("rate", r.Rate), sql.Named("canary", r.Canary), sql.Named("filter", string(asked)))...).Scan(&id)
	if err != nil {
		return 0, err
	}
	operation := sql.Named("operation", id)
	most := r.Limit
	if most == 0 {
		most = -1 // no limit
	}
	if _, err := tx.ExecContext(ctx, query("insert_items"), append(filter, operation, sql.Named("limit", most))...); err != nil {
		return 0, err
	}
	var total int
	if err := tx.QueryRowContext(ctx, query("count_items"), operation).Scan(&total); err != nil {
		return 0, err
	}
	if total == 0 {
		return 0, pawl.NothingToDo()
	}
	if r.Kind == pawl.OperationEdit {
		if _, err := tx.ExecContext(ctx, query("insert_revision"), append(by[:3:3], operation, sql.Named("value", r.Value))...); err != nil {
			return 0, err
		}
	}
	what := sql.Named("what", "start "+string(r.Kind))
	if err := tx.note(ctx, "operation_act", append(by[:3:3], operation, what)...); err != nil {
		return 0, err
	}
	if r.Kind == pawl.OperationArchive {
		return id, archive(ctx, tx, id, micros(r.At))
	}
	return id, nil
}

// archive carries an archive out: no lane is needed, because nothing takes effect.
func archive(ctx context.Context, tx *transaction, operation, at int64) error {
	var items []int64
	rows, err := tx.QueryContext(ctx, query("items"), operation)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return err
		}
		items = append(items, id)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, id := range items {
		if err := tx.resolveQuarantine(ctx, id, statusArchived, at); err != nil {
			return err
		}
	}
	args := []any{sql.Named("operation", operation), sql.Named("at", at)}
	for _, name := range []string{"archive_items", "archive_operation"} {
		if _, err := tx.ExecContext(ctx, query(name), args...); err != nil {
			return err
		}
	}
	return tx.note(ctx, "archive_acts", args...)
}

func findConsumer(ctx context.Context, tx *transaction, name string) (id int64, err error) {
	err = tx.QueryRowContext(ctx, query("find_consumer"), name).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		err = pawl.NoSuch("consumer", name)
	}
	return id, err
}

// Operations lists operations. See pawl.Admin.
func (a *admin) Operations(ctx context.Context, consumer string, limit int) ([]pawl.Operation, error) {
	all, err := a.operations(ctx, "list_operations", sql.Named("consumer", consumer), sql.Named("limit", listed(limit)))
	if err != nil {
		return nil, fmt.Errorf("list the operations of %q: %w", consumer, err)
	}
	return all, nil
}

// Operation reads one. See pawl.Admin.
func (a *admin) Operation(ctx context.Context, id int64) (*pawl.Operation, error) {
	all, err := a.operations(ctx, "read_operation", id)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read operation %d: %w", id, err)
	case len(all) == 0:
		return nil, pawl.NoSuch("operation", id)
	}
	return &all[0], nil
}

func (a *admin) operations(ctx context.Context, name string, args ...any) (all []pawl.Operation, err error) {
	err = a.each(ctx, name, func(scan func(...any) error) error {
		var o pawl.Operation
		var at, resumed int64
		var ended sql.NullInt64
		err := scan(&o.ID, &o.Consumer, &o.Kind, &o.State, &o.Total, &o.Done, &o.Failed, &o.Rate, &o.Canary, &o.By, &o.Why, &at, &ended,
			&resumed, &o.ResumedDone)
		o.At, o.EndedAt, o.ResumedAt = time.UnixMicro(at), timeOf(ended), time.UnixMicro(resumed)
		all = append(all, o)
		return err
	}, args...)
	return all, err
}

// SetOperation changes the state of an operation. See pawl.Admin.
func (a *admin) SetOperation(ctx context.Context, id int64, state pawl.OperationState, by, why string, at time.Time) error {
	if err := pawl.ValidateActor(fmt.Sprintf("set operation %d to %s", id, state), by, why, at); err != nil {
		return err
	}
	err := a.write(ctx, func(tx *transaction) error {
		var now pawl.OperationState
		err := tx.QueryRowContext(ctx, query("operation_state"), id).Scan(&now)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return pawl.NoSuch("operation", id)
		case err != nil:
			return err
		case !now.CanBecome(state):
			return pawl.NoSuchChange(id, now, state)
		}
		operation, when := sql.Named("operation", id), sql.Named("at", micros(at))
		if _, err := tx.ExecContext(ctx, query("set_operation"), operation, when, sql.Named("state", string(state))); err != nil {
			return err
		}
		return tx.note(ctx, "operation_act", operation, when, sql.Named("what", "operation "+string(state)),
			sql.Named("by", by), sql.Named("why", why))
	})
	if err != nil {
		return fmt.Errorf("set operation %d to %s: %w", id, state, err)
	}
	return nil
}

// Pause has a consumer settle nothing. See pawl.Admin.
func (a *admin) Pause(ctx context.Context, consumer string, p pawl.Pause) error {
	if err := p.Validate(); err != nil {
		return err
	}
	return a.actOn(ctx, consumer, "pause", p, func(tx *transaction, args []any) error {
		_, err := tx.ExecContext(ctx, query("pause_consumer"), args...)
		return err
	})
}

// Resume ends a pause. See pawl.Admin.
func (a *admin) Resume(ctx context.Context, consumer, by, why string, at time.Time) error {
	if err := pawl.ValidateActor("resume a consumer", by, why, at); err != nil {
		return err
	}
	return a.actOn(ctx, consumer, "resume", pawl.Pause{By: by, Why: why, At: at}, func(tx *transaction, args []any) error {
		result, err := tx.ExecContext(ctx, query("resume_consumer"), args[0])
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return errors.Join(pawl.NoSuch("pause of consumer", consumer), err)
		}
		return nil
	})
}

// actOn does something to a consumer, and writes it down.
func (a *admin) actOn(ctx context.Context, consumer, what string, p pawl.Pause, act func(tx *transaction, args []any) error) error {
	err := a.write(ctx, func(tx *transaction) error {
		id, err := findConsumer(ctx, tx, consumer)
		if err != nil {
			return err
		}
		args := []any{sql.Named("consumer", id), sql.Named("by", p.By), sql.Named("why", p.Why), sql.Named("at", micros(p.At))}
		if err := act(tx, args); err != nil {
			return err
		}
		return tx.note(ctx, "consumer_act", append(args, sql.Named("what", what))...)
	})
	if err != nil {
		return fmt.Errorf("%s %q: %w", what, consumer, err)
	}
	return nil
}
