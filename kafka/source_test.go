package kafka

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/kafkatest"
)

func TestOriginIsTheClusterAndTheGroup(t *testing.T) {
	each(t, 1, func(t *testing.T, b *broker) {
		metadata, err := kadm.NewClient(b.client(t)).BrokerMetadata(t.Context())
		check(t, err)
		got, err := b.source().Origin(t.Context())
		check(t, err)
		if want := (pawl.Origin{Cluster: metadata.Cluster, Group: b.group}); got != want || want.Cluster == "" {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestOneMemberReadsEveryPartitionFromTheGivenOffsets(t *testing.T) {
	each(t, 4, func(t *testing.T, b *broker) {
		cl := b.client(t)
		in := newIntake()
		for p := range int32(4) {
			b.produce(t, cl, p, 100)
			in.store.next[p] = int64(10 * p)
		}
		b.start(t, b.source(), in)
		for p := range int32(4) {
			from := int64(10 * p)
			in.waitTaken(t, p, int(100-from))
			if got := in.offsets(p); !slices.Equal(got, between(from, 100)) {
				t.Errorf("partition %d: %v", p, got)
			}
			a := in.assignment(p)
			if a.Start != 0 || a.End != 100 || a.Partition.TopicID == (pawl.TopicID{}) {
				t.Errorf("assignment: %+v", a)
			}
		}
		r := in.taken[1][5]
		if string(r.Value) != "15" || string(r.Key) != "15" || len(r.Headers) != 1 || string(r.Headers[0].Value) != "15" ||
			r.Timestamp.IsZero() || r.Partition != in.assignment(1).Partition || r.Control {
			t.Errorf("record: %+v", r)
		}
	})
}

func TestAbortedRecordsAreNotTakenAndMarkersAreControlRecords(t *testing.T) {
	each(t, 1, func(t *testing.T, b *broker) {
		cl := b.client(t, kgo.TransactionalID(b.topic))
		for _, tx := range []struct {
			n   int
			end kgo.TransactionEndTry
		}{{3, kgo.TryCommit}, {2, kgo.TryAbort}, {2, kgo.TryCommit}, {3, kgo.TryAbort}} {
			check(t, cl.BeginTransaction())
			b.produce(t, cl, 0, tx.n)
			check(t, cl.EndTransaction(t.Context(), tx.end))
		}
		kafkatest.WaitStable(t, cl, b.topic, 0, 14)
		in := newIntake()
		b.start(t, b.source(), in)
		in.wait(t, "the last marker", func() bool { return slices.Contains(in.offsets(0), 13) })
		var data, control []int64
		for _, r := range in.taken[0] {
			if r.Control {
				control = append(control, r.Offset)
			} else {
				data = append(data, r.Offset)
			}
		}
		if !slices.Equal(data, []int64{0, 1, 2, 7, 8}) || !slices.Equal(control, []int64{3, 6, 9, 13}) {
			t.Errorf("data %v, control %v", data, control)
		}
		if a := in.assignment(0); a.End != 14 {
			t.Errorf("end %d", a.End)
		}
	})
}

func TestEndIsBeforeAnOpenTransaction(t *testing.T) {
	each(t, 1, func(t *testing.T, b *broker) {
		b.produce(t, b.client(t), 0, 4)
		tx := b.client(t, kgo.TransactionalID(b.topic))
		check(t, tx.BeginTransaction())
		b.produce(t, tx, 0, 3)

		in := newIntake()
		in.store.next[0] = 6 // readable later: no reason to stop
		m := b.start(t, b.source(), in)
		in.wait(t, "assignment", func() bool { return in.assignment(0) != nil })
		if a := in.assignment(0); a.End != 4 {
			t.Errorf("end %d, want the last stable offset", a.End)
		}
		check(t, tx.EndTransaction(t.Context(), kgo.TryCommit))
		in.waitTaken(t, 0, 2)
		if got := in.offsets(0); !slices.Equal(got, []int64{6, 7}) {
			t.Errorf("offsets %v", got)
		}
		check(t, m.end(t))
	})
}

func TestPartitionsMoveBetweenMembersWithoutGapOrRepeat(t *testing.T) {
	eachBalance(t, 4, func(t *testing.T, b *broker) {
		cl := b.client(t)
		one, two := newIntake(), newIntake()
		two.store = one.store
		produceAll := func(n int) {
			for p := range int32(4) {
				b.produce(t, cl, p, n)
			}
		}
		total := func(p int32) []int64 {
			all := append(one.offsets(p), two.offsets(p)...)
			slices.Sort(all)
			return all
		}

		produceAll(50)
		m := b.start(t, b.source(), one)
		for p := range int32(4) {
			one.waitTaken(t, p, 50)
		}
		b.start(t, b.source(), two)
		two.wait(t, "half of the partitions", func() bool { return len(two.assigned()) == 2 && len(one.assigned()) == 2 })
		produceAll(50)
		for p := range int32(4) {
			in := one
			if two.assignment(p) != nil {
				in = two
			}
			in.wait(t, "the second fifty", func() bool { return len(total(p)) == 100 })
		}

		check(t, m.end(t))
		if got := one.assigned(); len(got) != 0 {
			t.Errorf("still assigned after Run: %v", got)
		}
		two.wait(t, "all partitions", func() bool { return len(two.assigned()) == 4 })
		produceAll(50)
		for p := range int32(4) {
			two.wait(t, "the third fifty", func() bool { return len(total(p)) == 150 })
			if got := total(p); !slices.Equal(got, upTo(150)) {
				t.Errorf("partition %d: %v", p, got)
			}
		}
		if len(one.lost)+len(two.lost) > 0 {
			t.Errorf("lost: %v %v", one.lost, two.lost)
		}
	})
}

func TestStoppingRevokesAndCommits(t *testing.T) {
	eachBalance(t, 2, func(t *testing.T, b *broker) {
		cl := b.client(t)
		b.produce(t, cl, 0, 10)
		b.produce(t, cl, 1, 20)
		in := newIntake()
		in.src = b.source()
		m := b.start(t, in.src, in)
		in.waitTaken(t, 0, 10)
		in.waitTaken(t, 1, 20)
		began := time.Now()
		check(t, m.end(t))
		if took := time.Since(began); took > 14*time.Second { // who does not leave is waited for, for fifteen
			t.Errorf("stopping took %s", took)
		}
		if got := slices.Sorted(slices.Values(in.revoked)); !slices.Equal(got, []int32{0, 1}) || len(in.lost) > 0 {
			t.Errorf("revoked %v, lost %v", in.revoked, in.lost)
		}
		for p, want := range map[int32]int64{0: 10, 1: 20} {
			if offset, metadata := b.committed(t, cl, p); offset != want || metadata != "pawl" {
				t.Errorf("partition %d: committed %d %q", p, offset, metadata)
			}
		}
		// The group was left, not abandoned until the session runs out.
		if left := b.members(t, cl); len(left) != 0 {
			t.Errorf("members left: %v", left)
		}
	})
}

func TestAssignIsAskedAgainAfterAnError(t *testing.T) {
	// The client takes context.Canceled for "leaving" and would never join again.
	for _, failure := range []error{errors.New("store is down"), context.Canceled} {
		t.Run(failure.Error(), func(t *testing.T) {
			each(t, 1, func(t *testing.T, b *broker) {
				b.produce(t, b.client(t), 0, 10)
				in := newIntake()
				tries := 0
				in.onAssign = func(context.Context, []*pawl.Assignment) error {
					if tries++; tries < 3 {
						return failure
					}
					return nil
				}
				b.start(t, b.source(kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond })), in)
				in.waitTaken(t, 0, 10)
			})
		})
	}
}

func TestARebalanceDuringAssignIsSurvived(t *testing.T) {
	eachBalance(t, 2, func(t *testing.T, b *broker) {
		cl := b.client(t)
		one, two := newIntake(), newIntake()
		two.store = one.store
		asked := make(chan struct{})
		var once sync.Once
		one.onAssign = func(ctx context.Context, _ []*pawl.Assignment) (err error) {
			once.Do(func() { // until the group takes partitions away again
				close(asked)
				<-ctx.Done()
				err = ctx.Err()
			})
			return err
		}
		b.start(t, b.source(), one)
		<-asked
		b.start(t, b.source(), two)
		both := func() bool { return len(one.assigned()) == 1 && len(two.assigned()) == 1 }
		one.wait(t, "one partition each", both)
		for p := range int32(2) {
			b.produce(t, cl, p, 10)
		}
		one.waitTaken(t, one.assigned()[0], 10)
		two.waitTaken(t, two.assigned()[0], 10)
	})
}

// looked tells whoever waits for it of each request for a topic's id: there is one at each look of the watch.
type looked chan struct{}

func (l looked) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if key != int16(kmsg.Metadata) {
		return
	}
	select {
	case l <- struct{}{}:
	default:
	}
}

// A store that takes its time to say where to begin was taken for a log that ends before the position, and the partition was
// halted until an operator had decided.
func TestALogIsNotJudgedBeforeItIsKnownWhereToBegin(t *testing.T) {
	each(t, 1, func(t *testing.T, b *broker) {
		b.produce(t, b.client(t), 0, 10)
		in, looks := newIntake(), make(looked)
		in.onAssign = func(ctx context.Context, _ []*pawl.Assignment) error {
			for range 10 * aboveAfter {
				select {
				case <-looks:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		}
		src := b.source(kgo.WithHooks(looks))
		src.cfg.Watch = 10 * time.Millisecond
		b.start(t, src, in)
		in.waitTaken(t, 0, 10)
		in.mu.Lock()
		defer in.mu.Unlock()
		if len(in.conditions) > 0 {
			t.Errorf("raised %+v", in.conditions)
		}
	})
}

func TestMisconfiguredAssignEndsRun(t *testing.T) {
	each(t, 1, func(t *testing.T, b *broker) {
		in := newIntake()
		want := &pawl.Error{Op: "own", Class: pawl.Misconfigured, Err: errors.New("no such table")}
		in.onAssign = func(context.Context, []*pawl.Assignment) error { return want }
		m := b.start(t, b.source(), in)
		if err := m.wait(t); !errors.Is(err, want) {
			t.Errorf("got %v", err)
		}
	})
}

// A position that the log does not have halts its partition, and no other; when it is rewound, reading goes on. Above the
// end it stays halted also when the log has grown past it: what came meanwhile would never be read.
func TestAPositionOutsideTheLogHaltsItsPartition(t *testing.T) {
	for _, c := range []struct {
		name     string
		position int64
		state    pawl.State
	}{
		{"above", 25, pawl.StateAboveLog},
		{"below", 5, pawl.StateBelowLog},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, 2, func(t *testing.T, b *broker) {
				cl := b.client(t)
				b.produce(t, cl, 0, 20)
				b.produce(t, cl, 1, 3)
				b.deleteBefore(t, cl, 12)
				in := newIntake()
				in.store.next[0] = c.position
				b.start(t, b.source(), in)
				in.waitTaken(t, 1, 3)
				got := in.waitCondition(t)
				if got.State != c.state || got.Partition.Index != 0 || got.Next != c.position || got.Start != 12 || got.End != 20 || got.Hint == "" {
					t.Errorf("condition %+v", got)
				}
				b.produce(t, cl, 0, 10)
				b.produce(t, cl, 1, 3)
				in.waitTaken(t, 1, 6) // so it would have read the other too
				if got := in.offsets(0); len(got) > 0 {
					t.Errorf("taken %v of a partition that is halted", got)
				}
				in.assignment(0).Flow.Resume() // as a lane would that was full
				in.assignment(0).Flow.Rewind(18, func() {})
				in.waitTaken(t, 0, 12)
				if got := in.offsets(0); !slices.Equal(got, between(18, 30)) {
					t.Errorf("taken %v after the rewind to 18", got)
				}
			})
		})
	}
}

func TestRecordsDeletedUnderASlowReaderHaltIt(t *testing.T) {
	each(t, 1, func(t *testing.T, b *broker) {
		cl := b.client(t)
		b.produce(t, cl, 0, 5)
		in := newIntake()
		in.onTake = func(a *pawl.Assignment, _ []pawl.Record) { a.Flow.Pause() }
		b.start(t, b.source(), in)
		in.waitTaken(t, 0, 5)
		b.produce(t, cl, 0, 15)
		b.deleteBefore(t, cl, 12)
		in.assignment(0).Flow.Resume()
		if c := in.waitCondition(t); c.State != pawl.StateBelowLog || c.Next != 5 || c.Start != 12 || c.End != 20 {
			t.Errorf("condition %+v", c)
		}
		if got := in.offsets(0); !slices.Equal(got, upTo(5)) {
			t.Errorf("taken %v", got)
		}
		in.assignment(0).Flow.Rewind(12, func() {})
		in.waitTaken(t, 0, 13)
		if got := in.offsets(0); !slices.Equal(got[5:], between(12, 20)) {
			t.Errorf("taken %v after the rewind", got)
		}
	})
}

// A client that is running never finds out by itself that its topic was made again.
func TestATopicThatIsMadeAgainIsAssignedAnew(t *testing.T) {
	each(t, 1, func(t *testing.T, b *broker) {
		cl := b.client(t)
		b.produce(t, cl, 0, 5)
		in := newIntake()
		src := b.source()
		src.cfg.Watch = 100 * time.Millisecond
		b.start(t, src, in)
		in.waitTaken(t, 0, 5)
		old := in.assignment(0).Partition.TopicID

		_, err := kadm.NewClient(cl).DeleteTopic(t.Context(), b.topic)
		check(t, err)
		if c := in.waitCondition(t); c.State != pawl.StateTopicMissing || c.Partition.Topic != b.topic || c.Partition.Index != pawl.AllPartitions {
			t.Errorf("condition %+v", c)
		}
		in.store.mu.Lock()
		in.store.next[0] = 0 // by topic id, the store has none
		in.store.mu.Unlock()
		fresh := b.client(t) // the other has the old id in its memory
		_, err = kadm.NewClient(fresh).CreateTopic(t.Context(), 1, 1, nil, b.topic)
		check(t, err)
		b.produce(t, fresh, 0, 3)
		in.wait(t, "an assignment of the new topic", func() bool {
			a := in.assignment(0)
			return a != nil && a.Partition.TopicID != old
		})
		in.waitTaken(t, 0, 8)
		if got := in.offsets(0); !slices.Equal(got, append(upTo(5), upTo(3)...)) {
			t.Errorf("taken %v", got)
		}
		in.wait(t, "the condition to pass", func() bool { return in.condition() == nil })
	})
}

// A group that the broker balances hands out the new topic's partitions to a client that still goes by the old id: they
// were assigned, and never read.
func TestATopicThatIsMadeAgainBetweenTwoLooksIsAssignedAnew(t *testing.T) {
	each(t, 1, func(t *testing.T, b *broker) {
		cl := b.client(t)
		b.produce(t, cl, 0, 5)
		in := newIntake()
		src := b.source(kgo.MetadataMaxAge(500 * time.Millisecond))
		src.cfg.Watch, src.cfg.Balance = time.Minute, BrokerSide
		b.start(t, src, in)
		in.waitTaken(t, 0, 5)

		in.store.mu.Lock()
		in.store.next[0] = 0 // by topic id, the store has none
		in.store.mu.Unlock()
		fresh := b.client(t) // the other has the old id in its memory
		adm := kadm.NewClient(fresh)
		_, err := adm.DeleteTopic(t.Context(), b.topic)
		check(t, err)
		in.wait(t, "the group to take it away", func() bool { return in.assignment(0) == nil })
		_, err = adm.CreateTopic(t.Context(), 1, 1, nil, b.topic)
		check(t, err)
		b.produce(t, fresh, 0, 3)
		in.waitTaken(t, 0, 8)
		if got := in.offsets(0); !slices.Equal(got, append(upTo(5), upTo(3)...)) {
			t.Errorf("taken %v", got)
		}
	})
}

// What was asked of the new log, by its name, was held against the position in the old one: a partition of a topic that is
// gone was above its log, and stayed so for ever, because nobody owns it any more.
func TestATopicThatIsMadeAgainWhileItIsAssignedIsNotShorter(t *testing.T) {
	each(t, 1, func(t *testing.T, b *broker) {
		cl := b.client(t)
		b.produce(t, cl, 0, 5)
		in := newIntake()
		in.store.next[0] = 7
		again := false
		in.onAssign = func(ctx context.Context, _ []*pawl.Assignment) error {
			if again {
				in.store.mu.Lock()
				defer in.store.mu.Unlock()
				in.store.next[0] = 0 // by topic id, the store has none
				return nil
			}
			again = true
			adm := kadm.NewClient(b.client(t))
			if _, err := adm.DeleteTopic(ctx, b.topic); err != nil {
				return err
			}
			_, err := adm.CreateTopic(ctx, 1, 1, nil, b.topic)
			return err
		}
		src := b.source()
		src.cfg.Watch = time.Minute
		b.start(t, src, in)
		in.wait(t, "an assignment of the new topic", func() bool { return in.assignment(0) != nil && in.assignment(0).End == 0 })
		b.produce(t, b.client(t), 0, 3)
		in.waitTaken(t, 0, 3)
		if c := in.condition(); c != nil {
			t.Errorf("condition %+v", c)
		}
	})
}

// A transaction that stays open holds up everything behind it, and the client says nothing.
func TestALogThatATransactionHoldsUpIsTold(t *testing.T) {
	each(t, 1, func(t *testing.T, b *broker) {
		in := newIntake()
		src := b.source()
		src.cfg.Watch = 50 * time.Millisecond
		b.start(t, src, in)
		cl := b.client(t)
		b.produce(t, cl, 0, 4)
		in.waitTaken(t, 0, 4)
		tx := b.client(t, kgo.TransactionalID(b.group), kgo.TransactionTimeout(time.Minute))
		check(t, tx.BeginTransaction())
		b.produce(t, tx, 0, 2)
		b.produce(t, cl, 0, 6)
		c := in.waitCondition(t)
		if c.State != pawl.StateLogFrozen || c.Next != 4 || c.End != 12 || !strings.Contains(c.Reason, "since offset 4: 8 records") {
			t.Errorf("condition %+v", c)
		}
		if got := in.offsets(0); !slices.Equal(got, upTo(4)) {
			t.Errorf("taken %v", got)
		}
		check(t, tx.EndTransaction(t.Context(), kgo.TryAbort))
		in.wait(t, "the condition to pass", func() bool { return in.condition() == nil })
		in.wait(t, "the records behind it", func() bool { return slices.Contains(in.offsets(0), 11) })
	})
}

// A log that is cut off below what was read does not show while nothing new is written, and heals into a loss when it is.
func TestALogThatIsCutOffUnderAReaderHaltsIt(t *testing.T) {
	in := newIntake()
	r := openRun(in)
	r.cl, _ = kgo.NewClient()
	defer r.cl.Close()
	a := r.live[topic][0]
	a.next = 20
	w := &watch{r: r, logs: map[*assignment]*watched{}}
	w.lookAtLog(a, 20, bounds{0, 15, 15})
	if in.condition() != nil {
		t.Error("halted at the first look: a new leader may not know yet")
	}
	w.lookAtLog(a, 20, bounds{0, 15, 15})
	if c := in.condition(); c == nil || c.State != pawl.StateAboveLog || c.Next != 20 || c.End != 15 {
		t.Errorf("condition %+v", c)
	}
}

func (b *broker) deleteBefore(t *testing.T, cl *kgo.Client, offset int64) {
	t.Helper()
	_, err := kadm.NewClient(cl).DeleteRecords(t.Context(), kadm.Offsets{b.topic: {0: {Topic: b.topic, Partition: 0, At: offset}}})
	check(t, err)
}

func TestOneRunAtATime(t *testing.T) {
	each(t, 1, func(t *testing.T, b *broker) {
		in := newIntake()
		m := b.start(t, b.source(), in)
		in.wait(t, "assignment", func() bool { return in.assignment(0) != nil })
		if err := m.Run(t.Context(), []string{b.topic}, newIntake()); err == nil || !strings.Contains(err.Error(), "already running") {
			t.Errorf("got %v", err)
		}
	})
}
