package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawlhq/pawl"
)

// A log that was cut off, as by an unclean leader election, and has grown again since looks sound: the position is in it, and
// the records below that took the places of those that were read would never be. What tells is the leader's epoch: each
// commit carries that of the last record it follows, and the log knows up to which offset it has records of that epoch and
// the ones before.

// cutOff finds, among assignments that are about to start, those whose log does not reach what was committed in the epoch it
// was committed in.
func (r *run) cutOff(ctx context.Context, as []*assignment, starts []int64) (map[*assignment]pawl.Condition, error) {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID = -1
	asked := map[string]map[int32]int{} // index in as
	for i, a := range as {
		if a.Committed <= 0 || a.committedEpoch < 0 || starts[i] == pawl.Halted {
			continue
		}
		topic := a.Partition.Topic
		if asked[topic] == nil {
			asked[topic] = map[int32]int{}
			t := kmsg.NewOffsetForLeaderEpochRequestTopic()
			t.Topic = topic
			req.Topics = append(req.Topics, t)
		}
		asked[topic][a.Partition.Index] = i
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.Partition, p.LeaderEpoch = a.Partition.Index, a.committedEpoch
		for j := range req.Topics {
			if req.Topics[j].Topic == topic {
				req.Topics[j].Partitions = append(req.Topics[j].Partitions, p)
			}
		}
	}
	if len(asked) == 0 {
		return nil, nil
	}
	resp, err := req.RequestWith(ctx, r.cl)
	if err != nil {
		return nil, fmt.Errorf("ask for the ends of leader epochs: %w", err)
	}
	cut := map[*assignment]pawl.Condition{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			i, ok := asked[t.Topic][p.Partition]
			if !ok {
				continue
			}
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("ask for the end of a leader's epoch of %s: %w", as[i].Partition, err)
			}
			if a := as[i]; p.EndOffset >= 0 && p.EndOffset < min(a.Committed, starts[i]) {
				cut[a] = pawl.Condition{
					Partition: a.Partition, State: pawl.StateDataLoss, Next: starts[i], Start: a.Start, End: a.End,
					Reason: fmt.Sprintf("the log was cut off at %d while nobody was reading: records up to %d had been", p.EndOffset, starts[i]),
					Hint:   dataLossHint(p.EndOffset),
				}
			}
		}
	}
	return cut, nil
}

func dataLossHint(end int64) string {
	return fmt.Sprintf("a replica without them was elected leader. What was read and is gone from the log has taken effect; others take the places: moving to %d goes on with those", end)
}
