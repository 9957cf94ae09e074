package test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/pawltest"
)

// deadEnd is a log whose member never gives anything back, as one that dies.
type deadEnd struct{ *pawltest.Log }

func (d deadEnd) Run(ctx context.Context, topics []string, in pawl.Intake) error {
	return d.Log.Run(ctx, topics, losing{in})
}

type losing struct{ pawl.Intake }

func (l losing) Revoke(_ context.Context, ps []pawl.Partition) { l.Lose(ps) }

// Where one stream holds the position back, what was settled ahead of it is read again by the next owner. Who settled a record has
// not died of it: one that was held or set aside meanwhile, and so has no claim, was blamed for the death of whoever had tried it
// alone.
func TestWhatWasSettledAheadIsNotBlamedForADeath(t *testing.T) {
	onEveryStore(t, noteSchema, aheadProof{})
}

type aheadProof struct{}

func (aheadProof) onPgx(t *testing.T, open func(testing.TB) *opened[pgx.Tx], exec execTx[pgx.Tx]) {
	settleAheadAndDie(t, open(t))
}

func (aheadProof) onSQL(t *testing.T, open func(testing.TB) *opened[pawl.SQLTx], exec execTx[pawl.SQLTx]) {
	settleAheadAndDie(t, open(t))
}

func settleAheadAndDie[Tx any](t *testing.T, s *opened[Tx]) {
	k := &keeper[Tx]{T: t, opened: s}
	k.add("z1", "a1!", "a2")
	live := func(records int, until func() bool) {
		t.Helper()
		stop := running(t, func(ctx context.Context) error {
			r := pawl.NewRunner(s.Store, deadEnd{pawltest.NewLog(k.log[:records])}, pawl.Config{
				Consumer: "keep", MaxBatch: 20, Workers: 2, Logger: slog.New(slog.DiscardHandler), Budget: pawl.Budget{Share: 1},
			})
			pawl.Handle(r, pawl.Route{Name: "notes", Topics: []string{pawltest.Topic}, Order: pawl.OrderStream, Quarantine: pawl.QuarantineStream}, notes(),
				func(_ context.Context, _ Tx, e pawl.Envelope[noted]) error {
					switch {
					case e.Stream == "z":
						return pawl.Later(time.Millisecond)
					case e.Body.N < 0:
						return pawl.Reject(errors.New("negative"))
					}
					return nil
				})
			return r.Run(ctx)
		})
		waitUntil(t, time.Now().Add(20*time.Second), until)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
	epoch := func(n int64) func() bool {
		return func() bool { return s.int(t, `select coalesce(max(epoch), 0) from pawl_progress`) == n }
	}
	live(1, epoch(1))
	live(1, epoch(2))
	live(3, func() bool { return s.int(t, heldCount) == 1 })
	if n := s.int(t, `select coalesce(sum(attempts), 0) from pawl_attempt`); n != 0 {
		t.Errorf("%d notes of what did not kill", n)
	}
	seq := s.int(t, `select seq from pawl_progress`)
	live(3, func() bool { return s.int(t, `select seq from pawl_progress`) >= seq+2 })
	if n := s.int(t, `select count(*) from pawl_quarantine`); n != 1 {
		t.Errorf("%d in quarantine, want the one that was rejected", n)
	}
	if n := s.int(t, `select count(*) from pawl_quarantine where cause = 'crash'`); n != 0 {
		t.Errorf("%d set aside for crashing", n)
	}
}
