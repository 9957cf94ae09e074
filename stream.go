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

// putKept adds a kept record to its stream: before what is new, and behind the kept ones that are older.
func (s *sorter[Tx]) putKept(st *step[Tx]) {
	s.put(st)
	steps := st.stream.steps
	i := len(steps) - 1
	for ; i > 0 && (steps[i-1].Kept == nil || steps[i-1].Record.Offset > st.Record.Offset); i-- {
		steps[i] = steps[i-1]
	}
	steps[i] = st
}

// dropKept takes the steps of kept records out of the streams that they wait in.
func (s *sorter[Tx]) dropKept() (dropped []*step[Tx]) {
	for name, fifo := range s.streams {
		fifo.steps = slices.DeleteFunc(fifo.steps, func(st *step[Tx]) bool {
			if st.Kept != nil {
				dropped = append(dropped, st)
			}
			return st.Kept != nil
		})
		if len(fifo.steps) == 0 && !fifo.busy {
			delete(s.streams, name)
		}
	}
	s.free = slices.DeleteFunc(s.free, func(fifo *stream[Tx]) bool { return len(fifo.steps) == 0 })
	s.waiting -= len(dropped)
	return dropped
}

// take gives out records of streams that are free, the longest waiting first: at most n, of at most so many streams.
func (s *sorter[Tx]) take(n, most int) (streams []*stream[Tx], steps []*step[Tx]) {
	for _, fifo := range s.free[:min(most, len(s.free))] {
		k := min(len(fifo.steps), n-len(steps))
		if k == 0 {
			break
		}
		streams = append(streams, fifo)
		steps = append(steps, fifo.steps[:k]...)
		fifo.steps = slices.Delete(fifo.steps, 0, k)
		fifo.busy = true
	}
	s.free = slices.Delete(s.free, 0, len(streams))
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
