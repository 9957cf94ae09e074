package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/fault"
	"github.com/pawlhq/pawl/internal/retry"
)

// Apply is THE transaction: look, run, claim, quarantine, advance, commit. This is the only place that applies an effect.
func (s *bound[Tx]) Apply(ctx context.Context, o *pawl.Ownership, w *pawl.Work[Tx]) error {
	named, err := s.intern(ctx, w.Decisions)
	if err != nil {
		return s.own("intern names", err)
	}
	guard := fmt.Sprintf("%d.%d.%d", o.Row, o.Epoch, s.guards.Add(1)) // of this transaction alone
	t, err := s.link.begin(ctx, strings.ReplaceAll(s.begin, "{{guard}}", guard), s.tables, s.isContended())
	if err != nil {
		return s.own("begin", err)
	}
	defer t.close(ctx)
	if err := fault.Hit(ctx, fault.Begun); err != nil {
		return err
	}
	if err := s.look(ctx, t, o, w); err != nil {
		return s.own("look up decisions", err)
	}
	if err := fault.Hit(ctx, fault.Looked); err != nil {
		return err
	}

	if err := w.Run(ctx, t); err != nil {
		if errors.Is(err, pawl.ErrRaced) || code(err) == "40P01" {
			s.contended.Store(contendedFor)
		}
		return err
	}
	if err := t.intact(ctx, s.query["guard"], guard); err != nil {
		return err
	}
	if err := fault.Hit(ctx, fault.Effected); err != nil {
		return err
	}

	if err := s.internMore(ctx, t, w.Decisions, named); err != nil {
		return s.own("intern names", err)
	}
	evidence, err := s.evidence(o, w, named)
	if err != nil {
		return err
	}
	if w.Beside { // what holds up the commits of others is kept short
		if err := t.exec(ctx, evidence...); err != nil {
			return s.translate(err)
		}
		evidence = nil
	}
	return w.Commit(func() error {
		seq, err := s.advance(ctx, t, o, w, evidence, guard)
		if err == nil {
			o.Seq, o.Next = seq, max(o.Next, w.Next) // memory follows the commit
		}
		return err
	})
}

// contendedFor is how many transactions lock the rows that they read after one has found a row changed under it.
const contendedFor = 1000

func (s *bound[Tx]) isContended() bool { return s.contended.Load() > 0 && s.contended.Add(-1) >= 0 }

// advance sends the last statements: behind them comes commit. It returns the seq that the commit has.
func (s *bound[Tx]) advance(ctx context.Context, t txn[Tx], o *pawl.Ownership, w *pawl.Work[Tx], before []stmt, guard string) (seq int64, err error) {
	err = t.exec(ctx, append(before,
		stmt{
			sql: s.query["advance"], args: []any{int32(o.Row), o.Epoch, o.Token, o.Seq, w.Next, w.Received, w.Now, guard}, after: fault.Advanced,
			row: func(scan func(...any) error) error { return scan(&seq) },
		},
		stmt{sql: s.query["commit"], after: fault.Committed},
	)...)
	switch {
	case err == nil:
		return seq, nil
	case errors.Is(err, fault.ErrCrash):
		return 0, err
	case refused(err):
		return 0, s.translate(err)
	}
	t.close(ctx) // the lock that resolve waits for may be this connection's
	return s.resolve(ctx, o, err)
}

// look sets Prior from one set-based select, and Blocked and the gaps beside it.
func (s *bound[Tx]) look(ctx context.Context, t txn[Tx], o *pawl.Ownership, w *pawl.Work[Tx]) error {
	ds := w.Decisions
	keyed := make([]*pawl.Decision, 0, len(ds))
	var k keyColumns
	for _, d := range ds {
		if d.Prior = nil; d.Identity.Key != "" {
			keyed = append(keyed, d)
			k.add(s.scopes[d.Route], d.KeyID)
		}
	}
	look := stmt{sql: s.query["look"], args: []any{k.scope, k.form, k.id}, row: func(scan func(...any) error) error {
		var i, offset int64
		var outcome int16
		var row int32
		var fp, by []byte
		var accepted *string
		if err := scan(&i, &outcome, &fp, &row, &offset, &accepted, &by); err != nil {
			return err
		}
		d := keyed[i-1]
		var err error
		d.Prior, err = newPrior(outcome, fp, accepted, by, int64(row) == o.Row && offset == d.Record.Offset)
		return err
	}}
	blocked, gaps := s.newLookBlocked(ds), s.newLookGaps(w)
	stmts := slices.Concat([]stmt{look}, s.lookAhead(o, w), []stmt{{sql: s.query["end_of_look"]}}, blocked.first(), gaps.first())
	if err := t.exec(ctx, stmts...); err != nil {
		return err
	}
	if err := s.rest(ctx, t, blocked); err != nil {
		return err
	}
	return s.fillGaps(ctx, t, gaps)
}

// lookAhead is what to ask together with the look about records that an owner before may have settled ahead of the position.
func (s *bound[Tx]) lookAhead(o *pawl.Ownership, w *pawl.Work[Tx]) []stmt {
	var again []*pawl.Decision
	var scopes []int32
	var offsets []int64
	for _, d := range w.Decisions {
		if w.Beside && d.Kept == nil && d.Record.Offset >= o.Again && d.Record.Offset < o.Ahead {
			again, scopes, offsets = append(again, d), append(scopes, s.scopes[d.Route]), append(offsets, d.Record.Offset)
		}
	}
	if len(again) == 0 {
		return nil
	}
	return []stmt{{sql: s.query["look_ahead"], args: []any{int32(o.Row), scopes, offsets}, row: func(scan func(...any) error) error {
		var i int64
		var outcome int16
		var key, fp []byte
		if err := scan(&i, &outcome, &key, &fp); err != nil {
			return err
		}
		again[i-1].Stands(pawl.Outcome(outcome), key, fp)
		return nil
	}}}
}

// evidence is what is written about the decisions, as statements that need no answer in between.
func (s *bound[Tx]) evidence(o *pawl.Ownership, w *pawl.Work[Tx], named map[string]int32) ([]stmt, error) {
	b, err := sortBatch(w.Decisions)
	if err != nil {
		return nil, err
	}
	stmts := make([]stmt, 0, 5)
	add := func(name string, after fault.Point, ds []*pawl.Decision, columns func([]*pawl.Decision) []any) {
		for row, of := range byRow(o, ds) {
			args := append([]any{int32(row), s.code, w.Now}, columns(of)...)
			stmts = append(stmts, stmt{sql: s.query[name], args: args, after: after})
		}
	}
	if st, some := s.undecided(b.aside); some { // before this batch decides any of them
		stmts = append(stmts, st)
	}
	add("insert_decision", fault.Claimed, b.decided, func(ds []*pawl.Decision) []any { return s.decisionColumns(ds, named) })
	add("insert_told_decision", fault.Claimed, b.told, func(ds []*pawl.Decision) []any {
		columns := s.decisionColumns(ds, named) // which sorts them
		return append(columns, toldColumns(ds)...)
	})
	add("insert_redelivery", "", b.others, s.redeliveryColumns)
	add("restate_redelivery", "", b.restate, s.redeliveryColumns)
	add("insert_quarantine", fault.Quarantined, b.aside, s.quarantineColumns)
	if st, some := s.supersede(o, w); some {
		stmts = append(stmts, st)
	}
	return slices.Concat(stmts, s.keep(o, w, b), s.settleGaps(o, w, b)), nil
}

// undecided makes sure that what is set aside was not decided by another while it was tried.
func (s *bound[Tx]) undecided(aside []*pawl.Decision) (st stmt, some bool) {
	var k keyColumns
	for _, d := range aside {
		if d.Prior == nil && d.Identity.Key != "" && d.Cause != pawl.CauseConflict {
			k.add(s.scopes[d.Route], d.KeyID)
		}
	}
	return stmt{sql: s.query["undecided"], args: []any{k.scope, k.form, k.id}}, len(k.scope) > 0
}

// byRow yields decisions by the partition that their records are of: this one, but for early records of others.
func byRow(o *pawl.Ownership, ds []*pawl.Decision) iter.Seq2[int64, []*pawl.Decision] {
	return func(yield func(int64, []*pawl.Decision) bool) {
		for len(ds) > 0 {
			row := rowOf(o, ds[0])
			of := ds
			if i := slices.IndexFunc(ds, func(d *pawl.Decision) bool { return rowOf(o, d) != row }); i >= 0 {
				of = nil
				var rest []*pawl.Decision
				for _, d := range ds {
					if rowOf(o, d) == row {
						of = append(of, d)
					} else {
						rest = append(rest, d)
					}
				}
				ds = rest
			} else {
				ds = nil
			}
			if !yield(row, of) {
				return
			}
		}
	}
}

func rowOf(o *pawl.Ownership, d *pawl.Decision) int64 {
	if d.Kept != nil && d.Kept.Row != 0 {
		return d.Kept.Row
	}
	return o.Row
}

// resolve finds out whether a transaction whose answer was lost has committed. It never guesses: it waits for the lock of
// the progress row, which the transaction holds until it is over, and compares seq.
func (s *bound[Tx]) resolve(ctx context.Context, o *pawl.Ownership, lost error) (int64, error) {
	if ctx.Err() != nil { // one bounded attempt, for the sake of the offset that could follow
		var cancel context.CancelFunc
		ctx, cancel = detached(ctx)
		defer cancel()
	}
	for n := 1; ; n++ {
		var epoch, seq, next int64
		var token string
		found := false
		err := s.link.exec(ctx, stmt{sql: s.query["resolve"], args: []any{int32(o.Row)}, row: func(scan func(...any) error) error {
			found = true
			return scan(&epoch, &token, &seq, &next)
		}})
		switch {
		case err != nil:
			select {
			case <-ctx.Done():
				return 0, &unresolvedError{lost}
			case <-time.After(retry.Delay(n)):
			}
			continue
		case !found, epoch < o.Epoch, epoch == o.Epoch && (token != o.Token || seq < o.Seq):
			return 0, pawl.ErrStoreWentBack
		case epoch > o.Epoch:
			return 0, pawl.ErrFenced
		case seq == o.Seq:
			return 0, &pawl.Error{Op: "commit", Class: pawl.Transient, Err: lost}
		}
		return seq, nil
	}
}

// unresolvedError: the caller's time was over before the answer could be had. The next owner reads it from the store.
type unresolvedError struct{ err error }

func (e *unresolvedError) Error() string { return "unknown whether it committed: " + e.err.Error() }
func (e *unresolvedError) Unwrap() error { return e.err }
