package postgres

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/fault"
)

// lookBlocked sets Blocked. It says which statements that takes in the round trip of the look: while nothing is blocked,
// only whether anything is. What is remembered from one transaction to the next is which question to ask first, never the
// answer.
type lookBlocked struct {
	query     map[string]string
	decisions []*pawl.Decision
	scopes    []int32 // that the runner gave routes
	asked     []int32 // of these, the ones with streams in order in this batch
	any       bool
	askWhich  bool
}

func (s *bound[Tx]) newLookBlocked(ds []*pawl.Decision) *lookBlocked {
	b := &lookBlocked{query: s.query, decisions: ds, scopes: s.scopes, askWhich: s.blocked.Load()}
	for _, d := range ds {
		d.Blocked = false
		if waits(d) && !slices.Contains(b.asked, s.scopes[d.Route]) {
			b.asked = append(b.asked, s.scopes[d.Route])
		}
	}
	return b
}

// waits reports whether a record would be held, were its stream blocked.
func waits(d *pawl.Decision) bool {
	return d.Sequenced && (d.Kept == nil || d.Kept.Early != 0) && d.Identity.Stream != ""
}

// first is what to ask together with the look.
func (b *lookBlocked) first() []stmt {
	if len(b.asked) == 0 {
		return nil
	}
	stmts := []stmt{{sql: b.query["any_blocked"], args: []any{b.asked}, row: func(scan func(...any) error) error { return scan(&b.any) }}}
	if b.askWhich {
		stmts = append(stmts, b.which())
	}
	return stmts
}

func (b *lookBlocked) which() stmt {
	type stream struct {
		scope int32
		name  string
	}
	var scopes []int32
	var names []string
	at := map[stream]int{}
	var waiting [][]*pawl.Decision
	for _, d := range b.decisions {
		if !waits(d) {
			continue
		}
		of := stream{b.scopes[d.Route], d.Identity.Stream}
		i, known := at[of]
		if !known {
			i = len(names)
			at[of] = i
			scopes, names, waiting = append(scopes, of.scope), append(names, of.name), append(waiting, nil)
		}
		waiting[i] = append(waiting[i], d)
	}
	return stmt{sql: b.query["which_blocked"], args: []any{scopes, names}, row: func(scan func(...any) error) error {
		var i int64
		if err := scan(&i); err != nil {
			return err
		}
		for _, d := range waiting[i-1] {
			d.Blocked = true
		}
		return nil
	}}
}

// rest asks which streams are blocked, where the first round trip found that some are and had not asked.
func (s *bound[Tx]) rest(ctx context.Context, t txn[Tx], b *lookBlocked) error {
	if len(b.asked) == 0 {
		return nil
	}
	s.blocked.Store(b.any)
	if !b.any || b.askWhich {
		return nil
	}
	return t.exec(ctx, b.which())
}

// blocksStream reports whether a quarantined record blocks its stream: one that names none cannot.
func blocksStream(d *pawl.Decision) bool { return d.Blocks && d.Identity.Stream != "" }

// batch is the decisions of a transaction by what is written for them. A decision may be in several.
type batch struct {
	decided []*pawl.Decision // a claim
	told    []*pawl.Decision // a claim with more to tell: states, or the content before an edit
	others  []*pawl.Decision // evidence by position
	kept    []*pawl.Decision // leave the hold or the quarantine, or stay there
	restate []*pawl.Decision // of these: new evidence by position
	aside   []*pawl.Decision // into quarantine
	held    []*pawl.Decision // into a hold
	early   []*pawl.Decision // into a gap
}

func sortBatch(ds []*pawl.Decision) (*batch, error) {
	var b batch
	for _, d := range ds {
		k := d.Kept
		switch {
		case d.Outcome == 0:
			return nil, fmt.Errorf("offset %d has no outcome", d.Record.Offset)
		case d.Outcome == pawl.Held && d.Identity.Stream == "":
			return nil, fmt.Errorf("offset %d is held, and has no stream to be held behind", d.Record.Offset)
		case k != nil && k.Hold == 0 && k.Early == 0 && k.Quarantine == 0:
			return nil, fmt.Errorf("offset %d is kept, and neither held nor in quarantine", d.Record.Offset)
		case k != nil && d.Outcome == pawl.Held && (k.Hold == 0 || d.Expected == 0):
			continue // it stays where it is
		}
		if k != nil {
			b.kept = append(b.kept, d)
		}
		switch {
		case d.Claims() && (edited(d) || d.RowAffected != "" || d.StateBefore != "" || d.StateAfter != ""):
			b.told = append(b.told, d)
		case d.Claims():
			b.decided = append(b.decided, d)
		case d.Repeat:
		case k != nil:
			b.restate = append(b.restate, d)
		default:
			b.others = append(b.others, d)
		}
		switch {
		case d.Repeat:
		case d.Outcome == pawl.Quarantined && (k == nil || k.Quarantine == 0):
			b.aside = append(b.aside, d)
		case d.ComesEarly():
			b.early = append(b.early, d)
		case d.Outcome == pawl.Held:
			b.held = append(b.held, d)
		}
	}
	return &b, nil
}

// edited reports whether a record is decided with other content than it came with.
func edited(d *pawl.Decision) bool {
	return d.Kept != nil && d.Kept.Original != (pawl.Fingerprint{}) && d.Kept.Original != d.Fingerprint
}

// keep is what becomes of streams and kept records. Streams are locked in order, and after the claims: two transactions
// that share some wait for each other.
func (s *bound[Tx]) keep(o *pawl.Ownership, w *pawl.Work[Tx], b *batch) []stmt {
	slices.SortStableFunc(b.kept, func(x, y *pawl.Decision) int {
		return cmp.Or(cmp.Compare(s.scopes[x.Route], s.scopes[y.Route]), cmp.Compare(x.Identity.Stream, y.Identity.Stream))
	})
	var stmts, releases, items []stmt
	for _, d := range b.kept {
		if d.Kept.Hold != 0 {
			stmts = append(stmts, stmt{sql: s.query["turn"], args: []any{d.Kept.Hold}})
			releases = append(releases, stmt{sql: s.query["release"], args: []any{d.Kept.Hold}})
		}
	}
	for row, of := range byRow(o, b.aside) {
		if st, some := s.blockStreams(row, w, of); some {
			stmts = append(stmts, st)
		}
	}
	if len(b.held) > 0 {
		args := append([]any{int32(o.Row), s.code, w.Now}, s.holdColumns(b.held)...)
		stmts = append(stmts, stmt{sql: s.query["insert_hold"], args: args})
	}
	for _, d := range b.kept {
		switch {
		case d.Kept.Quarantine == 0:
		case d.Outcome == pawl.Quarantined:
			stmts = append(stmts, stmt{sql: s.query["set_aside_again"], args: []any{
				d.Kept.Quarantine, d.Cause, storable(d.Reason), int32(d.Tries), w.Now,
			}})
		default:
			stmts = append(stmts, stmt{sql: s.query["resolve_quarantine"], args: []any{d.Kept.Quarantine, closedBy(d.Outcome), w.Now}})
		}
	}
	slices.SortStableFunc(b.kept, func(x, y *pawl.Decision) int { return cmp.Compare(x.Kept.Item, y.Kept.Item) })
	for _, d := range b.kept {
		if d.Kept.Item != 0 {
			items = append(items, stmt{sql: s.query["carry_out"], args: []any{
				d.Kept.Item, int16(d.Outcome), d.Outcome.String(), storable(d.Reason), w.Now,
			}})
		}
	}
	return slices.Concat(stmts, releases, items)
}

// blockStreams makes the records that were set aside block their streams, where they do.
func (s *bound[Tx]) blockStreams(row int64, w *pawl.Work[Tx], aside []*pawl.Decision) (st stmt, some bool) {
	var scopes []int32
	var offsets []int64
	for _, d := range aside {
		if blocksStream(d) {
			scopes, offsets = append(scopes, s.scopes[d.Route]), append(offsets, d.Record.Offset)
		}
	}
	return stmt{sql: s.query["block_streams"], args: []any{int32(row), w.Now, scopes, offsets}, after: fault.Quarantined}, len(scopes) > 0
}

// Where a record in quarantine is: pawl_quarantine.status.
const (
	statusOpen     int16 = 1
	statusReplayed int16 = 2
	statusSkipped  int16 = 3
	statusArchived int16 = 4
)

func closedBy(o pawl.Outcome) int16 {
	if o == pawl.Skipped {
		return statusSkipped
	}
	return statusReplayed
}

// toldColumns are the arguments $25… of insert_told_decision.
func toldColumns(ds []*pawl.Decision) []any {
	n := len(ds)
	accepted := make([]pgtype.UUID, n)
	row, before, after := newColumn[string](n), newColumn[string](n), newColumn[string](n)
	for i, d := range ds {
		if edited(d) {
			accepted[i] = uuid(d.Kept.Original)
		}
		row.add(storable(d.RowAffected), d.RowAffected != "")
		before.add(d.StateBefore, d.StateBefore != "")
		after.add(d.StateAfter, d.StateAfter != "")
	}
	return []any{accepted, row.arg(), before.arg(), after.arg()}
}

// parseAccepted reads an array of fingerprints as PostgreSQL writes it.
func parseAccepted(text string) (all []pawl.Fingerprint, err error) {
	for id := range strings.SplitSeq(strings.Trim(text, "{}"), ",") {
		var f pawl.Fingerprint
		if _, err := hex.Decode(f[:], []byte(strings.ReplaceAll(id, "-", ""))); err != nil {
			return nil, fmt.Errorf("accepted fingerprints %s: %w", text, err)
		}
		all = append(all, f)
	}
	return all, nil
}
