package kafka

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
)

func TestPauseStopsAndResumeGoesOnWithoutLoss(t *testing.T) {
	each(t, 2, func(t *testing.T, b *broker) {
		cl := b.client(t)
		b.produce(t, cl, 0, 100)
		in := newIntake()
		var once sync.Once
		in.onTake = func(a *pawl.Assignment, _ []pawl.Record) {
			if a.Partition.Index == 0 {
				once.Do(a.Flow.Pause) // from inside Take, as a full lane does
			}
		}
		b.start(t, b.source(), in)
		in.waitTaken(t, 0, 1)
		before := len(in.offsets(0))
		for round := range 5 { // the other partition proves that polling went on
			b.produce(t, cl, 0, 10)
			b.produce(t, cl, 1, 10)
			in.waitTaken(t, 1, 10*(round+1))
		}
		if got := len(in.offsets(0)); got != before {
			t.Fatalf("%d records taken while paused", got-before)
		}
		in.assignment(0).Flow.Resume()
		in.waitTaken(t, 0, 150)
		if got := in.offsets(0); !slices.Equal(got, upTo(150)) {
			t.Errorf("taken %v", got)
		}
	})
}

func TestAPauseEndsWithItsAssignment(t *testing.T) {
	eachBalance(t, 2, func(t *testing.T, b *broker) {
		cl := b.client(t)
		one, two := newIntake(), newIntake()
		two.store = one.store
		b.start(t, b.source(), one)
		one.wait(t, "all partitions", func() bool { return len(one.assigned()) == 2 })
		for p := range int32(2) {
			one.assignment(p).Flow.Pause()
		}
		m := b.start(t, b.source(), two)
		one.wait(t, "one to be taken away", func() bool { return len(one.assigned()) == 1 })
		two.wait(t, "one partition", func() bool { return len(two.assigned()) == 1 })
		moved := two.assigned()[0]
		check(t, m.end(t))
		one.wait(t, "it to come back", func() bool { return len(one.assigned()) == 2 })
		b.produce(t, cl, moved, 10)
		one.waitTaken(t, moved, 10)
	})
}

// A marker is what then puts between the records that were read before a rewind and those read after it.
const marker = -1

func TestRewindReadsOnFromTheOffset(t *testing.T) {
	each(t, 2, func(t *testing.T, b *broker) {
		cl := b.client(t)
		const n = 2000
		in := newIntake()

		var mu sync.Mutex
		var seen []int64 // offsets of partition 0, and markers
		var targets []int64
		in.onTake = func(a *pawl.Assignment, records []pawl.Record) {
			if a.Partition.Index != 0 {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, r := range records {
				seen = append(seen, r.Offset)
			}
		}
		rewound := make(chan struct{}, 100)
		rewindTo := func(offset int64) {
			mu.Lock() // a lock that Take needs, as the lock of a lane is
			defer mu.Unlock()
			targets = append(targets, offset)
			in.assignment(0).Flow.Rewind(offset, func() {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, marker)
				rewound <- struct{}{}
			})
		}
		atEnd := func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(seen) > 0 && seen[len(seen)-1] == n-1
		}

		for range n / 100 {
			b.produce(t, cl, 0, 100)
		}
		b.start(t, b.source(), in)
		in.wait(t, "assignment", func() bool { return in.assignment(0) != nil })
		for i := range 20 { // at any moment: before the first fetch, while records pour in, and below
			rewindTo(int64(i*50 + 25)) // the first to where reading does not begin anyway
			receive(t, rewound)
			in.waitTaken(t, 0, i*10)
		}
		in.wait(t, "the end", atEnd)
		rewindTo(7) // while the poll waits for new records
		receive(t, rewound)
		in.wait(t, "the end", atEnd)

		mu.Lock()
		defer mu.Unlock()
		if err := checkRewinds(seen, targets, n); err != nil {
			t.Error(err)
		}
	})
}

// checkRewinds: between two markers offsets ascend without a gap, and after each marker they begin at its target.
func checkRewinds(seen, targets []int64, n int64) error {
	next, markers := int64(0), 0
	for i, o := range seen {
		switch {
		case o == marker:
			next = targets[markers]
			markers++
		case o != next:
			return fmt.Errorf("at %d, after %d rewinds: offset %d, want %d", i, markers, o, next)
		default:
			next = o + 1
		}
	}
	if markers != len(targets) || next != n {
		return fmt.Errorf("%d rewinds done of %d, read up to %d of %d", markers, len(targets), next, n)
	}
	return nil
}

func TestRewindFromInsideAssignIsNotForgotten(t *testing.T) {
	each(t, 1, func(t *testing.T, b *broker) {
		b.produce(t, b.client(t), 0, 100)
		in := newIntake()
		in.store.next[0] = 50
		rewound := make(chan struct{})
		in.onAssign = func(_ context.Context, as []*pawl.Assignment) error {
			as[0].Flow.Rewind(25, func() { // the client has nothing to rewind yet
				in.mu.Lock()
				in.taken[0] = nil
				in.mu.Unlock()
				close(rewound)
			})
			select { // time enough for it to be tried, and found too early
			case <-rewound:
			case <-time.After(50 * time.Millisecond):
			}
			return nil
		}
		b.start(t, b.source(), in)
		receive(t, rewound)
		in.waitTaken(t, 0, 75)
		if got := in.offsets(0); !slices.Equal(got, between(25, 100)) {
			t.Errorf("taken %v", got)
		}
	})
}

func TestRewindDoesNotWaitForRecords(t *testing.T) {
	each(t, 1, func(t *testing.T, b *broker) {
		b.produce(t, b.client(t), 0, 100)
		in := newIntake()
		in.onTake = func(a *pawl.Assignment, _ []pawl.Record) { a.Flow.Pause() }
		b.start(t, b.source(), in)
		in.waitTaken(t, 0, 100)
		rewound := make(chan struct{}, 1)
		for i := range int64(10) { // nothing is fetched, so nothing else ends a poll
			in.assignment(0).Flow.Rewind(i, func() { rewound <- struct{}{} })
			receive(t, rewound)
		}
		in.assignment(0).Flow.Resume()
		in.waitTaken(t, 0, 100+91)
		if got := in.offsets(0)[100:]; !slices.Equal(got, between(9, 100)) {
			t.Errorf("taken %v", got)
		}
	})
}

func receive(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(timeout):
		t.Fatal("waited in vain")
	}
}

func TestFlowDoesNothingOnceTheAssignmentHasEnded(t *testing.T) {
	each(t, 1, func(t *testing.T, b *broker) {
		in := newIntake()
		m := b.start(t, b.source(), in)
		in.wait(t, "assignment", func() bool { return in.assignment(0) != nil })
		a := in.assignment(0)
		check(t, m.end(t))
		a.Flow.Pause()
		a.Flow.Resume()
		a.Flow.Rewind(0, func() { t.Error("then was called") })
	})
}
