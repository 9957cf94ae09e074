package test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
)

// A storm of poison: three records in ten are refused, over many streams, and set aside or held behind one that is. Then an
// operator clears it in bulk: a first part of limited size with a canary and a rate, paused and resumed, over a restart in
// the middle; then the rest. At each stop every record is in one place: applied, open or held; in the end all are applied,
// each stream in its order.
func TestAStormOfPoisonIsClearedInBulk(t *testing.T) {
	const events, streams = 1500, 100
	for _, order := range []pawl.Order{pawl.OrderPartition, pawl.OrderStream} {
		t.Run(fmt.Sprint("order ", order), func(t *testing.T) {
			t.Parallel()
			s := newTeller(t)
			s.route.Order, s.config.MaxBatch = order, 50
			want := map[string][]string{}
			for i := range events {
				n := i * 7 % streams
				e := happening{ID: fmt.Sprint("k", i), Stream: fmt.Sprintf("s%02d", n), Kind: "ok"}
				if (i/streams+n)%10 < 3 {
					e.Kind = "reject"
				}
				s.tell(n%2, e)
				want[e.Stream] = append(want[e.Stream], "teller/"+e.ID)
			}
			conserved := func() (open int64) {
				t.Helper()
				effects, held := s.int(t, noteless), s.int(t, heldCount)
				open = s.int(t, openCount)
				if effects+held+open != events {
					t.Fatalf("%d applied, %d held, %d open: %d of %d", effects, held, open, effects+held+open, events)
				}
				return open
			}
			process := s.start(0, 1)
			s.await(events, `select coalesce(sum(next_offset), 0) from pawl_progress`)
			s.await(0, `select count(*) from pawl_stream where blocked_by is null`)
			if n := conserved(); n != streams { // each has one that blocks it
				t.Fatalf("%d open, want one in each of %d streams", n, streams)
			}
			for i := range events {
				s.script.repair(fmt.Sprint("k", i))
			}

			admin := s.Store.Admin()
			op := s.ask(pawl.OperationReplay, func(r *pawl.OperationRequest) {
				r.Filter.Cause, r.Limit, r.Rate, r.Canary = pawl.CauseValidation, 60, 40, 5
			})
			state := func(st pawl.OperationState) string {
				return fmt.Sprintf(`select count(*) from pawl_operation where id = %d and state = '%s'`, op.ID, st)
			}
			done := fmt.Sprintf(`select done from pawl_operation where id = %d`, op.ID)
			set := func(to pawl.OperationState) {
				t.Helper()
				if err := admin.SetOperation(t.Context(), op.ID, to, "ops", "asked to", time.Now()); err != nil {
					t.Fatal(err)
				}
			}
			s.await(1, state(pawl.OperationCanary))
			s.await(0, `select count(*) from pawl_stream where blocked_by is null`) // what the canary has freed
			if n := s.int(t, done); n != 5 {
				t.Fatalf("%d done, and the canary is 5", n)
			}
			if n := conserved(); n != streams-5 {
				t.Errorf("%d open after the canary", n)
			}
			set(pawl.OperationRunning)
			waitUntil(t, time.Now().Add(30*time.Second), func() bool { return s.int(t, done) >= 20 })
			set(pawl.OperationPaused)
			paused := s.int(t, done)
			if paused >= 60 {
				t.Errorf("%d done at once: the rate is 40 a second", paused)
			}
			s.stop(process)
			process = s.start(0, 1)
			s.await(0, `select count(*) from pawl_stream where blocked_by is null`)
			if n := s.int(t, done); n != paused {
				t.Errorf("%d done while it was paused", n-paused)
			}
			conserved()
			set(pawl.OperationRunning)
			waitUntil(t, time.Now().Add(30*time.Second), func() bool { return s.int(t, done) > paused })
			s.stop(process) // in the middle of it
			conserved()
			s.start(0, 1)
			s.await(1, state(pawl.OperationDone))
			s.await(0, `select count(*) from pawl_stream where blocked_by is null`)
			if n := conserved(); n != streams-60 {
				t.Errorf("%d open after 60 of %d were replayed", n, streams)
			}

			s.ask(pawl.OperationReplay, nil)
			s.await(0, streamRows)
			if n := conserved(); n != 0 {
				t.Errorf("%d open in the end", n)
			}
			for stream, keys := range want {
				if got := s.effects(stream); !slices.Equal(got, keys) {
					t.Errorf("%s: %s, want %s", stream, strings.Join(got, " "), strings.Join(keys, " "))
				}
			}
			if n := s.int(t, `select count(*) from pawl_audit where item_id is not null`); n != streams {
				t.Errorf("%d items in the audit, want %d", n, streams)
			}
			if n := s.int(t, `select count(*) from pawl_operation_item where done_at is null`); n != 0 {
				t.Errorf("%d items left", n)
			}
		})
	}
}
