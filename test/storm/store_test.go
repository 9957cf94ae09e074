//go:build synctests

package storm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawlhq/pawl"
)

// database is what all members write to. It keeps the contract of pawl.BoundStore: storetest says it for databases that
// speak SQL, and this one does not.
type database struct {
	w *world

	mu         sync.Mutex // held only for moments: what waits for time waits for a row's lock
	commits    int
	claims     map[scoped]claim
	settled    map[place]settlement
	doubtful   map[place]int64     // settled by this owner, which never learned of it
	effects    map[string][]string // content, by key
	rows       map[pawl.Partition]*row
	advances   []advance
	acquired   map[signature]given     // which member an epoch was given to
	refused    map[signature]time.Time // when its owner was told that it is one no longer
	conditions map[state]*condition
	halts      map[pawl.State]int // conditions that were ever raised
	broken     []string           // what must not happen, and did
}

// signature is an owner, the way commits to the group name it.
type signature struct {
	partition pawl.Partition
	epoch     int64
}

type given struct {
	to string
	at time.Time
}

// state is what a condition is of.
type state struct {
	partition pawl.Partition
	state     pawl.State
}

type condition struct {
	pawl.Condition
	answer *pawl.Resolution
}

// advance is a move of the position by a commit: whatever the log has in between was settled by then.
type advance struct {
	partition pawl.Partition
	from, to  int64
	commit    int
}

type scoped struct {
	route string
	key   pawl.KeyID
}

// place is a position; the storm has one topic, or one after the other under the same name.
type place struct {
	topic     pawl.TopicID
	partition int32
	offset    int64
}

type claim struct {
	at          place
	outcome     pawl.Outcome
	fingerprint pawl.Fingerprint
}

// settlement is the row, of either table, that says what became of a record.
type settlement struct {
	key     string
	outcome pawl.Outcome
	cause   string
	epoch   int64
	commit  int // the how manieth
}

// row is the progress of a partition.
type row struct {
	lock             chan struct{} // holds one token; taken from before the fence is looked at until the commit is over
	id               int64
	epoch, seq, next int64
	from             int64            // where the owner began: what is settled beyond it is met again
	last             map[string]int64 // the offset settled last, by what is kept in order
	lastEpoch        int64            // of the last commit
	movedEpoch       int64            // of who has last moved it, as an operator had decided
}

func newDatabase(w *world) *database {
	return &database{
		w: w, claims: map[scoped]claim{}, settled: map[place]settlement{}, doubtful: map[place]int64{}, effects: map[string][]string{},
		rows: map[pawl.Partition]*row{}, acquired: map[signature]given{}, refused: map[signature]time.Time{},
		conditions: map[state]*condition{}, halts: map[pawl.State]int{},
	}
}

func (db *database) breach(format string, args ...any) {
	if s := fmt.Sprintf(format, args...); len(db.broken) < 20 {
		db.broken = append(db.broken, s)
	}
}

// position is how far a partition is settled; -1 if it has never been acquired.
func (db *database) position(index int32) int64 {
	id := db.w.topicID()
	db.mu.Lock()
	defer db.mu.Unlock()
	if r := db.rows[pawl.Partition{Topic: topic, TopicID: id, Index: index}]; r != nil {
		return r.next
	}
	return -1
}

// epoch is the owner of a partition.
func (db *database) epoch(index int32) int64 {
	id := db.w.topicID()
	db.mu.Lock()
	defer db.mu.Unlock()
	if r := db.rows[pawl.Partition{Topic: topic, TopicID: id, Index: index}]; r != nil {
		return r.epoch
	}
	return 0
}

// store is the database as one member reaches it.
type store struct {
	*database
	m *member
}

// Open implements pawl.Store.
func (s *store) Open(ctx context.Context, b pawl.Binding) (pawl.BoundStore[*tx], error) {
	if b.Group != group || b.Cluster != cluster {
		return nil, fmt.Errorf("bound to group %q of cluster %q", b.Group, b.Cluster)
	}
	return &bound{s, b}, ctx.Err()
}

// Admin implements pawl.Store. The storm's operator has other ways.
func (s *store) Admin() pawl.Admin { return unaudited{} }

type unaudited struct{ pawl.Admin }

func (unaudited) SealAudit(context.Context, string, time.Time) (*pawl.AuditSeal, error) {
	return &pawl.AuditSeal{}, nil
}

type bound struct {
	*store
	pawl.Binding
}

var errLink = errors.New("the connection to the database is gone")

// Classify implements pawl.BoundStore.
func (s *bound) Classify(err error) pawl.Class {
	if e := (*pawl.Error)(nil); errors.As(err, &e) {
		return e.Class
	}
	if errors.Is(err, errLink) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return pawl.Transient
	}
	return pawl.Unknown
}

// take waits for the lock of a row.
func (r *row) take(ctx context.Context) error {
	select {
	case <-r.lock:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *row) give() { r.lock <- struct{}{} }

func (db *database) row(p pawl.Partition) *row {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.rows[p]
}

// Acquire implements pawl.BoundStore.
func (s *bound) Acquire(ctx context.Context, p pawl.Partition, start int64) (*pawl.Ownership, error) {
	if err := s.m.reach(ctx); err != nil {
		return nil, err
	}
	if s.w.chance(storeTransient, 20) {
		return nil, errLink
	}
	r := s.row(p)
	if r == nil {
		if start == pawl.NoStart {
			return nil, s.noPosition(p)
		}
		s.mu.Lock()
		if r = s.rows[p]; r == nil {
			r = &row{lock: make(chan struct{}, 1), id: int64(len(s.rows) + 1), next: start, last: map[string]int64{}}
			r.give()
			s.rows[p] = r
		}
		s.mu.Unlock()
	}
	if err := r.take(ctx); err != nil {
		return nil, err
	}
	defer r.give()
	s.mu.Lock()
	defer s.mu.Unlock()
	r.epoch++
	r.from = r.next
	s.acquired[signature{p, r.epoch}] = given{s.m.name, time.Now()}
	return &pawl.Ownership{Partition: p, Row: r.id, Epoch: r.epoch, Seq: r.seq, Next: r.next}, nil
}

func (s *bound) noPosition(p pawl.Partition) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other := range s.rows {
		if other.Topic == p.Topic && other.Index == p.Index {
			return pawl.ErrOtherTopic
		}
	}
	return pawl.ErrNoPosition
}

// Move implements pawl.BoundStore. Only an operator's answer moves a position.
func (s *bound) Move(ctx context.Context, o *pawl.Ownership, next int64) error {
	if err := s.m.reach(ctx); err != nil {
		return err
	}
	r := s.row(o.Partition)
	if err := r.take(ctx); err != nil {
		return err
	}
	defer r.give()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := r.owned(o); err != nil {
		return s.refuse(o, err)
	}
	asked := false
	for at, c := range s.conditions {
		asked = asked || at.partition == o.Partition && c.answer != nil && c.answer.To == next
	}
	if !asked {
		s.breach("%s was moved from %d to %d", o.Partition, r.next, next)
	}
	s.w.logf("%s: %s moves from %d to %d", s.m.name, o.Partition, r.next, next)
	r.seq++
	r.next, r.from, r.movedEpoch, o.Next, o.Seq = next, next, o.Epoch, next, r.seq
	return nil
}

// refuse notes that an owner has been told that it is one no longer.
func (s *bound) refuse(o *pawl.Ownership, err error) error {
	if at := (signature{o.Partition, o.Epoch}); errors.Is(err, pawl.ErrFenced) && s.refused[at].IsZero() {
		s.refused[at] = time.Now()
	}
	return err
}

// Release implements pawl.BoundStore. There is nothing to give back: who comes next raises the epoch.
func (s *bound) Release(ctx context.Context, _ *pawl.Ownership) error { return s.m.reach(ctx) }

// owned is the fence.
func (r *row) owned(o *pawl.Ownership) error {
	switch {
	case r.epoch > o.Epoch:
		return pawl.ErrFenced
	case r.epoch < o.Epoch, r.seq < o.Seq:
		return pawl.ErrStoreWentBack
	}
	return nil
}

// Apply implements pawl.BoundStore.
func (s *bound) Apply(ctx context.Context, o *pawl.Ownership, w *pawl.Work[*tx]) error {
	defer s.m.begin(ctx, o.Partition)()
	if err := s.m.reach(ctx); err != nil {
		return err
	}
	if s.w.chance(storeTransient, 20) {
		return errLink
	}
	s.look(o, w.Decisions)
	t := &tx{}
	if err := w.Run(ctx, t); err != nil {
		return err
	}
	return w.Commit(func() error { return s.finish(ctx, o, w, t) })
}

// finish is the end of a transaction, from when it is its turn.
func (s *bound) finish(ctx context.Context, o *pawl.Ownership, w *pawl.Work[*tx], t *tx) error {
	// A process that is stopped here sends its commit when it goes on, however long that was ago.
	s.m.link.wait(context.Background())
	if err := s.m.reach(ctx); err != nil && !s.w.chance(lateApply, 2) {
		return err
	}
	r := s.row(o.Partition)
	if err := r.take(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	locked := true
	give := func() {
		if locked {
			r.give()
			locked = false
		}
	}
	defer give()
	if d := s.w.slow(); d > 0 { // the commit is with the database: nobody cancels it any more
		time.Sleep(d)
	}
	if s.w.chance(commitNotApplied, 40) {
		return errLink // resolved: it did not happen
	}
	seq, err := s.commit(r, o, w, t)
	if err != nil {
		return err
	}
	switch {
	case s.w.chance(commitUnresolved, 60): // it happened, and the caller does not find out
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, d := range w.Decisions {
			s.doubtful[place{o.Partition.TopicID, o.Partition.Index, d.Record.Offset}] = o.Epoch
		}
		return errLink
	case s.w.chance(commitAnswerLost, 30):
		give()
		time.Sleep(s.w.between(10*time.Millisecond, 3*time.Second))
		if err := r.take(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		locked = true
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.epoch > o.Epoch {
			return s.refuse(o, fmt.Errorf("%w, after a commit whose answer was lost", pawl.ErrFenced))
		}
	}
	o.Seq, o.Next = seq, max(o.Next, w.Next)
	return nil
}

func (s *bound) look(o *pawl.Ownership, ds []*pawl.Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range ds {
		d.Prior = nil
		if c, ok := s.claims[s.scope(d)]; ok && d.Identity.Key != "" {
			d.Prior = &pawl.Prior{
				Outcome: c.outcome, Fingerprint: c.fingerprint, SamePosition: c.at == place{o.Partition.TopicID, o.Partition.Index, d.Record.Offset},
			}
		}
	}
}

func (s *bound) scope(d *pawl.Decision) scoped { return scoped{s.Routes[d.Route].Name, d.KeyID} }

// commit is all or nothing.
func (s *bound) commit(r *row, o *pawl.Ownership, w *pawl.Work[*tx], t *tx) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := r.owned(o); err != nil {
		if errors.Is(err, pawl.ErrFenced) {
			s.w.count(sawFenced)
		}
		return 0, s.refuse(o, err)
	}
	for _, d := range w.Decisions {
		if _, taken := s.claims[s.scope(d)]; taken && d.Outcome.Claims() {
			s.w.count(sawRaced)
			return 0, pawl.ErrRaced
		}
	}

	if r.lastEpoch > o.Epoch {
		s.breach("%s: owner %d committed after owner %d", o.Partition, o.Epoch, r.lastEpoch)
	}
	r.lastEpoch = o.Epoch
	s.commits++
	left := slices.Clone(t.effects)
	for _, d := range w.Decisions {
		at := place{o.Partition.TopicID, o.Partition.Index, d.Record.Offset}
		if d.Outcome == 0 {
			s.breach("%v: no outcome", at)
		}
		if d.Outcome == pawl.Applied {
			if len(left) == 0 || left[0].key != d.Identity.Key {
				s.breach("%v: applied, and the effects that are left are %v", at, left)
				continue
			}
			s.effects[left[0].key] = append(s.effects[left[0].key], left[0].content)
			left = left[1:]
		}
		if d.Repeat {
			continue
		}
		if old, twice := s.settled[at]; twice {
			// By the owner that does not know, or by one that found the position before it.
			again := s.doubtful[at] == o.Epoch || old.epoch < o.Epoch && d.Record.Offset >= r.from
			if !again || d.Outcome.Claims() || old.outcome.Claims() {
				s.breach("%v: %s by owner %d, and it was %s by owner %d", at, d.Outcome, o.Epoch, old.outcome, old.epoch)
			}
			continue // by position: the same again writes nothing
		}
		if fifo, ordered := s.w.inOrderWith(d.Identity.Stream); ordered {
			if last, is := r.last[fifo]; is && d.Record.Offset < last {
				s.breach("%v (stream %q): settled after %d", at, fifo, last)
			}
			r.last[fifo] = d.Record.Offset
		}
		s.settled[at] = settlement{d.Identity.Key, d.Outcome, d.Cause, o.Epoch, s.commits}
		if d.Outcome.Claims() {
			s.claims[s.scope(d)] = claim{at, d.Outcome, d.Fingerprint}
		}
	}
	if len(left) > 0 {
		s.breach("%s: effects without a decision: %v", o.Partition, left)
	}
	r.seq++
	if w.Next > r.next {
		s.advances = append(s.advances, advance{o.Partition, r.next, w.Next, s.commits})
		r.next = w.Next
	}
	return r.seq, nil
}

// Raise implements pawl.BoundStore. Nothing may be halted but what the storm has wounded.
func (s *bound) Raise(ctx context.Context, c pawl.Condition) (*pawl.Resolution, error) {
	if err := s.m.reach(ctx); err != nil {
		return nil, err
	}
	if s.w.chance(storeTransient, 20) {
		return nil, errLink
	}
	expected := s.w.expects(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	at := state{c.Partition, c.State}
	if s.conditions[at] == nil {
		s.w.logf("%s raises %s of %s: %s", s.m.name, c.State, c.Partition, c.Reason)
		s.conditions[at] = &condition{Condition: c}
		s.halts[c.State]++
	}
	if !expected {
		s.breach("%s: %s is in state %s: %s", s.m.name, c.Partition, c.State, c.Reason)
	}
	if c.Reason == "" || c.Hint == "" || c.Since.IsZero() {
		s.breach("%s: a condition that does not say what happened, what to do, and since when: %+v", s.m.name, c)
	}
	return s.conditions[at].answer, nil
}

// Standing implements pawl.BoundStore.
func (s *bound) Standing(ctx context.Context, p pawl.Partition) ([]pawl.Condition, error) {
	if err := s.m.reach(ctx); err != nil {
		return nil, err
	}
	if s.w.chance(storeTransient, 20) {
		return nil, errLink
	}
	return s.standing(p), nil
}

func (db *database) standing(p pawl.Partition) (all []pawl.Condition) {
	db.mu.Lock()
	defer db.mu.Unlock()
	for at, c := range db.conditions {
		if at.partition == p {
			all = append(all, c.Condition)
		}
	}
	return all
}

// Clear implements pawl.BoundStore.
func (s *bound) Clear(ctx context.Context, p pawl.Partition, states ...pawl.State) error {
	if err := s.m.reach(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range states {
		if s.conditions[state{p, of}] != nil {
			s.w.logf("%s clears %s of %s", s.m.name, of, p)
		}
		delete(s.conditions, state{p, of})
	}
	return nil
}

func (db *database) unanswered(at state) bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.conditions[at] != nil && db.conditions[at].answer == nil
}

// answer is what an operator decides. It reports whether there was something to answer.
func (db *database) answer(p pawl.Partition, of pawl.State, to int64) bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	c := db.conditions[state{p, of}]
	if c != nil {
		c.answer = &pawl.Resolution{To: to, By: "storm", Why: "it is the answer", At: time.Now()}
	}
	return c != nil
}

// tx is a handler's transaction, and its session: effects wait in it for the commit.
type tx struct {
	effects    []effect
	mark       int
	statements int
}

type effect struct{ key, content string }

func (t *tx) write(key, content string) {
	t.statements++
	t.effects = append(t.effects, effect{key, content})
}

func (t *tx) Rows() pawl.Rows            { return nil }
func (t *tx) Tx() *tx                    { return t }
func (t *tx) Statements() int            { return t.statements }
func (t *tx) Mark(context.Context) error { t.mark = len(t.effects); return nil }
func (t *tx) Undo(context.Context) error { t.effects = t.effects[:t.mark]; return nil }

func (t *tx) Rest(_ context.Context, _ error) error { return nil }
func (t *tx) Check(context.Context) error           { return nil }

// Orders is part of pawl.BoundStore: nobody wants anything here.
func (b *bound) Orders(context.Context, []int64, time.Time, int) (*pawl.Orders, error) {
	return &pawl.Orders{}, nil
}

// Attempt is part of pawl.BoundStore. Members of a storm are killed from outside, never by a record.
func (b *bound) Attempt(context.Context, *pawl.Ownership, int64) (int, error) { return 0, nil }

// Survive is part of pawl.BoundStore.
func (b *bound) Survive(context.Context, *pawl.Ownership, int64) error { return nil }
