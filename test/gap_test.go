package test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/effect"
)

// reversed is the events of a stream, each ten of them in reverse.
func reversed(stream string, versions int) (all []fact) {
	for block := 0; block < versions; block += 10 {
		for v := min(block+10, versions); v > block; v-- {
			all = append(all, fact{Key: fmt.Sprintf("%s.%d", stream, v), Stream: stream, Version: int64(v), State: fmt.Sprint("v", v)})
		}
	}
	return all
}

func TestAGapStormConverges(t *testing.T) {
	inEveryHouse(t, func(t *testing.T, open func(testing.TB) *house) {
		const streams, versions = 6, 30
		for name, c := range map[string]struct {
			members int
			order   pawl.Order
		}{"one member": {1, pawl.OrderPartition}, "two members": {2, pawl.OrderPartition}, "two members, by stream": {2, pawl.OrderStream}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				d := cases()
				d.Order = c.order
				s := open(t).stage(4, pawl.Config{MaxBatch: 3, Workers: 4}, d)
				var rest [][]fact
				var want []string
				for i := range streams {
					stream := fmt.Sprint("s", i)
					rest = append(rest, reversed(stream, versions))
					want = append(want, fmt.Sprintf("%s %d v%d - %s.%d", stream, versions, versions, stream, versions))
				}
				for i := 0; len(rest) > 0; i++ { // in turn, each event to another partition than the one before it
					at := i % len(rest)
					s.add((i+at)%4, rest[at][0])
					if rest[at] = rest[at][1:]; len(rest[at]) == 0 {
						rest = slices.Delete(rest, at, at+1)
					}
				}
				var members []*life
				for range c.members {
					l := s.live(nil)
					members = append(members, l)
					defer l.stop()
				}
				for p := range 4 {
					members[p%c.members].take(p)
				}
				s.settle()
				s.await(0, gapCount)
				s.wantRows("cases", want...)
				s.wantAside()
				if n := s.int(earlyCount); n != 0 {
					t.Errorf("%d early records are left", n)
				}
				if n := s.int(`select count(*) from pawl_decision where outcome = 1`); n != streams*versions {
					t.Errorf("%d applied, want %d", n, streams*versions)
				}
				if n := s.int(`select count(*) from pawl_redelivery where outcome = 6`); n < streams*versions/4 {
					t.Errorf("only %d waited in the store: this is no storm", n)
				}
			})
		}
	})
}

// What comes early within a batch waits in memory.
func TestABatchThatCameInReverseNeedsNoGap(t *testing.T) {
	inEveryHouse(t, func(t *testing.T, open func(testing.TB) *house) {
		s := open(t).stage(1, pawl.Config{}, cases())
		s.up()
		s.batch(reversed("s", 10)...)
		s.wantRows("cases", "s 10 v10 - s.10")
		if n := s.waited(); n != 0 {
			t.Errorf("%d waited in the store", n)
		}
		s.wantAside()
	})
}

// More wait than one transaction takes: the rest follows, in order, and at once.
func TestEarlyEventsBeyondTheBoundFollow(t *testing.T) {
	inEveryHouse(t, func(t *testing.T, open func(testing.TB) *house) {
		const n = pawl.MostEarly + 50
		s := open(t).stage(1, pawl.Config{}, cases(func(p *effect.Projection[fact]) { p.Early.Most, p.States = 2*n, false }))
		s.up()
		var all []fact
		for v := range int64(n) {
			all = append(all, at(v+2, fmt.Sprint("v", v+2)))
		}
		s.batch(all...)
		s.await(n, earlyCount)
		before := s.batches()
		s.play(at(1, "v1"))
		s.await(0, gapCount)
		s.wantRows("cases", fmt.Sprintf("c1 %d v%d - e%d", n+1, n+1, n+1))
		if took := s.batches() - before; took > 3 {
			t.Errorf("%d transactions, want one for each thousand", took)
		}
		s.wantAside()
	})
}

// One member holds version 2 of a stream that has no row, while another inserts version 1: neither sees the other. Whoever it
// is that looks again finds it.
func TestAHolderAndACloserThatDoNotSeeEachOtherMeetLater(t *testing.T) {
	for _, h := range houses[1:] { // SQLite has one writer: they always see each other
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			const streams = 40
			s := h.open(t).stage(2, pawl.Config{MaxBatch: 1, Workers: 2}, cases())
			var want []string
			for i := range streams {
				stream := fmt.Sprint("s", i)
				s.add(0, fact{Key: stream + ".1", Stream: stream, Version: 1, State: "A"})
				s.add(1, fact{Key: stream + ".2", Stream: stream, Version: 2, State: "B"})
				want = append(want, stream+" 2 B - "+stream+".2")
			}
			one, two := s.live(nil), s.live(nil)
			defer one.stop()
			defer two.stop()
			one.take(0)
			two.take(1)
			s.settle()
			s.await(0, gapCount)
			s.wantRows("cases", want...)
			s.wantAside()
		})
	}
}

// The race above, made for certain: the holder has read and not committed when the closer commits.
func TestAGapThatWasClosedWhileItWasOpenedIsLookedAtAgain(t *testing.T) {
	for _, h := range houses[1:] {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			reading, goOn := make(chan struct{}), make(chan struct{})
			slow := cases()
			slow.effect.(*effect.Projection[fact]).Columns[0].Value = func(e *pawl.Envelope[fact]) (any, error) {
				if e.Key == "gate" {
					close(reading)
					<-goOn
				}
				return e.Body.State, nil
			}
			s := h.open(t).stage(2, pawl.Config{}, slow)
			holder, closer := s.live(nil), s.live(nil)
			defer holder.stop()
			defer closer.stop()
			closer.take(1)
			// In one batch: what is held, and what keeps the batch from committing.
			s.group.add(0, fact{Key: "s.2", Stream: "s", Version: 2, State: "B"}.bytes(), fact{Key: "gate", Stream: "g", Version: 1, State: "A"}.bytes())
			holder.take(0)
			<-reading
			s.add(1, fact{Key: "s.1", Stream: "s", Version: 1, State: "A"})
			s.await(1, settledCount)
			close(goOn)
			s.settle()
			if n := s.int(earlyCount); n != 1 {
				t.Fatalf("%d are held: the race did not happen", n)
			}
			s.await(0, gapCount) // by itself: nothing more comes
			s.wantRows("cases", "s 2 B - s.2", "g 1 A - gate")
			s.wantAside()
		})
	}
}

// What waits may fail when its turn comes. It is to blame, and not the event that set it free.
func TestAnEarlyEventThatFailsInItsTurnIsSetAsideAlone(t *testing.T) {
	inEveryHouse(t, func(t *testing.T, open func(testing.TB) *house) {
		for name, bad := range map[string]fact{
			"a value that cannot be found": {Bad: "value"},
			"a value the database refuses": {Fee: "666"},
		} {
			for _, elsewhere := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, of another partition %v", name, elsewhere), func(t *testing.T) {
					t.Parallel()
					s := open(t).stage(2, pawl.Config{}, cases())
					s.up()
					from := 0
					if elsewhere {
						from = 1
						for i := range 7 { // offsets beyond those of the other partition
							s.add(1, fact{Key: fmt.Sprint("x", i), Stream: "x", Version: int64(i + 1), State: "A"})
						}
					}
					bad.Key, bad.Stream, bad.Version, bad.State = "bad", "c1", 2, "HEARD"
					s.add(from, bad)
					s.settle()
					s.play(at(1, "OPEN"))
					s.await(1, openCount)
					s.wantAside("bad validation")
					s.wantClaim("e1", pawl.Applied, "")
					s.play(at(3, "CLOSED"), keyed("good", at(2, "HEARD")))
					s.await(0, gapCount)
					if got := s.lines(`select * from cases where case_id = 'c1'`); !slices.Equal(got, []string{"c1 3 CLOSED - e3"}) {
						t.Errorf("cases: %q", got)
					}
				})
			}
		}
	})
}

// Early events that fail block their stream, and what comes with them is not decided behind them.
func TestEarlyEventsThatBlockTheirStream(t *testing.T) {
	inEveryHouse(t, func(t *testing.T, open func(testing.TB) *house) {
		d := cases()
		d.Quarantine = pawl.QuarantineStream
		s := open(t).stage(1, pawl.Config{}, d)
		s.up()
		s.play(keyed("bad", fact{Stream: "c1", Version: 2, Bad: "value"}), keyed("worse", fact{Stream: "c1", Version: 2, Bad: "value", Fee: "1"}), at(3, "CLOSED"))
		s.play(at(1, "OPEN"))
		s.await(1, openCount)
		s.wantClaim("e1", pawl.Applied, "")
		s.wantAside("bad validation")
		s.play(keyed("e2", fact{Stream: "c2", Version: 1, State: "OPEN"})) // others go on
		if got := s.lines(`select * from cases where case_id = 'c1'`); !slices.Equal(got, []string{"c1 1 OPEN - e1"}) {
			t.Errorf("cases: %q", got)
		}
	})
}

// A producer that uses one key for two events: the one that came early waits, the other cannot be applied.
func TestAKeyThatIsHeldAndComesAgainWithOtherContent(t *testing.T) {
	inEveryHouse(t, func(t *testing.T, open func(testing.TB) *house) {
		s := open(t).stage(1, pawl.Config{}, cases())
		s.up()
		s.play(keyed("twice", at(2, "HEARD")))
		s.play(keyed("twice", fact{Stream: "c1", Version: 1, Bad: "value"}))
		s.wantAside("twice validation")
		s.play(at(1, "OPEN"))
		s.await(0, gapCount)
		s.wantRows("cases", "c1 2 HEARD - twice")
	})
}

// A correction of an event that waits, from another partition, whose offsets say nothing about this one's.
func TestACorrectionOfAnEventThatWaitsElsewhere(t *testing.T) {
	inEveryHouse(t, func(t *testing.T, open func(testing.TB) *house) {
		s := open(t).stage(2, pawl.Config{}, cases())
		s.up()
		for i := range 7 {
			s.add(1, fact{Key: fmt.Sprint("x", i), Stream: "x", Version: int64(i + 1), State: "A"})
		}
		s.add(1, at(2, "HEARD"))
		s.settle()
		s.batch(at(1, "OPEN"), fact{Key: "e3", Stream: "c1", Version: 3, State: "CLOSED", Corrects: "e2"})
		s.await(0, gapCount)
		if got := s.lines(`select * from cases where case_id = 'c1'`); !slices.Equal(got, []string{"c1 3 CLOSED - e3"}) {
			t.Errorf("cases: %q", got)
		}
		if e := s.claim("e2"); e.Outcome != pawl.Applied || e.SupersededBy != "e3" {
			t.Errorf("evidence of what is corrected: %+v", e)
		}
	})
}

// What is held is bounded, of a stream and of all, and nothing is lost by the bound.
func TestWhatWaitsForItsTurnIsBounded(t *testing.T) {
	inEveryHouse(t, func(t *testing.T, open func(testing.TB) *house) {
		s := open(t).stage(1, pawl.Config{}, cases(func(p *effect.Projection[fact]) { p.Early.Most = 3 }))
		s.up()
		for _, v := range rand.Perm(5) {
			s.play(at(int64(v+2), fmt.Sprint("v", v+2)))
		}
		if n, aside := s.int(earlyCount), s.int(openCount); n != 3 || aside != 2 {
			t.Fatalf("%d are held and %d set aside, want 3 and 2", n, aside)
		}
		s.play(at(1, "v1"))
		for range 3 { // each replay may set the next free
			if s.int(openCount) > 0 {
				s.replay()
			}
		}
		s.await(0, gapCount)
		s.wantRows("cases", "c1 6 v6 - e6")
		s.wantAside()
	})
}

// A copy of an event that waits may come when no more may be held. The one that waits is not turned away with it.
func TestACopyThatMayNotBeHeldDoesNotTakeTheFirstAlong(t *testing.T) {
	inEveryHouse(t, func(t *testing.T, open func(testing.TB) *house) {
		for name, then := range map[string]effect.Then{"quarantine": effect.Quarantine, "ignore": effect.Ignore} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := open(t).stage(1, pawl.Config{}, cases(func(p *effect.Projection[fact]) { p.Early.Most, p.Early.Then = 1, then }))
				s.up()
				s.play(at(3, "CLOSED"))
				s.batch(at(1, "OPEN"), at(3, "CLOSED"))
				s.play(at(2, "HEARD"))
				s.await(0, gapCount)
				s.wantRows("cases", "c1 3 CLOSED - e3")
				s.wantAside()
			})
		}
	})
}

// A gap that lasts ends as the effect says.
func TestAGapThatLastsTooLongEndsAsTheEffectSays(t *testing.T) {
	inEveryHouse(t, func(t *testing.T, open func(testing.TB) *house) {
		for then, want := range map[effect.Then]string{effect.Quarantine: "quarantined", effect.Ignore: "ignored"} {
			t.Run(want, func(t *testing.T) {
				t.Parallel()
				s := open(t).stage(1, pawl.Config{}, cases(func(p *effect.Projection[fact]) {
					p.Early = effect.Early{Hold: 50 * time.Millisecond, Then: then}
				}))
				s.up()
				s.play(at(1, "OPEN"), at(3, "CLOSED"))
				s.await(0, gapCount)
				said := want + " out of order: version 3 came, and version 2 is missing; it was held for 50ms"
				if then == effect.Quarantine {
					s.wantAside("e3 gap")
					s.wantSaid("e3", said)
				} else {
					s.wantAside()
					s.wantSaid("e3", "held", said)
				}
				s.wantRows("cases", "c1 1 OPEN - e1")
				s.play(at(2, "HEARD")) // it blocks nothing
				s.wantRows("cases", "c1 2 HEARD - e2")
			})
		}
	})
}
