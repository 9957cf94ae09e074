package test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/pgtest"
	"github.com/pawlhq/pawl/pawltest"
	"github.com/pawlhq/pawl/storetest"
)

// A statement prepared for one record was executed for the next without being counted, and its writes were not undone.
// The same holds for a connection that a handler kept.
func TestWritesPastTheCountingAreUndone(t *testing.T) {
	refuse := func(e pawl.Envelope[entry]) error {
		if e.Body.Verb == "ignore" {
			return pawl.Ignore("asked to")
		}
		return nil
	}
	records := []pawl.Record{
		pawltest.JSON(entry{"1", "a", 1, ""}), pawltest.JSON(entry{"2", "a", 2, "ignore"}), pawltest.JSON(entry{"3", "a", 4, "ignore"}), pawltest.JSON(entry{"4", "a", 8, ""}),
	}
	want := []pawl.Outcome{pawl.Applied, pawl.Ignored, pawl.Ignored, pawl.Applied}
	onlyTwo := func(t *testing.T, n int64) {
		t.Helper()
		if n != 2 {
			t.Errorf("%d effects, want 2", n)
		}
	}
	const insert = `insert into ledger (id, account, amount) values (?, ?, ?)`

	prepared := func(t *testing.T, s *opened[pawl.SQLTx], query string) {
		var tx pawl.SQLTx
		var st *sql.Stmt
		pawltest.Run(t, s.Store, entries(), func(ctx context.Context, now pawl.SQLTx, e pawl.Envelope[entry]) (err error) {
			if now != tx { // once per transaction, as a statement cache does
				tx = now
				if st, err = tx.PrepareContext(ctx, query); err != nil {
					return err
				}
			}
			if _, err := st.ExecContext(ctx, e.Key, e.Stream, e.Body.Amount); err != nil {
				return err
			}
			return refuse(e)
		}, records...).Want(want...)
		onlyTwo(t, s.int(t, `select count(*) from ledger`))
	}
	t.Run("sqlite", func(t *testing.T) { prepared(t, openSQLite(t, ledgerSchema), insert) })
	t.Run("databasesql", func(t *testing.T) {
		prepared(t, openDatabaseSQL(t, pgtest.Migrated(t), ledgerSchema), storetest.Dollar(insert))
	})
	t.Run("pgx", func(t *testing.T) {
		s := openPgx(t, pgtest.Migrated(t), ledgerSchema)
		var tx pgx.Tx
		var conn *pgx.Conn
		pawltest.Run(t, s.Store, entries(), func(ctx context.Context, now pgx.Tx, e pawl.Envelope[entry]) error {
			if now != tx {
				tx, conn = now, now.Conn()
			}
			if _, err := conn.Exec(ctx, storetest.Dollar(insert), e.Key, e.Stream, e.Body.Amount); err != nil {
				return err
			}
			return refuse(e)
		}, records...).Want(want...)
		onlyTwo(t, s.int(t, `select count(*) from ledger`))
	})
}
