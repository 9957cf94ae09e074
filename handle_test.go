package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/pawltest"
)

func TestEachKeyTakesEffectOnce(t *testing.T) {
	store, db := openStore(t)
	h := func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[payment]) error {
		return apply(ctx, tx, e.Body)
	}
	one, two := pawltest.JSON(payment{ID: "1", Amount: 5}), pawltest.JSON(payment{ID: "2", Amount: 7})
	pawltest.Run(t, store, payments(), h, one, two, one).Want(pawl.Applied, pawl.Applied, pawl.Duplicate)
	pawltest.Run(t, store, payments(), h, two, one).Want(pawl.Duplicate, pawl.Duplicate)
	if n := count(t, db, `select count(*) from effect`); n != 2 {
		t.Errorf("%d effects, want 2", n)
	}
}

func TestOtherContentUnderTheSameKeyIsAConflict(t *testing.T) {
	store, db := openStore(t)
	h := func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[payment]) error {
		return apply(ctx, tx, e.Body)
	}
	one, other := pawltest.JSON(payment{ID: "1", Amount: 5}), pawltest.JSON(payment{ID: "1", Amount: 6})
	near := pawltest.Run(t, store, payments(), h, one, other).Want(pawl.Applied, pawl.Quarantined)
	far := pawltest.Run(t, store, payments(), h, other).Want(pawl.Quarantined)
	for _, d := range []pawl.Decision{near.Decisions[1], far.Decisions[0]} {
		if d.Cause != pawl.CauseConflict {
			t.Errorf("cause %q, want %q", d.Cause, pawl.CauseConflict)
		}
	}
	if n := count(t, db, `select sum(amount) from effect`); n != 5 {
		t.Errorf("amount %d, want 5: a conflict has no effect", n)
	}
}

// Every verb and every kind of failure, each in the middle of records that are well: exactly the one is set aside, and
// what it wrote is undone.
func TestWhatAHandlerReturnsDecidesAboutThatRecordAlone(t *testing.T) {
	cases := []struct {
		do     string
		err    func() error
		want   pawl.Outcome
		cause  string
		reason string
	}{
		{"ignore", func() error { return pawl.Ignore("not ours") }, pawl.Ignored, "", "not ours"},
		{"stale", func() error { return pawl.Stale("behind") }, pawl.WasStale, "", "behind"},
		{"wrapped", func() error { return fmt.Errorf("check: %w", pawl.Stale("behind")) }, pawl.WasStale, "", "behind"},
		{"reject", func() error { return pawl.Reject(errors.New("too much")) }, pawl.Quarantined, pawl.CauseValidation, "too much"},
		{"unknown", func() error { return errors.New("strange") }, pawl.Quarantined, pawl.CauseFailure, "strange"},
		{"panic", func() error { panic("boom") }, pawl.Quarantined, pawl.CauseFailure, "panic: boom"},
	}
	for _, form := range []string{"record", "batch"} {
		for _, c := range cases {
			t.Run(form+"/"+c.do, func(t *testing.T) {
				store, db := openStore(t)
				one := func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[payment]) error {
					if err := apply(ctx, tx, e.Body); err != nil {
						return err
					}
					if e.Body.Do == c.do {
						return c.err()
					}
					return nil
				}
				var records []pawl.Record
				var want []pawl.Outcome
				for i := range 9 {
					p := payment{ID: fmt.Sprint(i), Amount: 1}
					outcome := pawl.Applied
					if i == 4 {
						p.Do, outcome = c.do, c.want
					}
					records, want = append(records, pawltest.JSON(p)), append(want, outcome)
				}
				var r *pawltest.Result
				if form == "record" {
					r = pawltest.Run(t, store, payments(), one, records...)
				} else {
					r = pawltest.RunBatch(t, store, payments(), func(ctx context.Context, tx pawl.SQLTx, b *pawl.Batch[payment]) error {
						for _, e := range b.All() {
							if err := one(ctx, tx, e); err != nil {
								return err
							}
						}
						return nil
					}, records...)
				}
				r.Want(want...)
				if d := r.Decisions[4]; d.Cause != c.cause || !strings.HasPrefix(d.Reason, c.reason) {
					t.Errorf("cause %q, reason %q, want %q, %q", d.Cause, d.Reason, c.cause, c.reason)
				}
				if n := count(t, db, `select count(*) from effect where id <> '4'`); n != 8 {
					t.Errorf("%d effects of the others, want 8", n)
				}
				if n := count(t, db, `select count(*) from effect where id = '4'`); n != 0 {
					t.Error("what the record wrote was not undone")
				}
			})
		}
	}
}

func TestABrokenConstraintIsQuarantinedAndTheRestApplied(t *testing.T) {
	store, db := openStore(t)
	if _, err := db.Exec(`create unique index one_of_each on effect (amount)`); err != nil {
		t.Fatal(err)
	}
	h := func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[payment]) error {
		return apply(ctx, tx, e.Body)
	}
	r := pawltest.Run(t, store, payments(), h,
		pawltest.JSON(payment{ID: "1", Amount: 1}), pawltest.JSON(payment{ID: "2", Amount: 1}), pawltest.JSON(payment{ID: "3", Amount: 3}),
	).Want(pawl.Applied, pawl.Quarantined, pawl.Applied)
	if got := r.Decisions[1].Cause; got != pawl.CauseValidation {
		t.Errorf("cause %q, want %q", got, pawl.CauseValidation)
	}
}

func TestPoisonIsQuarantinedWithItsBytes(t *testing.T) {
	store, db := openStore(t)
	h := func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[payment]) error {
		return apply(ctx, tx, e.Body)
	}
	pawltest.Run(t, store, payments(), h,
		pawltest.Bytes([]byte("\xff not json")), pawltest.JSON(payment{Amount: 1}), pawltest.JSON(payment{ID: "1"}),
	).Want(pawl.Quarantined, pawl.Quarantined, pawl.Applied)
	var value []byte
	if err := db.QueryRow(`select value from pawl_quarantine where position_offset = 0`).Scan(&value); err != nil {
		t.Fatal(err)
	}
	if string(value) != "\xff not json" {
		t.Errorf("kept %q", value)
	}
}

func TestLaterHoldsTheLaneUntilItIsTime(t *testing.T) {
	store, db := openStore(t)
	tries := 0
	h := func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[payment]) error {
		if err := apply(ctx, tx, e.Body); err != nil {
			return err
		}
		if e.Key == "2" {
			if tries++; tries < 4 {
				return pawl.Later(time.Millisecond)
			}
		}
		return nil
	}
	pawltest.Run(t, store, payments(), h,
		pawltest.JSON(payment{ID: "1"}), pawltest.JSON(payment{ID: "2"}), pawltest.JSON(payment{ID: "3"}),
	).Want(pawl.Applied, pawl.Applied, pawl.Applied)
	var order string
	if err := db.QueryRow(`select group_concat(id, '') from (select id from effect order by rowid)`).Scan(&order); err != nil {
		t.Fatal(err)
	}
	if order != "123" {
		t.Errorf("effects in the order %s, want 123", order)
	}
}

func TestBatchMarksDecideWithoutTheHandlersWrites(t *testing.T) {
	store, db := openStore(t)
	calls := 0
	h := func(ctx context.Context, tx pawl.SQLTx, b *pawl.Batch[payment]) error {
		calls++
		for i, e := range b.All() {
			switch e.Body.Do {
			case "ignore":
				b.Ignore(i, "no")
			case "stale":
				b.Stale(i, "old")
			case "reject":
				b.Reject(i, errors.New("bad"))
			}
		}
		for _, e := range b.All() { // the marked ones are no longer among them
			if err := apply(ctx, tx, e.Body); err != nil {
				return err
			}
		}
		return nil
	}
	pawltest.RunBatch(t, store, payments(), h,
		pawltest.JSON(payment{ID: "1"}), pawltest.JSON(payment{ID: "2", Do: "ignore"}), pawltest.JSON(payment{ID: "3", Do: "stale"}),
		pawltest.JSON(payment{ID: "4", Do: "reject"}), pawltest.JSON(payment{ID: "1"}), pawltest.JSON(payment{ID: "4", Do: "reject"}),
		pawltest.JSON(payment{ID: "5"}),
	).Want(pawl.Applied, pawl.Ignored, pawl.WasStale, pawl.Quarantined, pawl.Duplicate, pawl.Quarantined, pawl.Applied)
	if calls != 1 {
		t.Errorf("%d calls, want 1: marks need no second try", calls)
	}
	if n := count(t, db, `select count(*) from effect`); n != 2 {
		t.Errorf("%d effects, want 2", n)
	}
}

// The first copy is set aside; the second says something else, and must get its own chance.
func TestACopyOfARejectedRecordThatSaysSomethingElseIsTried(t *testing.T) {
	store, _ := openStore(t)
	h := func(ctx context.Context, tx pawl.SQLTx, b *pawl.Batch[payment]) error {
		for i, e := range b.All() {
			if e.Body.Amount < 0 {
				b.Reject(i, errors.New("negative"))
				continue
			}
			if err := apply(ctx, tx, e.Body); err != nil {
				return err
			}
		}
		return nil
	}
	pawltest.RunBatch(t, store, payments(), h,
		pawltest.JSON(payment{ID: "1", Amount: -5}), pawltest.JSON(payment{ID: "2", Amount: 1}), pawltest.JSON(payment{ID: "1", Amount: 5}),
	).Want(pawl.Quarantined, pawl.Applied, pawl.Applied)
}

// A producer may write any timestamp. It must not keep a batch from being stored.
func TestATimestampThatNoDatabaseHoldsIsNoObstacle(t *testing.T) {
	store, _ := openStore(t)
	h := func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[payment]) error {
		return apply(ctx, tx, e.Body)
	}
	far := pawltest.JSON(payment{ID: "1"})
	far.Timestamp = time.UnixMilli(1 << 62)
	bad := pawltest.Bytes([]byte("{"))
	bad.Timestamp = time.UnixMilli(-1 << 62)
	pawltest.Run(t, store, payments(), h, far, bad).Want(pawl.Applied, pawl.Quarantined)
}
