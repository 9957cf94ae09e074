package test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/fault"
	"github.com/pawlhq/pawl/pawltest"
)

// group is a log that grows while it is read, and the members that share its partitions. Who has which partition is for the
// test to say.
type group struct {
	name string

	mu    sync.Mutex
	parts []*part
}

// part is a partition of it.
type part struct {
	partition pawl.Partition
	records   []pawl.Record
	committed pawl.Commit
	reader    *assigned // nil: nobody has it
}

func newGroup(name string, partitions int) *group {
	g := &group{name: name}
	for i := range partitions {
		g.parts = append(g.parts, &part{
			partition: pawl.Partition{Topic: pawltest.Topic, TopicID: pawl.TopicID{7}, Index: int32(i)}, committed: pawl.Commit{Next: -1},
		})
	}
	return g
}

// add appends records, and hands them to who has the partition.
func (g *group) add(p int, values ...[]byte) {
	g.mu.Lock()
	at := g.parts[p]
	for _, v := range values {
		at.records = append(at.records, pawl.Record{
			Partition: at.partition, Offset: int64(len(at.records)), Timestamp: storyTime, Value: v,
		})
	}
	r := at.reader
	g.mu.Unlock()
	if r != nil {
		r.deliver()
	}
}

// end is the offset behind the last record of a partition.
func (g *group) end(p int) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return int64(len(g.parts[p].records))
}

func (g *group) from(p int, offset int64) []pawl.Record {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.parts[p].records[min(offset, int64(len(g.parts[p].records))):])
}

func (g *group) setReader(p int, r *assigned) (before *assigned) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before, g.parts[p].reader = g.parts[p].reader, r
	return before
}

func (g *group) owner(p int) *member {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.parts[p].reader; r != nil {
		return r.member
	}
	return nil
}

// assigned is one assignment of a partition to a member.
type assigned struct {
	g      *group
	p      int
	member *member

	mu      sync.Mutex
	next    int64
	reading bool // not halted
	ended   bool
}

func (r *assigned) deliver() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deliverLocked()
}

func (r *assigned) deliverLocked() {
	if r.ended || !r.reading {
		return
	}
	if more := r.g.from(r.p, r.next); len(more) > 0 {
		r.next += int64(len(more))
		r.member.in.Take(r.g.parts[r.p].partition, more)
	}
}

func (r *assigned) readFrom(offset int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next, r.reading = offset, true
	r.deliverLocked()
}

func (r *assigned) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
}

// Pause does nothing: everything is handed over at once.
func (r *assigned) Pause() {}

// Resume does nothing either.
func (r *assigned) Resume() {}

// Rewind is part of pawl.Flow.
func (r *assigned) Rewind(offset int64, then func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	then()
	r.next, r.reading = offset, true
	r.deliverLocked()
}

// member is a pawl.Source: one life of one process.
type member struct {
	g      *group
	joined chan struct{}
	broke  chan error

	mu   sync.Mutex // held while its assignments change
	in   pawl.Intake
	ctx  context.Context
	over bool
}

func (g *group) member() *member {
	return &member{g: g, joined: make(chan struct{}), broke: make(chan error, 1)}
}

// Origin is part of pawl.Source.
func (m *member) Origin(context.Context) (pawl.Origin, error) {
	return pawl.Origin{Cluster: "c", Group: m.g.name}, nil
}

// Run is part of pawl.Source.
func (m *member) Run(ctx context.Context, _ []string, in pawl.Intake) error {
	m.mu.Lock()
	m.in, m.ctx = in, ctx
	m.mu.Unlock()
	close(m.joined)
	var err error
	select {
	case <-ctx.Done():
		err = ctx.Err()
	case err = <-m.broke:
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over = true
	var had []pawl.Partition
	var readers []*assigned
	m.g.mu.Lock()
	for _, p := range m.g.parts {
		if p.reader != nil && p.reader.member == m {
			had, readers = append(had, p.partition), append(readers, p.reader)
		}
	}
	m.g.mu.Unlock()
	in.Revoke(ctx, had)
	for _, r := range readers {
		r.end()
		m.g.mu.Lock()
		if m.g.parts[r.p].reader == r {
			m.g.parts[r.p].reader = nil
		}
		m.g.mu.Unlock()
	}
	return err
}

// Commit is part of pawl.Source. What was given to another is dropped.
func (m *member) Commit(_ context.Context, commits []pawl.Commit) error {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	for _, c := range commits {
		if at := m.g.parts[c.Assignment.Partition.Index]; at.reader == c.Assignment.Flow.(*assigned) {
			at.committed = c
		}
	}
	return nil
}

// take assigns a partition, whoever has it, and reports whether the member lives.
func (m *member) take(p int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		return false
	}
	r := &assigned{g: m.g, p: p, member: m}
	m.g.mu.Lock()
	at := m.g.parts[p]
	a := &pawl.Assignment{
		Partition: at.partition, End: int64(len(at.records)), Committed: at.committed.Next, Metadata: at.committed.Metadata, Flow: r,
	}
	m.g.mu.Unlock()
	starts, err := m.in.Assign(m.ctx, []*pawl.Assignment{a})
	if err != nil {
		m.in.Lose([]pawl.Partition{a.Partition})
		select {
		case m.broke <- err:
		default:
		}
		return false
	}
	if before := m.g.setReader(p, r); before != nil && before.member != m {
		defer before.member.lose(before)
	}
	if starts[0] != pawl.Halted {
		r.readFrom(starts[0])
	}
	return true
}

// giveBack ends an assignment in good order.
func (m *member) giveBack(p int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.g.mu.Lock()
	r := m.g.parts[p].reader
	m.g.mu.Unlock()
	if m.over || r == nil || r.member != m {
		return
	}
	m.in.Revoke(m.ctx, []pawl.Partition{m.g.parts[p].partition})
	r.end()
	m.g.setReader(p, nil)
}

// lose ends an assignment that is another's already.
func (m *member) lose(r *assigned) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.end()
	if !m.over {
		m.in.Lose([]pawl.Partition{m.g.parts[r.p].partition})
	}
}

// bomb is an injector that can be armed while the program runs.
type bomb struct {
	mu   sync.Mutex
	left int // windows until it goes off; 0: never
	dead bool
}

func (b *bomb) inject(fault.Point) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left > 0 {
		b.left--
		b.dead = b.left == 0
	}
	if b.dead {
		return fault.ErrCrash
	}
	return nil
}

func (b *bomb) isDead() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dead
}

func (b *bomb) arm(windows int) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = windows
}

// life is a process: a runner on a member of the group.
type life struct {
	*member
	bomb   *bomb
	ended  chan struct{}
	err    error // once ended
	cancel context.CancelFunc
}

// live starts run as a process with a source of its own. Without a bomb it meets no windows, and works as in production.
func (g *group) live(t testing.TB, b *bomb, run func(ctx context.Context, source pawl.Source) error) *life {
	ctx, cancel := context.WithCancel(t.Context())
	l := &life{member: g.member(), bomb: b, ended: make(chan struct{}), cancel: cancel}
	if b != nil {
		ctx = fault.With(ctx, b.inject)
	}
	go func() {
		defer close(l.ended)
		l.err = run(ctx, l.member)
	}()
	select {
	case <-l.joined:
	case <-l.ended:
		t.Fatalf("a member did not start: %v", l.err)
	}
	return l
}

func (l *life) isOver() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

func (l *life) stop() error {
	l.cancel()
	<-l.ended
	return l.err
}

// leave ends the process in good order, unless it has crashed, or does so meanwhile.
func (l *life) leave(t testing.TB) {
	t.Helper()
	if l.isOver() {
		return
	}
	if err := l.stop(); err != nil && !errors.Is(err, fault.ErrCrash) {
		t.Fatalf("stop: %v", err)
	}
}
