package kafka

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawlhq/pawl"
)

// A cooperative member that was expelled, found out while it joined, and kept its partitions under another id, committed
// nothing for them any more, and said so to nobody.
func TestWhatIsKeptUnderAnotherMemberIDIsAssignedAnew(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, topic))
	check(t, err)
	t.Cleanup(c.Close)
	b := &broker{addrs: c.ListenAddrs(), topic: topic, group: group}
	cl := b.client(t)
	b.produce(t, cl, 0, 10)

	in := newIntake()
	var again atomic.Bool
	var failed atomic.Int32
	in.onAssign = func(context.Context, []*pawl.Assignment) error {
		if again.Load() && failed.Add(1) == 1 { // a store that is away for a moment
			return errors.New("store is away")
		}
		return nil
	}
	m := b.start(t, b.source(), in)
	in.wait(t, "all partitions", func() bool { return len(in.assigned()) == 2 })
	in.waitTaken(t, 0, 10)
	old := in.assignment(0)
	in.store.mu.Lock()
	in.store.next[0] = 7 // three were taken, and are not settled
	in.store.mu.Unlock()

	// Heartbeats say that the group rebalances, and only the join says that the member is none any more.
	again.Store(true)
	busy := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.RebalanceInProgress, Count: -1})
	before, _ := m.running.cl.GroupMetadata()
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group = b.group
	leave.Members = []kmsg.LeaveGroupRequestMember{{MemberID: before}}
	_, err = leave.RequestWith(t.Context(), cl)
	check(t, err)
	in.wait(t, "another assignment", func() bool { a := in.assignment(0); return a != nil && a != old })
	busy.Remove()

	in.waitTaken(t, 0, 13)
	if got := in.offsets(0); !slices.Equal(got, append(upTo(10), 7, 8, 9)) {
		t.Errorf("taken %v", got)
	}
	if now, _ := m.running.cl.GroupMetadata(); now == before {
		t.Error("the member id is the same: the test proves nothing")
	}
	check(t, m.Commit(t.Context(), []pawl.Commit{
		{Assignment: old, Next: 1, Metadata: "old"}, {Assignment: in.assignment(0), Next: 10, Metadata: "new"},
	}))
	if offset, metadata := b.committed(t, cl, 0); offset != 10 || metadata != "new" {
		t.Errorf("committed %d %q", offset, metadata)
	}
	if failed.Load() < 2 {
		t.Error("the store was not asked again")
	}
}
