package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/effect"
)

// Declared effects, each next to the classic consumer that does the same, and to COPY of the rows that it leaves: "full"
// evidence is that of every decision, with the version before; states are not asked for.

const createEffects = `
create table case_state (
    case_id text primary key,
    version bigint not null,
    state text,
    occurred_at timestamptz
) with (fillfactor = 70);
create table copy_state (like case_state including all);
create table ledger_entry (
    entry_id text primary key,
    account text not null,
    amount numeric not null,
    occurred_at timestamptz
);
create table copy_ledger_entry (like ledger_entry including all);
create table ledger_balance (account text primary key, balance numeric not null) with (fillfactor = 70);
create table copy_ledger_balance (like ledger_balance including all)`

var (
	ledgerEntry   = copyable{"ledger_entry", "ctid", "abs(hashtext(account))"}
	ledgerBalance = copyable{"ledger_balance", "account", "abs(hashtext(account))"}
)

func newLedger() *effect.Ledger[body] {
	return &effect.Ledger[body]{
		Table: "ledger_entry", Key: "entry_id", Account: "account", Amount: "amount", Balances: "ledger_balance",
		Columns: []effect.Column[body]{effect.Note(effect.Time("occurred_at", occurredAt))},
		Post: func(e *pawl.Envelope[body]) ([]effect.Posting, error) {
			return []effect.Posting{{Account: e.Body.CaseID, Amount: amountOf(e.Body.Version)}}, nil
		},
	}
}

// amountOf is what an event posts: something that differs, with two digits behind the point.
func amountOf(version int64) string { return fmt.Sprintf("%d.%02d", version%7, version*37%100) }

func runPawlLedger(ctx context.Context, t *task, w *stopwatch) error {
	return runPawl(ctx, t, w, func(r *pawl.Runner[pgx.Tx], route pawl.Route) { pawl.Apply(r, route, decoder, newLedger()) })
}

const (
	insertEntry = `insert into ledger_entry (entry_id, account, amount, occurred_at) values ($1, $2, $3::text::numeric, $4)`
	addBalance  = `
insert into ledger_balance as b (account, balance) values ($1, $2::text::numeric)
on conflict (account) do update set balance = b.balance + excluded.balance`
)

func classicLedger(ctx context.Context, tx pgx.Tx, b *body) error {
	amount := amountOf(b.Version)
	if _, err := tx.Exec(ctx, insertEntry, b.EventID, b.CaseID, amount, b.OccurredAt); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, addBalance, b.CaseID, amount)
	return err
}

// checkLedger: every event once, every balance the sum of its entries, and all of them together what the model says.
func checkLedger(entries, balances string) func(want) []count {
	return func(w want) []count {
		return []count{
			{"entries in " + entries, `select count(*) from ` + entries, w.unique},
			{"balances that are wrong", fmt.Sprintf(`
select count(*)
from (select account, sum(amount) as amount from %s group by account) e
full join %s b using (account)
where b.balance is distinct from e.amount`, entries, balances), 0},
			{"accounts", `select count(*) from ` + balances, w.cases},
			{"hundredths in all", `select (100 * coalesce(sum(balance), 0))::bigint from ` + balances, w.hundredths},
		}
	}
}

func both(checks ...func(want) []count) func(want) []count {
	return func(w want) (all []count) {
		for _, c := range checks {
			all = append(all, c(w)...)
		}
		return all
	}
}

func newProjection() *effect.Projection[body] {
	return &effect.Projection[body]{
		Table: "case_state", Stream: "case_id", Version: "version",
		Columns: []effect.Column[body]{
			effect.Text("state", func(e *pawl.Envelope[body]) string { return e.Body.State }),
			effect.Note(effect.Time("occurred_at", occurredAt)),
		},
	}
}

func occurredAt(e *pawl.Envelope[body]) time.Time { return e.OccurredAt }

func newWorkflow() *effect.Workflow[body] {
	all := states[:]
	to := map[string][]string{}
	for _, s := range all {
		to[s] = all
	}
	return &effect.Workflow[body]{
		Table: "case_state", Stream: "case_id", Version: "version", State: "state", Initial: all, Transitions: to,
		To:      func(e *pawl.Envelope[body]) (string, error) { return e.Body.State, nil },
		Columns: []effect.Column[body]{effect.Note(effect.Time("occurred_at", occurredAt))},
	}
}

func runPawlProjection(ctx context.Context, t *task, w *stopwatch) error {
	return runPawl(ctx, t, w, func(r *pawl.Runner[pgx.Tx], route pawl.Route) { pawl.Apply(r, route, decoder, newProjection()) })
}

func runPawlWorkflow(ctx context.Context, t *task, w *stopwatch) error {
	return runPawl(ctx, t, w, func(r *pawl.Runner[pgx.Tx], route pawl.Route) { pawl.Apply(r, route, decoder, newWorkflow()) })
}

// The classic forms: the marker, the row locked and read, the rule in Go, the row written.

const (
	lockState   = `select version, state from case_state where case_id = $1 for update`
	insertState = `insert into case_state (case_id, version, state, occurred_at) values ($1, $2, $3, $4)`
	updateState = `update case_state set version = $2, state = $3, occurred_at = $4 where case_id = $1`
)

func classicProjection(ctx context.Context, tx pgx.Tx, b *body) error {
	return classicState(ctx, tx, b, func(string) bool { return true })
}

func classicWorkflow(ctx context.Context, tx pgx.Tx, b *body) error {
	return classicState(ctx, tx, b, func(from string) bool {
		for _, s := range states {
			if s == from {
				return true
			}
		}
		return from == ""
	})
}

func classicState(ctx context.Context, tx pgx.Tx, b *body, allowed func(from string) bool) error {
	var version int64
	var state string
	err := tx.QueryRow(ctx, lockState, b.CaseID).Scan(&version, &state)
	if err != nil && err != pgx.ErrNoRows {
		return err
	}
	if b.Version != version+1 || !allowed(state) {
		return fmt.Errorf("case %s is at version %d, the event is %d", b.CaseID, version, b.Version)
	}
	write := updateState
	if err == pgx.ErrNoRows {
		write = insertState
	}
	_, err = tx.Exec(ctx, write, b.CaseID, b.Version, b.State, b.OccurredAt)
	return err
}

// classicEffect is runClassic1 with another effect.
func classicEffect(apply func(context.Context, pgx.Tx, *body) error) func(context.Context, *task, *stopwatch) error {
	return func(ctx context.Context, t *task, w *stopwatch) error {
		c, err := openClassic(ctx, t, w, 2)
		if err != nil {
			return err
		}
		defer c.close()
		c.apply = apply
		return c.serve(ctx)
	}
}
