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
