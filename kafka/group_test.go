package kafka

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/pawlhq/pawl"
)

// While an instance restarts, nothing of the group moves; and what it gave back when it stopped, in good order, it gets
// again.
func TestAStaticMemberThatRestartsTakesItsPartitionsWithoutARebalance(t *testing.T) {
	eachBalance(t, 4, func(t *testing.T, b *broker) {
		cl := b.client(t)
		one, two := newIntake(), newIntake()
		two.store = one.store
		one.src = b.instance("one")
		m := b.start(t, one.src, one)
		b.start(t, b.instance("two"), two)
		two.wait(t, "half of the partitions", func() bool { return len(two.assigned()) == 2 && len(one.assigned()) == 2 })
		had := one.assigned()
		others := make(map[int32]*pawl.Assignment)
		for _, p := range two.assigned() {
			others[p] = two.assignment(p)
		}
		for p := range int32(4) {
			b.produce(t, cl, p, 10)
		}
		for _, p := range had {
			one.waitTaken(t, p, 10)
		}

		one.mu.Lock()
		one.revoked = nil // of the rebalance that let the other one in
		one.mu.Unlock()
		check(t, m.end(t))
		if got := slices.Sorted(slices.Values(one.revoked)); !slices.Equal(got, had) || len(one.lost) > 0 {
			t.Errorf("had %v, and gave back %v, lost %v", had, got, one.lost)
		}
		for _, p := range had {
			if offset, _ := b.committed(t, cl, p); offset != 10 {
				t.Errorf("partition %d: committed %d", p, offset)
			}
		}
		if got := b.members(t, cl); !slices.Equal(got, []string{"one", "two"}) {
			t.Errorf("members while it is away: %v", got)
		}

		again := newIntake()
		again.store = one.store
		b.start(t, b.instance("one"), again)
		again.wait(t, "the partitions it had", func() bool { return slices.Equal(again.assigned(), had) })
		for p := range int32(4) {
			b.produce(t, cl, p, 10)
		}
		for _, p := range had {
			again.waitTaken(t, p, 10)
			if got := again.offsets(p); !slices.Equal(got, between(10, 20)) {
				t.Errorf("partition %d: %v", p, got)
			}
		}
		for p, a := range others {
			two.waitTaken(t, p, 20)
			// Not so on the embedded broker: to it, a member that no longer says what it had has changed its mind.
			if two.assignment(p) != a && (b.real(t) || b.balance != Eager) {
				t.Errorf("partition %d of the other member was handed out anew", p)
			}
		}
	})
}

// The price of a static member: nobody reads what it had until its session has run out.
func TestAStaticMemberThatStaysAwayIsReplacedWhenItsSessionEnds(t *testing.T) {
	t.Parallel()
	each(t, 2, func(t *testing.T, b *broker) {
		cl := b.client(t)
		const session = 1500 * time.Millisecond
		one, two := newIntake(), newIntake()
		two.store = one.store
		m := b.start(t, b.instance("one", kgo.SessionTimeout(session)), one)
		b.start(t, b.instance("two", kgo.SessionTimeout(session)), two)
		two.wait(t, "one partition", func() bool { return len(two.assigned()) == 1 && len(one.assigned()) == 1 })
		had := one.assigned()[0]
		check(t, m.end(t))
		began := time.Now()
		b.produce(t, cl, had, 10)
		two.waitTaken(t, had, 10)
		if took := time.Since(began); took < session/2 {
			t.Errorf("replaced after %s, before its session could end", took)
		}
	})
}

// One name in two processes is a mistake in a deployment: it must show, and only one of them may go on.
func TestASecondMemberWithTheSameInstanceEndsOneOfTheTwo(t *testing.T) {
	eachBalance(t, 2, func(t *testing.T, b *broker) {
		cl := b.client(t)
		one, two := newIntake(), newIntake()
		two.store = one.store
		older := b.start(t, b.instance("one"), one)
		one.wait(t, "all partitions", func() bool { return len(one.assigned()) == 2 })
		younger := b.start(t, b.instance("one"), two)

		ends, goesOn, in, want := older, younger, two, kerr.FencedInstanceID
		if b.balance == BrokerSide {
			ends, goesOn, in, want = younger, older, one, kerr.UnreleasedInstanceID
		}
		err := ends.wait(t)
		if e, ok := errors.AsType[*pawl.Error](err); !ok || !errors.Is(err, want) || e.Class != pawl.Misconfigured ||
			!strings.Contains(e.Hint, "Config.Instance") {
			t.Errorf("got %v, want %v", err, want)
		}
		if left := ends.in.assigned(); len(left) > 0 || len(ends.in.revoked) > 0 {
			t.Errorf("has still %v, gave back in good order %v: they are another's", left, ends.in.revoked)
		}
		in.wait(t, "all partitions", func() bool { return len(in.assigned()) == 2 })
		for p := range int32(2) {
			b.produce(t, cl, p, 10)
			in.waitTaken(t, p, 10)
		}
		check(t, goesOn.end(t))
	})
}

func TestAMemberThatBalancesInAnotherWayIsRefused(t *testing.T) {
	t.Parallel()
	each(t, 1, func(t *testing.T, b *broker) {
		in := newIntake()
		b.start(t, b.source(), in)
		in.wait(t, "assignment", func() bool { return in.assignment(0) != nil })
		a := in.assignment(0)
		other := *b
		other.balance = Eager
		err := other.start(t, other.source(), newIntake()).wait(t)
		if e, ok := errors.AsType[*pawl.Error](err); !ok || !errors.Is(err, kerr.InconsistentGroupProtocol) ||
			e.Class != pawl.Misconfigured || !strings.Contains(e.Hint, "Config.Balance") {
			t.Errorf("got %v", err)
		}
		b.produce(t, b.client(t), 0, 10)
		in.waitTaken(t, 0, 10)
		if in.assignment(0) != a {
			t.Error("the member that fits in was disturbed")
		}
	})
}

// The client would go over to another protocol, one in which everybody waits for everybody, without a word.
func TestABrokerThatCannotBalanceIsReported(t *testing.T) {
	t.Parallel()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic), kfake.MaxVersions(kversion.V3_9_0()))
	check(t, err)
	t.Cleanup(c.Close)
	b := &broker{addrs: c.ListenAddrs(), topic: topic, group: group, balance: BrokerSide}
	err = b.start(t, b.source(), newIntake()).wait(t)
	if e, ok := errors.AsType[*pawl.Error](err); !ok || e.Class != pawl.Misconfigured || !strings.Contains(e.Hint, "Kafka 4.0") {
		t.Errorf("got %v", err)
	}
	b.balance = Cooperative
	in := newIntake()
	b.start(t, b.source(), in)
	in.wait(t, "assignment", func() bool { return in.assignment(0) != nil })
}
