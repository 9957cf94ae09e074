package effect_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/effect"
)

// truth is a source of truth that counts what it was asked.
type truth struct {
	mu    sync.Mutex
	at    map[string]int64
	asked []string
	err   error
	drop  string
	bad   any
}

func (s *truth) Ask(_ context.Context, stream string) (pawl.Answer, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, stream)
	v, ok := s.at[stream]
	if !ok {
		v = 99 // which nobody must look at
	}
	values := map[string]any{"status": fmt.Sprintf("truth-%d", v), "fee": v, "tags": nil, "more": "is ignored"}
	delete(values, s.drop)
	if s.bad != nil {
		values["fee"] = s.bad
	}
	return pawl.Answer{Version: v, Values: values}, ok, s.err
}

func requery(s effect.Source, hold time.Duration) *effect.Projection[doc] {
	return casesOf(func(p *effect.Projection[doc]) {
		p.Early = effect.Early{Hold: hold, Then: effect.Requery, Source: s}
		p.States = true
	})
}

func TestARequeryMovesTheRowForward(t *testing.T) {
	s := &truth{at: map[string]int64{"c1": 4, "c2": 9}}
	w := newWorld(t, requery(s, 0))
	got := w.fold(keyed("a", ev("c1", 1, st("A"))), ev("c1", 3, st("C")), keyed("e", ev("c1", 5, st("E"))), ev("c1", 4, st("D")), ev("c2", 7, st("G")), ev("c3", 1, st("A")))
	want(t, got, "applied", "superseded: the source of truth was asked, and moved the row from version 1 to 4", "applied", "superseded", "superseded", "applied")
	if len(s.asked) != 2 {
		t.Errorf("asked about %v", s.asked)
	}
	if got[1].VersionBefore != 1 || !strings.Contains(got[1].StateAfter, `"status":"truth-4","fee":"4"`) || !strings.Contains(got[1].StateBefore, `"status":"A"`) {
		t.Errorf("the jump is not in the evidence: %+v", got[1])
	}
	if got[3].StateAfter != "" {
		t.Error("the jump is there twice")
	}
	if !strings.HasPrefix(w.table("cases"), "c1 5 E - - e\nc2 9 truth-9 9 - -\nc3 1 A") {
		t.Error(w.table("cases"))
	}
	want(t, w.fold(ev("c2", 8, st("H")), ev("c2", 10, st("J"))), "stale", "applied")
}

// The last version there is has no next one.
func TestAStreamMayEndAtTheLastVersion(t *testing.T) {
	s := &truth{at: map[string]int64{"c1": math.MaxInt64}}
	w := newWorld(t, requery(s, 0))
	want(t, w.fold(ev("c1", 7, st("G"))), "superseded")
	want(t, w.fold(ev("c1", 9, st("I")), ev("c1", 1, st("A"))), "stale", "stale")
}

func TestEveryBatchAsksAnew(t *testing.T) {
	s := &truth{at: map[string]int64{"c1": 4}}
	w := newWorld(t, requery(s, 0))
	w.fold(ev("c1", 3, st("C")))
	s.at["c1"] = 8
	want(t, w.fold(ev("c1", 7, st("G"))), "superseded")
	if len(s.asked) != 2 {
		t.Errorf("asked about %v", s.asked)
	}
}

func TestAnAnswerThatDoesNotHelp(t *testing.T) {
	for name, c := range map[string]struct {
		at   int64
		want string
	}{
		"behind":          {1, "quarantined gap: out of order: version 5 came, and version 3 is missing; the source of truth is at version 1"},
		"as the row is":   {2, "quarantined gap: out of order: version 5 came, and version 3 is missing; the source of truth is at version 2"},
		"unknown":         {0, "quarantined gap: out of order: version 5 came, and version 3 is missing; the source of truth does not know the stream"},
		"ahead, not far ": {3, "quarantined gap: out of order: version 5 came, and version 4 is missing; the source of truth was asked, and moved the row from version 2 to 3"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &truth{at: map[string]int64{}}
			if c.at > 0 {
				s.at["c1"] = c.at
			}
			w := newWorld(t, requery(s, 0))
			w.fold(ev("c1", 1, st("A")), ev("c1", 2, st("B")))
			want(t, w.fold(ev("c1", 5, st("E"))), c.want)
		})
	}
}

func TestTheSourceIsAskedOnlyWhenHoldingIsOver(t *testing.T) {
	s := &truth{at: map[string]int64{"c1": 4}}
	w := newWorld(t, requery(s, time.Minute))
	want(t, w.fold(ev("c1", 1, st("A")), ev("c1", 4, st("D"))), "applied", "held")
	w.now = w.now.Add(30 * time.Second)
	want(t, w.fold(ev("c1", 7, st("G")), ev("c1", 5, st("E"))), "held", "held", "held")
	if len(s.asked) > 0 {
		t.Fatalf("asked about %v", s.asked)
	}
	w.now = w.now.Add(30 * time.Second)
	want(t, w.expire(), "superseded", "applied", "held") // 4, 5, 7
	if v := w.said[w.held[0].event.Key]; v.Expected != 6 || len(s.asked) != 1 {
		t.Errorf("waits for %d; asked %v", v.Expected, s.asked)
	}
	w.full = true
	s.at["c1"] = 8
	want(t, w.fold(ev("c1", 9, st("I"))), "applied", "superseded")
}

func TestASourceThatFailsBlamesNobody(t *testing.T) {
	s := &truth{at: map[string]int64{"c1": 4}, err: errMade}
	w := newWorld(t, requery(s, 0))
	_, err := w.try([]pawl.Envelope[doc]{ev("c1", 3, st("C"))}, nil)
	if !errors.Is(err, errMade) {
		t.Errorf("got %v", err)
	}
	s.err, s.drop = nil, "fee"
	_, err = w.try([]pawl.Envelope[doc]{ev("c1", 3, st("C"))}, nil)
	wantError(t, err, `stream "c1"`, `says nothing about column "fee"`)
	s.drop, s.bad = "", 1.5
	_, err = w.try([]pawl.Envelope[doc]{ev("c1", 3, st("C"))}, nil)
	wantError(t, err, `column "fee": 1.5 is a float`)
	s.at["c1"], s.bad = 0, nil
	_, err = w.try([]pawl.Envelope[doc]{ev("c1", 3, st("C"))}, nil)
	wantError(t, err, "the source of truth is at version 0")
	s.at["c1"], s.drop = 4, "event_id"
	want(t, w.fold(ev("c1", 3, st("C"))), "superseded")
}

// Each waits until nobody else can come: then as many are in it as ask at once.
func TestManyStreamsAreAskedAboutSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int32
		s := effect.SourceFunc(func(ctx context.Context, stream string) (pawl.Answer, bool, error) {
			now := running.Add(1)
			defer running.Add(-1)
			for {
				if was := most.Load(); was >= now || most.CompareAndSwap(was, now) {
					break
				}
			}
			time.Sleep(time.Millisecond)
			return pawl.Answer{Version: 3, Values: map[string]any{"status": "x", "fee": nil, "tags": nil}}, true, nil
		})
		w := newWorld(t, requery(s, 0))
		var events []pawl.Envelope[doc]
		for i := range 40 {
			events = append(events, ev(fmt.Sprint("c", i), 2, st("B")))
		}
		for _, v := range w.fold(events...) {
			if v.Outcome != pawl.Superseded {
				t.Fatal(said(v))
			}
		}
		if most.Load() != 8 {
			t.Errorf("%d at once", most.Load())
		}
	})
}

func TestAnHTTPSourceIsAsked(t *testing.T) {
	var path, query, token string
	answer, status := `{"version": 4, "values": {"status": "open", "fee": 12.50, "tags": {"a": [1]}, "other": 1}}`, http.StatusOK
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, query, token = r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Get("Authorization")
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}))
	defer srv.Close()
	src := effect.HTTPSource{URL: srv.URL + "/cases/{stream}?of={stream}", Header: http.Header{"Authorization": {"Bearer x"}}, Limit: 200, Client: srv.Client()}
	w := newWorld(t, requery(src, 0))
	want(t, w.fold(ev("a/b c", 3, st("C"))), "superseded")
	w.wantTable("cases", `a/b c 4 open 12.50 {"a":[1]} -`)
	if path != "/cases/a%2Fb%20c" || query != "of=a%2Fb%20c" || token != "Bearer x" {
		t.Errorf("asked %s ? %s with %q", path, query, token)
	}

	ask := func(change func(*effect.HTTPSource)) (pawl.Answer, bool, error) {
		s := src
		if change != nil {
			change(&s)
		}
		return s.Ask(t.Context(), "c1")
	}
	status = http.StatusNotFound
	if _, known, err := ask(nil); known || err != nil {
		t.Errorf("404: %v, %v", known, err)
	}
	status = http.StatusOK
	answer = `{"rev": 9, "status": "x"}`
	if a, known, err := ask(func(s *effect.HTTPSource) { s.Version, s.Values = "rev", "." }); !known || err != nil || a.Version != 9 || len(a.Values) != 2 {
		t.Errorf("%+v, %v", a, err)
	}
	for _, c := range []struct{ answer, says string }{
		{`[]`, "cannot unmarshal array"}, {`{}`, "the version"}, {`{"version":"4"}`, "the version"}, {`{"version":4}`, "the values"},
		{`{"version":4,"values":{"x":"` + strings.Repeat("x", 200) + `"}}`, "longer than 200 bytes"},
	} {
		answer = c.answer
		_, _, err := ask(nil)
		wantError(t, err, c.says)
	}
	srv.Close()
	_, _, err := ask(nil)
	wantError(t, err, "ask 127.0.0.1")
	if strings.Contains(err.Error(), "/cases/") {
		t.Errorf("the URL is in the error: %v", err)
	}
}

func TestAnHTTPSourceIsChecked(t *testing.T) {
	for u, says := range map[string]string{
		"https://u:geheim@x/cases": "does not say {stream}", "/cases/{stream}?key=geheim": "does not begin with http",
		"ftp://u:geheim@x/{stream}": "does not begin with http", "http://%zz/{stream}?key=geheim": "cannot be read",
		"http://u:geheim/@x/{stream}": "cannot be read",
	} {
		_, err := requery(effect.HTTPSource{URL: u}, 0).Tables()
		wantError(t, err, says)
		if _, _, asked := (effect.HTTPSource{URL: u}).Ask(t.Context(), "c1"); strings.Contains(fmt.Sprint(err, asked), "geheim") {
			t.Errorf("a secret is in what is said: %v; %v", err, asked)
		}
	}
}

func TestAnHTTPStatusIsClassified(t *testing.T) {
	for code, class := range map[int]pawl.Class{
		429: pawl.Overload, 503: pawl.Overload, 500: pawl.Transient, 502: pawl.Transient, 408: pawl.Transient,
		400: pawl.Misconfigured, 401: pawl.Misconfigured, 403: pawl.Misconfigured, 204: pawl.Misconfigured,
	} {
		if got := effect.ClassOfStatus(code); got != class {
			t.Errorf("%d is %s, want %s", code, got, class)
		}
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(code) }))
		_, _, err := effect.HTTPSource{URL: srv.URL + "/{stream}"}.Ask(t.Context(), "c1")
		wantError(t, err, fmt.Sprintf("answers %d", code))
		srv.Close()
	}
}
