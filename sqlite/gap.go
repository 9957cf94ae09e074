package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl"
)

// mostEarly bounds how many early records join a batch, over all streams.
const mostEarly = 10_000

// streamOf names a stream within its scope.
type streamOf struct {
	scope int64
	name  string
}

func (of streamOf) args(more ...any) []any {
	return append([]any{sql.Named("scope", of.scope), sql.Named("stream", of.name)}, more...)
}

// lookGaps finds the gaps of the streams of a batch, and what waits in those that it may close.
func (a *application) lookGaps(ctx context.Context) error {
	a.work.Gaps = nil
	type asked struct {
		route           int
		lowest, highest int64 // versions that the batch brings
		waits           bool  // it has one of those that wait
	}
	streams, some := map[streamOf]*asked{}, map[int64]bool{}
	var order []streamOf
	inBatch := []int64{}
	for _, d := range a.work.Decisions {
		if d.Kept != nil && d.Kept.Early != 0 {
			inBatch = append(inBatch, d.Kept.Early)
		}
		if !d.Gapped || d.Identity.Stream == "" || d.Identity.Version <= 0 {
			continue
		}
		of, v := streamOf{a.bound.scopes[d.Route], d.GapOf()}, d.Identity.Version
		found, known := some[of.scope]
		if !known {
			if err := a.tx.QueryRowContext(ctx, query("any_gap"), of.scope).Scan(&found); err != nil {
				return err
			}
			some[of.scope] = found
		}
		if !found {
			continue
		}
		if streams[of] == nil {
			streams[of] = &asked{route: d.Route, lowest: v, highest: v}
			order = append(order, of)
		}
		at := streams[of]
		at.lowest, at.highest = min(at.lowest, v), max(at.highest, v)
		if d.Kept != nil && d.Kept.Early != 0 {
			at.waits = true
		}
	}
	room, bytes := mostEarly, pawl.MostEarlyBytes
	for _, of := range order {
		at := streams[of]
		gap := pawl.Gap{Route: at.route, Stream: of.name}
		var since int64
		err := a.tx.QueryRowContext(ctx, query("gap"), of.args()...).Scan(&gap.Expected, &since, &gap.Waiting)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return err
		}
		gap.Since = time.UnixMicro(since)
		if at.waits || at.lowest <= gap.Expected && gap.Expected <= at.highest {
			if gap.Early, err = a.early(ctx, of, inBatch, min(room, pawl.MostEarly), &bytes); err != nil {
				return err
			}
			room -= len(gap.Early)
		}
		a.work.Gaps = append(a.work.Gaps, gap)
	}
	return nil
}

// early reads what waits in a gap, as long as there are bytes left.
func (a *application) early(ctx context.Context, of streamOf, inBatch []int64, limit int, bytes *int) (tasks []pawl.Task, err error) {
	args := of.args(sql.Named("now", micros(a.work.Now)), sql.Named("in_batch", jsonList(inBatch)), sql.Named("limit", limit))
	rows, err := a.tx.QueryContext(ctx, query("early"), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for *bytes > 0 && rows.Next() {
		var outcome, row, offset sql.NullInt64
		var print, by []byte
		var accepted sql.NullString
		t := pawl.Task{Act: pawl.ActReplay}
		err := a.bound.scanTask(&t, rows.Scan, []any{&outcome, &print, &row, &offset, &accepted, &by, &t.Kept.Early, &t.Kept.Stream, &t.Kept.Expired}, nil)
		if err != nil {
			return nil, err
		}
		t.Kept.Row = t.Row
		if outcome.Valid {
			t.Prior = &pawl.Prior{
				Outcome: pawl.Outcome(outcome.Int64), SupersededBy: string(by),
				SamePosition: row.Int64 == t.Row && offset.Int64 == t.Record.Offset,
			}
			copy(t.Prior.Fingerprint[:], print)
			if err := parseAccepted(&t.Prior.Accepted, accepted.String); err != nil {
				return nil, err
			}
		}
		*bytes -= len(t.Record.Key) + len(t.Record.Value)
		for _, h := range t.Record.Headers {
			*bytes -= len(h.Key) + len(h.Value)
		}
		tasks = append(tasks, t)
	}
	return tasks, rows.Err()
}

// rowOf is the partition that a record is of: this one, but for early records of others.
func (a *application) rowOf(d *pawl.Decision) int64 {
	if d.Kept != nil && d.Kept.Row != 0 {
		return d.Kept.Row
	}
	return a.owned.Row
}

// settleGaps is what becomes of gaps: early records leave, others are held, and what each stream waits for is written.
func (a *application) settleGaps(ctx context.Context) error {
	gaps := a.work.SettledGaps()
	for _, d := range a.work.Decisions {
		if d.Kept != nil && d.Kept.Early != 0 && d.Outcome != pawl.Held {
			if err := a.tx.expect(ctx, "release_early", d.Kept.Early); err != nil {
				return err
			}
		}
	}
	for _, g := range gaps {
		of := streamOf{a.bound.scopes[g.Route], g.Stream}
		_, err := a.tx.ExecContext(ctx, query("open_gap"), of.args(sql.Named("expected", g.Expected), sql.Named("now", micros(a.work.Now)),
			sql.Named("due", micros(g.Due)), sql.Named("seen", g.Seen))...)
		if err != nil {
			return err
		}
	}
	for _, d := range a.decisions((*pawl.Decision).ComesEarly) {
		if d.Kept != nil && d.Kept.Early != 0 {
			continue // it stays where it is
		}
		if err := a.holdEarly(ctx, d); err != nil {
			return err
		}
	}
	for _, g := range gaps {
		of := streamOf{a.bound.scopes[g.Route], g.Stream}
		if _, err := a.tx.ExecContext(ctx, query("close_gap"), of.args()...); err != nil {
			return err
		}
	}
	return nil
}

func (a *application) holdEarly(ctx context.Context, d *pawl.Decision) error {
	_, err := a.tx.ExecContext(ctx, query("insert_early"), append(a.whole(d),
		sql.Named("version", d.Identity.Version), sql.Named("until", micros(d.Until)))...)
	return err
}

// whole is what is kept of a record that is kept whole.
func (a *application) whole(d *pawl.Decision) []any {
	var form, id any
	if d.Identity.Key != "" {
		form, id = d.KeyID.Form, d.KeyID.ID[:]
	}
	return []any{
		sql.Named("scope", a.bound.scopes[d.Route]), sql.Named("row", a.rowOf(d)),
		sql.Named("code", a.bound.code), sql.Named("mode", d.Mode), sql.Named("now", micros(a.work.Now)),
		sql.Named("offset", d.Record.Offset), sql.Named("leader_epoch", d.Record.LeaderEpoch), sql.Named("stream", d.Identity.Stream),
		sql.Named("key_form", form), sql.Named("key_id", id), sql.Named("key", hashedKey(d)), sql.Named("record_key", d.Record.Key),
		sql.Named("value", d.Record.Value), sql.Named("headers", orNull(pawl.EncodeHeaders(d.Record.Headers))),
		sql.Named("ingested", a.ingested(d)),
	}
}

// supersede marks what corrections correct.
func (a *application) supersede(ctx context.Context) error {
	for _, d := range a.decisions((*pawl.Decision).Supersedes) {
		id := pawl.NewKeyID(d.Identity.Supersedes)
		var key any
		if id.Form == pawl.KeyHashed {
			key = []byte(d.Identity.Supersedes)
		}
		_, err := a.tx.ExecContext(ctx, query("supersede"), sql.Named("scope", a.bound.scopes[d.Route]), sql.Named("row", a.rowOf(d)),
			sql.Named("code", a.bound.code), sql.Named("mode", d.Mode), sql.Named("now", micros(a.work.Now)),
			sql.Named("key_form", id.Form), sql.Named("key_id", id.ID[:]), sql.Named("key", key), sql.Named("offset", d.Record.Offset),
			sql.Named("ingested", a.ingested(d)), sql.Named("stream", orNull(d.Identity.Stream)), sql.Named("by", []byte(d.Identity.Key)))
		if err != nil {
			return err
		}
	}
	return nil
}

// dueGaps are gaps to be looked at again, by the first of those that wait.
func (s *bound) dueGaps(ctx context.Context, lists []any, now time.Time, limit int) (tasks []pawl.Task, err error) {
	err = s.each(ctx, "due_gaps", func(scan func(...any) error) error {
		t := pawl.Task{Act: pawl.ActReplay}
		err := s.scanTask(&t, scan, []any{&t.Kept.Early, &t.Kept.Stream, &t.Kept.Expired}, nil)
		t.Kept.Row = t.Row
		tasks = append(tasks, t)
		return err
	}, append(lists[:2:2], sql.Named("now", micros(now)), sql.Named("limit", limit))...)
	return tasks, err
}

// Gaps lists gaps. See pawl.Admin.
func (a *admin) Gaps(ctx context.Context, consumer string, limit int) ([]pawl.OpenGap, error) {
	var all []pawl.OpenGap
	err := a.each(ctx, "list_gaps", func(scan func(...any) error) error {
		var g pawl.OpenGap
		var since, until int64
		err := scan(&g.Route, &g.Stream, &g.Expected, &since, &g.Waiting, &g.Lowest, &g.Highest, &until)
		g.Since, g.Until = time.UnixMicro(since), time.UnixMicro(until)
		all = append(all, g)
		return err
	}, sql.Named("consumer", consumer), sql.Named("limit", listed(limit)))
	if err != nil {
		return nil, fmt.Errorf("list the gaps of %q: %w", consumer, err)
	}
	return all, nil
}

// GapGroups counts gaps. See pawl.Admin.
func (a *admin) GapGroups(ctx context.Context, consumer string) ([]pawl.GapGroup, error) {
	var all []pawl.GapGroup
	err := a.each(ctx, "gap_groups", func(scan func(...any) error) error {
		var g pawl.GapGroup
		var oldest int64
		err := scan(&g.Route, &g.Gaps, &g.Waiting, &oldest)
		g.Oldest = time.UnixMicro(oldest)
		all = append(all, g)
		return err
	}, sql.Named("consumer", consumer))
	if err != nil {
		return nil, fmt.Errorf("count the gaps of %q: %w", consumer, err)
	}
	return all, nil
}
