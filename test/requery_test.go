package test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/effect"
)

// truth is a source of truth that a test can change, and switch off.
type truth struct {
	mu      sync.Mutex
	answers map[string]pawl.Answer
	down    bool
	asked   atomic.Int64
}

func (tr *truth) set(stream string, version int64, state string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.answers == nil {
		tr.answers = map[string]pawl.Answer{}
	}
	tr.answers[stream] = pawl.Answer{Version: version, Values: map[string]any{"state": state, "fee": nil}}
}

func (tr *truth) setDown(down bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.down = down
}

func (tr *truth) look(stream string) (a pawl.Answer, known, down bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.asked.Add(1)
	a, known = tr.answers[stream]
	return a, known, tr.down
}

// goSource is the source as a function.
func (tr *truth) goSource(testing.TB) effect.Source {
	return effect.SourceFunc(func(_ context.Context, stream string) (pawl.Answer, bool, error) {
		a, known, down := tr.look(stream)
		if down {
			return a, false, pawl.Overloaded("truth", errors.New("down"))
		}
		return a, known, nil
	})
}

// httpSource is the source behind HTTP.
func (tr *truth) httpSource(t testing.TB) effect.Source {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, known, down := tr.look(strings.TrimPrefix(r.URL.Path, "/cases/"))
		switch {
		case down:
			w.WriteHeader(http.StatusServiceUnavailable)
		case !known:
			w.WriteHeader(http.StatusNotFound)
		default:
			json.NewEncoder(w).Encode(map[string]any{"version": a.Version, "values": a.Values})
		}
	}))
	t.Cleanup(srv.Close)
	return effect.HTTPSource{URL: srv.URL + "/cases/{stream}", Client: srv.Client()}
}

// requeries runs body on every store, with each form of the source.
func requeries(t *testing.T, hold time.Duration, body func(t *testing.T, s *stage, tr *truth)) {
	inEveryHouse(t, func(t *testing.T, open func(testing.TB) *house) {
		for name, form := range map[string]func(*truth, testing.TB) effect.Source{"func": (*truth).goSource, "http": (*truth).httpSource} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				tr := &truth{}
				s := open(t).stage(1, pawl.Config{MaxBatch: 10}, cases(func(p *effect.Projection[fact]) {
					p.Early = effect.Early{Hold: hold, Then: effect.Requery, Source: form(tr, t)}
				}))
				s.up()
				body(t, s, tr)
			})
		}
	})
}

func TestARequeryJumpsForwardAndWhatIsBehindItChainsOn(t *testing.T) {
	requeries(t, 0, func(t *testing.T, s *stage, tr *truth) {
		tr.set("c1", 4, "T4")
		s.play(at(1, "OPEN"))
		if n := tr.asked.Load(); n != 0 {
			t.Errorf("asked %d times, though nothing was missing", n)
		}
		s.batch(at(6, "v6"), at(3, "v3"), at(5, "v5"), at(4, "v4"))
		s.wantRows("cases", "c1 6 v6 - e6")
		s.wantClaim("e3", pawl.Superseded, "the source of truth was asked, and moved the row from version 1 to 4")
		s.wantClaim("e4", pawl.Superseded, "the source of truth was asked, and moved the row from version 1 to 4")
		s.wantClaim("e5", pawl.Applied, "")
		s.wantClaim("e6", pawl.Applied, "")
		if e := s.claim("e3"); e.VersionBefore != 1 || !strings.Contains(e.StateBefore, "OPEN") || !strings.Contains(e.StateAfter, "T4") {
			t.Errorf("the evidence of the jump: %+v", e)
		}
		if e := s.claim("e5"); e.VersionBefore != 4 {
			t.Errorf("e5 follows on version %d, want 4", e.VersionBefore)
		}
		s.play(at(2, "v2"), at(3, "v3"))
		s.wantClaim("e2", pawl.WasStale, "it is version 2, and the row is at version 6")
		s.wantSaid("e3", "superseded", "duplicate already superseded")
		s.wantRows("cases", "c1 6 v6 - e6")
		s.wantAside()
		if n := tr.asked.Load(); n != 1 {
			t.Errorf("asked %d times, want once", n)
		}
	})
}

func TestARequeryOfWhatWasHeldSupersedesIt(t *testing.T) {
	requeries(t, 60*time.Millisecond, func(t *testing.T, s *stage, tr *truth) {
		tr.set("c1", 4, "T4")
		s.play(at(1, "OPEN"), at(4, "v4"), at(3, "v3"), at(5, "v5"))
		s.await(0, gapCount) // when their time is over
		s.wantRows("cases", "c1 5 v5 - e5")
		s.wantClaim("e3", pawl.Superseded, "the source of truth was asked")
		s.wantClaim("e4", pawl.Superseded, "the source of truth was asked")
		s.wantClaim("e5", pawl.Applied, "")
		s.wantAside()
	})
}

func TestASourceOfTruthThatIsDownLosesNothingAndIsSpared(t *testing.T) {
	requeries(t, 0, func(t *testing.T, s *stage, tr *truth) {
		tr.set("c1", 3, "T3")
		tr.setDown(true)
		s.play(at(1, "OPEN"))
		s.add(0, at(4, "v4"))
		deadline := time.Now().Add(factPatience)
		waitUntil(t, deadline, func() bool { return len(s.failed()) >= 2 })
		before := tr.asked.Load()
		time.Sleep(time.Second)
		if n := tr.asked.Load() - before; n > 20 {
			t.Errorf("asked %d times in a second: a busy loop", n)
		}
		for _, f := range s.failed() {
			if f.Class != pawl.Overload {
				t.Errorf("failed as %s: %v", f.Class, f.Err)
			}
		}
		s.wantAside()
		s.wantRows("cases", "c1 1 OPEN - e1")
		if n := s.int(settledCount); n != 1 {
			t.Errorf("settled %d, want 1", n)
		}
		tr.setDown(false)
		s.settle()
		s.wantRows("cases", "c1 4 v4 - e4")
		s.wantClaim("e4", pawl.Applied, "")
		s.wantAside()
	})
}

func TestAnAnswerThatIsOlderThanTheRowDoesNotMoveItBack(t *testing.T) {
	requeries(t, 0, func(t *testing.T, s *stage, tr *truth) {
		tr.set("c1", 2, "T2")
		s.batch(at(1, "OPEN"), at(2, "v2"), at(3, "v3"))
		s.play(at(5, "v5"))
		s.wantRows("cases", "c1 3 v3 - e3")
		s.wantSaid("e5", "quarantined out of order: version 5 came, and version 4 is missing; the source of truth is at version 2")
		s.wantAside("e5 gap")
		s.play(at(4, "v4"))
		s.replay()
		s.wantRows("cases", "c1 5 v5 - e5")
	})
}

func TestAStreamThatTheSourceDoesNotKnowIsSetAside(t *testing.T) {
	requeries(t, 0, func(t *testing.T, s *stage, tr *truth) {
		s.play(at(2, "v2"))
		s.wantSaid("e2", "quarantined missing aggregate: there is no row, and version 2 is not its first; the source of truth does not know the stream")
		tr.set("c1", 3, "T3")
		s.replay() // by now it does
		s.wantRows("cases", "c1 3 T3 - -")
		s.wantClaim("e2", pawl.Superseded, "the source of truth was asked")
		s.wantAside()
	})
}
