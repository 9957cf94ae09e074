package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/sqlite"
)

// fixture is a bound store with one partition.
type fixture struct {
	store *sqlite.Store
	bound pawl.BoundStore[pawl.SQLTx]
	own   *pawl.Ownership
	file  string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{file: filepath.Join(t.TempDir(), "test.db")}
	f.store = open(t, f.file)
	if err := f.store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	var err error
	f.bound, err = f.store.Open(t.Context(), pawl.Binding{
		Consumer: "billing", Cluster: "c", Group: "g", Version: "v1", Routes: []pawl.RouteName{{Name: "charge"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if f.own, err = f.bound.Acquire(t.Context(), pawl.Partition{Topic: "payments"}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := beside(t, f.file).ExecContext(t.Context(), `create table effect (key text not null)`); err != nil {
		t.Fatal(err)
	}
	return f
}

// apply settles one record, at the owner's position, with h.
func (f *fixture) apply(ctx context.Context, h func(ctx context.Context, s pawl.Session[pawl.SQLTx]) error) error {
	d := &pawl.Decision{
		Record:   &pawl.Record{Offset: f.own.Next, Timestamp: time.UnixMicro(1_700_000_000_000_001)},
		Identity: pawl.Identity{Key: "k" + string(rune('a'+f.own.Next))},
		Mode:     pawl.Live,
	}
	d.KeyID = pawl.NewKeyID(d.Identity.Key)
	return f.bound.Apply(ctx, f.own, &pawl.Work[pawl.SQLTx]{
		Decisions: []*pawl.Decision{d}, Next: f.own.Next + 1, Now: time.UnixMicro(1_700_000_000_000_002),
		Run: func(ctx context.Context, s pawl.Session[pawl.SQLTx]) error {
			d.Outcome = pawl.Applied
			return h(ctx, s)
		},
	})
}

func (f *fixture) count(t *testing.T, query string) (n int) {
	t.Helper()
	if err := f.store.DB().QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

const insert = `insert into effect (key) values ('k')`

func write(ctx context.Context, s pawl.Session[pawl.SQLTx]) error {
	_, err := s.Tx().ExecContext(ctx, insert)
	return err
}

func code(err error) int {
	if e, ok := errors.AsType[*driver.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

func TestAHandlerThatReachesPastItsTransactionGetsAnErrorNotAHang(t *testing.T) {
	f := newFixture(t)
	own, err := sql.Open("sqlite", f.file+"?_pragma=busy_timeout(1)")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	err = f.apply(t.Context(), func(ctx context.Context, s pawl.Session[pawl.SQLTx]) error {
		if err := write(ctx, s); err != nil {
			return err
		}
		if _, err := f.store.DB().ExecContext(ctx, insert); code(err) != sqlite3.SQLITE_READONLY {
			t.Errorf("a write through DB: got %v, want read-only", err)
		}
		if n := f.count(t, `select count(*) from effect`); n != 0 {
			t.Errorf("a read through DB: %d rows, want the state before the transaction", n)
		}
		if _, err := own.ExecContext(ctx, insert); code(err) != sqlite3.SQLITE_BUSY {
			t.Errorf("a write through a handle of the program's own: got %v, want busy", err)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	if n := f.count(t, `select count(*) from effect`); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

func TestDBCannotWriteAtAll(t *testing.T) {
	f := newFixture(t)
	for _, query := range []string{insert, `create table other (id)`, `delete from pawl_decision`, `begin immediate`} {
		if _, err := f.store.DB().ExecContext(t.Context(), query); code(err) != sqlite3.SQLITE_READONLY {
			t.Errorf("%s: got %v, want read-only", query, err)
		}
	}
	tx, err := f.store.DB().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatalf("a transaction for reading: %v", err)
	}
	_ = tx.Rollback()
}

// What runs through a prepared statement cannot be counted, so it must never look like nothing.
func TestPreparedStatementsAlwaysCount(t *testing.T) {
	f := newFixture(t)
	err := f.apply(t.Context(), func(ctx context.Context, s pawl.Session[pawl.SQLTx]) error {
		stmt, err := s.Tx().PrepareContext(ctx, insert)
		if err != nil {
			return err
		}
		for range 2 {
			if err := s.Mark(ctx); err != nil {
				return err
			}
			before := s.Statements()
			if _, err := stmt.ExecContext(ctx); err != nil {
				return err
			}
			if s.Statements() == before {
				t.Error("a prepared statement ran and was not counted")
			}
		}
		return s.Undo(ctx)
	})
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	if n := f.count(t, `select count(*) from effect`); n != 1 {
		t.Errorf("%d effects, want that the second was undone", n)
	}
}

func TestTextThatCommitsKeepsNothing(t *testing.T) {
	f := newFixture(t)
	for _, text := range []string{`commit`, `end`, `rollback`, `commit; begin`, insert + `; commit; ` + insert} {
		err := f.apply(t.Context(), func(ctx context.Context, s pawl.Session[pawl.SQLTx]) error {
			if err := write(ctx, s); err != nil {
				return err
			}
			if _, err := s.Tx().ExecContext(ctx, text); !errors.Is(err, pawl.ErrTxEnded) {
				t.Errorf("%s: got %v, want %v", text, err, pawl.ErrTxEnded)
			}
			// A handler that goes on writes nowhere: neither here nor on its own.
			if err := write(ctx, s); !errors.Is(err, pawl.ErrTxEnded) {
				t.Errorf("after %s: got %v, want %v", text, err, pawl.ErrTxEnded)
			}
			var n int
			if err := s.Tx().QueryRowContext(ctx, `select 1`).Scan(&n); !errors.Is(err, pawl.ErrTxEnded) {
				t.Errorf("after %s: got %v, want %v", text, err, pawl.ErrTxEnded)
			}
			if err := s.Mark(ctx); !errors.Is(err, pawl.ErrTxEnded) {
				t.Errorf("mark after %s: got %v, want %v", text, err, pawl.ErrTxEnded)
			}
			return nil
		})
		if !errors.Is(err, pawl.ErrTxEnded) {
			t.Errorf("%s: apply returned %v, want %v", text, err, pawl.ErrTxEnded)
		}
		if n := f.count(t, `select count(*) from effect`); n != 0 {
			t.Errorf("%s: %d effects, want that nothing is kept", text, n)
		}
	}
	if err := f.apply(t.Context(), write); err != nil {
		t.Errorf("apply afterwards: %v", err)
	}
}

// A prepared statement that commits is not seen by the wrapper; the connection refuses it all the same.
func TestAPreparedCommitIsRefused(t *testing.T) {
	f := newFixture(t)
	err := f.apply(t.Context(), func(ctx context.Context, s pawl.Session[pawl.SQLTx]) error {
		if err := write(ctx, s); err != nil {
			return err
		}
		commit, err := s.Tx().PrepareContext(ctx, `commit`)
		if err != nil {
			return err
		}
		again, err := s.Tx().PrepareContext(ctx, insert)
		if err != nil {
			return err
		}
		_, _ = commit.ExecContext(ctx)
		if _, err := again.ExecContext(ctx); err == nil {
			t.Error("a statement committed by itself after the transaction had ended")
		}
		return nil
	})
	if !errors.Is(err, pawl.ErrTxEnded) {
		t.Errorf("apply: got %v, want %v", err, pawl.ErrTxEnded)
	}
	if n := f.count(t, `select count(*) from effect`); n != 0 {
		t.Errorf("%d effects, want none", n)
	}
}

const endless = `with recursive n (i) as (select 1 union all select i + 1 from n)
	insert into effect (key) select i from n`

// SQLite rolls the whole transaction back when a write is interrupted. A handler with a deadline of its own, that goes on
// after it, must not write outside a transaction.
func TestAnInterruptedWriteEndsTheBatch(t *testing.T) {
	f := newFixture(t)
	err := f.apply(t.Context(), func(ctx context.Context, s pawl.Session[pawl.SQLTx]) error {
		if err := write(ctx, s); err != nil {
			return err
		}
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		if _, err := s.Tx().ExecContext(short, endless); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want that the deadline passed", err)
		}
		_ = write(ctx, s)
		return nil
	})
	if err == nil || f.store.Classify(err) != pawl.Transient {
		t.Errorf("apply: got %v, want a transient error", err)
	}
	if n := f.count(t, `select count(*) from effect`) + f.count(t, `select count(*) from pawl_decision`); n != 0 {
		t.Errorf("%d rows, want that nothing is kept", n)
	}
	if err := f.apply(t.Context(), write); err != nil {
		t.Errorf("apply afterwards: %v", err)
	}
}

func TestRowsThatAHandlerLeavesOpenDoNotHoldUpTheCommit(t *testing.T) {
	f := newFixture(t)
	for range 3 {
		err := f.apply(t.Context(), func(ctx context.Context, s pawl.Session[pawl.SQLTx]) error {
			for _, query := range []string{`select 1 union select 2`, insert + ` returning key`} {
				rows, err := s.Tx().QueryContext(ctx, query)
				if err != nil {
					return err
				}
				rows.Next()
			}
			return nil
		})
		if err != nil {
			t.Fatalf("apply: %v", err)
		}
	}
	if n := f.count(t, `select count(*) from effect`); n != 3 {
		t.Errorf("%d effects, want 3", n)
	}
}

func TestTimesAreMicrosecondsInUTC(t *testing.T) {
	f := newFixture(t)
	if err := f.apply(t.Context(), write); err != nil {
		t.Fatal(err)
	}
	if n := f.count(t, `select count(*) from pawl_decision
		where ingested_at = 1700000000000001 and processed_at = 1700000000000002`); n != 1 {
		t.Error("the times of the decision are not those of the record")
	}
}

// A context that ends while another process has the file must not wait for the rest of busy_timeout.
func TestWaitingForTheFileEndsWithTheContext(t *testing.T) {
	f := newFixture(t)
	other, err := beside(t, f.file).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.ExecContext(t.Context(), `begin immediate`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := f.apply(ctx, write); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("apply: got %v, want that the deadline passed", err)
	}
	if _, err := other.ExecContext(t.Context(), `rollback`); err != nil {
		t.Fatal(err)
	}
	if err := f.apply(t.Context(), write); err != nil {
		t.Errorf("apply afterwards: %v", err)
	}
}

// A write that a goroutine still has under way when Run returns is either in the transaction or refused, and never after.
func TestAGoroutineThatOutlivesTheHandlerIsShutOut(t *testing.T) {
	f := newFixture(t)
	errs := make(chan error)
	err := f.apply(t.Context(), func(_ context.Context, s pawl.Session[pawl.SQLTx]) error {
		started := make(chan struct{})
		go func() {
			close(started)
			for {
				if err := write(context.Background(), s); err != nil {
					errs <- err
					return
				}
			}
		}()
		<-started
		return nil
	})
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	before := f.count(t, `select count(*) from effect`)
	if err := <-errs; !errors.Is(err, pawl.ErrTxEnded) {
		t.Errorf("the goroutine: got %v, want %v", err, pawl.ErrTxEnded)
	}
	if after := f.count(t, `select count(*) from effect`); after != before {
		t.Errorf("%d effects after the commit, were %d", after, before)
	}
}

func TestClassify(t *testing.T) {
	f := newFixture(t)
	for _, tt := range []struct {
		query string
		want  pawl.Class
	}{
		{`select * from nowhere`, pawl.Misconfigured},
		{`select nothing from effect`, pawl.Misconfigured},
		{`select none(1)`, pawl.Misconfigured},
		{`selec 1`, pawl.Misconfigured},
		{`select (1`, pawl.Misconfigured},
		{`insert into effect (key) values (1, 2)`, pawl.Misconfigured},
		{`insert into effect (key) values (null)`, pawl.Validation},
		{`insert into pawl_name (id, name) values ('text', 'n')`, pawl.Poison},
		{`insert into pawl_schema (version, name, applied_at) values (9, 'n', 'text')`, pawl.Validation},
		{`select json('{')`, pawl.Poison},
		{`select zeroblob(2000000000)`, pawl.Poison},
	} {
		err := f.apply(t.Context(), func(ctx context.Context, s pawl.Session[pawl.SQLTx]) error {
			_, err := s.Tx().ExecContext(ctx, tt.query)
			return err
		})
		if got := f.store.Classify(err); got != tt.want {
			t.Errorf("%s: %v is %s, want %s", tt.query, err, got, tt.want)
		}
	}
}

// ErrRaced means "apply again", which would never end here.
func TestTwoClaimsOnOneKeyInABatchAreNotARace(t *testing.T) {
	f := newFixture(t)
	claim := func(offset int64) *pawl.Decision {
		return &pawl.Decision{
			Record: &pawl.Record{Offset: offset}, Identity: pawl.Identity{Key: "k"}, KeyID: pawl.NewKeyID("k"), Outcome: pawl.Applied,
		}
	}
	err := f.bound.Apply(t.Context(), f.own, &pawl.Work[pawl.SQLTx]{
		Decisions: []*pawl.Decision{claim(0), claim(1)}, Next: 2,
		Run: func(context.Context, pawl.Session[pawl.SQLTx]) error { return nil },
	})
	if err == nil || errors.Is(err, pawl.ErrRaced) {
		t.Errorf("apply: got %v, want an error that is not %v", err, pawl.ErrRaced)
	}
}
