package pawl

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"
)

// reader is an effect that takes its time, by stream, and then reads its events.
type reader struct {
	takes map[string]time.Duration
	read  chan string
}

func (reader) Tables() ([]*Table, error) { return nil, nil }
func (reader) Gaps() bool                { return true }
func (r reader) Fold(_ context.Context, _ Rows, b *Batch[int64]) error {
	time.Sleep(r.takes[b.At(0).Stream])
	for i := range b.Len() {
		r.read <- fmt.Sprintf("%s@%d", b.At(i).Stream, b.At(i).Body)
	}
	return nil
}

// A stream that had to wait left its bundle, and shared with it the place where what waits in gaps is decoded: whoever was done
// first took the other's events away while they were read.
func TestAStreamThatLeavesItsBundleSharesNothingWithIt(t *testing.T) {
	store := newDeskStore()
	effect := reader{map[string]time.Duration{"0": 5 * time.Second, "1": 2 * time.Second}, make(chan string, 20)}
	left := false
	store.before = func(_ context.Context, w *Work[int]) error {
		offset := w.Decisions[0].Record.Offset
		switch {
		case offset > 1:
		case len(w.Decisions) == 2: // the first of them has to wait
			w.Decisions[0].Blocked, left = true, true
		default:
			w.Decisions[0].Blocked = false
			w.Gaps = []Gap{{Stream: fmt.Sprint(offset), Early: []Task{{Act: ActReplay, Kept: Kept{Early: offset + 1}, Record: recordsOf(w.Decisions[0].Record.Partition, 10+offset, 1)[0]}}}}
			time.Sleep(time.Duration(1-offset) * time.Second) // the one that left comes second
		}
		return nil
	}
	atDesk(t, store, Config{Workers: 2}, func(r *Runner[int]) {
		Apply(r, Route{Name: "r", Topics: []string{"t"}, Order: OrderStream, Quarantine: QuarantineStream}, Decoder[int64](offsetOf{}), Effect[int64](effect))
	}, func(d *desk) {
		p, _ := d.assign("t")
		d.r.holdsFull.Store(true) // until orders are read again
		d.in.Take(p, recordsOf(p, 0, 4))
		d.pass(time.Minute)
	})
	close(effect.read)
	var got []string
	for s := range effect.read {
		got = append(got, s)
	}
	slices.Sort(got)
	if want := []string{"0@0", "0@10", "1@1", "1@11", "2@2", "3@3"}; !left || !slices.Equal(got, want) {
		t.Errorf("left its bundle: %v; read %q, want %q", left, got, want)
	}
}

// Where a record is noted before it is tried, so that it can be blamed for a death, nothing that it sets free may be tried with it.
func TestARecordThatMayBeBlamedForADeathIsTriedAlone(t *testing.T) {
	store := newDeskStore()
	effect := reader{nil, make(chan string, 20)}
	store.before = func(_ context.Context, w *Work[int]) error {
		of := w.Decisions[0]
		w.Gaps = []Gap{{Stream: of.Identity.Stream, Early: []Task{{Act: ActReplay, Kept: Kept{Early: 1}, Record: recordsOf(of.Record.Partition, 10, 1)[0]}}}}
		return nil
	}
	atDeadlyDesk(t, &deadlyStore{deskStore: store, crashes: waryFrom}, Config{MaxBatch: 2}, func(r *Runner[int]) {
		Apply(r, Route{Name: "r", Topics: []string{"t"}}, Decoder[int64](offsetOf{}), Effect[int64](effect))
	}, func(d *desk) {
		p, _ := d.assign("t")
		d.in.Take(p, recordsOf(p, 0, 2)) // for as many it is wary
		d.pass(time.Second)
		d.in.Take(p, recordsOf(p, 20, 1))
		d.pass(time.Second)
	})
	close(effect.read)
	var got []string
	for s := range effect.read {
		got = append(got, s)
	}
	if want := []string{"0@0", "1@1", "0@20", "0@10"}; !slices.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
}

// A batch that had to go without what waits, moved the stream on and left another early record behind it: what it had passed waited
// for the next look, for up to a minute, though its turn had come.
func TestAGapThatABatchMovesOnWithoutThoseThatWaitIsLookedAtAtOnce(t *testing.T) {
	now := time.Unix(1000, 0)
	early := &Decision{Identity: Identity{Key: "k5", Stream: "s", Version: 5}, Outcome: Held, Expected: 3, Until: now.Add(time.Hour)}
	waits := Kept{Early: 7, Stream: "s"}
	due := func(expected int64, all ...*Decision) time.Duration {
		w := Work[int]{Now: now, Decisions: all, Gaps: []Gap{{Stream: "s", Expected: expected, Since: now, Waiting: 3, Early: []Task{{Kept: waits}}}}}
		gaps := w.SettledGaps()
		if len(gaps) != 1 || gaps[0].Expected != 3 {
			t.Fatalf("%+v, want one gap, before version 3", gaps)
		}
		return gaps[0].Due.Sub(now)
	}
	if d := due(2, early); d != 0 {
		t.Errorf("moved on without them: it is looked at in %s, want at once", d)
	}
	if d := due(2, early, &Decision{Identity: Identity{Key: "k4", Stream: "s", Version: 4}, Outcome: Held, Expected: 3, Until: early.Until, Kept: &waits}); d != firstLook {
		t.Errorf("moved on with them: it is looked at in %s, want %s", d, firstLook)
	}
	if d := due(3, early); d != firstLook {
		t.Errorf("not moved on: it is looked at in %s, want %s", d, firstLook)
	}
}
