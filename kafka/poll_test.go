package kafka

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawlhq/pawl"
)

// openRun is a run with one open assignment, of partition 0, and no client.
func openRun(in *intake) *run {
	r := newRun(Config{}, in)
	a := &assignment{r: r}
	a.Partition = pawl.Partition{Topic: topic, TopicID: pawl.TopicID{1}}
	r.live[topic] = map[int32]*assignment{0: a}
	in.live[0] = &a.Assignment
	return r
}

func fetched(offsets ...int64) *kgo.FetchPartition {
	p := new(kgo.FetchPartition)
	for _, o := range offsets {
		p.Records = append(p.Records, &kgo.Record{Offset: o})
	}
	return p
}

// A client has been seen to return one offset in two polls in a row.
func TestARepeatedOffsetIsTakenOnce(t *testing.T) {
	in := newIntake()
	r := openRun(in)
	for _, p := range []*kgo.FetchPartition{fetched(0, 1, 2), fetched(2), fetched(1, 2, 3, 7), fetched(8)} {
		check(t, r.handOver(t.Context(), &kgo.FetchTopic{Topic: topic}, p))
	}
	if got := in.offsets(0); !slices.Equal(got, []int64{0, 1, 2, 3, 7, 8}) {
		t.Errorf("taken %v", got)
	}
}

func TestRecordsOfARecreatedTopicAreNotTaken(t *testing.T) {
	in := newIntake()
	r := openRun(in)
	err := r.handOver(t.Context(), &kgo.FetchTopic{Topic: topic, TopicID: [16]byte{2}}, fetched(0))
	if err == nil || !strings.Contains(err.Error(), "deleted and made again") {
		t.Errorf("got %v", err)
	}
	if got := in.offsets(0); len(got) > 0 {
		t.Errorf("taken %v", got)
	}
}

// A broker that hung up on a new connection, just after it had become the leader, ended Run.
func TestABrokerThatHangsUpAtOnceIsAskedAgain(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(1, topic))
	check(t, err)
	t.Cleanup(c.Close)
	b := &broker{addrs: c.ListenAddrs(), topic: topic, group: group}
	cl := b.client(t)
	check(t, c.MoveTopicPartition(topic, 0, c.CoordinatorFor(group)))
	b.produce(t, cl, 0, 5)
	in := newIntake()
	m := b.start(t, b.source(), in)
	in.waitTaken(t, 0, 5)

	var hungUp atomic.Int32
	c.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(kmsg.Request) (kmsg.Response, error, bool) {
		// The first time on a connection that has had answers; the second on a new one.
		if c.KeepControl(); hungUp.Add(1) == 2 {
			c.DropControl()
		}
		return nil, errors.New("hang up"), true
	})
	check(t, c.MoveTopicPartition(topic, 0, 1-c.CoordinatorFor(group))) // it has no other work, so that connections to it stay new
	b.produce(t, cl, 0, 5)
	in.wait(t, "more records, or the end", func() bool { return len(in.offsets(0)) == 10 || len(m.done) > 0 })
	check(t, m.end(t))
	if hungUp.Load() < 2 {
		t.Error("the broker did not hang up: the test proves nothing")
	}
}

// A member that had been frozen got its partition back, behind what was deleted meanwhile. The answer to what it had asked before
// halted it: "-1 records were deleted before they were read".
func TestAnAnswerAboutAnEarlierPositionHaltsNothing(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic))
	check(t, err)
	t.Cleanup(c.Close)
	b := &broker{addrs: c.ListenAddrs(), topic: topic, group: group}
	cl := b.client(t)
	b.produce(t, cl, 0, 5)
	in := newIntake()
	m := b.start(t, b.source(kgo.DisableFetchSessions()), in)
	in.waitTaken(t, 0, 5)

	var late atomic.Int32
	c.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		req := kreq.(*kmsg.FetchRequest)
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		for _, rt := range req.Topics {
			st := kmsg.NewFetchResponseTopic()
			st.Topic, st.TopicID = rt.Topic, rt.TopicID
			for _, rp := range rt.Partitions {
				sp := kmsg.NewFetchResponseTopicPartition()
				sp.Partition, sp.ErrorCode = rp.Partition, kerr.OffsetOutOfRange.Code
				st.Partitions = append(st.Partitions, sp)
			}
			resp.Topics = append(resp.Topics, st)
		}
		late.Add(1)
		return resp, nil, true
	})
	b.produce(t, cl, 0, 5)
	in.wait(t, "more records, or a condition", func() bool { return len(in.offsets(0)) == 10 || in.condition() != nil })
	if late.Load() == 0 {
		t.Error("no such answer came: the test proves nothing")
	}
	if c := in.condition(); c != nil {
		t.Errorf("raised %+v", *c)
	}
	check(t, m.end(t))
}

func TestConvertAllocatesPerPartitionNotPerRecord(t *testing.T) {
	records := make([]*kgo.Record, 1000)
	for i := range records {
		records[i] = &kgo.Record{Offset: int64(i), Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "a"}, {Key: "b"}}}
	}
	if n := testing.AllocsPerRun(10, func() { convert(pawl.Partition{}, records) }); n > 2 {
		t.Errorf("%v allocations", n)
	}
	out := convert(pawl.Partition{}, records)
	if len(out[999].Headers) != 2 || out[999].Headers[1].Key != "b" || out[999].Value == nil || out[999].Key != nil {
		t.Errorf("record: %+v", out[999])
	}
}
