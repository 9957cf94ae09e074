package pawl

import (
	"fmt"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/watermark"
)

// sign writes the metadata of an offset commit: which store position it follows.
func sign(o stored) string {
	return fmt.Sprintf("pawl/1 next=%d epoch=%d seq=%d", o.next, o.epoch, o.seq)
}

// signed reads it. An offset that someone else has committed, or reset, has no such signature.
func signed(metadata string) (o stored, ok bool) {
	n, err := fmt.Sscanf(metadata, "pawl/1 next=%d epoch=%d seq=%d", &o.next, &o.epoch, &o.seq)
	return o, n == 3 && err == nil
}

// progress is how far one assignment has come: received, settled, committed. One object per assignment: a partition that
// comes back starts a new one, so that a late result of the old assignment changes nothing.
type progress struct {
	mu        sync.Mutex
	marks     *watermark.Tracker
	stored    stored // what an offset commit may claim to follow
	committed int64  // offset last stored with the source
	void      bool   // the store has refused this owner: nothing more is committed for it
}

// stored is an ownership as of its last commit.
type stored struct{ next, epoch, seq int64 }

func storedBy(o *Ownership) stored { return stored{o.Next, o.Epoch, o.Seq} }

func newProgress(o *Ownership) *progress {
	return &progress{marks: watermark.New(o.Next), stored: storedBy(o), committed: -1}
}

// receive notes a record and reports whether it is new.
func (p *progress) receive(r *Record) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.marks.Receive(r.Offset, r.Timestamp.UnixMilli()) {
		return false
	}
	if r.Control {
		p.marks.Settle(r.Offset)
	}
	return !r.Control
}

// after is the position that a transaction settling offsets, which ascend, may write, and how far was received by now.
func (p *progress) after(offsets []int64) (next, received int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.marks.FrontierAfter(offsets), p.marks.Received()
}

// settle follows a commit to the store.
func (p *progress) settle(offsets []int64, o *Ownership) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, off := range offsets {
		p.marks.Settle(off)
	}
	p.stored = storedBy(o)
}

// position is where the store is.
func (p *progress) position() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stored.next
}

// unmoved is what a transaction that settles nothing may write.
func (p *progress) unmoved() (next, received int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stored.next, p.marks.Received()
}

// ahead counts what is remembered beyond the frontier.
func (p *progress) ahead() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.marks.Pending()
}

// due returns the offset to commit to the source and the signature that says what it follows; ok is false if there is
// nothing new. The offset may be ahead of the stored position by records that carry no data, never by anything else.
func (p *progress) due() (next int64, metadata string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next = p.marks.Frontier()
	if p.void {
		return 0, "", false
	}
	return next, sign(p.stored), next > p.committed
}

// commit follows an offset commit to the source.
func (p *progress) commit(next int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.committed = max(p.committed, next)
}

// end is for an owner that the store has refused: what it has settled may be gone from the store, and must not be committed.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.void = true
}

// LiveProgress is how far this member is with a partition that it has.
type LiveProgress struct {
	Partition Partition
	Received  int64     // the offset after the last one received
	Next      int64     // the store's position: every offset below it is settled
	Committed int64     // the offset stored with the source; -1: none by this member
	End       int64     // of the readable log, when it was last looked at
	Buffered  int       // bytes of records that are not settled
	Unsettled int       // records received and not settled
	Oldest    time.Time // the timestamp of the first of them; zero: there is none
	Halted    bool
	Owned     bool // false: halted before it was owned; where it is, is not known
}

// Lag is how many offsets are not settled. Not all of them need be records.
func (p *LiveProgress) Lag() int64 { return max(p.End-p.Next, 0) }

// Progress lists the partitions that this member has at the moment, in no order. It is for metrics and health checks.
func (r *Runner[Tx]) Progress() []LiveProgress {
	r.mu.Lock()
	all := make([]LiveProgress, 0, len(r.seats))
	lanes := make([]*lane[Tx], 0, len(r.seats))
	for _, s := range r.seats {
		lanes = append(lanes, s.lane)
		all = append(all, LiveProgress{Partition: s.assignment.Partition, Committed: -1, End: s.end, Halted: s.halted})
	}
	r.mu.Unlock()
	for i, l := range lanes {
		if l == nil {
			continue
		}
		p := &all[i]
		p.Owned = true
		l.mu.Lock()
		p.Buffered = l.bytes
		l.mu.Unlock()
		l.progress.read(p)
	}
	return all
}

func (p *progress) read(to *LiveProgress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	to.Received, to.Next, to.Committed = p.marks.Received(), p.stored.next, p.committed
	to.Next = max(to.Next, p.marks.Frontier()) // what carries no data is behind us too
	to.End = max(to.End, to.Received)
	to.Unsettled = p.marks.Unsettled()
	if at, ok := p.marks.Oldest(); ok {
		to.Oldest = storableTime(time.UnixMilli(at))
	}
}
