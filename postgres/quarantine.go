package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawlhq/pawl"
)

// Quarantine lists records that were set aside. See pawl.Admin.
func (a *admin[Tx]) Quarantine(ctx context.Context, consumer string, f pawl.QuarantineFilter, limit int, after int64) ([]pawl.QuarantineItem, error) {
	args, err := filterArgs(consumer, &f)
	if err != nil {
		return nil, err
	}
	var all []pawl.QuarantineItem
	err = a.link.exec(ctx, stmt{sql: a.query["list_quarantine"], args: append(args, after, listed(limit)), row: func(scan func(...any) error) error {
		var q pawl.QuarantineItem
		var status int
		var topic pgtype.UUID
		var key []byte
		var stream *string
		err := scan(&q.ID, &q.Route, &status, &q.Cause, &q.Reason, &q.Tries, &q.Replays, &q.Partition.Topic, &topic, &q.Partition.Index,
			&q.Offset, &key, &stream, &q.At, &q.Blocks)
		q.Partition.TopicID, q.Status, q.Key, q.Stream = topic.Bytes, pawl.QuarantineStatus(status), string(key), textOf(stream)
		all = append(all, q)
		return err
	}})
	if err != nil {
		return nil, fmt.Errorf("list the quarantine of %q: %w", consumer, err)
	}
	return all, nil
}

// filterArgs are the parameters of quarantine_matches.
func filterArgs(consumer string, f *pawl.QuarantineFilter) ([]any, error) {
	status, err := f.StatusNumber()
	if err != nil {
		return nil, err
	}
	var ids any
	if f.IDs != nil {
		ids = f.IDs
	}
	return []any{
		consumer, ids, orNull(f.Route), orNull(f.Cause), orNull(f.Stream), orNull(f.Reason), timeOrNull(f.Since), timeOrNull(f.Until),
		int16(status),
	}, nil
}

// QuarantineGroups counts what is open. See pawl.Admin.
func (a *admin[Tx]) QuarantineGroups(ctx context.Context, consumer string) ([]pawl.QuarantineGroup, error) {
	var all []pawl.QuarantineGroup
	err := a.link.exec(ctx, stmt{sql: a.query["group_quarantine"], args: []any{consumer}, row: func(scan func(...any) error) error {
		var g pawl.QuarantineGroup
		err := scan(&g.Route, &g.Cause, &g.Count, &g.Streams, &g.Oldest, &g.Newest, &g.Reason)
		g.Reason, _, _ = strings.Cut(g.Reason, "\n")
		all = append(all, g)
		return err
	}})
	if err != nil {
		return nil, fmt.Errorf("group the quarantine of %q: %w", consumer, err)
	}
	return all, nil
}

// Waiting counts. See pawl.Admin.
func (a *admin[Tx]) Waiting(ctx context.Context, consumer string) (n pawl.Waiting, err error) {
	err = a.link.exec(ctx, stmt{sql: a.query["count_waiting"], args: []any{consumer}, row: func(scan func(...any) error) error {
		return scan(&n.Quarantined, &n.BlockedStreams)
	}})
	if err != nil {
		return n, fmt.Errorf("count what waits in %q: %w", consumer, err)
	}
	return n, nil
}

// QuarantineItem is one record, whole. See pawl.Admin.
func (a *admin[Tx]) QuarantineItem(ctx context.Context, id int64) (*pawl.QuarantineItem, error) {
	var consumer string
	err := a.link.exec(ctx, stmt{sql: a.query["consumer_of_quarantine"], args: []any{id}, row: func(scan func(...any) error) error {
		return scan(&consumer)
	}})
	if err != nil {
		return nil, fmt.Errorf("find record %d in quarantine: %w", id, err)
	}
	found, err := a.Quarantine(ctx, consumer, pawl.QuarantineFilter{IDs: []int64{id}, Status: pawl.QuarantineAny}, 1, 0)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, pawl.NoSuch("record in quarantine", id)
	}
	q := &found[0]
	q.Record = &pawl.Record{Partition: q.Partition, Offset: q.Offset}
	err = a.link.exec(ctx,
		stmt{sql: a.query["quarantined_record"], args: []any{id}, row: func(scan func(...any) error) error {
			var headers *string
			err := scan(&q.Record.LeaderEpoch, &q.Record.Timestamp, &q.Record.Key, &q.Record.Value, &headers)
			if err == nil {
				q.Record.Headers, err = pawl.DecodeHeaders(textOf(headers))
			}
			return err
		}},
		stmt{sql: a.query["list_revisions"], args: []any{id}, row: func(scan func(...any) error) error {
			var r pawl.Revision
			err := scan(&r.Number, &r.Value, &r.By, &r.Why, &r.At)
			q.Revisions = append(q.Revisions, r)
			return err
		}})
	if err != nil {
		return nil, fmt.Errorf("read record %d in quarantine: %w", id, err)
	}
	return q, nil
}

// BlockedStreams lists streams that wait. See pawl.Admin.
func (a *admin[Tx]) BlockedStreams(ctx context.Context, consumer string, limit int) ([]pawl.BlockedStream, error) {
	var all []pawl.BlockedStream
	err := a.link.exec(ctx, stmt{sql: a.query["list_blocked_streams"], args: []any{consumer, listed(limit)}, row: func(scan func(...any) error) error {
		var b pawl.BlockedStream
		var oldest *time.Time
		err := scan(&b.Route, &b.Stream, &b.Quarantine, &b.Held, &b.Since, &oldest)
		b.OldestHeldAt = timeOf(oldest)
		all = append(all, b)
		return err
	}})
	if err != nil {
		return nil, fmt.Errorf("list the blocked streams of %q: %w", consumer, err)
	}
	return all, nil
}

// listed is how many to list.
func listed(limit int) int32 {
	if limit <= 0 {
		return pawl.MostListed
	}
	return int32(min(limit, 1<<30))
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func timeOrNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
