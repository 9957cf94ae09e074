package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawlhq/pawl"
)

// Orders reads what there is to do beside the log. See pawl.BoundStore.
func (s *bound[Tx]) Orders(ctx context.Context, rows []int64, now time.Time, limit int) (*pawl.Orders, error) {
	orders := &pawl.Orders{}
	err := s.link.exec(ctx,
		stmt{sql: s.query["read_pause"], args: []any{s.consumer}, row: func(scan func(...any) error) error {
			orders.Paused = &pawl.Pause{}
			return scan(&orders.Paused.By, &orders.Paused.Why, &orders.Paused.At)
		}},
		stmt{sql: s.query["count_held"], args: []any{s.scopes}, row: func(scan func(...any) error) error { return scan(&orders.Held) }})
	if err != nil {
		return nil, fmt.Errorf("read the pause, count what is held: %w", err)
	}
	if len(rows) == 0 || limit <= 0 {
		return orders, nil
	}
	partitions := make([]int32, len(rows))
	for i, row := range rows {
		partitions[i] = int32(row)
	}
	holds, err := s.releasable(ctx, partitions, limit)
	if err != nil {
		return nil, fmt.Errorf("look for records to release: %w", err)
	}
	early, err := s.dueGaps(ctx, partitions, now, limit)
	if err != nil {
		return nil, fmt.Errorf("look for gaps to look at again: %w", err)
	}
	holds = append(holds, early...)
	items, err := s.due(ctx, partitions, now, limit)
	if err != nil {
		return nil, fmt.Errorf("look for items of operations: %w", err)
	}
	orders.Tasks = pawl.MergeTasks(items, holds, limit)
	return orders, nil
}

func (s *bound[Tx]) releasable(ctx context.Context, partitions []int32, limit int) (tasks []pawl.Task, err error) {
	err = s.link.exec(ctx, stmt{sql: s.query["releasable_holds"], args: []any{s.scopes, partitions, int32(limit)}, row: func(scan func(...any) error) error {
		t := pawl.Task{Act: pawl.ActReplay}
		err := s.scanTask(&t, scan, []any{&t.Kept.Hold}, nil)
		tasks = append(tasks, t)
		return err
	}})
	return tasks, err
}

// due are the items of running operations, as many as each may have carried out by now.
func (s *bound[Tx]) due(ctx context.Context, partitions []int32, now time.Time, limit int) (tasks []pawl.Task, err error) {
	var running []pawl.Operation
	err = s.link.exec(ctx, stmt{sql: s.query["running_operations"], args: []any{s.consumer}, row: func(scan func(...any) error) error {
		var o pawl.Operation
		err := scan(&o.ID, (*string)(&o.Kind), (*string)(&o.State), &o.Total, &o.Done, &o.Rate, &o.Canary, &o.By, &o.Why,
			&o.ResumedAt, &o.ResumedDone)
		running = append(running, o)
		return err
	}})
	for _, o := range running {
		due := min(o.Due(now), limit-len(tasks))
		if err != nil || due <= 0 {
			continue
		}
		args := []any{o.ID, partitions, s.scopes, int32(due)}
		err = s.link.exec(ctx, stmt{sql: s.query["due_items"], args: args, row: func(scan func(...any) error) error {
			t := pawl.Task{Act: o.Kind.Act(), By: o.By, Why: o.Why}
			var original, key []byte
			err := s.scanTask(&t, scan, []any{&t.Kept.Item, &t.Kept.Quarantine}, []any{&original, &key})
			copy(t.Kept.Original[:], original)
			t.Kept.Key = string(key)
			tasks = append(tasks, t)
			return err
		}})
	}
	return tasks, err
}

// scanTask reads what every kept record has, between what it has of its own.
func (s *bound[Tx]) scanTask(t *pawl.Task, scan func(...any) error, before, after []any) error {
	var scope int32
	var topic pgtype.UUID
	var headers *string
	r := &t.Record
	err := scan(slices.Concat(before, []any{
		&scope, &t.Row, &r.Partition.Topic, &topic, &r.Partition.Index, &r.Offset, &r.LeaderEpoch, &r.Timestamp, &r.Key, &r.Value, &headers,
	}, after)...)
	if err != nil {
		return err
	}
	t.Route = slices.Index(s.scopes, scope)
	r.Partition.TopicID = topic.Bytes
	if headers != nil {
		r.Headers, err = pawl.DecodeHeaders(*headers)
	}
	return err
}

// Attempt notes a try. See pawl.BoundStore.
func (s *bound[Tx]) Attempt(ctx context.Context, o *pawl.Ownership, offset int64) (before int, err error) {
	err = s.link.exec(ctx, stmt{sql: s.query["note_attempt"], args: []any{
		int32(o.Row), o.Epoch, o.Token, o.Seq, offset, time.Now(),
	}, row: func(scan func(...any) error) error { return scan(&before) }})
	if c := code(err); c == codeFenced || c == codeWentBack {
		return 0, s.translate(err)
	}
	if err != nil {
		return 0, s.own(fmt.Sprintf("note an attempt at %s@%d", o.Partition, offset), err)
	}
	return before, nil
}

// Survive takes a try back. See pawl.BoundStore.
func (s *bound[Tx]) Survive(ctx context.Context, o *pawl.Ownership, offset int64) error {
	if err := s.link.exec(ctx, stmt{sql: s.query["survive_attempt"], args: []any{int32(o.Row), offset}}); err != nil {
		return fmt.Errorf("take back an attempt at %s@%d: %w", o.Partition, offset, err)
	}
	return nil
}
