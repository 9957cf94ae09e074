package pawl

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Budget bounds how much may be quarantined before the consumer stops and asks: a bad deploy must not drain the topic into
// quarantine. Within Window, it is exceeded by more than Records, and by more than Share of what was decided once that is at
// least [BudgetFrom] records.
type Budget struct {
	Window  time.Duration // default: 1 min
	Records int           // default: 1000
	Share   float64       // from 0 to 1; default: 0.5
}

// BudgetFrom is from how many decisions on the share of a [Budget] counts.
const BudgetFrom = 100

// spending is how much of a budget was used, in slices of its window.
type spending struct {
	Budget
	now func() time.Time

	mu      sync.Mutex
	slices  [slicesOfWindow]slice
	granted bool // an operator has decided to go on, and nothing was set aside since
}

const slicesOfWindow = 10

type slice struct {
	at               int64 // number of the slice since 1970
	decided, refused int
}

// spend counts a batch that is about to be committed. It returns why it must not be, or "".
func (s *spending) spend(decided, quarantined int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.now().UnixNano() / max(int64(s.Window)/slicesOfWindow, 1)
	if quarantined > 0 {
		sumDecided, sumRefused := decided, quarantined
		for _, sl := range s.slices {
			if sl.at > at-slicesOfWindow {
				sumDecided += sl.decided
				sumRefused += sl.refused
			}
		}
		switch {
		case s.granted: // were it refused again, going on would never help
			s.granted = false
		case sumRefused > s.Records:
			return fmt.Sprintf("%d records were to be quarantined within %s: the budget is %d", sumRefused, s.Window, s.Records)
		case sumDecided >= BudgetFrom && float64(sumRefused) > s.Share*float64(sumDecided):
			return fmt.Sprintf("%d of %d records were to be quarantined within %s: the budget is %g %%", sumRefused, sumDecided, s.Window, 100*s.Share)
		}
	}
	sl := &s.slices[at%slicesOfWindow]
	if sl.at != at {
		*sl = slice{at: at}
	}
	sl.decided += decided
	sl.refused += quarantined
	return ""
}

// forget begins anew: an operator has decided to go on.
func (s *spending) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slices, s.granted = [slicesOfWindow]slice{}, true
}

// most bounds the records of a batch, which each have so many decisions: what is granted is not more than a budget.
func (s *spending) most(n, decisions int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.granted {
		return n
	}
	return min(n, max(min(s.Records, BudgetFrom/2)/decisions, 1))
}

// mayQuarantine refuses a batch that would set aside more than is allowed. Where nothing may be, it is cut in front of the first
// such record: what comes before that takes effect.
func (r *Runner[Tx]) mayQuarantine(decisions []*Decision) error {
	n := 0
	var first *Decision
	for _, d := range decisions {
		if d.Outcome == Quarantined && !d.Repeat && d.Kept == nil {
			if n++; first == nil || d.Record.Offset < first.Record.Offset {
				first = d
			}
		}
	}
	if n > 0 && r.cfg.OnPoison == PoisonStop {
		if slices.ContainsFunc(decisions, func(d *Decision) bool { return d.Kept == nil && d.Record.Offset < first.Record.Offset }) {
			return &splitError{offset: first.Record.Offset}
		}
		return &latchError{
			StatePoison, fmt.Sprintf("the record at %s offset %d cannot take effect: %s: %s", first.Record.Partition, first.Record.Offset, first.Cause, first.Reason),
			"repair what reads it, or let it be quarantined (Config.OnPoison; in a file: on.poison)",
		}
	}
	if over := r.budget.spend(len(decisions), n); over != "" {
		return &latchError{
			StateQuarantineBudget, fmt.Sprintf("%s; the first is at %s offset %d: %s: %s", over, first.Record.Partition, first.Record.Offset, first.Cause, first.Reason),
			"is it the records, or the code that reads them? Nothing of this batch was set aside. Going on begins the budget anew",
		}
	}
	return nil
}
