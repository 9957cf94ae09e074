// Package watermark tracks which received offsets of a partition are settled, and how far a position may go.
//
// The whole rule: the frontier is the smallest offset that was received and is not settled; where everything received is
// settled, it is the offset after the last one received. It never assumes that offsets are contiguous: transaction
// markers, aborted records, compaction and deletion leave holes, and a hole is never waited for.
package watermark

import "slices"

// Tracker is one partition's frontier. It is not safe for concurrent use.
type Tracker struct {
	received int64   // the next offset that would be new
	pending  []entry // received, from the first unsettled one on, ascending
}

type entry struct {
	offset  int64
	at      int64
	settled bool
}

// New starts at next: everything below it is settled.
func New(next int64) *Tracker { return &Tracker{received: next} }

// Receive notes an offset and reports whether it is new. One at or below what was received before is a copy: it changes
// nothing, whatever became of the first. When it is from, in any unit, is only kept for Oldest.
func (t *Tracker) Receive(offset, at int64) bool {
	if offset < t.received {
		return false
	}
	t.received = offset + 1
	t.pending = append(t.pending, entry{offset: offset, at: at})
	return true
}

// Settle marks an offset. Marking one that is not pending changes nothing.
func (t *Tracker) Settle(offset int64) {
	i, found := slices.BinarySearchFunc(t.pending, offset, func(e entry, o int64) int {
		switch {
		case e.offset < o:
			return -1
		case e.offset > o:
			return 1
		}
		return 0
	})
	if !found {
		return
	}
	t.pending[i].settled = true
	if i > 0 {
		return
	}
	n := 0
	for n < len(t.pending) && t.pending[n].settled {
		n++
	}
	t.pending = t.pending[n:] // append reclaims the room before it when it next grows
}

// Frontier is the position that may be written: every received offset below it is settled.
func (t *Tracker) Frontier() int64 {
	if len(t.pending) > 0 {
		return t.pending[0].offset
	}
	return t.received
}

// FrontierAfter is what Frontier would be if offsets, which ascend, were settled too.
func (t *Tracker) FrontierAfter(offsets []int64) int64 {
	for _, e := range t.pending {
		for len(offsets) > 0 && offsets[0] < e.offset {
			offsets = offsets[1:]
		}
		if !e.settled && (len(offsets) == 0 || offsets[0] != e.offset) {
			return e.offset
		}
	}
	return t.received
}

// Pending counts the offsets that are remembered: the received ones from the frontier on.
func (t *Tracker) Pending() int { return len(t.pending) }

// Received is the offset after the last one received.
func (t *Tracker) Received() int64 { return t.received }

// Oldest is when the first offset that is not settled is from; false: there is none.
func (t *Tracker) Oldest() (int64, bool) {
	if len(t.pending) == 0 {
		return 0, false
	}
	return t.pending[0].at, true
}

// Unsettled counts the received offsets that hold the frontier back, with those settled behind them.
func (t *Tracker) Unsettled() int {
	n := 0
	for _, e := range t.pending {
		if !e.settled {
			n++
		}
	}
	return n
}
