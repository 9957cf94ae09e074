package pawl

import (
	"cmp"
	"slices"
)

// stream is the records of one stream that wait in a lane whose order is OrderStream: a FIFO. It exists while it has work.
// One worker at a time has it: then busy is set, and what comes meanwhile waits.
type stream[Tx any] struct {
	name  string
	steps []*step[Tx]
	busy  bool
}

// sorter puts the records of a lane in the FIFOs of their streams. It is part of the lane, and guarded by its mutex.
type sorter[Tx any] struct {
	streams map[string]*stream[Tx]
	free    []*stream[Tx] // with records and not busy, the longest waiting first
	sorting bool          // a worker decodes: one at a time, so that order is kept
	waiting int           // records in streams
}

// put adds a step to its stream. What has no stream, or cannot be decoded, is in order with nothing else.
func (s *sorter[Tx]) put(st *step[Tx]) {
	name := st.Identity.Stream
	fifo := s.streams[name]
	if fifo == nil {
		fifo = &stream[Tx]{name: name}
		if name != "" {
			s.streams[name] = fifo
		}
	}
	st.stream = fifo
	fifo.steps = append(fifo.steps, st)
	s.waiting++
	if !fifo.busy && len(fifo.steps) == 1 {
		s.free = append(s.free, fifo)
	}
}

// putFirst adds a step to the head of its stream.
func (s *sorter[Tx]) putFirst(st *step[Tx]) {
	s.put(st)
	if fifo := st.stream; len(fifo.steps) > 1 {
		copy(fifo.steps[1:], fifo.steps)
		fifo.steps[0] = st
	}
}

// take gives out the next records for one of several workers: its share of the streams that are free, and of each of them
// as much as fits.
func (s *sorter[Tx]) take(workers, limit int) (streams []*stream[Tx], steps []*step[Tx]) {
	n := min((len(s.free)+workers-1)/workers, limit)
	streams = slices.Clone(s.free[:n])
	s.free = slices.Delete(s.free, 0, n)
	for _, fifo := range streams {
		k := min(len(fifo.steps), max(limit/n, 1))
		steps = append(steps, fifo.steps[:k]...)
		fifo.steps = slices.Delete(fifo.steps, 0, k)
		fifo.busy = true
	}
	s.waiting -= len(steps)
	slices.SortFunc(steps, func(a, b *step[Tx]) int { return cmp.Compare(a.Record.Offset, b.Record.Offset) })
	return streams, steps
}

// release gives streams back.
func (s *sorter[Tx]) release(streams []*stream[Tx]) {
	for _, fifo := range streams {
		fifo.busy = false
		if len(fifo.steps) > 0 {
			s.free = append(s.free, fifo)
		} else if s.streams[fifo.name] == fifo {
			delete(s.streams, fifo.name)
		}
	}
}
