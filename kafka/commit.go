package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawlhq/pawl"
)

const (
	commitTimeout = 10 * time.Second
	maxMetadata   = 4096 // bytes: what brokers accept by default
)

// commit stores offsets for assignments that have not ended. It may be called from inside in.Revoke.
func (r *run) commit(ctx context.Context, commits []pawl.Commit) error {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	r.commits.RLock()
	defer r.commits.RUnlock()

	var errs []error
	todo := make(map[string]map[int32]commit)
	nexts := make(map[string]map[int32]kgo.EpochOffset)
	for _, c := range commits {
		p := c.Assignment.Partition
		a := r.find(p.Topic, p.Index)
		if a == nil || &a.Assignment != c.Assignment {
			continue // it has ended
		}
		if len(c.Metadata) > maxMetadata {
			errs = append(errs, fmt.Errorf("%s: %d bytes of metadata, at most %d", p, len(c.Metadata), maxMetadata))
			continue
		}
		if todo[p.Topic] == nil {
			todo[p.Topic] = make(map[int32]commit)
			nexts[p.Topic] = make(map[int32]kgo.EpochOffset)
		}
		todo[p.Topic][p.Index] = commit{c, a.member}
		nexts[p.Topic][p.Index] = kgo.EpochOffset{Epoch: a.epoch.Load(), Offset: c.Next}
	}
	if len(nexts) > 0 {
		ctx = kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error { sign(req, todo); return nil })
		done := func(_ *kgo.Client, req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
			errs = append(errs, failures(req, resp, err)...)
		}
		r.cl.CommitOffsetsSync(ctx, nexts, done)
	}
	if len(errs) == 0 {
		return nil
	}
	return &pawl.Error{
		Op: "commit offsets to group " + r.cfg.Group, Class: pawl.Transient, Err: errors.Join(errs...),
		Hint: "nothing is lost: positions are in the store, and the next commit covers this one",
	}
}

// commit is a pawl.Commit with the member id of its assignment.
type commit struct {
	pawl.Commit
	member string
}

// sign puts Pawl's metadata on a request that is about to be sent, and takes out what belongs to a membership that is
// over: the request carries the member id of this moment, and the broker would accept it.
func sign(req *kmsg.OffsetCommitRequest, todo map[string]map[int32]commit) {
	topics := req.Topics[:0]
	for _, t := range req.Topics {
		partitions := t.Partitions[:0]
		for _, p := range t.Partitions {
			c := todo[t.Topic][p.Partition]
			if c.member != req.MemberID {
				continue
			}
			p.Metadata = &c.Metadata
			partitions = append(partitions, p)
		}
		if t.Partitions = partitions; len(partitions) > 0 {
			topics = append(topics, t)
		}
	}
	req.Topics = topics
}

// failures looks at each partition of an answer: a broker may store some and refuse others.
func failures(req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) []error {
	if err != nil {
		return []error{err}
	}
	names := make(map[[16]byte]string) // newer brokers answer with ids alone
	for _, t := range req.Topics {
		names[t.TopicID] = t.Topic
	}
	var errs []error
	for _, t := range resp.Topics {
		name := cmp.Or(t.Topic, names[t.TopicID])
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				errs = append(errs, fmt.Errorf("%s/%d: %w", name, p.Partition, err))
			}
		}
	}
	return errs
}
