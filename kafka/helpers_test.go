package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/kafkatest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	topic   = "payments" // where the test has no broker, or one of its own
	group   = "billing"
	timeout = 30 * time.Second // of a wait that should take far less
)

// broker is a Kafka, with a topic and a group for one test.
type broker struct {
	addrs        []string
	topic, group string
	balance      Balance
}

// each runs body on an embedded broker and on the real one.
func each(t *testing.T, partitions int, body func(t *testing.T, b *broker)) {
	t.Helper()
	kafkatest.Each(t, func(t *testing.T, addrs []string) {
		body(t, &broker{addrs: addrs, topic: kafkatest.Topic(t, addrs, partitions), group: kafkatest.Group(t)})
	})
}

// real reports whether the test is on the real broker, where the two differ.
func (b *broker) real(t *testing.T) bool {
	return strings.HasSuffix(t.Name(), "/real")
}

// eachBalance runs body as each does, with every way to balance.
func eachBalance(t *testing.T, partitions int, body func(t *testing.T, b *broker)) {
	t.Helper()
	t.Parallel()
	for balance, name := range []string{Cooperative: "cooperative", Eager: "eager", BrokerSide: "broker-side"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, partitions, func(t *testing.T, b *broker) {
				b.balance = Balance(balance)
				body(t, b)
			})
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (b *broker) client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	return kafkatest.Client(t, b.addrs, opts...)
}

// produce writes n records to a partition, each with its number among them as the value.
func (b *broker) produce(t *testing.T, cl *kgo.Client, partition int32, n int) {
	t.Helper()
	kafkatest.Produce(t, cl, b.topic, partition, n)
}

// committed is what the group has stored for a partition.
func (b *broker) committed(t *testing.T, cl *kgo.Client, partition int32) (offset int64, metadata string) {
	t.Helper()
	all, err := kadm.NewClient(cl).FetchOffsets(t.Context(), b.group)
	check(t, err)
	o, ok := all.Lookup(b.topic, partition)
	if !ok {
		return -1, ""
	}
	return o.At, o.Metadata
}

// members are those of the group, as the broker sees it: instance ids where there are any.
func (b *broker) members(t *testing.T, cl *kgo.Client) []string {
	t.Helper()
	var found []string
	add := func(id string, instance *string) {
		if instance != nil {
			id = *instance
		}
		found = append(found, id)
	}
	if b.balance == BrokerSide {
		groups, err := kadm.NewClient(cl).DescribeConsumerGroups(t.Context(), b.group)
		check(t, err)
		check(t, groups[b.group].Err)
		for _, m := range groups[b.group].Members {
			add(m.MemberID, m.InstanceID)
		}
	} else {
		groups, err := kadm.NewClient(cl).DescribeGroups(t.Context(), b.group)
		check(t, err)
		check(t, groups[b.group].Err)
		for _, m := range groups[b.group].Members {
			add(m.MemberID, m.InstanceID)
		}
	}
	slices.Sort(found)
	return found
}

// positions is a store of next offsets. Members may share one, and then also hear of each other's changes.
type positions struct {
	mu      sync.Mutex
	next    map[int32]int64
	changed chan struct{} // closed and replaced at each change
}

func newPositions() *positions {
	return &positions{next: make(map[int32]int64), changed: make(chan struct{})}
}

func (s *positions) change() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// intake is a pawl.Intake that notes what it is told. Records count as settled when they are taken.
type intake struct {
	store *positions
	src   *Source // if set, Revoke commits to it

	onAssign func(ctx context.Context, as []*pawl.Assignment) error
	onTake   func(a *pawl.Assignment, records []pawl.Record)
	onRevoke func(ctx context.Context)

	mu      sync.Mutex
	live    map[int32]*pawl.Assignment
	refused map[int32]bool // Assign returned an error
	taken   map[int32][]pawl.Record
	revoked []int32
	lost    []int32
	errs    []error

	conditions []pawl.Condition // raised and not cleared
}

func newIntake() *intake {
	return &intake{
		store: newPositions(), live: make(map[int32]*pawl.Assignment), refused: make(map[int32]bool),
		taken: make(map[int32][]pawl.Record),
	}
}

func (in *intake) Assign(ctx context.Context, as []*pawl.Assignment) ([]int64, error) {
	if in.onAssign != nil {
		if err := in.onAssign(ctx, as); err != nil {
			in.mu.Lock()
			defer in.mu.Unlock()
			for _, a := range as {
				in.refused[a.Partition.Index] = true
			}
			return nil, err
		}
	}
	defer in.store.change()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.store.mu.Lock()
	defer in.store.mu.Unlock()
	starts := make([]int64, len(as))
	for i, a := range as {
		p := a.Partition.Index
		if in.live[p] != nil {
			in.errs = append(in.errs, fmt.Errorf("partition %d assigned twice", p))
		}
		in.live[p] = a
		starts[i] = in.store.next[p]
	}
	return starts, nil
}

func (in *intake) Take(p pawl.Partition, records []pawl.Record) {
	in.mu.Lock()
	a := in.live[p.Index]
	if a == nil {
		in.errs = append(in.errs, fmt.Errorf("records of partition %d, which is not assigned", p.Index))
	}
	in.taken[p.Index] = append(in.taken[p.Index], records...)
	in.store.mu.Lock()
	in.store.next[p.Index] = records[len(records)-1].Offset + 1
	in.store.mu.Unlock()
	in.mu.Unlock()
	if in.onTake != nil {
		in.onTake(a, records)
	}
	in.store.change()
}

func (in *intake) Revoke(ctx context.Context, ps []pawl.Partition) {
	if in.onRevoke != nil {
		in.onRevoke(ctx)
	}
	if in.src != nil {
		if err := in.src.Commit(ctx, in.commits(ps)); err != nil {
			in.mu.Lock()
			in.errs = append(in.errs, err)
			in.mu.Unlock()
		}
	}
	in.finish(ps, &in.revoked)
}

func (in *intake) Lose(ps []pawl.Partition) { in.finish(ps, &in.lost) }

func (in *intake) Seen(pawl.Partition, int64) {}

func (in *intake) Raise(c pawl.Condition) {
	defer in.store.change()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.conditions = append(in.conditions, c)
}

func (in *intake) Clear(p pawl.Partition, state pawl.State) {
	defer in.store.change()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.conditions = slices.DeleteFunc(in.conditions, func(c pawl.Condition) bool { return c.Partition == p && c.State == state })
}

func (in *intake) finish(ps []pawl.Partition, list *[]int32) {
	defer in.store.change()
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, p := range ps {
		if in.refused[p.Index] { // a failed Assign is followed by Lose, once
			delete(in.refused, p.Index)
			continue
		}
		if in.live[p.Index] == nil {
			in.errs = append(in.errs, fmt.Errorf("partition %d ended without being assigned", p.Index))
		}
		delete(in.live, p.Index)
		*list = append(*list, p.Index)
	}
}

func (in *intake) commits(ps []pawl.Partition) []pawl.Commit {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.store.mu.Lock()
	defer in.store.mu.Unlock()
	var commits []pawl.Commit
	for _, p := range ps {
		commits = append(commits, pawl.Commit{Assignment: in.live[p.Index], Next: in.store.next[p.Index], Metadata: "pawl"})
	}
	return commits
}

func (in *intake) assignment(p int32) *pawl.Assignment {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.live[p]
}

func (in *intake) assigned() []int32 {
	in.mu.Lock()
	defer in.mu.Unlock()
	var ps []int32
	for p := range in.live {
		ps = append(ps, p)
	}
	slices.Sort(ps)
	return ps
}

// offsets of the records taken from a partition.
func (in *intake) offsets(p int32) []int64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	var offsets []int64
	for _, r := range in.taken[p] {
		offsets = append(offsets, r.Offset)
	}
	return offsets
}

// wait waits until ok, and looks again at each change.
func (in *intake) wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(timeout)
	for {
		in.store.mu.Lock()
		changed := in.store.changed
		in.store.mu.Unlock()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func (in *intake) waitTaken(t *testing.T, p int32, n int) {
	t.Helper()
	in.wait(t, fmt.Sprintf("%d records of partition %d", n, p), func() bool { return len(in.offsets(p)) >= n })
}

// condition is the latest that is not over, or nil.
func (in *intake) condition() *pawl.Condition {
	in.mu.Lock()
	defer in.mu.Unlock()
	if n := len(in.conditions); n > 0 {
		return &in.conditions[n-1]
	}
	return nil
}

func (in *intake) waitCondition(t *testing.T) *pawl.Condition {
	t.Helper()
	in.wait(t, "a condition", func() bool { return in.condition() != nil })
	return in.condition()
}

func (in *intake) verify(t *testing.T) {
	t.Helper()
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, err := range in.errs {
		t.Error(err)
	}
	for p := range in.refused {
		t.Errorf("partition %d, whose Assign failed, was not ended", p)
	}
}

// member is a running source.
type member struct {
	*Source
	in   *intake
	stop context.CancelFunc
	done chan error
}

func (b *broker) source(opts ...kgo.Opt) *Source { return b.instance("", opts...) }

// instance is a source that is a static member, if id is not empty.
func (b *broker) instance(id string, opts ...kgo.Opt) *Source {
	return New(Config{
		Instance: id,
		Brokers:  b.addrs, Group: b.group, Balance: b.balance, Logger: slog.New(slog.DiscardHandler),
		Options: append([]kgo.Opt{
			kgo.HeartbeatInterval(50 * time.Millisecond), kgo.FetchMaxWait(50 * time.Millisecond),
			kgo.RebalanceTimeout(15 * time.Second), kgo.MetadataMinAge(50 * time.Millisecond),
		}, opts...),
	})
}

func (b *broker) start(t *testing.T, src *Source, in *intake) *member {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	m := &member{Source: src, in: in, stop: cancel, done: make(chan error, 1)}
	go func() { m.done <- src.Run(ctx, []string{b.topic}, in) }()
	t.Cleanup(func() { m.end(t); in.verify(t) })
	return m
}

// end stops the member, if it has not ended, and returns what Run returned.
func (m *member) end(t *testing.T) error {
	t.Helper()
	m.stop()
	return m.wait(t)
}

func (m *member) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-m.done:
		m.done <- err // for the next who asks
		return err
	case <-time.After(timeout):
		t.Fatal("Run does not return")
		return nil
	}
}

func upTo(n int64) []int64 { return between(0, n) }

func between(from, to int64) []int64 {
	var offsets []int64
	for o := from; o < to; o++ {
		offsets = append(offsets, o)
	}
	return offsets
}
