package kafka

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawlhq/pawl"
)

// A log that was cut off at 3 while nobody was reading, and has 6 records again: the position, 5, is in it. The embedded
// broker cannot cut a log, so it only says what one would say that had been; TestThreeBrokers does it in earnest.
func TestALogThatWasCutOffAndHasGrownIsNoticed(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic))
	check(t, err)
	defer cluster.Close()
	b := &broker{addrs: cluster.ListenAddrs(), topic: topic, group: group}
	b.produce(t, b.client(t), 0, 5)
	in := newIntake()
	in.src = b.source()
	m := b.start(t, in.src, in)
	in.waitTaken(t, 0, 5)
	check(t, m.end(t))
	b.produce(t, b.client(t), 0, 1)

	asked := int32(-2)
	cluster.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		r := req.(*kmsg.OffsetForLeaderEpochRequest)
		asked = r.Topics[0].Partitions[0].LeaderEpoch
		resp := r.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
		rt.Topic = topic
		rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
		rp.LeaderEpoch, rp.EndOffset = asked, 3
		rt.Partitions = append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
	late := newIntake()
	late.store = in.store
	b.start(t, b.source(), late)
	c := late.waitCondition(t)
	if c.State != pawl.StateDataLoss || c.Next != 5 || !strings.Contains(c.Reason, "cut off at 3") || asked < 0 {
		t.Errorf("condition %+v, asked for epoch %d", c, asked)
	}
	late.assignment(0).Flow.Rewind(3, func() {})
	late.waitTaken(t, 0, 3)
	if got := late.offsets(0); !slices.Equal(got, between(3, 6)) {
		t.Errorf("taken %v", got)
	}
}
