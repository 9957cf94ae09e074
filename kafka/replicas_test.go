package kafka

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/kafkatest"
)

// What only several brokers show. One cluster for all of it: starting one takes seconds, and killing its nodes more.
func TestThreeBrokers(t *testing.T) {
	if os.Getenv("PAWL_PROOF") != "long" {
		t.Skip("starts three brokers: PAWL_PROOF=long")
	}
	c := &replicated{Cluster: kafkatest.Own(t, 3)}
	t.Run("a leader that moves loses and repeats nothing", c.moves)
	t.Run("what one replica has is not read, and what is truncated ends Run", c.truncated)
}

type replicated struct{ *kafkatest.Cluster }

// topic makes a topic whose partition has its replicas on these nodes, the first preferred.
func (c *replicated) topic(t *testing.T, nodes []int32, configs map[string]string) *broker {
	t.Helper()
	b := &broker{addrs: c.Brokers, topic: kafkatest.Group(t), group: kafkatest.Group(t)}
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = b.topic, -1, -1
	rp := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	rp.Replicas = nodes
	rt.ReplicaAssignment = append(rt.ReplicaAssignment, rp)
	for name, value := range configs {
		rc := kmsg.NewCreateTopicsRequestTopicConfig()
		rc.Name, rc.Value = name, &value
		rt.Configs = append(rt.Configs, rc)
	}
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(t.Context(), b.client(t))
	check(t, err)
	check(t, kerr.ErrorForCode(resp.Topics[0].ErrorCode))
	c.until(t, b, "a leader", func(p kadm.PartitionDetail, _ int64) bool { return p.Leader == nodes[0] })
	return b
}

// until waits for a state of the partition and its high watermark, as a client sees it that asks anew.
func (c *replicated) until(t *testing.T, b *broker, what string, ok func(p kadm.PartitionDetail, end int64) bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		p, end, err := c.look(t, b)
		if err == nil && ok(p, end) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s: %+v, end %d, %v", what, p, end, err)
		}
		time.Sleep(50 * time.Millisecond) // between two looks
	}
}

func (c *replicated) look(t *testing.T, b *broker) (kadm.PartitionDetail, int64, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.addrs...))
	check(t, err)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	topics, err := kadm.NewClient(cl).ListTopics(ctx, b.topic)
	if err != nil {
		return kadm.PartitionDetail{}, -1, err
	}
	p := topics[b.topic].Partitions[0]
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, b.topic)
	if err != nil {
		return p, -1, err
	}
	end, _ := ends.Lookup(b.topic, 0)
	return p, end.Offset, errors.Join(p.Err, end.Err)
}

func (c *replicated) moves(t *testing.T) {
	b := c.topic(t, []int32{1, 2, 3}, nil)
	cl := b.client(t)
	in := newIntake()
	b.start(t, b.source(), in)
	n := 0
	more := func() {
		t.Helper()
		b.produce(t, cl, 0, 100)
		n += 100
		in.waitTaken(t, 0, n)
	}
	more()
	c.Stop(t, 1) // in good order: it hands over what it leads
	c.until(t, b, "another leader", func(p kadm.PartitionDetail, _ int64) bool { return p.Leader != 1 })
	more()
	c.Start(t, 1)
	c.until(t, b, "all in sync", func(p kadm.PartitionDetail, _ int64) bool { return len(p.ISR) == 3 })
	set := kadm.TopicsSet{}
	set.Add(b.topic, 0)
	_, err := kadm.NewClient(cl).ElectLeaders(t.Context(), kadm.ElectPreferredReplica, set)
	check(t, err)
	c.until(t, b, "the preferred leader", func(p kadm.PartitionDetail, _ int64) bool { return p.Leader == 1 })
	more()
	c.Kill(t, 1) // without a word
	more()
	c.Start(t, 1)
	more()
	if got := in.offsets(0); !slices.Equal(got, upTo(int64(n))) {
		t.Errorf("taken %d records, want %d without gap or repeat: %v", len(got), n, got)
	}
}

// Two replicas, of which only one has the second ten records, and is gone. The other becomes leader all the same, because the
// topic allows it: an operator's choice of availability over records.
func (c *replicated) truncated(t *testing.T) {
	b := c.topic(t, []int32{1, 2}, map[string]string{"min.insync.replicas": "1", "unclean.leader.election.enable": "true"})
	all := b.client(t)
	leader := b.client(t, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	b.produce(t, all, 0, 10)
	in := newIntake()
	in.src = b.source()
	m := b.start(t, in.src, in)
	in.waitTaken(t, 0, 10)

	c.Kill(t, 2)
	b.produce(t, leader, 0, 10)
	if _, end, err := c.look(t, b); err != nil || end != 10 || len(in.offsets(0)) != 10 {
		t.Errorf("a record that one replica has is visible: the log ends at %d, %d were taken; %v", end, len(in.offsets(0)), err)
	}
	in.waitTaken(t, 0, 20) // once the cluster has given up the second replica
	c.Kill(t, 1)
	c.Start(t, 2)
	c.until(t, b, "a leader without the records", func(p kadm.PartitionDetail, end int64) bool { return p.Leader == 2 && end == 10 })

	lost := in.waitCondition(t)
	if lost.State != pawl.StateDataLoss || lost.Next != 20 || !strings.Contains(lost.Reason, "records up to 20 had been read, and it goes on at 10") {
		t.Errorf("condition %+v", lost)
	}
	if got := in.offsets(0); !slices.Equal(got, upTo(20)) {
		t.Errorf("taken %v", got)
	}
	check(t, m.end(t))

	again := newIntake()
	again.store = in.store
	m = b.start(t, b.source(), again)
	if above := again.waitCondition(t); above.State != pawl.StateAboveLog || above.Next != 20 || above.End != 10 {
		t.Errorf("started again: %+v", above)
	}
	check(t, m.end(t))
	c.Start(t, 1)
	c.until(t, b, "both in sync", func(p kadm.PartitionDetail, end int64) bool { return len(p.ISR) == 2 && end == 10 })

	// Once others have taken the places, the position is in the log again. The epoch of what was committed tells.
	b.produce(t, b.client(t), 0, 15)
	late := newIntake()
	late.store = in.store
	b.start(t, b.source(), late)
	if c := late.waitCondition(t); c.State != pawl.StateDataLoss || c.Next != 20 || !strings.Contains(c.Hint, "moving to 10") {
		t.Errorf("after the log has grown: %+v", c)
	}
	late.assignment(0).Flow.Rewind(10, func() {})
	late.waitTaken(t, 0, 15)
	if got := late.offsets(0); !slices.Equal(got, between(10, 25)) {
		t.Errorf("taken %v", got)
	}
}
