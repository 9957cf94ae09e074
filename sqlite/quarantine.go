package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl"
)

// Quarantine lists records that were set aside. See pawl.Admin.
func (a *admin) Quarantine(ctx context.Context, consumer string, f pawl.QuarantineFilter, limit int, after int64) ([]pawl.QuarantineItem, error) {
	args, err := filterArgs(consumer, &f)
	if err != nil {
		return nil, err
	}
	var all []pawl.QuarantineItem
	err = a.each(ctx, "list_quarantine", func(scan func(...any) error) error {
		var q pawl.QuarantineItem
		var status int
		var at int64
		var topic, keyID, key []byte
		var form sql.NullInt64
		var stream sql.NullString
		err := scan(&q.ID, &q.Route, &status, &q.Cause, &q.Reason, &q.Tries, &q.Replays, &q.Partition.Topic, &topic, &q.Partition.Index,
			&q.Offset, &form, &keyID, &key, &stream, &at, &q.Blocks)
		copy(q.Partition.TopicID[:], topic)
		q.Status, q.Key, q.Stream, q.At = pawl.QuarantineStatus(status), keyText(form, keyID, key), stream.String, time.UnixMicro(at)
		all = append(all, q)
		return err
	}, append(args, sql.Named("after", after), sql.Named("limit", listed(limit)))...)
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
		ids = jsonList(f.IDs)
	}
	return []any{
		sql.Named("consumer", consumer), sql.Named("ids", ids), sql.Named("route", orNull(f.Route)), sql.Named("cause", orNull(f.Cause)),
		sql.Named("stream", orNull(f.Stream)), sql.Named("reason", orNull(f.Reason)), sql.Named("since", timeOrNull(f.Since)),
		sql.Named("until", timeOrNull(f.Until)), sql.Named("status", status),
	}, nil
}

// keyText is a key as people know it: kept beside its id, or told by it.
func keyText(form sql.NullInt64, id, key []byte) string {
	k := pawl.KeyID{Form: pawl.KeyForm(form.Int64)}
	copy(k.ID[:], id)
	if text, ok := k.Key(); ok && form.Valid {
		return text
	}
	return string(key)
}

// QuarantineGroups counts what is open. See pawl.Admin.
func (a *admin) QuarantineGroups(ctx context.Context, consumer string) ([]pawl.QuarantineGroup, error) {
	var all []pawl.QuarantineGroup
	err := a.each(ctx, "group_quarantine", func(scan func(...any) error) error {
		var g pawl.QuarantineGroup
		var oldest, newest int64
		err := scan(&g.Route, &g.Cause, &g.Count, &g.Streams, &oldest, &newest, &g.Reason)
		g.Oldest, g.Newest = time.UnixMicro(oldest), time.UnixMicro(newest)
		g.Reason, _, _ = strings.Cut(g.Reason, "\n")
		all = append(all, g)
		return err
	}, consumer)
	if err != nil {
		return nil, fmt.Errorf("group the quarantine of %q: %w", consumer, err)
	}
	return all, nil
}

// Waiting counts. See pawl.Admin.
func (a *admin) Waiting(ctx context.Context, consumer string) (n pawl.Waiting, err error) {
	err = a.each(ctx, "count_waiting", func(scan func(...any) error) error { return scan(&n.Quarantined, &n.BlockedStreams) }, consumer)
	if err != nil {
		return n, fmt.Errorf("count what waits in %q: %w", consumer, err)
	}
	return n, nil
}

// QuarantineItem is one record, whole. See pawl.Admin.
func (a *admin) QuarantineItem(ctx context.Context, id int64) (*pawl.QuarantineItem, error) {
	var consumer string
	err := a.reader.QueryRowContext(ctx, query("consumer_of_quarantine"), id).Scan(&consumer)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
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
	if q.Record, err = a.quarantinedRecord(ctx, q); err != nil {
		return nil, fmt.Errorf("read record %d in quarantine: %w", id, err)
	}
	err = a.each(ctx, "list_revisions", func(scan func(...any) error) error {
		var r pawl.Revision
		var none bool
		var at int64
		err := scan(&r.Number, &r.Value, &none, &r.By, &r.Why, &at)
		r.Value, r.At = blob(r.Value, none), time.UnixMicro(at)
		q.Revisions = append(q.Revisions, r)
		return err
	}, id)
	if err != nil {
		return nil, fmt.Errorf("read the revisions of record %d in quarantine: %w", id, err)
	}
	return q, nil
}

func (a *admin) quarantinedRecord(ctx context.Context, q *pawl.QuarantineItem) (*pawl.Record, error) {
	r := &pawl.Record{Partition: q.Partition, Offset: q.Offset}
	var ingested int64
	var noKey, noValue bool
	var headers sql.NullString
	err := a.reader.QueryRowContext(ctx, query("quarantined_record"), q.ID).
		Scan(&r.LeaderEpoch, &ingested, &r.Key, &noKey, &r.Value, &noValue, &headers)
	if err != nil {
		return nil, err
	}
	r.Key, r.Value, r.Timestamp = blob(r.Key, noKey), blob(r.Value, noValue), time.UnixMicro(ingested)
	r.Headers, err = pawl.DecodeHeaders(headers.String)
	return r, err
}

// BlockedStreams lists streams that wait. See pawl.Admin.
func (a *admin) BlockedStreams(ctx context.Context, consumer string, limit int) ([]pawl.BlockedStream, error) {
	var all []pawl.BlockedStream
	err := a.each(ctx, "list_blocked_streams", func(scan func(...any) error) error {
		var b pawl.BlockedStream
		var since int64
		var oldest sql.NullInt64
		err := scan(&b.Route, &b.Stream, &b.Quarantine, &b.Held, &since, &oldest)
		b.Since, b.OldestHeldAt = time.UnixMicro(since), timeOf(oldest)
		all = append(all, b)
		return err
	}, sql.Named("consumer", consumer), sql.Named("limit", listed(limit)))
	if err != nil {
		return nil, fmt.Errorf("list the blocked streams of %q: %w", consumer, err)
	}
	return all, nil
}

// listed is how many to list.
func listed(limit int) int {
	if limit <= 0 {
		return pawl.MostListed
	}
	return limit
}
