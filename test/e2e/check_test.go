//go:build unix

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl"
)

// ownersSchema notes every change of a position, with who made it. The row's lock makes the order of notes that of commits.
const ownersSchema = `
create table ownership (
    id bigint generated always as identity, partition integer not null, epoch bigint not null, raised boolean not null, app text not null);
create function note_ownership() returns trigger language plpgsql as $$
begin
    insert into ownership (partition, epoch, raised, app)
    values (new.partition, new.epoch, new.epoch > old.epoch, current_setting('application_name'));
    return null;
end
$$;
create trigger note_ownership after update on pawl_progress for each row execute function note_ownership()`

// checkMoment looks at one snapshot of the database, in the middle of it all: marker, effect and position agree, and
// nobody but the owner of its time has touched a position (I1, I2, I3, I6).
func checkMoment(ctx context.Context, pool *pgxpool.Pool) error {
	const query = `
	with place as (
	    select progress_id, position_offset from pawl_decision
	    union all
	    select progress_id, position_offset from pawl_redelivery
	), marker as (
	    select convert_from(key, 'UTF8') as id from pawl_decision where outcome = 1
	)
	select (select count(*) from ledger where id not in (select id from marker)),
	       (select count(*) from marker where id not in (select id from ledger)),
	       (select count(*) from (select id from ledger group by id having count(*) > 1) as twice),
	       (select count(*) from (select progress_id, position_offset from place group by 1, 2 having count(*) > 1) as twice),
	       (select count(*) from place join pawl_progress on id = progress_id where position_offset >= next_offset),
	       (select coalesce(sum(next_offset), 0) from pawl_progress) - (select count(*) from place),
	       (select count(*) from account full join (select account, sum(amount) from ledger group by account) as l on l.account = id
	        where balance is distinct from l.sum),
	       (select count(*) from ownership as o where not raised and not exists (
	            select from ownership as r where r.raised and r.partition = o.partition and r.epoch = o.epoch and r.app = o.app)),
	       (select count(*) from (
	            select epoch, lag(epoch) over (partition by partition order by id) as before from ownership) as o
	        where epoch < before)`
	what := []string{
		"effects without a marker", "markers without an effect", "keys with several effects", "places with several outcomes",
		"places beyond the position", "places before the position that have no outcome", "balances that are not the sum of their entries",
		"commits by a member that was not the owner any more", "epochs that went back",
	}
	got := make([]int64, len(what))
	into := make([]any, len(what))
	for i := range got {
		into[i] = &got[i]
	}
	if err := pool.QueryRow(ctx, query).Scan(into...); err != nil {
		return err
	}
	var errs []error
	for i, n := range got {
		if n != 0 {
			errs = append(errs, fmt.Errorf("%d %s", n, what[i]))
		}
	}
	return errors.Join(errs...)
}

// checkEnd compares the database with the model, record by record.
func checkEnd(ctx context.Context, pool *pgxpool.Pool, s *stream) error {
	if err := checkMoment(ctx, pool); err != nil {
		return err
	}
	effects, err := readEffects(ctx, pool)
	if err != nil {
		return err
	}
	outcomes, err := readOutcomes(ctx, pool)
	if err != nil {
		return err
	}
	aside, err := readQuarantine(ctx, pool)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := wrongs{}
	for _, f := range s.families {
		w.checkEffect(f, effects[f.first.ID])
		delete(effects, f.first.ID)
	}
	for id := range effects {
		w.add("an effect for %s, which was never produced", id)
	}

	claims := map[*family]int{} // places that made the decision of their key
	for at, r := range s.records {
		got := outcomes[at]
		delete(outcomes, at)
		w.checkOutcome(at, r, got)
		if got.Claims() {
			claims[r.of]++
		}
		value, isAside := aside[at]
		delete(aside, at)
		if isAside != (got == pawl.Quarantined) {
			w.add("%v is %v, and in quarantine: %t", at, got, isAside)
		}
		if isAside && !bytes.Equal(value, r.value) {
			w.add("%v is in quarantine as %q, want %q", at, value, r.value)
		}
	}
	for _, f := range s.families {
		if want := map[bool]int{true: 0, false: 1}[f.kind == refused]; claims[f] != want {
			w.add("%s was decided %d times, want %d", f.first.ID, claims[f], want)
		}
	}
	for at := range maps.Keys(outcomes) {
		w.add("an outcome for %v, where there is no record", at)
	}
	for at := range maps.Keys(aside) {
		w.add("a quarantined record of %v, where there is none", at)
	}
	return w.err()
}

// wrongs collects what is wrong, and shows the first few.
type wrongs struct {
	errs []error
	n    int
}

func (w *wrongs) add(format string, args ...any) {
	if w.n++; w.n <= 20 {
		w.errs = append(w.errs, fmt.Errorf(format, args...))
	}
}

func (w *wrongs) err() error {
	if w.n > len(w.errs) {
		w.errs = append(w.errs, fmt.Errorf("and %d more", w.n-len(w.errs)))
	}
	return errors.Join(w.errs...)
}

func (w *wrongs) checkEffect(f *family, got []entry) {
	switch {
	case f.kind == ignored || f.kind == refused:
		if len(got) > 0 {
			w.add("%s is %s and took effect: %v", f.first.ID, f.kind, got)
		}
	case len(got) != 1:
		w.add("%s has %d effects, want 1: %v", f.first.ID, len(got), got)
	case got[0].Amount != f.first.Amount, f.kind != rivals && got[0].Account != f.first.Account:
		w.add("%s took effect as %v, want %v", f.first.ID, got[0], f.first)
	}
}

// checkOutcome is about one record. Which of several copies came first is left open; checkEnd counts the claims.
func (w *wrongs) checkOutcome(at place, r record, got pawl.Outcome) {
	ok := false
	switch {
	case r.of == nil, r.of.kind == refused:
		ok = got == pawl.Quarantined
	case r.of.kind == ignored:
		ok = got == pawl.Ignored
	case r.of.kind == rivals:
		ok = got == pawl.Applied || got == pawl.Quarantined
	case r.conflict:
		ok = got == pawl.Quarantined
	default:
		ok = got == pawl.Applied || got == pawl.Duplicate
	}
	if !ok {
		w.add("%v, %s, has outcome %v", at, r.value, got)
	}
}

func readEffects(ctx context.Context, pool *pgxpool.Pool) (map[string][]entry, error) {
	effects := map[string][]entry{}
	var e entry
	err := each(ctx, pool, `select id, account, amount from ledger`, []any{&e.ID, &e.Account, &e.Amount}, func() error {
		effects[e.ID] = append(effects[e.ID], e)
		return nil
	})
	return effects, err
}

func readOutcomes(ctx context.Context, pool *pgxpool.Pool) (map[place]pawl.Outcome, error) {
	outcomes := map[place]pawl.Outcome{}
	var at place
	var outcome int16
	err := each(ctx, pool, `
		select partition, position_offset, outcome
		from (
		    select progress_id, position_offset, outcome from pawl_decision
		    union all
		    select progress_id, position_offset, outcome from pawl_redelivery
		) as place
		join pawl_progress on id = progress_id`, []any{&at.partition, &at.offset, &outcome}, func() error {
		if _, twice := outcomes[at]; twice {
			return fmt.Errorf("%v has two outcomes", at)
		}
		outcomes[at] = pawl.Outcome(outcome)
		return nil
	})
	return outcomes, err
}

func readQuarantine(ctx context.Context, pool *pgxpool.Pool) (map[place][]byte, error) {
	aside := map[place][]byte{}
	var at place
	var value []byte
	err := each(ctx, pool, `
		select partition, position_offset, value
		from pawl_quarantine as q
		join pawl_progress as p on p.id = q.progress_id`, []any{&at.partition, &at.offset, &value}, func() error {
		aside[at] = bytes.Clone(value)
		return nil
	})
	return aside, err
}

func each(ctx context.Context, pool *pgxpool.Pool, query string, into []any, f func() error) error {
	rows, err := pool.Query(ctx, query)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, into, f)
	return err
}
