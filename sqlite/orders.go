package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl"
)

// Orders reads what there is to do beside the log. See pawl.BoundStore.
func (s *bound) Orders(ctx context.Context, rows []int64, now time.Time, limit int) (*pawl.Orders, error) {
	orders := &pawl.Orders{}
	var pause pawl.Pause
	var since int64
	err := s.reader.QueryRowContext(ctx, query("read_pause"), s.consumer).Scan(&pause.By, &pause.Why, &since)
	switch {
	case err == nil:
		pause.At = time.UnixMicro(since)
		orders.Paused = &pause
	case !errors.Is(err, sql.ErrNoRows):
		return nil, fmt.Errorf("read the pause: %w", err)
	}
	scopes := sql.Named("scopes", jsonList(s.scopes))
	if err := s.reader.QueryRowContext(ctx, query("count_held"), scopes).Scan(&orders.Held); err != nil {
		return nil, fmt.Errorf("count what is held: %w", err)
	}
	if len(rows) == 0 || limit <= 0 {
		return orders, nil
	}
	lists := []any{sql.Named("rows", jsonList(rows)), scopes}
	var holds []pawl.Task
	err = s.each(ctx, "releasable_holds", func(scan func(...any) error) error {
		t := pawl.Task{Act: pawl.ActReplay}
		err := s.scanTask(&t, scan, []any{&t.Kept.Hold}, nil)
		holds = append(holds, t)
		return err
	}, append(lists[:2:2], sql.Named("limit", limit))...)
	if err != nil {
		return nil, fmt.Errorf("look for records to release: %w", err)
	}
	early, err := s.dueGaps(ctx, lists, now, limit)
	if err != nil {
		return nil, fmt.Errorf("look for gaps to look at again: %w", err)
	}
	holds = append(holds, early...)
	items, err := s.due(ctx, lists, now, limit)
	if err != nil {
		return nil, fmt.Errorf("look for items of operations: %w", err)
	}
	orders.Tasks = pawl.MergeTasks(items, holds, limit)
	return orders, nil
}

// due are the items of running operations, as many as each may have carried out by now.
func (s *bound) due(ctx context.Context, lists []any, now time.Time, limit int) (tasks []pawl.Task, err error) {
	var running []pawl.Operation
	err = s.each(ctx, "running_operations", func(scan func(...any) error) error {
		var o pawl.Operation
		var resumed int64
		err := scan(&o.ID, &o.Kind, &o.State, &o.Total, &o.Done, &o.Rate, &o.Canary, &o.By, &o.Why, &resumed, &o.ResumedDone)
		o.ResumedAt = time.UnixMicro(resumed)
		running = append(running, o)
		return err
	}, s.consumer)
	for _, o := range running {
		due := min(o.Due(now), limit-len(tasks))
		if err != nil || due <= 0 {
			continue
		}
		err = s.each(ctx, "due_items", func(scan func(...any) error) error {
			t := pawl.Task{Act: o.Kind.Act(), By: o.By, Why: o.Why}
			var original, key []byte
			err := s.scanTask(&t, scan, []any{&t.Kept.Item, &t.Kept.Quarantine}, []any{&original, &key})
			copy(t.Kept.Original[:], original)
			t.Kept.Key = string(key)
			tasks = append(tasks, t)
			return err
		}, append(lists[:2:2], sql.Named("operation", o.ID), sql.Named("limit", due))...)
	}
	return tasks, err
}

// scanTask reads what every kept record has, between what it has of its own.
func (s *bound) scanTask(t *pawl.Task, scan func(...any) error, before, after []any) error {
	var scope, ingested int64
	var topic []byte
	var headers sql.NullString
	var noKey, noValue bool
	r := &t.Record
	err := scan(slices.Concat(before, []any{
		&scope, &t.Row, &r.Partition.Topic, &topic, &r.Partition.Index, &r.Offset, &r.LeaderEpoch, &ingested, &r.Key, &noKey, &r.Value, &noValue, &headers,
	}, after)...)
	if err != nil {
		return err
	}
	t.Route = slices.Index(s.scopes, scope)
	copy(r.Partition.TopicID[:], topic)
	r.Key, r.Value, r.Timestamp = blob(r.Key, noKey), blob(r.Value, noValue), time.UnixMicro(ingested)
	r.Headers, err = pawl.DecodeHeaders(headers.String)
	return err
}

// blob is b as it was written: empty, or none.
func blob(b []byte, none bool) []byte {
	if b == nil && !none {
		return []byte{}
	}
	return b
}

// each reads every row of a named query.
func (s *Store) each(ctx context.Context, name string, row func(scan func(...any) error) error, args ...any) error {
	return s.eachOf(ctx, query(name), row, args...)
}

// eachOf is each of a query that was put together.
func (s *Store) eachOf(ctx context.Context, text string, row func(scan func(...any) error) error, args ...any) error {
	rows, err := s.reader.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// jsonList is a list of ids as json_each reads it.
func jsonList(ids []int64) string {
	text, err := json.Marshal(ids)
	if err != nil {
		panic(err) // numbers always marshal
	}
	return string(text)
}
