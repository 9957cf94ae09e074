package pawl

import (
	"fmt"
	"sync"

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
func (p *progress) receive(offset int64, control bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.marks.Receive(offset) {
		return false
	}
	if control {
		p.marks.Settle(offset)
	}
	return !control
}

// after is the position that a transaction settling offsets, which ascend, may write.
func (p *progress) after(offsets []int64) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.marks.FrontierAfter(offsets)
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
