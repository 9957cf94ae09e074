//go:build synctests

package storm

import (
	"context"
	"sync"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/kafka"
)

// source is the Kafka source, with a witness between it and the runner: what each owes the other is looked at.
type source struct {
	*kafka.Source
	m *member
}

// Run implements pawl.Source.
func (s *source) Run(ctx context.Context, topics []string, in pawl.Intake) error {
	return s.Source.Run(ctx, topics, &witness{Intake: in, m: s.m, next: map[pawl.Partition]int64{}})
}

// Commit implements pawl.Source. Whom the store has refused commits nothing more.
func (s *source) Commit(ctx context.Context, commits []pawl.Commit) error {
	for _, c := range commits {
		sig, ok := readSignature(c.Next, &c.Metadata)
		if p := c.Assignment.Partition; !ok {
			s.m.w.breach("%s: offset %d of %s is not signed: %q", s.m.name, c.Next, p, c.Metadata)
		} else if s.m.w.db.refusedBefore(signature{p, sig.epoch}) {
			s.m.w.breach("%s: owner %d of %s was refused by the store, and commits offset %d", s.m.name, sig.epoch, p, c.Next)
		}
	}
	if s.m.w.chance(commitBegunLate, 20) { // the process has other things to do
		time.Sleep(s.m.w.between(10*time.Millisecond, 5*time.Second))
	}
	return s.Source.Commit(ctx, commits)
}

// held is an assignment of a member, or the last one it had.
type held struct {
	partition pawl.Partition
	id        string // the member's, when it was made
	began     time.Time
	ended     time.Time
}

type witness struct {
	pawl.Intake
	m *member

	mu   sync.Mutex
	next map[pawl.Partition]int64 // of what is assigned
}

// Assign implements pawl.Intake.
func (w *witness) Assign(ctx context.Context, as []*pawl.Assignment) ([]int64, error) {
	w.m.mu.Lock()
	for _, a := range as {
		w.m.held[a.Partition.Index] = &held{partition: a.Partition, id: w.m.id, began: time.Now()}
		a.Flow = &flow{a.Flow, w, a.Partition} // now: it may be used before Assign returns
	}
	w.m.mu.Unlock()
	starts, err := w.Intake.Assign(ctx, as)
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, a := range as {
		if _, is := w.next[a.Partition]; is {
			w.m.w.breach("%s: %s is assigned twice", w.m.name, a.Partition)
		}
		w.next[a.Partition] = -1
		if err == nil {
			w.next[a.Partition] = starts[i]
		}
	}
	return starts, err
}

// Take implements pawl.Intake.
func (w *witness) Take(p pawl.Partition, records []pawl.Record) {
	w.mu.Lock()
	next, is := w.next[p]
	for _, r := range records {
		if !is || next < 0 || r.Offset < next {
			w.m.w.breach("%s: %s@%d is handed over, assigned %t, next %d", w.m.name, p, r.Offset, is, next)
		}
		next = r.Offset + 1
	}
	if is {
		w.next[p] = next
	}
	w.mu.Unlock()
	w.Intake.Take(p, records)
}

// Revoke implements pawl.Intake.
func (w *witness) Revoke(ctx context.Context, ps []pawl.Partition) {
	w.ends(ps)
	w.m.mu.Lock()
	for _, p := range ps {
		if h := w.m.held[p.Index]; h == nil || h.id != w.m.id {
			w.m.w.breach("%s: %s is given back in good order by %s, and was assigned to %+v", w.m.name, p, w.m.id, h)
		}
	}
	w.m.mu.Unlock()
	w.Intake.Revoke(ctx, ps)
	w.ended("given back", ps)
}

// Lose implements pawl.Intake.
func (w *witness) Lose(ps []pawl.Partition) {
	w.ends(ps)
	w.Intake.Lose(ps)
	w.ended("lost", ps)
}

func (w *witness) ends(ps []pawl.Partition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range ps {
		delete(w.next, p)
	}
}

// ended: work in flight for them is done or abandoned.
func (w *witness) ended(how string, ps []pawl.Partition) {
	w.m.mu.Lock()
	for _, p := range ps {
		if h := w.m.held[p.Index]; h != nil && h.partition == p {
			h.ended = time.Now()
		}
	}
	w.m.mu.Unlock()
	for _, p := range ps {
		if w.m.working(p) {
			w.m.w.breach("%s: %s was %s, and a transaction for it goes on", w.m.name, p, how)
		}
	}
}

// flow lets the witness know of rewinds.
type flow struct {
	pawl.Flow
	w *witness
	p pawl.Partition
}

// Rewind implements pawl.Flow. The border may be a while away: what was read before is handed over until then.
func (f *flow) Rewind(offset int64, then func()) {
	rewind := func() {
		f.Flow.Rewind(offset, func() {
			f.w.mu.Lock()
			f.w.next[f.p] = offset
			f.w.mu.Unlock()
			then()
		})
	}
	if f.w.m.w.chance(rewindLate, 1) { // rewinds are few
		time.AfterFunc(f.w.m.w.between(time.Millisecond, 3*time.Second), rewind)
		return
	}
	rewind()
}

// begin notes a transaction of this member.
func (m *member) begin(ctx context.Context, p pawl.Partition) (end func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.txns[p] == nil {
		m.txns[p] = map[*context.Context]context.Context{}
	}
	id := &ctx
	m.txns[p][id] = ctx
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.txns[p], id)
	}
}

// working reports whether a transaction for p is under way that nobody has cancelled.
func (m *member) working(p pawl.Partition) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, ctx := range m.txns[p] {
		if ctx.Err() == nil {
			return true
		}
	}
	return false
}
