package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/fault"
)

// Apply settles a batch in one transaction. This is the only place where an effect commits.
func (s *bound) Apply(ctx context.Context, o *pawl.Ownership, w *pawl.Work[pawl.SQLTx]) error {
	tx, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer tx.close()

	a := &application{bound: s, tx: tx, owned: o, work: w, fresh: map[string]int64{}}
	if err := a.run(ctx); err != nil {
		return err
	}
	return w.Commit(func() error { return a.commit(ctx) })
}

// commit ends the transaction with the position and the fence.
func (a *application) commit(ctx context.Context) error {
	seq, err := a.advance(ctx)
	if errors.Is(err, pawl.ErrStoreWentBack) {
		a.bound.names.forget() // the names may have gone back too
	}
	if err != nil {
		return fmt.Errorf("advance %s to %d: %w", a.owned.Partition, a.work.Next, err)
	}
	if err := fault.Hit(ctx, fault.Advanced); err != nil {
		return err
	}
	if err := a.tx.commit(); err != nil {
		if err := a.bound.resolve(ctx, a.owned, seq, err); err != nil {
			return err
		}
	}
	a.bound.names.keep(a.fresh)
	if err := fault.Hit(ctx, fault.Committed); err != nil {
		return err
	}
	a.owned.Seq, a.owned.Next = seq, max(a.owned.Next, a.work.Next)
	return nil
}

// resolve finds out what became of a COMMIT that returned an error. No transaction is open any more, and the progress row
// tells: only o raises its seq. It returns nil where the commit happened.
func (s *Store) resolve(ctx context.Context, o *pawl.Ownership, seq int64, failed error) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	at, err := s.readProgress(ctx, o.Row)
	switch {
	case err != nil:
		return errors.Join(fmt.Errorf("commit: %w", failed), fmt.Errorf("find out whether it happened: %w", err))
	case at.epoch > o.Epoch:
		return fmt.Errorf("%w (after a commit that failed: %w)", pawl.ErrFenced, failed)
	case at.epoch == o.Epoch && at.token == o.Token && at.seq >= seq:
		return nil
	}
	return fmt.Errorf("commit: %w", failed)
}

// detached is for what must be done although the caller's context may be over.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
}

// application is one batch inside its transaction.
type application struct {
	bound *bound
	tx    *transaction
	owned *pawl.Ownership
	work  *pawl.Work[pawl.SQLTx]
	fresh map[string]int64 // names to remember once committed
}

// run does everything up to the position.
func (a *application) run(ctx context.Context) error {
	if err := fault.Hit(ctx, fault.Begun); err != nil {
		return err
	}
	if err := a.look(ctx); err != nil {
		return own("look up keys", err)
	}
	if err := a.lookAhead(ctx); err != nil {
		return own("look up what was settled ahead", err)
	}
	if err := a.lookBlocked(ctx); err != nil {
		return own("look up blocked streams", err)
	}
	if err := a.lookGaps(ctx); err != nil {
		return own("look up gaps", err)
	}
	if err := fault.Hit(ctx, fault.Looked); err != nil {
		return err
	}
	if err := a.handle(ctx); err != nil {
		return err
	}
	if err := fault.Hit(ctx, fault.Effected); err != nil {
		return err
	}
	if err := a.claim(ctx); err != nil {
		return own("write decisions", err)
	}
	if err := fault.Hit(ctx, fault.Claimed); err != nil {
		return err
	}
	if err := a.setAside(ctx); err != nil {
		return own("write redeliveries and quarantine", err)
	}
	if err := a.supersede(ctx); err != nil {
		return own("mark what was corrected", err)
	}
	if err := a.keep(ctx); err != nil {
		return own("settle streams and kept records", err)
	}
	if err := a.settleGaps(ctx); err != nil {
		return own("settle gaps", err)
	}
	return fault.Hit(ctx, fault.Quarantined)
}

// scoped is a key within its scope.
type scoped struct {
	scope int64
	key   pawl.KeyID
}

// look sets the Prior of every decision whose key is decided already.
func (a *application) look(ctx context.Context) error {
	asked := map[scoped][]*pawl.Decision{}
	for _, d := range a.work.Decisions {
		if d.Prior = nil; d.Identity.Key != "" {
			at := scoped{a.bound.scopes[d.Route], d.KeyID}
			asked[at] = append(asked[at], d)
		}
	}
	args := make([]any, 0, 3*len(asked))
	for at := range asked {
		args = append(args, at.scope, at.key.Form, at.key.ID[:])
	}
	q := listQuery("look")
	for chunk := range slices.Chunk(args, q.columns*rowsPerLook) {
		rows, err := a.tx.QueryContext(ctx, q.of(len(chunk)/q.columns), chunk...)
		if err != nil {
			return err
		}
		if err := a.readPriors(rows, asked); err != nil {
			return err
		}
	}
	return nil
}

// lookAhead sets the Prior of records that an owner before has settled ahead of the position.
func (a *application) lookAhead(ctx context.Context) error {
	type position struct{ scope, offset int64 }
	again := map[position]*pawl.Decision{}
	var args []any
	for _, d := range a.work.Decisions {
		if a.work.Beside && d.Kept == nil && d.Record.Offset >= a.owned.Again && d.Record.Offset < a.owned.Ahead {
			again[position{a.bound.scopes[d.Route], d.Record.Offset}] = d
			args = append(args, a.bound.scopes[d.Route], a.owned.Row, d.Record.Offset)
		}
	}
	q := listQuery("look_ahead")
	for chunk := range slices.Chunk(args, q.columns*rowsPerLook) {
		rows, err := a.tx.QueryContext(ctx, q.of(len(chunk)/q.columns), chunk...)
		if err != nil {
			return err
		}
		for err == nil && rows.Next() {
			var at position
			var outcome pawl.Outcome
			var key, print []byte
			if err = rows.Scan(&at.scope, &at.offset, &outcome, &key, &print); err == nil {
				again[at].Stands(outcome, key, print)
			}
		}
		if err := errors.Join(err, rows.Close(), rows.Err()); err != nil {
			return err
		}
	}
	return nil
}

// Rows per statement: as many as make the cost of the statement itself small.
const (
	rowsPerLook   = 500
	rowsPerInsert = 50
)

func (a *application) readPriors(rows *sql.Rows, asked map[scoped][]*pawl.Decision) error {
	defer rows.Close()
	for rows.Next() {
		var at scoped
		var key, print, by []byte
		var found pawl.Prior
		var row, offset int64
		var accepted sql.NullString
		if err := rows.Scan(&at.scope, &at.key.Form, &key, &found.Outcome, &print, &row, &offset, &accepted, &by); err != nil {
			return err
		}
		if err := parseAccepted(&found.Accepted, accepted.String); err != nil {
			return err
		}
		copy(at.key.ID[:], key)
		copy(found.Fingerprint[:], print)
		found.SupersededBy = string(by)
		for _, d := range asked[at] {
			p := found
			p.SamePosition = row == a.owned.Row && offset == d.Record.Offset
			d.Prior = &p
		}
	}
	return rows.Err()
}

// handle runs the handlers, and makes sure that the transaction is still what it was and everything is decided.
func (a *application) handle(ctx context.Context) error {
	s := &session{tx: a.tx, refusal: a.bound.refusal, tables: a.bound.tables}
	err := a.work.Run(ctx, s)
	if ended := s.finish(); err == nil {
		err = ended
	}
	if err != nil {
		return err
	}
	for _, d := range a.work.Decisions {
		if err := a.check(d); err != nil {
			return fmt.Errorf("sqlite: record %s@%d %w", d.Record.Partition, d.Record.Offset, err)
		}
	}
	return ctx.Err()
}

// claim inserts the decisions that are final for their keys, in key order.
func (a *application) claim(ctx context.Context) error {
	claims := a.decisions((*pawl.Decision).Claims)
	slices.SortFunc(claims, func(x, y *pawl.Decision) int { return a.compareKeys(x, y) })
	for i := 1; i < len(claims); i++ {
		if a.compareKeys(claims[i-1], claims[i]) == 0 {
			return fmt.Errorf("sqlite: records %d and %d of %s claim one key", claims[i-1].Record.Offset, claims[i].Record.Offset,
				a.owned.Partition)
		}
	}
	err := a.insert(ctx, "insert_decision", claims, func(d *pawl.Decision) ([]any, error) { return a.decisionRow(ctx, d) })
	if isTaken(err) {
		return fmt.Errorf("%w (%w)", pawl.ErrRaced, err)
	}
	return err
}

func (a *application) compareKeys(x, y *pawl.Decision) int {
	return cmp.Or(
		cmp.Compare(a.bound.scopes[x.Route], a.bound.scopes[y.Route]),
		cmp.Compare(x.KeyID.Form, y.KeyID.Form),
		bytes.Compare(x.KeyID.ID[:], y.KeyID.ID[:]),
	)
}

// setAside writes what did not decide a key: one row by position for all of them, and the quarantined ones whole.
func (a *application) setAside(ctx context.Context) error {
	others := a.decisions(func(d *pawl.Decision) bool { return !d.Claims() && d.Kept == nil })
	if err := a.insert(ctx, "insert_redelivery", others, a.redeliveryRow); err != nil {
		return err
	}
	restate := a.decisions(func(d *pawl.Decision) bool {
		return !d.Claims() && d.Kept != nil && (d.Outcome != pawl.Held || d.Kept.Hold != 0 && d.Expected > 0)
	})
	if err := a.insert(ctx, "restate_redelivery", restate, a.redeliveryRow); err != nil {
		return err
	}
	quarantined := a.decisions(func(d *pawl.Decision) bool {
		return d.Outcome == pawl.Quarantined && (d.Kept == nil || d.Kept.Quarantine == 0)
	})
	return a.insert(ctx, "insert_quarantine", quarantined, a.quarantineRow)
}

// decisions returns those that something is written for and that f picks.
func (a *application) decisions(f func(*pawl.Decision) bool) []*pawl.Decision {
	var picked []*pawl.Decision
	for _, d := range a.work.Decisions {
		if !d.Repeat && f(d) {
			picked = append(picked, d)
		}
	}
	return picked
}

// insert writes one row for each decision.
func (a *application) insert(ctx context.Context, name string, ds []*pawl.Decision, row func(*pawl.Decision) ([]any, error)) error {
	q := listQuery(name)
	for chunk := range slices.Chunk(ds, rowsPerInsert) {
		args := make([]any, 0, q.columns*len(chunk))
		for _, d := range chunk {
			values, err := row(d)
			if err != nil {
				return err
			}
			args = append(args, values...)
		}
		if _, err := a.tx.ExecContext(ctx, q.of(len(chunk)), args...); err != nil {
			return err
		}
	}
	return nil
}

// advance moves the position, and proves that the owner still is one and that the database has all it has seen.
func (a *application) advance(ctx context.Context) (seq int64, err error) {
	o := a.owned
	err = a.tx.QueryRowContext(ctx, query("advance"), sql.Named("id", o.Row), sql.Named("epoch", o.Epoch),
		sql.Named("token", o.Token), sql.Named("seq", o.Seq), sql.Named("next", a.work.Next), sql.Named("received", a.work.Received),
		sql.Named("now", micros(a.work.Now))).Scan(&seq)
	if !errors.Is(err, sql.ErrNoRows) {
		return seq, err
	}
	at, err := scanProgress(a.tx.QueryRowContext(ctx, query("read_progress"), o.Row))
	if err != nil {
		return 0, err
	}
	return 0, at.prove(o)
}
