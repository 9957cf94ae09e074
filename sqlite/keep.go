package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/pawlhq/pawl"
)

// lookBlocked sets Blocked, where the route keeps its streams in order.
func (a *application) lookBlocked(ctx context.Context) error {
	some := map[int64]bool{} // by scope: has it any blocked stream?
	type stream struct {
		scope int64
		name  string
	}
	known := map[stream]bool{}
	for _, d := range a.work.Decisions {
		d.Blocked = false
		if !d.Sequenced || d.Kept != nil && d.Kept.Early == 0 || d.Identity.Stream == "" {
			continue
		}
		at := stream{a.bound.scopes[d.Route], d.Identity.Stream}
		found, asked := some[at.scope]
		if !asked {
			if err := a.tx.QueryRowContext(ctx, query("any_blocked"), at.scope).Scan(&found); err != nil {
				return err
			}
			some[at.scope] = found
		}
		if !found {
			continue
		}
		blocked, asked := known[at]
		if !asked {
			err := a.tx.QueryRowContext(ctx, query("is_blocked"), sql.Named("scope", at.scope), sql.Named("stream", at.name)).Scan(&blocked)
			if err != nil {
				return err
			}
			known[at] = blocked
		}
		d.Blocked = blocked
	}
	return nil
}

// check refuses a decision that says nothing, or nothing that can be written.
func (a *application) check(d *pawl.Decision) error {
	switch k := d.Kept; {
	case d.Outcome == 0:
		return errors.New("was left without an outcome")
	case d.Outcome == pawl.Held && d.Identity.Stream == "":
		return errors.New("is held, and has no stream to be held behind")
	case k != nil && k.Hold == 0 && k.Early == 0 && k.Quarantine == 0:
		return errors.New("is kept, and neither held nor in quarantine")
	}
	return nil
}

// blocksStream reports whether a quarantined record blocks its stream: one that names none cannot.
func blocksStream(d *pawl.Decision) bool { return d.Blocks && d.Identity.Stream != "" }

// keep is what becomes of streams and kept records.
func (a *application) keep(ctx context.Context) error {
	var kept []*pawl.Decision
	for _, d := range a.work.Decisions { // also repeats: what is settled elsewhere is kept here no longer
		if d.Kept != nil && (d.Outcome != pawl.Held || d.Kept.Hold != 0 && d.Expected > 0) {
			kept = append(kept, d)
		}
	}
	freed := make(map[*pawl.Decision][]any, len(kept)) // the streams of holds, as they were held
	for _, d := range kept {
		if d.Kept.Hold != 0 {
			stream, err := a.turn(ctx, d.Kept.Hold)
			if err != nil {
				return err
			}
			freed[d] = stream
		}
	}
	if err := a.blockStreams(ctx); err != nil {
		return err
	}
	for _, d := range a.decisions(func(d *pawl.Decision) bool { return d.Outcome == pawl.Held && d.Expected == 0 && d.Kept == nil }) {
		if err := a.hold(ctx, d); err != nil {
			return err
		}
	}
	for _, d := range kept {
		if err := a.settleKept(ctx, d, freed[d]); err != nil {
			return err
		}
		if d.Kept.Item != 0 {
			if err := a.carryOut(ctx, d); err != nil {
				return err
			}
		}
	}
	return nil
}

// turn refuses a hold whose turn it is not, and returns its stream.
func (a *application) turn(ctx context.Context, hold int64) ([]any, error) {
	var scope int64
	var stream string
	var blocker sql.NullInt64
	err := a.tx.QueryRowContext(ctx, query("turn"), hold).Scan(&scope, &stream, &blocker)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, fmt.Errorf("%w: %d is not held", pawl.ErrNotKept, hold)
	case err != nil:
		return nil, err
	case blocker.Valid:
		return nil, fmt.Errorf("%w: the stream of hold %d is blocked by %d", pawl.ErrNotKept, hold, blocker.Int64)
	}
	return []any{sql.Named("scope", scope), sql.Named("stream", stream)}, nil
}

// blockStreams makes the records that were set aside block their streams, where they do.
func (a *application) blockStreams(ctx context.Context) error {
	for _, d := range a.decisions(func(d *pawl.Decision) bool {
		return d.Outcome == pawl.Quarantined && blocksStream(d) && (d.Kept == nil || d.Kept.Quarantine == 0)
	}) {
		_, err := a.tx.ExecContext(ctx, query("block_stream"), sql.Named("scope", a.bound.scopes[d.Route]), sql.Named("row", a.rowOf(d)),
			sql.Named("offset", d.Record.Offset), sql.Named("now", micros(a.work.Now)))
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *application) hold(ctx context.Context, d *pawl.Decision) error {
	_, err := a.tx.ExecContext(ctx, query("insert_hold"), a.whole(d)...)
	if isStranded(err) {
		return fmt.Errorf("%w: stream %q is not blocked", pawl.ErrRaced, d.Identity.Stream)
	}
	return err
}

// settleKept takes a record out of its hold or its quarantine, or writes why it stays there.
func (a *application) settleKept(ctx context.Context, d *pawl.Decision, stream []any) error {
	now := sql.Named("now", micros(a.work.Now))
	switch k := d.Kept; {
	case k.Early != 0: // with its gap
		return nil
	case k.Hold != 0:
		if err := a.tx.expect(ctx, "release", k.Hold); err != nil {
			return err
		}
		return a.tx.freeStream(ctx, stream)
	case d.Outcome == pawl.Quarantined:
		return a.tx.expect(ctx, "set_aside_again", sql.Named("id", k.Quarantine), sql.Named("cause", d.Cause),
			sql.Named("reason", clean(d.Reason)), sql.Named("tries", d.Tries), now)
	case d.Outcome == pawl.Skipped:
		return a.tx.resolveQuarantine(ctx, k.Quarantine, statusSkipped, micros(a.work.Now))
	default:
		return a.tx.resolveQuarantine(ctx, k.Quarantine, statusReplayed, micros(a.work.Now))
	}
}

// carryOut counts an item of an operation.
func (a *application) carryOut(ctx context.Context, d *pawl.Decision) error {
	args := []any{
		sql.Named("item", d.Kept.Item), sql.Named("outcome", d.Outcome), sql.Named("reason", orNull(clean(d.Reason))),
		sql.Named("now", micros(a.work.Now)), sql.Named("outcome_name", d.Outcome.String()),
	}
	if err := a.tx.expect(ctx, "carry_out_item", args...); err != nil {
		return err
	}
	if err := a.tx.expect(ctx, "carry_out_operation", args...); err != nil {
		return err
	}
	return a.tx.note(ctx, "carry_out_act", args...)
}

// expect runs a compare-and-set: it changes one row, or what it is about has been changed by someone else.
func (t *transaction) expect(ctx context.Context, name string, args ...any) error {
	result, err := t.ExecContext(ctx, query(name), args...)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return errors.Join(fmt.Errorf("%w (%s)", pawl.ErrNotKept, strings.ReplaceAll(name, "_", " ")), err)
	}
	return nil
}

// Where a record in quarantine is: pawl_quarantine.status.
const (
	statusOpen     = 1
	statusReplayed = 2
	statusSkipped  = 3
	statusArchived = 4
)

// resolveQuarantine closes a quarantined record, and unblocks what it blocks.
func (t *transaction) resolveQuarantine(ctx context.Context, id int64, status int, now int64) error {
	err := t.expect(ctx, "resolve_quarantine", sql.Named("id", id), sql.Named("status", status), sql.Named("now", now))
	if err != nil {
		return err
	}
	var scope int64
	var stream string
	err = t.QueryRowContext(ctx, query("blocked_stream"), id).Scan(&scope, &stream)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	at := []any{sql.Named("scope", scope), sql.Named("stream", stream)}
	if _, err := t.ExecContext(ctx, query("unblock_stream"), at...); err != nil {
		return err
	}
	return t.freeStream(ctx, at)
}

// freeStream frees a stream that has neither blocker nor holds.
func (t *transaction) freeStream(ctx context.Context, stream []any) error {
	for _, name := range []string{"free_stream", "hasten_gap"} {
		if _, err := t.ExecContext(ctx, query(name), stream...); err != nil {
			return err
		}
	}
	return nil
}

// accepted is the content that counts as the same beside the one that is decided: as it came, where it was edited.
func accepted(d *pawl.Decision) any {
	if d.Kept == nil || d.Kept.Original == (pawl.Fingerprint{}) || d.Kept.Original == d.Fingerprint {
		return nil
	}
	return hex.EncodeToString(d.Kept.Original[:])
}

// parseAccepted reads what accepted wrote: fingerprints in hex, with commas between.
func parseAccepted(to *[]pawl.Fingerprint, text string) error {
	if text == "" {
		return nil
	}
	for id := range strings.SplitSeq(text, ",") {
		var f pawl.Fingerprint
		if _, err := hex.Decode(f[:], []byte(id)); err != nil {
			return fmt.Errorf("accepted fingerprints %s: %w", text, err)
		}
		*to = append(*to, f)
	}
	return nil
}
