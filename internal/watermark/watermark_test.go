package watermark

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The example of seed 000 §13: 102 is missing, so 103 and 104 do not move the frontier.
func TestFrontierStopsAtTheSmallestUnsettled(t *testing.T) {
	w := New(100)
	for o := int64(100); o < 105; o++ {
		w.Receive(o, 0)
	}
	for _, o := range []int64{100, 101, 103, 104} {
		w.Settle(o)
	}
	if got := w.Frontier(); got != 102 {
		t.Fatalf("frontier %d, want 102", got)
	}
	w.Settle(102)
	if got := w.Frontier(); got != 105 {
		t.Fatalf("frontier %d, want 105", got)
	}
}

func TestHolesAreNotWaitedFor(t *testing.T) {
	w := New(0)
	for _, o := range []int64{3, 7, 1000} {
		w.Receive(o, 0)
		w.Settle(o)
	}
	if got := w.Frontier(); got != 1001 {
		t.Fatalf("frontier %d, want 1001", got)
	}
}

func TestACopyChangesNothing(t *testing.T) {
	w := New(5)
	if w.Receive(4, 0) {
		t.Fatal("an offset below the start is not new")
	}
	w.Receive(5, 0)
	w.Settle(5)
	if w.Receive(5, 0) {
		t.Fatal("an offset received before is not new")
	}
	if got := w.Frontier(); got != 6 {
		t.Fatalf("frontier %d, want 6", got)
	}
}

// Against a model that keeps every received offset in a map and looks at all of them.
func TestFrontierEqualsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.Int64Range(0, 50).Draw(t, "start")
		w := New(start)
		settled := map[int64]bool{}
		var order []int64
		next := start
		frontier := func(extra ...int64) int64 {
			for _, o := range order {
				if !settled[o] && !slices.Contains(extra, o) {
					return o
				}
			}
			return next
		}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "receive") || len(order) == 0 {
				o := next + rapid.Int64Range(-2, 4).Draw(t, "gap")
				if isNew := w.Receive(o, 0); isNew != (o >= next) {
					t.Fatalf("Receive(%d) = %v with %d received", o, isNew, next)
				}
				if o >= next {
					order, next = append(order, o), o+1
				}
			} else {
				o := rapid.SampledFrom(order).Draw(t, "settle")
				w.Settle(o)
				settled[o] = true
			}
			if got, want := w.Frontier(), frontier(); got != want {
				t.Fatalf("frontier %d, want %d", got, want)
			}
			extra := rapid.SliceOfNDistinct(rapid.Int64Range(0, next+1), 0, min(int(next), 8), rapid.ID).Draw(t, "extra")
			slices.Sort(extra)
			if got, want := w.FrontierAfter(extra), frontier(extra...); got != want {
				t.Fatalf("frontier after %d is %d, want %d", extra, got, want)
			}
		}
	})
}

func TestOldestIsTheFirstThatIsNotSettled(t *testing.T) {
	w := New(0)
	if _, ok := w.Oldest(); ok {
		t.Error("nothing was received")
	}
	w.Receive(1, 70)
	w.Receive(5, 60)
	w.Settle(5)
	if at, ok := w.Oldest(); !ok || at != 70 {
		t.Errorf("oldest %d, %v", at, ok)
	}
	w.Settle(1)
	if at, ok := w.Oldest(); ok {
		t.Errorf("oldest %d, though everything is settled", at)
	}
}
