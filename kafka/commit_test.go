package kafka

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawlhq/pawl"
)

func TestCommitStoresTheOffsetWithItsMetadata(t *testing.T) {
	eachBalance(t, 2, func(t *testing.T, b *broker) {
		cl := b.client(t)
		b.produce(t, cl, 0, 10)
		in := newIntake()
		m := b.start(t, b.source(), in)
		in.wait(t, "all partitions", func() bool { return len(in.assigned()) == 2 })
		check(t, m.Commit(t.Context(), []pawl.Commit{
			{Assignment: in.assignment(0), Next: 7, Metadata: "pawl/1 next=7"},
			{Assignment: in.assignment(1), Next: 0, Metadata: "pawl/1 next=0"},
		}))
		if offset, metadata := b.committed(t, cl, 0); offset != 7 || metadata != "pawl/1 next=7" {
			t.Errorf("partition 0: %d %q", offset, metadata)
		}
		if offset, metadata := b.committed(t, cl, 1); offset != 0 || metadata != "pawl/1 next=0" {
			t.Errorf("partition 1: %d %q", offset, metadata)
		}
	})
}

func TestMetadataThatABrokerWouldRefuseIsRefusedAlone(t *testing.T) {
	each(t, 2, func(t *testing.T, b *broker) {
		cl := b.client(t)
		in := newIntake()
		m := b.start(t, b.source(), in)
		in.wait(t, "all partitions", func() bool { return len(in.assigned()) == 2 })
		err := m.Commit(t.Context(), []pawl.Commit{
			{Assignment: in.assignment(0), Next: 1, Metadata: strings.Repeat("x", maxMetadata+1)},
			{Assignment: in.assignment(1), Next: 2, Metadata: strings.Repeat("x", maxMetadata)},
		})
		if err == nil || !strings.Contains(err.Error(), b.topic+"/0: 4097 bytes of metadata") {
			t.Errorf("got %v", err)
		}
		if offset, _ := b.committed(t, cl, 0); offset != -1 {
			t.Errorf("partition 0: %d", offset)
		}
		if offset, _ := b.committed(t, cl, 1); offset != 2 {
			t.Errorf("partition 1: %d", offset)
		}
	})
}

// A worker that finishes after its partition has moved must not commit: the broker accepts commits from any member
// (redpanda-connect #4477).
func TestCommitForAnEndedAssignmentIsDropped(t *testing.T) {
	eachBalance(t, 2, func(t *testing.T, b *broker) {
		cl := b.client(t)
		one, two := newIntake(), newIntake()
		a := b.start(t, b.source(), one)
		one.wait(t, "all partitions", func() bool { return len(one.assigned()) == 2 })
		old := []*pawl.Assignment{one.assignment(0), one.assignment(1)}

		c := b.start(t, b.source(), two)
		two.wait(t, "one partition", func() bool { return len(two.assigned()) == 1 })
		moved := two.assigned()[0]
		check(t, c.Commit(t.Context(), []pawl.Commit{{Assignment: two.assignment(moved), Next: 3}}))
		check(t, a.Commit(t.Context(), []pawl.Commit{
			{Assignment: old[moved], Next: 1_000},
			{Assignment: old[1-moved], Next: 5},
		}))
		if offset, _ := b.committed(t, cl, moved); offset != 3 {
			t.Errorf("the partition that moved: %d, want what its owner committed", offset)
		}
		want := int64(5)
		if b.balance == Eager { // it was taken away too, and handed out anew
			want = -1
		}
		if offset, _ := b.committed(t, cl, 1-moved); offset != want {
			t.Errorf("the partition that stayed: %d, want %d", offset, want)
		}

		// It comes back: the old object is still the old assignment.
		check(t, c.end(t))
		one.wait(t, "it to come back", func() bool { return len(one.assigned()) == 2 })
		check(t, a.Commit(t.Context(), []pawl.Commit{{Assignment: old[moved], Next: 2_000}}))
		if offset, _ := b.committed(t, cl, moved); offset != 3 {
			t.Errorf("after it came back: %d", offset)
		}
		check(t, a.end(t))
		check(t, a.Commit(t.Context(), []pawl.Commit{{Assignment: old[1-moved], Next: 3_000}}))
	})
}

// A member that was expelled comes back under another id, and is told to give back, as if in good order, what may have
// an owner by now.
func TestAnAssignmentOfAnotherMemberIDIsLost(t *testing.T) {
	eachBalance(t, 2, func(t *testing.T, b *broker) {
		cl := b.client(t)
		in := newIntake()
		in.src = b.source()
		m := b.start(t, in.src, in)
		in.wait(t, "all partitions", func() bool { return len(in.assigned()) == 2 })
		a := m.running.find(b.topic, 0)
		a.member = "expelled"
		check(t, m.Commit(t.Context(), []pawl.Commit{
			{Assignment: in.assignment(0), Next: 5}, {Assignment: in.assignment(1), Next: 6},
		}))
		if offset, _ := b.committed(t, cl, 0); offset != -1 {
			t.Errorf("partition 0: %d", offset)
		}
		if offset, _ := b.committed(t, cl, 1); offset != 6 {
			t.Errorf("partition 1: %d", offset)
		}
		check(t, m.end(t))
		if len(in.lost) != 1 || in.lost[0] != 0 || len(in.revoked) != 1 || in.revoked[0] != 1 {
			t.Errorf("lost %v, revoked %v", in.lost, in.revoked)
		}
	})
}

func TestCommitReportsThePartitionThatFailed(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, topic))
	check(t, err)
	t.Cleanup(c.Close)
	b := &broker{addrs: c.ListenAddrs(), topic: topic, group: group}
	in := newIntake()
	m := b.start(t, b.source(), in)
	in.wait(t, "all partitions", func() bool { return len(in.assigned()) == 2 })
	requests := 0
	c.ControlKey(int16(kmsg.OffsetCommit), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		requests++
		req := kreq.(*kmsg.OffsetCommitRequest)
		resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, rt := range req.Topics {
			st := kmsg.NewOffsetCommitResponseTopic()
			st.Topic, st.TopicID = rt.Topic, rt.TopicID
			for _, rp := range rt.Partitions {
				sp := kmsg.NewOffsetCommitResponseTopicPartition()
				sp.Partition = rp.Partition
				if rp.Partition == 1 {
					sp.ErrorCode = kerr.OffsetMetadataTooLarge.Code
				}
				st.Partitions = append(st.Partitions, sp)
			}
			resp.Topics = append(resp.Topics, st)
		}
		return resp, nil, true
	})
	err = m.Commit(t.Context(), []pawl.Commit{
		{Assignment: in.assignment(0), Next: 1}, {Assignment: in.assignment(1), Next: 1},
	})
	if err == nil || !strings.Contains(err.Error(), topic+"/1: OFFSET_METADATA_TOO_LARGE") || strings.Contains(err.Error(), topic+"/0") {
		t.Errorf("got %v", err)
	}
	check(t, m.end(t))
	if requests != 1 {
		t.Errorf("%d requests: a failed commit must not be repeated", requests)
	}
}
