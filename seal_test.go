package pawl

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// sealing is an audit that grows now and then. What the store does with it is in storetest.
type sealing struct {
	*deskStore
	mu    sync.Mutex
	asked []time.Time
	grown bool
	fails bool
	last  AuditSeal
	log   bytes.Buffer
}

// Write is where the log goes.
func (s *sealing) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(line)
}

// logged is what the log says.
func (s *sealing) logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// meet says what the next seals meet.
func (s *sealing) meet(grown, fails bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grown, s.fails = grown, fails
}

func (s *sealing) times() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *sealing) Admin() Admin { return &sealingAdmin{of: s} }

type sealingAdmin struct {
	Admin
	of *sealing
}

func (a *sealingAdmin) SealAudit(_ context.Context, consumer string, at time.Time) (*AuditSeal, error) {
	s := a.of
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, at)
	if s.fails {
		return nil, errors.New("no connection")
	}
	if s.grown {
		s.last, s.grown = *NextSeal(&s.last, 1, []AuditHead{{Length: 1, Head: []byte(consumer)}}, at), false
	}
	last := s.last
	return &last, nil
}

func TestWhatOperatorsDidIsSealedByTime(t *testing.T) {
	for _, c := range []struct {
		name     string
		interval time.Duration
		want     []time.Duration // after the start
	}{
		{"by default", 0, []time.Duration{time.Minute, time.Hour + time.Minute, 2*time.Hour + time.Minute}},
		{"often", 10 * time.Second, nil},
		{"never", -1, []time.Duration{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &sealing{deskStore: newDeskStore()}
			atSeal(t, s, c.interval, func(pass func(time.Duration)) {
				began := time.Now()
				pass(2*time.Hour + 30*time.Minute)
				if c.want == nil {
					if n := len(s.times()); n != 900 {
						t.Errorf("asked %d times in two and a half hours", n)
					}
					return
				}
				var got []time.Duration
				for _, at := range s.times() {
					got = append(got, at.Sub(began))
				}
				if len(got) != len(c.want) {
					t.Fatalf("sealed after %s, want %s", got, c.want)
				}
				for i := range got {
					if got[i] != c.want[i] {
						t.Errorf("sealed after %s, want %s", got, c.want)
					}
				}
			})
		})
	}
}

// The hash of a seal is worth something where the database's owner cannot write: the log is such a place.
func TestASealIsLoggedByWhoMadeIt(t *testing.T) {
	s := &sealing{deskStore: newDeskStore()}
	atSeal(t, s, 0, func(pass func(time.Duration)) {
		pass(2 * time.Minute)
		if strings.Contains(s.logged(), "audit") {
			t.Errorf("nothing was done: %s", s.logged())
		}
		s.meet(true, false)
		pass(time.Hour)
		if n := strings.Count(s.logged(), `msg="audit sealed"`); n != 1 || !strings.Contains(s.logged(), "seal=1 acts=1 hash=") {
			t.Errorf("%d seals in the log: %s", n, s.logged())
		}
		pass(time.Hour) // the last one is still the last
		s.meet(false, true)
		pass(time.Hour)
		if n := strings.Count(s.logged(), `msg="audit sealed"`); n != 1 || strings.Count(s.logged(), "audit not sealed") != 1 {
			t.Errorf("%d seals in the log: %s", n, s.logged())
		}
		s.meet(true, false)
		pass(time.Hour)
		if !strings.Contains(s.logged(), "seal=2 ") {
			t.Errorf("it is not tried again: %s", s.logged())
		}
	})
}

func TestASealIntervalIsASecondOrNever(t *testing.T) {
	for _, interval := range []time.Duration{-2, 1, 999 * time.Millisecond} {
		if err := (&Config{Consumer: "c", MaxDeaths: 3, SealInterval: interval}).validate(); err == nil || !strings.Contains(err.Error(), "SealInterval") {
			t.Errorf("%s: %v", interval, err)
		}
	}
}

// atSeal runs a member in fake time.
func atSeal(t *testing.T, s *sealing, interval time.Duration, body func(pass func(time.Duration))) {
	synctest.Test(t, func(t *testing.T) {
		s.gate = make(chan struct{})
		close(s.gate)
		source := &handSource{in: make(chan Intake), stop: make(chan struct{})}
		close(source.stop)
		r := NewRunner[int](s, source, Config{Consumer: "c", SealInterval: interval, Logger: slog.New(slog.NewTextHandler(s, nil))})
		Handle(r, Route{Name: "r", Topics: []string{"t"}}, Decoder[int64](offsetOf{}), func(context.Context, int, Envelope[int64]) error { return nil })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		<-source.in
		body(func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		})
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}
