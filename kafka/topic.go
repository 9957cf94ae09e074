package kafka

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl"
)

// TopicInfo is how a topic is set up.
type TopicInfo struct {
	Name       string
	Exists     bool
	Partitions int
	Replicas   int           // of the partition that has the fewest
	InSync     int           // min.insync.replicas; 0: not known
	Cleanup    string        // cleanup.policy, such as "delete"; "": not known
	Retention  time.Duration // retention.ms; KeptForEver; 0: not known
}

// KeptForEver is a retention without end.
const KeptForEver time.Duration = -1

// Topics asks how topics are set up, without joining the group. What may not be asked is left as not known.
func (s *Source) Topics(ctx context.Context, names []string) ([]TopicInfo, error) {
	cl, err := s.plainClient(ctx)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	found, err := admin.ListTopics(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("ask %v for topics: %w", s.cfg.Brokers, err)
	}
	configs, err := admin.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		configs = nil // the right to describe configurations is not needed to read
	}
	var all []TopicInfo
	for _, name := range names {
		t := TopicInfo{Name: name}
		if d, ok := found[name]; ok && d.Err == nil {
			t.Exists, t.Partitions = true, len(d.Partitions)
			for i, p := range d.Partitions.Sorted() {
				if i == 0 || len(p.Replicas) < t.Replicas {
					t.Replicas = len(p.Replicas)
				}
			}
		}
		if c, err := configs.On(name, nil); err == nil && c.Err == nil {
			t.configure(c)
		}
		all = append(all, t)
	}
	return all, nil
}

func (t *TopicInfo) configure(c kadm.ResourceConfig) {
	for _, o := range c.Configs {
		value := o.MaybeValue()
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case o.Key == "cleanup.policy":
			t.Cleanup = value
		case err != nil:
		case o.Key == "min.insync.replicas":
			t.InSync = int(n)
		case o.Key == "retention.ms" && n < 0:
			t.Retention = KeptForEver
		case o.Key == "retention.ms":
			t.Retention = time.Duration(min(n, int64(1<<62)/int64(time.Millisecond))) * time.Millisecond
		}
	}
}

// Sample reads some of the latest records of a topic, at most so many of each partition, without joining the group. It returns
// what it has when ctx ends.
func (s *Source) Sample(ctx context.Context, topic string, each int64) ([]pawl.Record, error) {
	logs, err := s.Look(ctx, []string{topic})
	if err != nil {
		return nil, err
	}
	from, ends, left := map[int32]kgo.Offset{}, map[int32]int64{}, 0
	for _, l := range logs {
		if l.End > l.Start {
			from[l.Partition.Index] = kgo.NewOffset().At(max(l.Start, l.End-each))
			ends[l.Partition.Index] = l.End
			left++
		}
	}
	if left == 0 {
		return nil, nil
	}
	opts := slices.Concat(s.cfg.defaults(), s.cfg.Options, s.cfg.secure(), []kgo.Opt{
		kgo.SeedBrokers(s.cfg.Brokers...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
	})
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, &pawl.Error{Op: "sample " + topic, Class: pawl.Misconfigured, Err: err}
	}
	defer cl.Close()
	var all []pawl.Record
	for left > 0 && ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			if r.Offset >= ends[r.Partition] {
				return
			}
			if r.Offset == ends[r.Partition]-1 {
				left--
			}
			if !r.Attrs.IsControl() {
				rec := pawl.Record{
					Partition: pawl.Partition{Topic: topic, Index: r.Partition}, Offset: r.Offset, Timestamp: r.Timestamp, Key: r.Key, Value: r.Value,
				}
				for _, h := range r.Headers {
					rec.Headers = append(rec.Headers, pawl.Header{Key: h.Key, Value: h.Value})
				}
				all = append(all, rec)
			}
		})
	}
	return all, nil
}
