package test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/effect"
)

// correctable is a projection whose corrections need not wait, beside totals that take back what is corrected.
func correctable() []declared {
	return []declared{cases(func(p *effect.Projection[fact]) { p.Rule, p.Early = effect.Newer, effect.Early{} }), counter()}
}

func original() fact {
	return fact{Key: "o", Stream: "c1", Version: 1, State: "NO_BREACH", Fee: "10.00", Team: "a"}
}

func correction() fact {
	return fact{Key: "c", Stream: "c1", Version: 2, State: "BREACH", Fee: "7.50", Team: "b", Corrects: "o"}
}

func further() fact {
	return fact{Key: "f", Stream: "c1", Version: 3, State: "SETTLED", Fee: "1.25", Team: "b", Corrects: "c"}
}

// The rows are the same in whatever order an original and its corrections come, and a late one never undoes. Only what is said of
// the original differs: it took effect and was corrected, or it never did.
func TestCorrectionsEndTheSameInWhateverOrderTheyCome(t *testing.T) {
	o, c, f := original(), correction(), further()
	for _, way := range []struct {
		name  string
		play  [][]fact
		rows  string
		first pawl.Outcome // of the original
		next  pawl.Outcome // of the correction, where there is a further one
	}{
		{"original then correction", [][]fact{{o}, {c}}, "c", pawl.Applied, 0},
		{"correction then late original", [][]fact{{c}, {o}}, "c", pawl.Superseded, 0},
		{"both in one batch", [][]fact{{o, c}}, "c", pawl.Applied, 0},
		{"both in one batch, the original late", [][]fact{{c, o}}, "c", pawl.Superseded, 0},
		{"everything twice", [][]fact{{o}, {c, o}, {c}, {o, c}}, "c", pawl.Applied, 0},
		{"correction of a correction", [][]fact{{o}, {c}, {f}}, "f", pawl.Applied, pawl.Applied},
		{"correction of a correction in one batch", [][]fact{{o, c, f}}, "f", pawl.Applied, pawl.Applied},
		{"correction of a correction before it", [][]fact{{o}, {f}, {c}}, "f", pawl.Applied, pawl.Superseded},
		{"all of them backwards", [][]fact{{f}, {c}, {o}}, "f", pawl.Superseded, pawl.Superseded},
		{"all of them backwards in one batch", [][]fact{{f, c, o}}, "f", pawl.Superseded, pawl.Superseded},
	} {
		t.Run(way.name, func(t *testing.T) {
			inEveryHouse(t, func(t *testing.T, open func(testing.TB) *house) {
				s := open(t).stage(1, pawl.Config{}, correctable()...)
				s.up()
				for _, b := range way.play {
					s.batch(b...)
				}
				last := map[string]string{"c": "c1 2 BREACH 7.50 c", "f": "c1 3 SETTLED 1.25 f"}[way.rows]
				s.wantRows("cases", last)
				if e := s.claim("o"); e.Outcome != way.first || e.SupersededBy != "c" {
					t.Errorf("the original is %s (%s), corrected by %q; want %s, by c", e.Outcome, e.Reason, e.SupersededBy, way.first)
				}
				if e := s.claim("c"); way.rows == "f" && (e.Outcome != way.next || e.SupersededBy != "f") {
					t.Errorf("the correction is %s, corrected by %q; want %s, by f", e.Outcome, e.SupersededBy, way.next)
				}
				s.wantAside()
			})
		})
	}
}

// What was taken back stays so: the totals are what the last corrections contribute.
func TestTotalsFollowCorrections(t *testing.T) {
	o, c, f := original(), correction(), further()
	for _, way := range []struct {
		name  string
		play  [][]fact
		total []string
	}{
		{"original then correction", [][]fact{{o}, {c}}, []string{"a 0 0.00", "b 1 7.50"}},
		{"correction then late original", [][]fact{{c}, {o}}, []string{"b 1 7.50"}},
		{"both in one batch", [][]fact{{o, c}}, []string{"a 0 0.00", "b 1 7.50"}},
		{"both in one batch, the original late", [][]fact{{c, o}}, []string{"b 1 7.50"}},
		{"everything twice", [][]fact{{o, o}, {c, o}, {c}, {o, c}}, []string{"a 0 0.00", "b 1 7.50"}},
		{"correction of a correction", [][]fact{{o}, {c}, {f}}, []string{"a 0 0.00", "b 1 1.25"}},
		{"correction of a correction in one batch", [][]fact{{o, c, f}}, []string{"a 0 0.00", "b 1 1.25"}},
		{"all of them backwards", [][]fact{{f}, {c}, {o}}, []string{"b 1 1.25"}},
		{"all of them backwards in one batch", [][]fact{{f, c, o}}, []string{"b 1 1.25"}},
	} {
		t.Run(way.name, func(t *testing.T) {
			inEveryHouse(t, func(t *testing.T, open func(testing.TB) *house) {
				s := open(t).stage(1, pawl.Config{}, counter())
				s.up()
				for _, b := range way.play {
					s.batch(b...)
				}
				s.wantRows("totals", way.total...)
				s.wantAside()
			})
		})
	}
}

// An original and its correction meet on two members, at the same moment.
func TestAnOriginalAndItsCorrectionMeetOnTwoMembers(t *testing.T) {
	inEveryHouse(t, func(t *testing.T, open func(testing.TB) *house) {
		const pairs = 60
		s := open(t).stage(2, pawl.Config{MaxBatch: 1, Workers: 1}, correctable()...)
		var want []string
		for i := range pairs {
			o, c := original(), correction()
			stream := fmt.Sprintf("p%02d", i)
			o.Key, c.Key, o.Stream, c.Stream, c.Corrects = stream+".o", stream+".c", stream, stream, stream+".o"
			s.add(0, o)
			s.add(1, c)
			want = append(want, stream+" 2 BREACH 7.50 "+stream+".c")
		}
		one, two := s.live(nil), s.live(nil)
		defer one.stop()
		defer two.stop()
		one.take(0)
		two.take(1)
		s.settle()
		s.wantRows("cases", want...)
		s.wantAside()
		if got := s.lines(`select events, fees from totals where team = 'b'`); len(got) != 1 || got[0] != fmt.Sprint(pairs, " 450.00") {
			t.Errorf("totals of the corrections: %q", got)
		}
		if n := s.int(`select coalesce(sum(events), 0) from totals where team = 'a'`); n != 0 {
			t.Errorf("%d originals are counted still", n)
		}
	})
}

// The same for certain: the one that comes second waits for the other's row, finds it there, and begins anew.
func TestACorrectionThatWaitsForItsOriginalBeginsAnew(t *testing.T) {
	for _, h := range houses[1:] {
		for first, second := range map[*fact]fact{ptr(original()): correction(), ptr(correction()): original()} {
			t.Run(h.name+", "+first.Key+" first", func(t *testing.T) {
				t.Parallel()
				written, goOn := make(chan struct{}), make(chan struct{})
				all := correctable()
				all[0], all[1] = all[1], all[0] // the totals are written when the projection waits
				all[1].effect.(*effect.Projection[fact]).Columns[0].Value = func(e *pawl.Envelope[fact]) (any, error) {
					if e.Key == first.Key {
						select {
						case <-goOn:
						default:
							close(written)
							<-goOn
						}
					}
					return e.Body.State, nil
				}
				s := h.open(t).stage(2, pawl.Config{}, all...)
				one, two := s.live(nil), s.live(nil)
				defer one.stop()
				defer two.stop()
				one.take(0)
				two.take(1)
				s.add(0, *first)
				<-written
				s.add(1, second)
				waitUntil(t, time.Now().Add(factPatience), func() bool {
					return s.int(`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) > 0
				})
				close(goOn)
				s.settle()
				s.wantAside()
				s.wantRows("cases", "c1 2 BREACH 7.50 c")
				if got := s.lines(`select events, fees from totals where events <> 0`); len(got) != 1 || got[0] != "1 7.50" {
					t.Errorf("totals: %q", s.lines(`select * from totals`))
				}
			})
		}
	}
}

func ptr[T any](v T) *T { return &v }
