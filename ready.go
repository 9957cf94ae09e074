package pawl

import "sync"

// readyQueue holds the lanes that have work and no worker: any free worker takes the one that waited longest. A lane is
// in it at most once, so it is as long as there are partitions.
type readyQueue[Tx any] struct {
	mu     sync.Mutex
	more   *sync.Cond
	lanes  []*lane[Tx]
	closed bool
}

func newReadyQueue[Tx any]() *readyQueue[Tx] {
	q := &readyQueue[Tx]{}
	q.more = sync.NewCond(&q.mu)
	return q
}

func (q *readyQueue[Tx]) push(l *lane[Tx]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lanes = append(q.lanes, l)
	q.more.Signal()
}

// pop waits for a lane; nil means that the queue was closed.
func (q *readyQueue[Tx]) pop() *lane[Tx] {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.lanes) == 0 && !q.closed {
		q.more.Wait()
	}
	if q.closed {
		return nil
	}
	l := q.lanes[0]
	q.lanes = q.lanes[1:]
	return l
}

func (q *readyQueue[Tx]) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.more.Broadcast()
}
