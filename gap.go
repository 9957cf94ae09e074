package pawl

import "time"

// Gap is a stream whose next event is missing, while later ones of it have come: they are held, and take effect in the
// transaction that closes the gap.
type Gap struct {
	Route    int // index in [Binding.Routes]
	Stream   string
	Expected int64     // the version that is missing
	Since    time.Time // when the first of those that wait came
	Waiting  int       // records that are held

	// Early are records that wait, by version and then in the order they came, at most [MostEarly]: where this batch may close
	// the gap, or has one of them. Those of the batch itself are left out.
	Early []Task
}

// OpenGap is a gap as people see it.
type OpenGap struct {
	Route    string
	Stream   string
	Expected int64 // the version that is missing
	Lowest   int64 // of those that wait
	Highest  int64
	Waiting  int       // how many wait
	Since    time.Time // when the first of them came
	Until    time.Time // when the first of them has waited long enough
}

// GapGroup is the gaps of a route, counted.
type GapGroup struct {
	Route   string
	Gaps    int
	Waiting int // records
	Oldest  time.Time
}

// MostEarly bounds how many early records of a stream go into one transaction. The rest follows.
const MostEarly = 1000

// MostEarlyBytes bounds how much early records, over all streams, bring into one transaction; one of them may be larger.
const MostEarlyBytes = batchBytes

// SettledGap is what a transaction makes of a gap, for stores to write. Whether any are left to wait in it they find out
// themselves, once what leaves has left and what comes is there.
type SettledGap struct {
	Route    int
	Stream   string
	Expected int64     // the version that is missing; if the store has a higher one, that stands
	Due      time.Time // when to look at it again
	// Seen says that some of those that wait were in the transaction. Otherwise Due puts nothing off: if the store has an earlier
	// time, that stands. A stream that goes on coming early would never be looked at.
	Seen bool
}

// How often a gap is looked at that nothing else calls attention to: at first, and at the least.
const (
	firstLook = 5 * time.Second
	rarest    = time.Minute
)

// SettledGaps is what becomes of the gaps that w has to do with. Stores call it once everything is decided.
func (w *Work[Tx]) SettledGaps() []SettledGap {
	type name struct {
		route  int
		stream string
	}
	touched := map[name]*settlingGap{}
	var order []name
	touch := func(of name) *settlingGap {
		g := touched[of]
		if g == nil {
			g = &settlingGap{since: w.Now}
			touched[of], order = g, append(order, of)
		}
		return g
	}
	had := map[int64]bool{}
	for _, d := range w.Decisions {
		if d.ComesEarly() || d.Kept != nil && d.Kept.Early != 0 {
			touch(name{d.Route, d.GapOf()}).add(d)
		}
		if d.Kept != nil {
			had[d.Kept.Early] = true
		}
	}
	for i := range w.Gaps {
		gap := &w.Gaps[i]
		of := name{gap.Route, gap.Stream}
		if len(gap.Early) > 0 || touched[of] != nil { // also where the batch went without what it may have set free
			g := touch(of)
			g.since, g.more = gap.Since, gap.Waiting > g.seen
			g.passed = len(gap.Early) > 0 && !had[gap.Early[0].Kept.Early] && g.expected() > gap.Expected
		}
	}
	all := make([]SettledGap, len(order))
	for i, of := range order {
		g := touched[of]
		all[i] = SettledGap{of.route, of.stream, g.expected(), g.due(w.Now), g.seen > 0}
	}
	return all
}

// settlingGap gathers what a transaction makes of a gap.
type settlingGap struct {
	missing int64 // what those wait for that stay
	reached int64 // behind the last that was decided
	since   time.Time
	until   time.Time // when the first of those that stay has waited long enough
	stays   bool      // it leaves some there
	seen    int       // how many that waited it had
	more    bool      // there are others
	passed  bool      // it has moved the stream on, without those that wait
}

func (g *settlingGap) add(d *Decision) {
	if own := d.GapOf() == d.Identity.Stream; own && d.Outcome.Claims() && d.Outcome != Ignored {
		g.reached = max(g.reached, d.Identity.Version+1)
	} else if own {
		g.missing = max(g.missing, d.Expected)
	}
	if d.Kept != nil && d.Kept.Early != 0 {
		g.seen++
	}
	if d.ComesEarly() {
		if !g.stays || d.Until.Before(g.until) {
			g.until = d.Until
		}
		g.stays = true
	}
}

// expected is the version that is missing. Who waits for it knows: what was decided need not have moved the stream.
func (g *settlingGap) expected() int64 {
	if g.stays {
		return g.missing
	}
	return g.reached
}

// due is when to look again: at once, where there are others and all that it had could go, or they were left out and it may be
// their turn; else when the first has waited long enough, and before that now and then, less and less often: whoever closed the
// gap may have done so as it was opened.
func (g *settlingGap) due(now time.Time) time.Time {
	if g.more && (!g.stays || g.passed) {
		return now
	}
	due := now.Add(min(max(now.Sub(g.since), firstLook), rarest))
	if g.stays && g.until.Before(due) {
		due = g.until
	}
	return due
}

// meet adds to a batch what waits in the gaps of its streams, behind the records of the same route: this batch may be what
// they wait for. It is called at the start of each transaction, and returns the decisions of both.
func (d *decider[Tx]) meet(gaps []Gap) []*Decision {
	steps := d.given
	if len(gaps) > 0 {
		d.gaps, d.lent = map[int]map[string]*Gap{}, map[section[Tx]]int{}
		steps = nil
		for rest := d.given; len(rest) > 0; {
			n, route := 1, rest[0].Route
			for n < len(rest) && rest[n].Route == route {
				n++
			}
			steps = append(steps, rest[:n]...)
			d.gaps[route] = map[string]*Gap{}
			d.lent[rest[0].section] = rest[0].section.size()
			for i := range gaps {
				if gaps[i].Route == route {
					d.gaps[route][gaps[i].Stream] = &gaps[i]
					if d.alone {
						continue
					}
					for j := range gaps[i].Early {
						st, _ := newTaskStep(&d.routes[route], rest[0].section, &gaps[i].Early[j])
						st.lent = true
						steps = append(steps, st)
					}
				}
			}
			rest = rest[n:]
		}
	}
	d.steps = steps
	decisions := make([]*Decision, len(steps))
	for i, st := range steps {
		decisions[i] = &st.Decision
	}
	return decisions
}

// borrows reports whether meet has added anything.
func (d *decider[Tx]) borrows() bool { return len(d.steps) > len(d.given) }

// part takes out of the batch's sections what meet has put there: the next try finds it anew.
func (d *decider[Tx]) part() {
	for sec, n := range d.lent {
		sec.cut(n)
	}
}
