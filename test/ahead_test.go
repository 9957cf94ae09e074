package test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/pawltest"
)

// Where one stream holds the position back, what was settled ahead of it is read again at each start. What had been set aside was
// then tried anew: it took effect behind later records of its stream, or was seen again though an operator had archived it, or
// was counted against the budget once more.
func TestWhatWasSetAsideAheadStaysSoAfterARestart(t *testing.T) {
	onEveryStore(t, noteSchema, restartProof{})
}

type restartProof struct{}

func (restartProof) onPgx(t *testing.T, open func(testing.TB) *opened[pgx.Tx], _ execTx[pgx.Tx]) {
	setAsideAndRestart(t, open(t))
}

func (restartProof) onSQL(t *testing.T, open func(testing.TB) *opened[pawl.SQLTx], _ execTx[pawl.SQLTx]) {
	setAsideAndRestart(t, open(t))
}

func setAsideAndRestart[Tx any](t *testing.T, s *opened[Tx]) {
	k := &keeper[Tx]{T: t, opened: s}
	k.add("z1", "a1!", "a2", "b1!", "b2")
	var free, repaired atomic.Bool
	var mu sync.Mutex
	var applied []string
	live := func(budget int, until func() bool) {
		t.Helper()
		stop := running(t, func(ctx context.Context) error {
			r := pawl.NewRunner(s.Store, pawltest.NewLog(k.log), pawl.Config{
				Consumer: "keep", Logger: slog.New(slog.DiscardHandler), Budget: pawl.Budget{Records: budget, Share: 1},
			})
			pawl.Handle(r, pawl.Route{Name: "notes", Topics: []string{pawltest.Topic}, Order: pawl.OrderStream}, notes(),
				func(_ context.Context, _ Tx, e pawl.Envelope[noted]) error {
					switch {
					case e.Stream == "z" && !free.Load():
						return pawl.Later(time.Millisecond)
					case e.Body.N < 0 && !(repaired.Load() && e.Stream == "a"):
						return pawl.Reject(errors.New("negative"))
					}
					mu.Lock()
					defer mu.Unlock()
					applied = append(applied, e.Key)
					return nil
				})
			return r.Run(ctx)
		})
		waitUntil(t, time.Now().Add(20*time.Second), until)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
	live(2, func() bool { return s.int(t, `select count(*) from pawl_decision`) == 2 && s.int(t, openCount) == 2 })
	if _, err := s.Store.Admin().Start(t.Context(), pawl.OperationRequest{
		Consumer: "keep", Kind: pawl.OperationArchive, Filter: pawl.QuarantineFilter{Stream: "b"}, By: "ops", Why: "known", At: time.Now(),
	}); err != nil {
		t.Fatal(err)
	}
	repaired.Store(true)
	free.Store(true)
	live(1, func() bool { return s.int(t, position) == 5 })
	slices.Sort(applied[:2])
	if want := []string{"a2", "b2", "z1"}; !slices.Equal(applied, want) {
		t.Errorf("applied %q, want %q", applied, want)
	}
	if n := s.int(t, `select count(*) from pawl_quarantine where status = 4`); n != 1 || s.int(t, openCount) != 1 {
		t.Errorf("%d archived and %d open, want 1 and 1", n, s.int(t, openCount))
	}
}
