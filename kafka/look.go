package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/retry"
)

// Log is a partition as it looks from outside the group.
type Log struct {
	Partition pawl.Partition
	Start     int64  // its first offset
	End       int64  // the offset after the last record that can be read
	Committed int64  // by the group; -1: none
	Owner     string // the member of the group that has it, as client@host; "": none
}

// Look asks the cluster for every partition of topics, without joining the group. A topic that does not exist is left out.
func (s *Source) Look(ctx context.Context, topics []string) ([]Log, error) {
	cl, err := s.plainClient(ctx)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	all, err := s.look(ctx, kadm.NewClient(cl), topics)
	if err == nil {
		return all, nil
	}
	class, hint, refused := refusal(err)
	if !refused {
		class, hint = pawl.Transient, "is the address right, and does the broker expect TLS or a login?"
	}
	return nil, &pawl.Error{Op: fmt.Sprintf("ask %v for its logs", s.cfg.Brokers), Class: class, Err: err, Hint: hint}
}

func (s *Source) look(ctx context.Context, admin *kadm.Client, topics []string) ([]Log, error) {
	if len(topics) == 0 {
		return nil, nil // no topics would ask for all
	}
	found, err := admin.ListTopics(ctx, topics...)
	if err != nil {
		return nil, err
	}
	found.FilterInternal()
	var names []string
	for _, t := range found.Sorted() {
		if t.Err == nil {
			names = append(names, t.Topic)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	var starts, ends kadm.ListedOffsets
	var commits kadm.OffsetResponses
	var owned map[ownedPartition]string
	err = atOnce(
		func() (err error) { starts, err = admin.ListStartOffsets(ctx, names...); return err },
		func() (err error) { ends, err = admin.ListCommittedOffsets(ctx, names...); return err },
		func() (err error) {
			commits, err = patiently(ctx, func() (kadm.OffsetResponses, error) { return admin.FetchOffsets(ctx, s.cfg.Group) })
			if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
				return fmt.Errorf("ask for the offsets of group %s: %w", s.cfg.Group, err)
			}
			return nil
		},
		func() (err error) {
			owned, err = patiently(ctx, func() (map[ownedPartition]string, error) { return owners(ctx, admin, s.cfg.Group) })
			if err != nil {
				return fmt.Errorf("ask for the members of group %s: %w", s.cfg.Group, err)
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	var all []Log
	for _, name := range names {
		for _, p := range found[name].Partitions.Sorted() {
			l := Log{Partition: pawl.Partition{Topic: name, TopicID: pawl.TopicID(found[name].ID), Index: p.Partition}, Committed: -1}
			start, ok := starts.Lookup(name, p.Partition)
			end, ok2 := ends.Lookup(name, p.Partition)
			if err := errors.Join(start.Err, end.Err); err != nil || !ok || !ok2 {
				return nil, fmt.Errorf("the bounds of %s: %w", l.Partition, err)
			}
			l.Start, l.End = start.Offset, end.Offset
			if c, ok := commits.Lookup(name, p.Partition); ok && c.Err == nil {
				l.Committed = c.At
			}
			l.Owner = owned[ownedPartition{name, p.Partition}]
			all = append(all, l)
		}
	}
	return all, nil
}

// atOnce runs what does not depend on each other, and returns the first error in the order given.
func atOnce(all ...func() error) error {
	errs := make([]error, len(all))
	var done sync.WaitGroup
	for i, f := range all {
		done.Go(func() { errs[i] = f() })
	}
	done.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

type ownedPartition struct {
	topic string
	index int32
}

// owners says who in the group has which partition. A group is of one of two protocols, and describes itself in that alone.
func owners(ctx context.Context, admin *kadm.Client, group string) (map[ownedPartition]string, error) {
	all := map[ownedPartition]string{}
	add := func(client, host string, topics kadm.TopicsSet) {
		for topic, partitions := range topics {
			for p := range partitions {
				all[ownedPartition{topic, p}] = client + "@" + strings.TrimPrefix(host, "/")
			}
		}
	}
	classic, err := admin.DescribeGroups(ctx, group)
	if err != nil {
		return nil, err
	}
	for _, m := range classic[group].Members {
		if assigned, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range assigned.Topics {
				add(m.ClientID, m.ClientHost, kadm.TopicsSet{t.Topic: setOf(t.Partitions)})
			}
		}
	}
	if len(all) > 0 {
		return all, nil
	}
	described, err := admin.DescribeConsumerGroups(ctx, group)
	if err != nil {
		return all, nil // a broker without this protocol has no such group
	}
	for _, m := range described[group].Members {
		add(m.ClientID, m.ClientHost, m.Assignment)
	}
	return all, nil
}

func setOf(partitions []int32) map[int32]struct{} {
	set := map[int32]struct{}{}
	for _, p := range partitions {
		set[p] = struct{}{}
	}
	return set
}

// Stamp is a place in a log, and when what is there was written.
type Stamp struct {
	Partition pawl.Partition
	Offset    int64
	At        time.Time // of the first record from there on; zero: it could not be read in time
}

// Stamp reads the first record behind each offset, to tell how old it is, and sets At. It returns when all are known or ctx
// ends.
func (s *Source) Stamp(ctx context.Context, places []Stamp) error {
	if len(places) == 0 {
		return nil
	}
	if err := s.validate(ctx); err != nil {
		return err
	}
	from := map[string]map[int32]kgo.Offset{}
	for _, p := range places {
		if from[p.Partition.Topic] == nil {
			from[p.Partition.Topic] = map[int32]kgo.Offset{}
		}
		from[p.Partition.Topic][p.Partition.Index] = kgo.NewOffset().At(p.Offset)
	}
	opts := slices.Concat(s.cfg.defaults(), s.cfg.Options, s.cfg.secure(), []kgo.Opt{
		kgo.SeedBrokers(s.cfg.Brokers...), kgo.ConsumePartitions(from), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxPartitionBytes(1), kgo.FetchMaxWait(100 * time.Millisecond),
	})
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return &pawl.Error{Op: "read how old records are", Class: pawl.Misconfigured, Err: err}
	}
	defer cl.Close()
	for left := len(places); left > 0 && ctx.Err() == nil; {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			for i := range places {
				p := &places[i]
				if p.At.IsZero() && p.Partition.Topic == r.Topic && p.Partition.Index == r.Partition && r.Offset >= p.Offset {
					p.At = r.Timestamp
					left--
				}
			}
		})
	}
	return nil
}

// patiently asks again while a cluster is not ready to answer about groups: a new one makes the topic of their offsets first.
func patiently[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	for n := 1; ; n++ {
		answer, err := ask()
		if err == nil || !kerr.IsRetriable(err) || n == lookTries {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, err
		case <-time.After(retry.Delay(n)):
		}
	}
}

const lookTries = 8
