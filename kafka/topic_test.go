package kafka

import (
	"context"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/kafkatest"
)

func TestTopicsTellHowTheyAreSetUp(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, addrs []string) {
		name := kafkatest.Topic(t, addrs, 3, "cleanup.policy=compact", "retention.ms=86400000", "min.insync.replicas=1")
		b := &broker{addrs: addrs, group: "g"}
		got, err := b.source().Topics(t.Context(), []string{name, "no-such-topic"})
		want := TopicInfo{Name: name, Exists: true, Partitions: 3, Replicas: 1, InSync: 1, Cleanup: "compact", Retention: 24 * time.Hour}
		if err != nil || len(got) != 2 || got[0] != want {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
		if len(got) == 2 && got[1].Exists {
			t.Errorf("one that does not exist: %+v", got[1])
		}
	})
}

func TestSampleReadsTheLatestOfEachPartition(t *testing.T) {
	each(t, 2, func(t *testing.T, b *broker) {
		cl := b.client(t)
		b.produce(t, cl, 0, 10)
		b.produce(t, cl, 1, 2)
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		got, err := b.source().Sample(ctx, b.topic, 3)
		check(t, err)
		lowest := map[int32]int64{0: 99, 1: 99}
		for _, r := range got {
			lowest[r.Partition.Index] = min(lowest[r.Partition.Index], r.Offset)
		}
		if len(got) != 5 || lowest[0] != 7 || lowest[1] != 0 {
			t.Errorf("%d records, from %v", len(got), lowest)
		}
	})
}
