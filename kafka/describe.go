package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawlhq/pawl"
)

// describe makes the assignments of partitions: it asks the cluster for the topics' ids and the bounds of the logs. Nothing
// is handed over for them before they are opened.
func (r *run) describe(ctx context.Context, given offsets, commits groupCommits) ([]*assignment, error) {
	ids, err := topicIDs(ctx, r.cl, given)
	if err != nil {
		return nil, err
	}
	if err := r.know(ids); err != nil {
		return nil, err
	}
	member, _ := r.cl.GroupMetadata()
	var as []*assignment
	for topic, partitions := range given {
		for partition := range partitions {
			a := &assignment{r: r, member: member, next: unopened}
			a.epoch.Store(-1)
			a.Partition = pawl.Partition{Topic: topic, TopicID: ids[topic], Index: partition}
			a.Flow = a
			as = append(as, a)
		}
	}
	sortByName(as)
	ps := names(as)
	starts, err := listOffsets(ctx, r.cl, earliest, readUncommitted, ps...)
	if err != nil {
		return nil, err
	}
	ends, err := listOffsets(ctx, r.cl, latest, readCommitted, ps...)
	if err != nil {
		return nil, err
	}
	for i, a := range as {
		a.Start, a.End = starts[i], ends[i]
		c := commits.find(a.Partition)
		a.Committed, a.Metadata, a.committedEpoch = c.offset, c.metadata, c.epoch
	}
	return as, nil
}

// know notes the ids of topics, and finds out that one was made again. The client goes on with the id that it saw first,
// also where the group has handed out partitions of the new topic, and then reads nothing and commits nothing.
func (r *run) know(ids map[string]pawl.TopicID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for topic, id := range ids {
		if was, ok := r.ids[topic]; ok && was != id {
			r.cfg.Logger.Warn("the topic was deleted and made again: joining anew", "topic", topic, "was", was, "is", id)
			return errRejoin
		}
		r.ids[topic] = id
	}
	return nil
}

// stillThere returns an error if the topic is gone or was made again: what was asked of the log by its name then says nothing
// about the log that was assigned. Where it cannot be told, it says nothing.
func (r *run) stillThere(ctx context.Context, a *assignment) error {
	ctx, cancel := context.WithTimeout(ctx, boundsTimeout)
	defer cancel()
	ids, err := topicIDs(ctx, r.cl, offsets{a.Partition.Topic: nil})
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return err
	case err != nil:
		return nil
	}
	return r.know(ids)
}

// fetched is called by the client with the offsets that the group has committed, before assigned is. Only here is the
// metadata beside them to be seen.
func (r *run) fetched(_ context.Context, _ *kgo.Client, resp *kmsg.OffsetFetchResponse) error {
	found := groupCommits{}
	for _, g := range resp.Groups {
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				metadata := ""
				if p.Metadata != nil {
					metadata = *p.Metadata
				}
				found[commitKey{t.Topic, t.TopicID, p.Partition}] = commitValue{p.Offset, metadata, p.LeaderEpoch}
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commitsOf = found
	return nil
}

// groupCommits is what the group has committed, for the partitions that were last assigned. Brokers name topics by name or by
// id, depending on their version.
type groupCommits map[commitKey]commitValue

type commitKey struct {
	topic     string
	id        pawl.TopicID
	partition int32
}

type commitValue struct {
	offset   int64
	metadata string
	epoch    int32 // of the leader of the record before it
}

func (c groupCommits) find(p pawl.Partition) commitValue {
	for _, k := range []commitKey{{p.Topic, p.TopicID, p.Index}, {p.Topic, pawl.TopicID{}, p.Index}, {"", p.TopicID, p.Index}} {
		if v, ok := c[k]; ok && v.offset >= 0 {
			return v
		}
	}
	return commitValue{-1, "", -1}
}

// topicIDs asks for the ids of topics. The request goes to a broker each time: what the client has cached may be the id
// of a topic that has been deleted and made again since.
func topicIDs(ctx context.Context, cl *kgo.Client, topics offsets) (map[string]pawl.TopicID, error) {
	req := kmsg.NewPtrMetadataRequest()
	for topic := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(topic)
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, fmt.Errorf("ask for topic ids: %w", err)
	}
	ids := make(map[string]pawl.TopicID)
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return nil, fmt.Errorf("ask for the id of topic %s: %w", *t.Topic, err)
		}
		if t.TopicID == [16]byte{} {
			return nil, &pawl.Error{
				Op: "ask for the id of topic " + *t.Topic, Class: pawl.Misconfigured,
				Err:  errors.New("the broker has no topic ids"),
				Hint: "positions are kept by topic id: Kafka has them since 2.8",
			}
		}
		ids[*t.Topic] = t.TopicID
	}
	for topic := range topics {
		if _, ok := ids[topic]; !ok {
			return nil, fmt.Errorf("ask for the id of topic %s: not in the answer", topic)
		}
	}
	return ids, nil
}

// What listOffsets can be asked for, in the numbers of the protocol.
const (
	earliest int64 = -2 // the first offset of the log
	latest   int64 = -1 // the offset after the last record

	readUncommitted int8 = 0 // latest is the high watermark
	readCommitted   int8 = 1 // latest is the last stable offset: before the first record of an open transaction
)

// listOffsets returns an offset for each partition, in order.
func listOffsets(
	ctx context.Context, cl *kgo.Client, which int64, isolation int8, ps ...pawl.Partition,
) ([]int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	req.IsolationLevel = isolation
	at := make(map[string]int) // topics of the request
	for _, p := range ps {
		i, ok := at[p.Topic]
		if !ok {
			i = len(req.Topics)
			at[p.Topic] = i
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = p.Topic
			req.Topics = append(req.Topics, t)
		}
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp = p.Index, which
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, rp)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, fmt.Errorf("ask for the bounds of the log: %w", err)
	}
	type key struct {
		topic     string
		partition int32
	}
	found := make(map[key]int64)
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("ask for the bounds of %s/%d: %w", t.Topic, p.Partition, err)
			}
			found[key{t.Topic, p.Partition}] = p.Offset
		}
	}
	out := make([]int64, len(ps))
	for i, p := range ps {
		offset, ok := found[key{p.Topic, p.Index}]
		if !ok || offset < 0 {
			return nil, fmt.Errorf("ask for the bounds of %s: not in the answer", p)
		}
		out[i] = offset
	}
	return out, nil
}
