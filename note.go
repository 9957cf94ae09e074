package pawl

import (
	"context"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/retry"
)

// notes keep what is written about one condition in order: it is written beside the path of records, and what could not be
// written while the store was down must not be written after what came later.
type notes struct {
	mu sync.Mutex
	of map[noted]*noting
}

type noted struct {
	p     Partition
	state State
}

type noting struct {
	last    int           // note that was made, of all; with notes.mu held
	writing chan struct{} // has an element while one is written
}

// add makes a note, and returns its number.
func (ns *notes) add(at noted) (*noting, int) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if ns.of == nil {
		ns.of = map[noted]*noting{}
	}
	if ns.of[at] == nil {
		ns.of[at] = &noting{writing: make(chan struct{}, 1)}
	}
	ns.of[at].last++
	return ns.of[at], ns.of[at].last
}

func (ns *notes) isLast(of *noting, n int) bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return of.last == n
}

// note writes to the store beside the path of records, and tries again a few times: who calls must not wait.
func (r *Runner[Tx]) note(p Partition, state State, write func(ctx context.Context) error) {
	of, number := r.notes.add(noted{p, state})
	r.work.Go(func() {
		for n := 1; n <= noteTries; n++ {
			of.writing <- struct{}{}
			err := error(nil)
			if r.notes.isLast(of, number) {
				err = write(r.workCtx)
			}
			<-of.writing
			if err == nil || r.workCtx.Err() != nil {
				return
			}
			r.cfg.Logger.Warn("condition not noted in the store", "partition", p.String(), "state", state, "error", err)
			select {
			case <-r.workCtx.Done():
				return
			case <-time.After(retry.Delay(n)):
			}
		}
	})
}

const noteTries = 8
