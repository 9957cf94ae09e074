package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/cmd/pawl/dev/naive"
	"github.com/pawlhq/pawl/kafka"
)

// drainTime bounds the wait for what was sent to be settled, at the end.
const drainTime = 45 * time.Second

// drain lets both consumers come to the end of the topic, without kills.
func (d *devRun) drain(ctx context.Context) error {
	before, err := d.epochs(ctx)
	if err != nil {
		return err
	}
	naive, err := d.start("dev-naive")
	if err != nil {
		return err
	}
	defer naive.kill()
	c, err := d.start("dev-consumer")
	if err != nil {
		return err
	}
	defer c.kill()
	deadline := time.After(drainTime)
	for {
		done, err := d.drained(ctx, before)
		switch {
		case err != nil:
			return err
		case done:
			return c.stop()
		}
		select {
		case <-c.ended:
			return fmt.Errorf("the consumer ended by itself: %s", c.said())
		case <-deadline:
			return fmt.Errorf("not everything is settled after %s: %s", drainTime, d.progressText(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// epochs is how often each partition was taken, by consumer.
func (d *devRun) epochs(ctx context.Context) (map[string]map[pawl.Partition]int64, error) {
	all := map[string]map[pawl.Partition]int64{}
	for _, p := range d.pipelines().Pipelines {
		progress, err := d.store.Admin().Progress(ctx, p.ConsumerName())
		if err != nil {
			return nil, err
		}
		all[p.Name] = map[pawl.Partition]int64{}
		for _, at := range progress {
			all[p.Name][at.Partition] = at.Epoch
		}
	}
	return all, nil
}

// drained reports whether both are at the end of the topic: Pawl by the store's positions, the other by its offsets. The last
// consumer must have taken every partition since before: it is there to give them back in good order.
func (d *devRun) drained(ctx context.Context, before map[string]map[pawl.Partition]int64) (bool, error) {
	logs, err := d.look(ctx, naive.Group, d.topicNames())
	if err != nil {
		return false, err
	}
	left := int64(0)
	for _, l := range logs {
		left += l.End - max(l.Committed, 0)
	}
	now, err := d.epochs(ctx)
	if err != nil {
		return false, err
	}
	for _, p := range d.pipelines().Pipelines {
		progress, err := d.store.Admin().Progress(ctx, p.ConsumerName())
		if err != nil {
			return false, err
		}
		waiting := int64(0)
		for _, l := range logs {
			if !slices.Contains(p.Topic, l.Partition.Topic) {
				continue
			}
			if now[p.Name][l.Partition] <= before[p.Name][l.Partition] {
				left++ // it was not taken
			}
			waiting += max(l.End-positionOf(progress, l.Partition), 0)
		}
		left += waiting
		d.mu.Lock()
		d.waiting[p.Name] = waiting
		d.mu.Unlock()
	}
	return left == 0, nil
}

// look asks the broker for the logs of topics, and where a group is in them.
func (d *devRun) look(ctx context.Context, group string, topics []string) ([]kafka.Log, error) {
	src := kafka.New(kafka.Config{Brokers: d.broker.Addrs(), Group: group, Logger: slog.New(slog.DiscardHandler)})
	return src.Look(ctx, topics)
}

func (d *devRun) topicNames() (all []string) {
	for _, t := range d.topics() {
		all = append(all, t.Name)
	}
	return all
}

// progressText is how far the first pipeline is.
func (d *devRun) progressText(ctx context.Context) string {
	p := d.pipelines().Pipelines[0]
	progress, err := d.store.Admin().Progress(context.WithoutCancel(ctx), p.ConsumerName())
	if err != nil {
		return ""
	}
	settled := int64(0)
	for _, at := range progress {
		settled += at.Next
	}
	return fmt.Sprintf("%d deliveries settled by %s", settled, p.Name)
}

// positionOf is the store's position of a partition; 0 where it has none.
func positionOf(progress []pawl.PartitionProgress, p pawl.Partition) int64 {
	for _, at := range progress {
		if at.Partition == p {
			return at.Next
		}
	}
	return 0
}
