package metrics

import (
	"slices"
	"time"

	"github.com/pawlhq/pawl"
)

// decided is what decisions are counted by. All of it is a word of Pawl or the name of a route.
type decided struct {
	route   string
	outcome pawl.Outcome
	mode    pawl.Mode
	cause   string // of quarantine
	kept    bool   // a record that the store had kept, not one of the log
	repeat  bool   // settled before from this very position
}

// tally is a batch, counted. A batch has few different kinds of decisions, whatever its size: they are kept in a list, and
// looked for from the one that was found last.
type tally struct {
	counts []counted
	ages   []routeAges
}

type counted struct {
	kind
	n uint64
}

// kind is decided, with the route by its index.
type kind struct {
	route        int
	outcome      pawl.Outcome
	mode         pawl.Mode
	kept, repeat bool
	cause        string
}

type routeAges struct {
	route int
	ages
}

func newTally(s pawl.Settled, now time.Time) *tally {
	t := &tally{counts: make([]counted, 0, 8), ages: make([]routeAges, 0, 2)}
	at, age := 0, 0
	nowNano := now.UnixNano()
	for _, d := range s.Decisions {
		k := kind{d.Route, d.Outcome, d.Mode, d.Kept != nil, d.Repeat, d.Cause}
		if at >= len(t.counts) || t.counts[at].kind != k {
			at = t.find(k)
		}
		t.counts[at].n++
		if d.Outcome != pawl.Applied {
			continue
		}
		if age >= len(t.ages) || t.ages[age].route != d.Route {
			age = t.findAges(d.Route)
		}
		t.ages[age].observe(nowNano - d.Record.Timestamp.UnixNano())
	}
	return t
}

func (t *tally) find(k kind) int {
	i := slices.IndexFunc(t.counts, func(c counted) bool { return c.kind == k })
	if i < 0 {
		i = len(t.counts)
		t.counts = append(t.counts, counted{kind: k})
	}
	return i
}

func (t *tally) findAges(route int) int {
	i := slices.IndexFunc(t.ages, func(a routeAges) bool { return a.route == route })
	if i < 0 {
		i = len(t.ages)
		t.ages = append(t.ages, routeAges{route: route})
	}
	return i
}

// ages is a histogram with fixed buckets that costs a few nanoseconds a record: those of a batch are added up alone, and
// joined with the others once.
type ages struct {
	buckets [len(ageBuckets)]uint64 // not cumulative
	count   uint64                  // with what is beyond the last bucket
	sum     float64                 // seconds
}

// ageBuckets are upper bounds in seconds: from a log that is followed closely to one that is read anew from its beginning.
var ageBuckets = [...]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600}

var ageNanos = func() (n [len(ageBuckets)]int64) {
	for i, s := range ageBuckets {
		n[i] = int64(s * float64(time.Second))
	}
	return n
}()

// observe counts an age. A clock that is behind its producer's makes it zero.
func (a *ages) observe(nanos int64) {
	nanos = max(nanos, 0)
	a.count++
	a.sum += float64(nanos) / float64(time.Second)
	for i := range ageNanos {
		if nanos <= ageNanos[i] {
			a.buckets[i]++
			return
		}
	}
}

func (a *ages) add(b *routeAges) {
	for i, n := range b.buckets {
		a.buckets[i] += n
	}
	a.count += b.count
	a.sum += b.sum
}

// cumulative is as Prometheus has it.
func (a *ages) cumulative() map[float64]uint64 {
	m, n := make(map[float64]uint64, len(ageBuckets)), uint64(0)
	for i, le := range ageBuckets {
		n += a.buckets[i]
		m[le] = n
	}
	return m
}
