package pawl

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/retry"
)

// breakers keep those that fail together from failing again and again: once a dependency has failed often enough, one
// record at a time asks whether it is back, ever more rarely, and everything else that needs it waits.
type breakers struct {
	mu sync.Mutex
	of map[string]*breaker
}

// storeDown names the store among the dependencies. Everything needs it.
const storeDown = "the store"

type breaker struct {
	name     string
	routes   map[int]struct{} // that have met it; the store has all
	failures int              // in a row, whoever met them
	probes   int              // that failed, since it is open
	next     time.Time        // when to probe; zero: it is closed
	probing  bool
}

// trip is how many failures in a row open a breaker.
const trip = 5

// admit says whether something on these routes may be tried now: wait is 0, and probe says that it must be one record. If
// not, wait is how long to wait before asking again.
func (bs *breakers) admit(routes []int, now time.Time) (wait time.Duration, probe bool) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	var due []*breaker
	for _, b := range bs.of {
		if b.next.IsZero() || !b.concerns(routes) {
			continue
		}
		if b.probing || now.Before(b.next) {
			wait = max(wait, b.next.Sub(now), probeWait)
			continue
		}
		due = append(due, b)
	}
	if wait > 0 {
		return wait, false
	}
	for _, b := range due {
		b.probing, probe = true, true
	}
	return 0, probe
}

// probeWait is how long to wait at least for another's probe.
const probeWait = 20 * time.Millisecond

func (b *breaker) concerns(routes []int) bool {
	if b.name == storeDown {
		return true
	}
	for _, r := range routes {
		if _, ok := b.routes[r]; ok {
			return true
		}
	}
	return false
}

// failed counts a failure of a dependency, and reports whether that opens its breaker.
func (bs *breakers) failed(name string, routes []int, now time.Time) (opened bool) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.of == nil {
		bs.of = map[string]*breaker{}
	}
	b := bs.of[name]
	if b == nil {
		b = &breaker{name: name, routes: map[int]struct{}{}}
		bs.of[name] = b
	}
	for _, r := range routes {
		b.routes[r] = struct{}{}
	}
	b.failures++
	if b.failures < trip {
		return false
	}
	opened = b.next.IsZero()
	b.probes++
	b.probing = false
	b.next = now.Add(retry.Delay(b.probes + 2))
	return opened
}

// succeeded closes the breakers of the dependencies that routes need, and names those that were open.
func (bs *breakers) succeeded(routes []int) (closed []string) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	for name, b := range bs.of {
		if !b.concerns(routes) {
			continue
		}
		if !b.next.IsZero() {
			closed = append(closed, name)
		}
		b.failures, b.probes, b.next, b.probing = 0, 0, time.Time{}, false
	}
	return closed
}

// some reports whether any is open.
func (bs *breakers) some() bool {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	for _, b := range bs.of {
		if !b.next.IsZero() {
			return true
		}
	}
	return false
}

// gaveUp ends a probe that found nothing out. Nobody else probes what concerns its routes meanwhile.
func (bs *breakers) gaveUp(routes []int) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	for _, b := range bs.of {
		if b.concerns(routes) {
			b.probing = false
		}
	}
}

// isDown counts a failure against a dependency.
func (r *Runner[Tx]) isDown(name string, routes []int, err error) {
	if name == "" || !r.down.failed(name, routes, time.Now()) {
		return
	}
	r.alarm(Condition{
		Partition: Partition{Index: AllPartitions}, State: StateDependencyDown, Next: NoStart,
		Reason: fmt.Sprintf("%s fails again and again: %v", name, err),
		Hint:   "what needs it waits, and nothing is lost; one record at a time asks whether it is back",
	})
}

// isBack tells that dependencies answer again, and wakes what waits for them.
func (r *Runner[Tx]) isBack(names []string) {
	if len(names) == 0 {
		return
	}
	r.cfg.Logger.Info("dependencies answer again", "names", names)
	if !r.down.some() { // the condition is one for all of them
		r.over(Partition{Index: AllPartitions}, StateDependencyDown)
	}
	for _, l := range r.lanes() {
		l.hurry()
	}
}

// routesText names the routes that read the topic.
func (l *lane[Tx]) routesText() string {
	var names []string
	for _, route := range l.routes {
		names = append(names, l.r.routeNames[route])
	}
	return strings.Join(names, ", ")
}
