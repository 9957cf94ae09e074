package pawl

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A record that kills whoever tries it is found without a write in normal times. The store counts owners in a row that
// neither gave back nor moved the position, whatever they settled ahead of it; after some of them the next one is wary: it
// tries one record at a time, and notes each before. One that was noted, and whose owner did not live to take that back, has
// killed it. A process tries one such record at a time, over all partitions: else those beside the one that kills would be blamed
// with it.

// waryFrom is how many owners in a row must have died before records are tried one at a time.
const waryFrom = 2

// waryFor is for how many records to be wary: for as many as are under way at once. Where streams are tried side by side, what
// kills may be far ahead of a position that something else holds back: where that was not enough, also for what may have been
// settled ahead.
func (l *lane[Tx]) waryFor() int {
	if l.order == OrderPartition || l.owned.Crashes <= waryFrom+1 {
		return l.underWay()
	}
	return l.underWay() + int(min(max(l.owned.Ahead-l.owned.Next, 0), mostAhead))
}

// underWay is how many records may be in bundles at once.
func (l *lane[Tx]) underWay() int {
	if l.order == OrderPartition {
		return l.r.cfg.MaxBatch
	}
	return l.r.cfg.MaxBatch * l.r.cfg.Workers
}

// isWary reports whether records are tried one at a time, with a note before each.
func (l *lane[Tx]) isWary() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wary > 0
}

// attempt notes, before anything is tried, that the record at the head is about to be. One that as many owners have noted as
// Config.MaxDeaths allows is set aside instead. noted says that it is to be taken back by who survives.
func (b *bundle[Tx]) attempt(ctx context.Context) (noted bool, err error) {
	l, offset := b.l, b.records[0].Offset
	if b.keptAt(0) != nil {
		return false, nil // its position is settled
	}
	// Also where the lane is being taken away: who is told that it is noted takes it back. One that may be, for all that is known,
	// counts as this process's.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	mine := l.r.tried.add(l.row, offset)
	l.committing.Lock() // owned is this one's for as long
	before, err := l.bound.Attempt(ctx, l.owned, offset)
	l.committing.Unlock()
	if err != nil {
		return false, err
	}
	if before-mine >= l.r.cfg.MaxDeaths-waryFrom {
		for _, st := range b.at(0) {
			st.tries = before + waryFrom
			st.setAside(CauseCrash, errors.New("the process that tried this record alone died of it"))
			st.fixed = true
		}
		l.mu.Lock()
		l.wary = min(l.wary, l.underWay()) // it is found
		l.mu.Unlock()
		return false, nil
	}
	return true, nil
}

// survived takes back the note of a try that returned, also where the lane is being taken away: only who did not live to do
// so has died of the record. One that the position has passed means nothing any more.
func (l *lane[Tx]) survived(ctx context.Context, offset int64) {
	if offset < l.progress.position() {
		l.r.tried.forget(l.row, offset)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	if err := l.bound.Survive(ctx, l.owned, offset); err != nil {
		l.r.cfg.Logger.Warn("attempt not taken back: its record may be blamed for a death", "partition", l.assignment.Partition.String(),
			"offset", offset, "error", err)
		return // it counts as ours: this process lives
	}
	l.r.tried.takeBack(l.row, offset)
}

const noteTimeout = 5 * time.Second

// attempts counts the notes of this process that are not taken back: whichever lane they were made in.
type attempts struct {
	mu sync.Mutex
	of map[attempted]int
}

type attempted struct{ row, offset int64 }

// add returns how many there were before.
func (a *attempts) add(row, offset int64) (before int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of = map[attempted]int{}
	}
	at := attempted{row, offset}
	before = a.of[at]
	a.of[at]++
	return before
}

// takeBack follows one that was.
func (a *attempts) takeBack(row, offset int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := attempted{row, offset}
	if a.of[at]--; a.of[at] <= 0 {
		delete(a.of, at)
	}
}

func (a *attempts) forget(row, offset int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.of, attempted{row, offset})
}
