// Package test holds the proofs that need several packages together. docs/guarantee.md says which claim each proves.
package test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
	"github.com/pawlhq/pawl/pawltest"
)

// entry is the event of these proofs: an amount that goes to an account, once per id.
type entry struct {
	ID      string `json:"id"`
	Account string `json:"account"`
	Amount  int64  `json:"amount"`
	Verb    string `json:"verb"`
}

func entries() pawl.Decoder[entry] {
	return decode.JSON(func(_ pawl.Meta, e entry) pawl.Identity {
		return pawl.Identity{Key: e.ID, EventID: e.ID, Stream: e.Account, Type: "entry"}
	})
}

// ledgerSchema has an entry per effect and a balance that is incremented: a doubled effect shows in both, a lost one too.
const ledgerSchema = `
create table ledger (id text not null, account text not null, amount bigint not null);
create table account (id text primary key, balance bigint not null, check (balance < 1000000));
insert into account values ('a', 0), ('b', 0)`

// ledgerHandler writes before it decides, so that every non-nil return has something to undo.
func ledgerHandler[Tx any](exec execTx[Tx]) pawltest.Handler[Tx, entry] {
	return func(ctx context.Context, tx Tx, e pawl.Envelope[entry]) error {
		if err := exec(ctx, tx, `insert into ledger (id, account, amount) values (?, ?, ?)`, e.Key, e.Stream, e.Body.Amount); err != nil {
			return err
		}
		if err := exec(ctx, tx, `update account set balance = balance + ? where id = ?`, e.Body.Amount, e.Stream); err != nil {
			return err
		}
		switch e.Body.Verb {
		case "ignore":
			return pawl.Ignore("asked to")
		case "stale":
			return pawl.Stale("asked to")
		case "reject":
			return pawl.Reject(errors.New("asked to"))
		case "panic":
			panic("asked to")
		}
		return nil
	}
}

// ledgerBatch does the same for a batch.
func ledgerBatch[Tx any](exec execTx[Tx]) pawltest.BatchHandler[Tx, entry] {
	one := ledgerHandler(exec)
	return func(ctx context.Context, tx Tx, b *pawl.Batch[entry]) error {
		for i, e := range b.All() {
			switch e.Body.Verb {
			case "ignore":
				b.Ignore(i, "asked to")
				continue
			case "stale":
				b.Stale(i, "asked to")
				continue
			}
			if err := one(ctx, tx, e); err != nil {
				return err
			}
		}
		return nil
	}
}

// hostile is duplicates near and far, a conflict near and far, undecodable bytes, an empty key, a broken constraint, and
// every verb, over two partitions.
func hostile() []pawl.Record {
	e := func(id, account string, amount int64, verb string) pawl.Record {
		return pawltest.JSON(entry{id, account, amount, verb})
	}
	return []pawl.Record{
		e("1", "a", 1, ""), e("2", "a", 2, ""), e("1", "a", 1, ""), // a duplicate in the same batch
		pawltest.On(1, e("3", "b", 4, "")), pawltest.On(1, e("4", "b", 8, "")),
		e("5", "a", 16, "ignore"), e("6", "a", 32, "stale"), e("7", "a", 64, "reject"),
		pawltest.Bytes([]byte("{")), e("", "a", 128, ""), // poison
		e("2", "a", 3, ""),                           // a conflict, another batch
		e("8", "a", 2000000, ""),                     // breaks the check on balance
		pawltest.On(1, e("9", "b", 256, "panic")),    // fails for an unknown reason
		pawltest.On(1, e("3", "b", 4, "")),           // a duplicate in another batch
		e("10", "a", 512, ""), e("10", "a", 513, ""), // a conflict in the same batch
		e("5", "a", 16, "ignore"), e("7", "a", 64, "reject"), // copies of an ignored and of a rejected record
		pawltest.On(1, e("1", "a", 1, "")), // a duplicate on another partition
		e("11", "a", 1024, ""),
	}
}

const (
	hostileRecords     = 20
	hostileEffects     = 6 // 1 2 3 4 10 11
	hostileSumA        = 1 + 2 + 512 + 1024
	hostileSumB        = 4 + 8
	hostileDecisions   = 8 // and 5 6
	hostileQuarantined = 8 // 7 twice, two poison, two conflicts, the constraint, the panic
	hostileDuplicates  = 4 // 1 twice, 3, 5
)

func checkHostile[Tx any](t testing.TB, s *opened[Tx]) {
	t.Helper()
	for _, c := range []struct {
		what, query string
		want        int64
	}{
		{"effects", `select count(*) from ledger`, hostileEffects},
		{"keys with more than one effect", `select count(*) from (select id from ledger group by id having count(*) > 1) as d`, 0},
		{"balance of a", `select balance from account where id = 'a'`, hostileSumA},
		{"balance of b", `select balance from account where id = 'b'`, hostileSumB},
		{"decisions", `select count(*) from pawl_decision`, hostileDecisions},
		{"applied decisions", `select count(*) from pawl_decision where outcome = 1`, hostileEffects},
		{"quarantined", `select count(*) from pawl_quarantine`, hostileQuarantined},
		{"duplicates", `select count(*) from pawl_redelivery where outcome = 2`, hostileDuplicates},
		{"positions", `select sum(next_offset) from pawl_progress`, hostileRecords},
		{"places that have neither a decision nor a redelivery", `select ` + fmt.Sprint(hostileRecords) + ` - count(*) from (
			select progress_id, position_offset from pawl_decision union select progress_id, position_offset from pawl_redelivery) as p`, 0},
	} {
		if got := s.int(t, c.query); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}

// Proof (c): whatever window the process dies in, every record takes effect once. A new window is covered without a
// change here.
func TestEveryCrashLosesAndDoublesNothing(t *testing.T) { onEveryStore(t, ledgerSchema, crashProof{}) }

type crashProof struct{}

func (crashProof) onPgx(t *testing.T, open func(testing.TB) *opened[pgx.Tx], exec execTx[pgx.Tx]) {
	everyCrash(t, open, exec)
}

func (crashProof) onSQL(t *testing.T, open func(testing.TB) *opened[pawl.SQLTx], exec execTx[pawl.SQLTx]) {
	everyCrash(t, open, exec)
}

func everyCrash[Tx any](t *testing.T, open func(testing.TB) *opened[Tx], exec execTx[Tx]) {
	t.Run("record", func(t *testing.T) {
		t.Parallel()
		pawltest.EveryCrash(t, open, entries(), ledgerHandler(exec), hostile(), checkHostile[Tx])
	})
	t.Run("batch", func(t *testing.T) {
		t.Parallel()
		pawltest.EveryCrashBatch(t, open, entries(), ledgerBatch(exec), hostile(), checkHostile[Tx])
	})
}
