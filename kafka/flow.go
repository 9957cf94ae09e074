package kafka

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl"
)

var _ pawl.Flow = (*assignment)(nil)

// rewind is a rewind that was asked for.
type rewind struct {
	a      *assignment
	offset int64
	then   func()
	opens  bool // it is where the assignment starts, not what an operator has decided: what is halted stays so
}

// Pause stops reading. At most what the poll under way has already returned is still handed over.
func (a *assignment) Pause() {
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	if !a.closed {
		a.r.cl.PauseFetchPartitions(a.only())
	}
}

// Resume reads on after a pause, with the record after the last that was handed over.
func (a *assignment) Resume() {
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	if !a.closed && !a.halted {
		a.r.cl.ResumeFetchPartitions(a.only())
	}
}

// Rewind leaves the work to the goroutine that polls: there, between two polls, it is certain which records were read
// before.
func (a *assignment) Rewind(offset int64, then func()) {
	a.r.askRewind(rewind{a: a, offset: offset, then: then})
}

func (r *run) askRewind(w rewind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !w.a.closed {
		r.rewinds = append(r.rewinds, w)
		r.wake()
	}
}

// only is this partition, the way the client wants it.
func (a *assignment) only() map[string][]int32 {
	return map[string][]int32{a.Partition.Topic: {a.Partition.Index}}
}

// rewindAll does what Rewind was asked for. It is called between two polls.
func (r *run) rewindAll() {
	r.mu.Lock()
	todo := r.rewinds
	r.rewinds = nil
	r.mu.Unlock()

	var later []rewind
	for _, w := range todo {
		if !r.rewind(w) {
			later = append(later, w)
		}
	}
	if len(later) > 0 {
		r.mu.Lock()
		r.rewinds = append(later, r.rewinds...)
		r.mu.Unlock()
	}
}

// rewind reports whether there is nothing left to do.
func (r *run) rewind(w rewind) bool {
	p := w.a.Partition
	w.a.handing.Lock()
	defer w.a.handing.Unlock()
	if w.a.closed {
		return true
	}
	// Between Assign and the client's first fetch there is nothing to set yet, and SetOffsets would pass it over.
	if _, reading := r.cl.CommittedOffsets()[p.Topic][p.Index]; !reading {
		return false
	}
	// SetOffsets drops what the client has fetched and not yet returned.
	r.cl.SetOffsets(map[string]map[int32]kgo.EpochOffset{p.Topic: {p.Index: {Epoch: -1, Offset: w.offset}}})
	w.a.next = w.offset
	r.mu.Lock()
	if w.a.halted && !w.opens { // what it was halted for is over, or is met again
		w.a.halted = false
		r.cl.ResumeFetchPartitions(w.a.only())
	}
	r.mu.Unlock()
	if w.then != nil {
		w.then()
	}
	return true
}
