package kafka

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/pawlhq/pawl/internal/kafkatest"
)

func TestDescribeTellsSettingsAndMakesNoTopic(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, brokers []string) {
		short := kafkatest.Topic(t, brokers, 3, "retention.ms=3600000", "retention.bytes=5000000", "message.timestamp.type=LogAppendTime")
		compacted := kafkatest.Topic(t, brokers, 1, "cleanup.policy=compact", "retention.ms=-1")
		missing := short + "-not-there"
		src := New(Config{Brokers: brokers, Group: kafkatest.Group(t)})
		for range 2 { // being asked for makes no topic
			topics, err := src.Describe(t.Context(), []string{compacted, missing, short})
			if err != nil || len(topics) != 3 {
				t.Fatalf("%+v, %v", topics, err)
			}
			if c := topics[0]; c.Err != nil || c.Settings != nil || c.Partitions != 1 || !c.Compacted || c.Deleted || c.Retention >= 0 || c.BrokerTime {
				t.Errorf("compacted: %+v", c)
			}
			if m := topics[1]; !errors.Is(m.Err, ErrNoTopic) {
				t.Errorf("missing: %+v", m)
			}
			if s := topics[2]; s.Err != nil || s.Settings != nil || s.Partitions != 3 || s.Compacted || !s.Deleted || s.Retention != time.Hour ||
				s.RetainBytes != 5_000_000 || !s.BrokerTime {
				t.Errorf("short: %+v", s)
			}
			if r := topics[2].Rights; r != nil && !slices.Contains(r, "READ") {
				t.Errorf("without a login everything is allowed: %v", r)
			}
		}
		rights, err := src.GroupRights(t.Context())
		if err != nil || rights != nil && !slices.Contains(rights, "READ") {
			t.Errorf("%v, %v", rights, err)
		}
		there, err := kadm.NewClient(kafkatest.Client(t, brokers)).ListTopics(t.Context(), missing)
		if err != nil || there.Has(missing) {
			t.Errorf("%v: the topic was made", err)
		}
	})
}

func TestSampleReadsTheLastRecordsOfEachPartition(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, brokers []string) {
		topic := kafkatest.Topic(t, brokers, 3)
		cl := kafkatest.Client(t, brokers)
		kafkatest.Produce(t, cl, topic, 0, 20)
		kafkatest.Produce(t, cl, topic, 2, 3)
		src := New(Config{Brokers: brokers, Group: kafkatest.Group(t)})
		logs, err := src.Look(t.Context(), []string{topic})
		check(t, err)
		records, err := src.Sample(t.Context(), logs, 5)
		check(t, err)
		var got []string
		for _, r := range records {
			got = append(got, fmt.Sprintf("%d/%d=%s", r.Partition.Index, r.Offset, r.Value))
		}
		slices.Sort(got)
		want := []string{"0/15=15", "0/16=16", "0/17=17", "0/18=18", "0/19=19", "2/0=0", "2/1=1", "2/2=2"}
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		after, err := src.Look(t.Context(), []string{topic})
		if err != nil || slices.ContainsFunc(after, func(l Log) bool { return l.Committed >= 0 || l.Owner != "" }) {
			t.Errorf("%+v, %v: it has joined", after, err)
		}
	})
}
