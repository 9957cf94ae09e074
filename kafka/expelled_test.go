package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawlhq/pawl"
)

// gate is the way of one client to its brokers. It can be shut for requests of one kind, as a network or a process that
// stalls at the wrong moment would.
type gate struct {
	mu   sync.Mutex
	key  int16
	open chan struct{} // nil: nothing is held up
	met  chan struct{} // closed when a request is held up
}

func (g *gate) dialer() kgo.Opt {
	return kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &gatedConn{c, g}, err
	})
}

// shut holds up requests of a kind, from the next one on. met is closed when there is one.
func (g *gate) shut(key kmsg.Key) (met <-chan struct{}, open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.key, g.open, g.met = key.Int16(), make(chan struct{}), make(chan struct{})
	c := g.open
	return g.met, sync.OnceFunc(func() {
		g.mu.Lock()
		g.open = nil
		g.mu.Unlock()
		close(c)
	})
}

type gatedConn struct {
	net.Conn
	gate *gate
}

// Write gets whole requests: the length in four bytes, then the kind in two.
func (c *gatedConn) Write(b []byte) (int, error) {
	c.gate.mu.Lock()
	open := c.gate.open
	if open != nil && len(b) >= 6 && int16(binary.BigEndian.Uint16(b[4:])) == c.gate.key {
		select {
		case <-c.gate.met:
		default:
			close(c.gate.met)
		}
	} else {
		open = nil
	}
	c.gate.mu.Unlock()
	if open != nil {
		<-open
	}
	return c.Conn.Write(b)
}

// A member is slow, or cut off, for longer than the group waits for it. It is expelled, another member takes its
// partitions and gets on; then the first one is back, under another id, with a commit for what it had. The broker would
// take it: it is of a member.
//
// How it is slow differs, because the clients differ in when they give partitions back: before they join again (eager,
// broker-side), or after (cooperative), and then under the new id.
func TestAMemberThatWasExpelledAndIsBackOverwritesNobody(t *testing.T) {
	eachBalance(t, 2, func(t *testing.T, b *broker) {
		if b.balance == BrokerSide && !b.real(t) {
			t.Skip("the embedded broker waits for its members for ever")
		}
		cl := b.client(t)
		for p := range int32(2) {
			b.produce(t, cl, p, 10)
		}
		const wait = 2 * time.Second // of the group, for its members; the quick one must not be late too
		g := new(gate)
		one, two := newIntake(), newIntake()
		source := b.source(g.dialer(), kgo.RebalanceTimeout(wait))
		slow := b.start(t, source, one)
		for p := range int32(2) {
			one.waitTaken(t, p, 10)
		}
		var late []pawl.Commit
		for p := range int32(2) {
			late = append(late, pawl.Commit{Assignment: one.assignment(p), Next: 1, Metadata: "late"})
		}
		commit := func() error { return slow.Commit(context.WithoutCancel(t.Context()), late) }

		var stalled <-chan struct{}
		var goOn func()
		if b.balance == Cooperative {
			stalled, goOn = g.shut(kmsg.JoinGroup)
		} else {
			begun, end := make(chan struct{}), make(chan struct{})
			var once sync.Once
			one.onRevoke = func(context.Context) {
				once.Do(func() {
					close(begun)
					<-end
					_ = commit() // refused, by the broker too
				})
			}
			stalled, goOn = begun, sync.OnceFunc(func() { close(end) })
		}
		t.Cleanup(goOn)

		other := b.start(t, b.source(kgo.RebalanceTimeout(wait)), two)
		receive(t, stalled)
		two.wait(t, "all partitions, without the slow one", func() bool { return len(two.assigned()) == 2 })
		check(t, other.Commit(t.Context(), []pawl.Commit{
			{Assignment: two.assignment(0), Next: 8, Metadata: "owner"}, {Assignment: two.assignment(1), Next: 9, Metadata: "owner"},
		}))

		// The commits by time go on all along.
		stop := make(chan struct{})
		var committing sync.WaitGroup
		committing.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_ = commit()
				}
			}
		})
		goOn()
		one.wait(t, "the end of what it had", func() bool {
			return one.assignment(0) != late[0].Assignment && one.assignment(1) != late[1].Assignment
		})
		both := func() bool { return len(one.assigned()) == 1 && len(two.assigned()) == 1 }
		deadline := time.After(timeout)
		for !both() { // the two do not share a store, and do not hear of each other's changes
			select {
			case <-time.After(5 * time.Millisecond):
			case <-deadline:
				t.Fatalf("it is not let in again: %v and %v", one.assigned(), two.assigned())
			}
		}
		close(stop)
		committing.Wait()

		for p, want := range map[int32]int64{0: 8, 1: 9} {
			if offset, metadata := b.committed(t, cl, p); offset != want || metadata != "owner" {
				t.Errorf("partition %d: committed %d, %q; its owner had committed %d", p, offset, metadata, want)
			}
		}
		if b.balance == Cooperative && (len(one.revoked) > 0 || !slices.Equal(slices.Sorted(slices.Values(one.lost)), []int32{0, 1})) {
			t.Errorf("gave back in good order %v, lost %v: they are another's", one.revoked, one.lost)
		}
	})
}

// A member is expelled, another takes over, gets on, and is gone when the first is back: that has the partitions it had before,
// under another id, and the client says nothing. Its commits were dropped from then on, and the group's lag grew for ever. Now
// they start over: from where the other has left the store, with commits, and without the records in between.
func TestAMemberThatWasExpelledAndKeepsItsPartitionsStartsOver(t *testing.T) {
	t.Parallel()
	each(t, 2, func(t *testing.T, b *broker) {
		cl := b.client(t)
		b.produce(t, cl, 0, 20)
		g := new(gate)
		one, two := newIntake(), newIntake()
		m := b.start(t, b.source(g.dialer(), kgo.RebalanceTimeout(time.Second)), one)
		one.waitTaken(t, 0, 20)
		old := one.assignment(0)
		before, _ := m.running.cl.GroupMetadata()
		stalled, goOn := g.shut(kmsg.JoinGroup)
		t.Cleanup(goOn)
		other := b.start(t, b.source(kgo.RebalanceTimeout(time.Second)), two)
		receive(t, stalled)
		two.wait(t, "all partitions, without the slow one", func() bool { return len(two.assigned()) == 2 })
		check(t, other.Commit(t.Context(), []pawl.Commit{{Assignment: two.assignment(0), Next: 15}}))
		check(t, other.end(t))
		one.store.mu.Lock()
		one.store.next[0] = 15 // of what it took, the rest has not taken effect; what the other did has
		one.store.mu.Unlock()
		var failed int
		one.onAssign = func(context.Context, []*pawl.Assignment) error {
			if failed++; failed == 1 {
				return errors.New("store is down")
			}
			return nil
		}
		goOn()

		one.wait(t, "another assignment", func() bool { a := one.assignment(0); return a != nil && a != old })
		if now, _ := m.running.cl.GroupMetadata(); now == before || len(one.revoked) > 0 {
			t.Errorf("not the case that this is about: the member was %s and is %s, revoked %v", before, now, one.revoked)
		}
		one.waitTaken(t, 0, 25)
		if got := one.offsets(0)[20:]; !slices.Equal(got, between(15, 20)) {
			t.Errorf("started over with %v", got)
		}
		check(t, m.Commit(t.Context(), []pawl.Commit{{Assignment: old, Next: 1}, {Assignment: one.assignment(1), Next: 0}}))
		if offset, _ := b.committed(t, cl, 0); offset != 15 {
			t.Errorf("committed %d: the old assignment is over", offset)
		}
		check(t, m.Commit(t.Context(), []pawl.Commit{{Assignment: one.assignment(0), Next: 20}}))
		if offset, _ := b.committed(t, cl, 0); offset != 20 {
			t.Errorf("committed %d", offset)
		}
	})
}
