package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/pawlhq/pawl"
)

// Plan counts items. See pawl.Admin.
func (a *admin[Tx]) Plan(ctx context.Context, r pawl.OperationRequest) (count int, err error) {
	if err := r.Validate(); err != nil {
		return 0, err
	}
	args, err := filterArgs(r.Consumer, &r.Filter)
	if err != nil {
		return 0, err
	}
	err = a.link.exec(ctx, stmt{sql: a.query["plan_operation"], args: args, row: func(scan func(...any) error) error { return scan(&count) }})
	if err != nil {
		return 0, fmt.Errorf("plan a %s of %q: %w", r.Kind, r.Consumer, err)
	}
	if r.Limit > 0 {
		count = min(count, r.Limit)
	}
	return count, nil
}

// Start freezes the items of an operation. See pawl.Admin.
func (a *admin[Tx]) Start(ctx context.Context, r pawl.OperationRequest) (*pawl.Operation, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	filter, err := filterArgs(r.Consumer, &r.Filter)
	if err != nil {
		return nil, err
	}
	asked, err := json.Marshal(r.Filter)
	if err != nil {
		return nil, err
	}
	var id int64
	err = a.link.atomically(ctx, func(run func(...stmt) error) error {
		consumer, err := a.lockConsumer(run, r.Consumer)
		if err != nil {
			return err
		}
		if err := run(stmt{sql: a.query["insert_operation"], args: []any{
			consumer, string(r.Kind), r.Rate, int32(r.Canary), string(asked), r.By, r.Why, r.At,
		}, row: func(scan func(...any) error) error { return scan(&id) }}); err != nil {
			return err
		}
		most := int64(r.Limit)
		if most == 0 {
			most = math.MaxInt64
		}
		total := 0
		if err := run(
			stmt{sql: a.query["insert_items"], args: append(filter, id, most)},
			stmt{sql: a.query["count_items"], args: []any{id}, row: func(scan func(...any) error) error { return scan(&total) }},
		); err != nil {
			return err
		}
		if total == 0 {
			return pawl.NothingToDo()
		}
		if r.Kind == pawl.OperationEdit {
			if err := run(stmt{sql: a.query["insert_revision"], args: []any{id, r.Value, r.By, r.Why, r.At}}); err != nil {
				return err
			}
		}
		if err := run(stmt{sql: a.query["audit_operation"], args: []any{id, "start " + string(r.Kind), r.By, r.Why, r.At}}); err != nil {
			return err
		}
		if r.Kind != pawl.OperationArchive {
			return nil
		}
		return run(
			stmt{sql: a.query["archive_items"], args: []any{id, r.At}, row: func(func(...any) error) error { return nil }},
			stmt{sql: a.query["archive_done"], args: []any{id, r.At}},
			stmt{sql: a.query["audit_archive"], args: []any{id, r.At}})
	})
	if err != nil {
		return nil, fmt.Errorf("start %s of %q: %w", r.Kind, r.Consumer, a.translate(err))
	}
	return a.Operation(ctx, id)
}

// lockConsumer finds a consumer by name, and keeps other requests for it out until the transaction is over.
func (a *admin[Tx]) lockConsumer(run func(...stmt) error, name string) (id int32, err error) {
	found := false
	err = run(stmt{sql: a.query["lock_consumer"], args: []any{name}, row: func(scan func(...any) error) error {
		found = true
		return scan(&id)
	}})
	if err == nil && !found {
		err = pawl.NoSuch("consumer", name)
	}
	return id, err
}

// Operations lists operations. See pawl.Admin.
func (a *admin[Tx]) Operations(ctx context.Context, consumer string, limit int) ([]pawl.Operation, error) {
	all, err := a.operations(ctx, "list_operations", consumer, listed(limit))
	if err != nil {
		return nil, fmt.Errorf("list the operations of %q: %w", consumer, err)
	}
	return all, nil
}

// Operation reads one. See pawl.Admin.
func (a *admin[Tx]) Operation(ctx context.Context, id int64) (*pawl.Operation, error) {
	all, err := a.operations(ctx, "read_operation", id)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read operation %d: %w", id, err)
	case len(all) == 0:
		return nil, pawl.NoSuch("operation", id)
	}
	return &all[0], nil
}

func (a *admin[Tx]) operations(ctx context.Context, name string, args ...any) (all []pawl.Operation, err error) {
	err = a.link.exec(ctx, stmt{sql: a.query[name], args: args, row: func(scan func(...any) error) error {
		var o pawl.Operation
		var ended *time.Time
		err := scan(&o.ID, &o.Consumer, (*string)(&o.Kind), (*string)(&o.State), &o.Total, &o.Done, &o.Failed, &o.Rate, &o.Canary,
			&o.By, &o.Why, &o.At, &ended, &o.ResumedAt, &o.ResumedDone)
		o.EndedAt = timeOf(ended)
		all = append(all, o)
		return err
	}})
	return all, err
}

// SetOperation changes the state of an operation. See pawl.Admin.
func (a *admin[Tx]) SetOperation(ctx context.Context, id int64, state pawl.OperationState, by, why string, at time.Time) error {
	if err := pawl.ValidateActor(fmt.Sprintf("set operation %d to %s", id, state), by, why, at); err != nil {
		return err
	}
	err := a.link.atomically(ctx, func(run func(...stmt) error) error {
		var now pawl.OperationState
		if err := run(stmt{sql: a.query["lock_operation"], args: []any{id}, row: func(scan func(...any) error) error {
			return scan((*string)(&now))
		}}); err != nil {
			return err
		}
		switch {
		case now == "":
			return pawl.NoSuch("operation", id)
		case !now.CanBecome(state):
			return pawl.NoSuchChange(id, now, state)
		}
		return run(
			stmt{sql: a.query["set_operation"], args: []any{id, string(state), at}},
			stmt{sql: a.query["audit_operation"], args: []any{id, "operation " + string(state), by, why, at}})
	})
	if err != nil {
		return fmt.Errorf("set operation %d to %s: %w", id, state, err)
	}
	return nil
}

// Pause has a consumer settle nothing. See pawl.Admin.
func (a *admin[Tx]) Pause(ctx context.Context, consumer string, p pawl.Pause) error {
	if err := p.Validate(); err != nil {
		return err
	}
	err := a.link.atomically(ctx, func(run func(...stmt) error) error {
		id, err := a.lockConsumer(run, consumer)
		if err != nil {
			return err
		}
		return run(
			stmt{sql: a.query["pause_consumer"], args: []any{id, p.By, p.Why, p.At}},
			stmt{sql: a.query["audit_consumer"], args: []any{id, "pause", p.By, p.Why, p.At}})
	})
	if err != nil {
		return fmt.Errorf("pause %q: %w", consumer, err)
	}
	return nil
}

// Resume ends a pause. See pawl.Admin.
func (a *admin[Tx]) Resume(ctx context.Context, consumer, by, why string, at time.Time) error {
	if err := pawl.ValidateActor("resume a consumer", by, why, at); err != nil {
		return err
	}
	err := a.link.atomically(ctx, func(run func(...stmt) error) error {
		id, err := a.lockConsumer(run, consumer)
		if err != nil {
			return err
		}
		paused := false
		if err := run(stmt{sql: a.query["resume_consumer"], args: []any{id}, row: func(scan func(...any) error) error {
			paused = true
			return scan(&id)
		}}); err != nil {
			return err
		}
		if !paused {
			return pawl.NoSuch("pause of consumer", consumer)
		}
		return run(stmt{sql: a.query["audit_consumer"], args: []any{id, "resume", by, why, at}})
	})
	if err != nil {
		return fmt.Errorf("resume %q: %w", consumer, err)
	}
	return nil
}
