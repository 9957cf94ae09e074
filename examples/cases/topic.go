package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	topic      = "case.lifecycle.events.v1"
	partitions = 4
	group      = "case-projection"
)

// send writes deliveries to the topic, in order, and waits until the broker has them.
func send(ctx context.Context, addrs []string, ds []delivery) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer cl.Close()
	records := make([]*kgo.Record, len(ds))
	for i, d := range ds {
		records[i] = &kgo.Record{Topic: topic, Partition: d.partition, Key: []byte(d.key), Value: d.value}
	}
	if err := cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("send to %s: %w", topic, err)
	}
	return nil
}

// ends returns the number of records in each partition.
func ends(ctx context.Context, cl *kgo.Client) (n [partitions]int64, err error) {
	listed, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return n, fmt.Errorf("ask for the ends of %s: %w", topic, err)
	}
	for _, o := range listed[topic] {
		n[o.Partition] = o.Offset
	}
	return n, nil
}

// readTopic reads everything that is in the topic, by plain means: no group, no Pawl. Each partition's records are in order.
func readTopic(ctx context.Context, addrs []string) ([]delivered, error) {
	from := map[int32]kgo.Offset{}
	for p := range int32(partitions) {
		from[p] = kgo.NewOffset().AtStart()
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	end, err := ends(ctx, cl)
	if err != nil {
		return nil, err
	}
	left := sum(end[:])
	all := make([]delivered, 0, left)
	for left > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("read %s again: %w", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			all = append(all, delivered{position{r.Partition, r.Offset}, r.Value})
			left--
		})
	}
	return all, nil
}

// committed returns the offsets that the group has stored with Kafka, summed up: how many deliveries Kafka believes done.
func committed(ctx context.Context, addrs []string) (n int64, err error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	offsets, err := kadm.NewClient(cl).FetchOffsets(ctx, group)
	if err != nil {
		return 0, fmt.Errorf("ask for the offsets of group %s: %w", group, err)
	}
	offsets.Each(func(o kadm.OffsetResponse) { n += max(o.At, 0) })
	return n, nil
}

// length returns the number of records in the topic.
func length(ctx context.Context, addrs []string) (int64, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	end, err := ends(ctx, cl)
	return sum(end[:]), err
}

func sum(ns []int64) (total int64) {
	for _, n := range ns {
		total += n
	}
	return total
}
