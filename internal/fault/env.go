//go:build unix

package fault

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// points are the windows that a spec may name.
var points = []Point{
	Taken, Decoded, Begun, Looked, Handled, Effected, Claimed, Quarantined, Advanced, Committed, Settled, OffsetStored, Acquired,
	Revoking, Drained, Released, MigrationStep,
}

// Points returns every window, in the order a record meets them.
func Points() []Point { return slices.Clone(points) }

// FromEnv makes an injector from a text such as "committed:3=kill,taken:1=stop", which a command reads from its
// environment: at the third hit of the window committed the process kills itself, at the first of taken it stops itself.
// Hits are counted per window, from 1. The actions are
//
//	kill    SIGKILL to this process
//	stop    SIGSTOP to this process; it goes on behind the window when it gets SIGCONT
//	error   ErrCrash, here and from then on at every window
func FromEnv(spec string) (Injector, error) {
	e := &environment{asked: map[hit]func() error{}, hits: map[Point]int{}}
	for clause := range strings.SplitSeq(spec, ",") {
		if err := e.parse(clause); err != nil {
			return nil, fmt.Errorf("fault %q: %w", clause, err)
		}
	}
	return e.inject, nil
}

type hit struct {
	point Point
	n     int
}

type environment struct {
	asked map[hit]func() error

	mu   sync.Mutex
	hits map[Point]int
	dead bool
}

func (e *environment) parse(clause string) error {
	where, action, ok := strings.Cut(clause, "=")
	name, nth, colon := strings.Cut(where, ":")
	if !ok || !colon {
		return fmt.Errorf("want window:n=action, such as %s:3=kill", Committed)
	}
	at := hit{point: Point(name)}
	if !slices.Contains(points, at.point) {
		return fmt.Errorf("no window %q; there are %v", name, points)
	}
	var err error
	if at.n, err = strconv.Atoi(nth); err != nil || at.n < 1 {
		return fmt.Errorf("%q is not the number of a hit, counted from 1", nth)
	}
	if e.asked[at] != nil {
		return fmt.Errorf("%s is asked for twice", where)
	}
	switch action {
	case "kill":
		e.asked[at] = kill
	case "stop":
		e.asked[at] = stop
	case "error":
		e.asked[at] = e.crash
	default:
		return fmt.Errorf("no action %q; there are kill, stop and error", action)
	}
	return nil
}

// inject is the Injector. The action is not done under the lock: a process that is stopped by one window must be able to
// meet others when it goes on.
func (e *environment) inject(p Point) error {
	e.mu.Lock()
	e.hits[p]++
	act, dead := e.asked[hit{p, e.hits[p]}], e.dead
	e.mu.Unlock()
	switch {
	case dead:
		return ErrCrash
	case act != nil:
		return act()
	}
	return nil
}

func (e *environment) crash() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dead = true
	return ErrCrash
}

func kill() error {
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill this process: %w", err)
	}
	select {} // nothing more is done here until it is dead
}

func stop() error {
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop this process: %w", err)
	}
	// The signal may reach another thread first; this one must not run on until it is stopped too. Time goes by while it
	// is, so this costs nothing.
	time.Sleep(100 * time.Millisecond)
	return nil
}
