package pawltest_test

import (
	"context"
	"database/sql"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
	"github.com/pawlhq/pawl/internal/sqlitetest"
	"github.com/pawlhq/pawl/pawltest"
	"github.com/pawlhq/pawl/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type deposit struct {
	ID     string `json:"id"`
	Amount int64  `json:"amount"`
}

var deposits = decode.JSON(func(_ pawl.Meta, d deposit) pawl.Identity { return pawl.Identity{Key: d.ID} })

// account is a store with a balance.
type account struct {
	*sqlite.Store
	beside *sql.DB // another way to the same database, past the transaction
}

func openAccount(t testing.TB) account {
	path := sqlitetest.Migrated(t)
	store, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close(); store.Close() })
	if _, err := db.Exec(`create table account (balance integer); insert into account values (0)`); err != nil {
		t.Fatal(err)
	}
	return account{store, db}
}

func (a account) balance(t testing.TB) (n int64) {
	if err := a.beside.QueryRow(`select balance from account`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

var twoAndFive = []pawl.Record{
	pawltest.JSON(deposit{"a", 2}), pawltest.JSON(deposit{"a", 2}), pawltest.JSON(deposit{"b", 5}), pawltest.JSON(deposit{"c", 0}), pawltest.JSON(deposit{"d", 0}),
}

func wantSeven(t testing.TB, a account) {
	if n := a.balance(t); n != 7 {
		t.Errorf("balance %d, want 7", n)
	}
}

func TestAHandlerThatWritesThroughItsTransactionPasses(t *testing.T) {
	pawltest.EveryCrash(t, openAccount, deposits, func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[deposit]) error {
		_, err := tx.ExecContext(ctx, `update account set balance = balance + ?`, e.Body.Amount)
		return err
	}, twoAndFive, wantSeven)
}

// A blind increment made outside the transaction: the variable stands for any other system.
func TestAnIncrementOutsideTheTransactionIsCaught(t *testing.T) {
	var outside int64
	got := observe(t, func(t testing.TB) {
		pawltest.EveryCrash(t, func(t testing.TB) account { outside = 0; return openAccount(t) }, deposits,
			func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[deposit]) error {
				outside += e.Body.Amount
				return nil
			}, twoAndFive,
			func(t testing.TB, _ account) {
				if outside != 7 {
					t.Errorf("outside the transaction %d, want 7", outside)
				}
			})
	})
	if !strings.Contains(got, "outside the transaction") || !strings.Contains(got, "after crash") {
		t.Errorf("the increment was not caught:\n%s", got)
	}
}

// An effect kept in memory and written later: a crash loses it, though its record is settled.
func TestAnEffectKeptInMemoryIsCaught(t *testing.T) {
	got := observe(t, func(t testing.TB) {
		var kept int64
		pawltest.EveryCrash(t, openAccount, deposits,
			func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[deposit]) error {
				if kept += e.Body.Amount; e.Key != "d" {
					return nil // written with the last one
				}
				amount := kept
				kept = 0
				_, err := tx.ExecContext(ctx, `update account set balance = balance + ?`, amount)
				return err
			}, twoAndFive,
			func(t testing.TB, a account) { kept = 0; wantSeven(t, a) })
	})
	if !strings.Contains(got, "want 7") {
		t.Errorf("the effect kept in memory was not caught:\n%s", got)
	}
}

func TestWantSaysWhichRecordAndWhy(t *testing.T) {
	got := observe(t, func(t testing.TB) {
		pawltest.Run(t, openAccount(t), deposits, func(context.Context, pawl.SQLTx, pawl.Envelope[deposit]) error {
			return pawl.Ignore("not ours")
		}, twoAndFive[0]).Want(pawl.Applied)
	})
	if !strings.Contains(got, "record 0 is ignored (not ours), want applied") {
		t.Errorf("got %q", got)
	}
}

// observe runs f with a testing.TB that notes failures instead of failing.
func observe(t *testing.T, f func(testing.TB)) string {
	o := &observed{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer o.cleanup()
		f(o)
	}()
	<-done
	return o.said.String()
}

type observed struct {
	testing.TB
	mu      sync.Mutex
	said    strings.Builder
	failed  bool
	cleanly []func()
}

func (o *observed) note(s string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed = true
	o.said.WriteString(s + "\n")
}

func (o *observed) Errorf(format string, args ...any) { o.note(fmt.Sprintf(format, args...)) }
func (o *observed) Error(args ...any)                 { o.note(fmt.Sprint(args...)) }
func (o *observed) Fatalf(format string, args ...any) { o.Errorf(format, args...); runtime.Goexit() }
func (o *observed) Fatal(args ...any)                 { o.Error(args...); runtime.Goexit() }
func (o *observed) Cleanup(f func())                  { o.cleanly = append(o.cleanly, f) }
func (o *observed) Helper()                           {}
func (o *observed) Failed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}

func (o *observed) cleanup() {
	for i := len(o.cleanly) - 1; i >= 0; i-- {
		o.cleanly[i]()
	}
}
