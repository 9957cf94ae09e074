package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawlhq/pawl"
)

// Topic is a topic as the cluster describes it.
type Topic struct {
	Name       string
	Err        error // why it cannot be read: nothing else is known then
	Partitions int
	Rights     []string // what this login may do with it, such as "READ"; nil: the broker does not say

	Settings    error         // why the rest is not known
	Compacted   bool          // of records with one key, only the last is sure to stay
	Deleted     bool          // records go after Retention, or beyond RetainBytes
	Retention   time.Duration // negative: for ever
	RetainBytes int64         // bytes of a partition; negative: any number
	BrokerTime  bool          // timestamps are the broker's, not the producers'
}

// ErrNoTopic is the Err of a topic that does not exist.
var ErrNoTopic = errors.New("there is no such topic")

// Describe asks the cluster about topics, in the order given, and changes nothing: none is made by being asked for.
func (s *Source) Describe(ctx context.Context, names []string) ([]Topic, error) {
	cl, err := s.plainClient(ctx)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	all := make([]Topic, len(names))
	req := kmsg.NewPtrMetadataRequest()
	req.IncludeTopicAuthorizedOperations = true
	req.Topics = []kmsg.MetadataRequestTopic{}
	for i, name := range names {
		all[i] = Topic{Name: name, Err: errors.New("it is not in the cluster's answer")}
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, s.unanswered("describe topics", err)
	}
	var found []string
	for _, t := range resp.Topics {
		at := slices.IndexFunc(all, func(a Topic) bool { return t.Topic != nil && a.Name == *t.Topic })
		if at < 0 {
			continue
		}
		all[at].Err = kerr.ErrorForCode(t.ErrorCode)
		if errors.Is(all[at].Err, kerr.UnknownTopicOrPartition) {
			all[at].Err = ErrNoTopic
		}
		if all[at].Err != nil {
			continue
		}
		all[at].Partitions = len(t.Partitions)
		for _, op := range kadm.DecodeACLOperations(t.AuthorizedOperations) {
			all[at].Rights = append(all[at].Rights, op.String())
		}
		found = append(found, all[at].Name)
	}
	if len(found) == 0 {
		return all, nil // no topics would ask for those of all
	}
	configs, err := kadm.NewClient(cl).DescribeTopicConfigs(ctx, found...)
	for i := range all {
		if all[i].Err == nil {
			all[i].settings(configs, err)
		}
	}
	return all, nil
}

// settings takes over what the cluster said about its settings.
func (t *Topic) settings(configs kadm.ResourceConfigs, err error) {
	if err == nil {
		var c kadm.ResourceConfig
		if c, err = configs.On(t.Name, nil); err == nil {
			err = c.Err
		}
		for _, entry := range c.Configs {
			t.setting(entry.Key, entry.MaybeValue())
		}
	}
	t.Settings = err
}

func (t *Topic) setting(name, value string) {
	switch name {
	case "cleanup.policy":
		t.Compacted, t.Deleted = strings.Contains(value, "compact"), strings.Contains(value, "delete")
	case "retention.ms":
		if ms, err := strconv.ParseInt(value, 10, 64); err == nil {
			t.Retention = time.Duration(-1)
			if ms >= 0 && ms < int64(1<<63-1)/int64(time.Millisecond) {
				t.Retention = time.Duration(ms) * time.Millisecond
			}
		}
	case "retention.bytes":
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			t.RetainBytes = n
		}
	case "message.timestamp.type":
		t.BrokerTime = value == "LogAppendTime"
	}
}

// GroupRights is what this login may do with the group, such as "READ"; nil: the broker does not say.
func (s *Source) GroupRights(ctx context.Context) ([]string, error) {
	cl, err := s.plainClient(ctx)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	groups, err := kadm.NewClient(cl).DescribeGroups(ctx, s.cfg.Group)
	if err != nil {
		return nil, s.unanswered("describe group "+s.cfg.Group, err)
	}
	g := groups[s.cfg.Group]
	if g.Err != nil && !errors.Is(g.Err, kerr.GroupIDNotFound) {
		return nil, s.unanswered("describe group "+s.cfg.Group, g.Err)
	}
	var rights []string
	for _, op := range g.AuthorizedOperations {
		rights = append(rights, op.String())
	}
	return rights, nil
}

// Sample reads the last records of each partition that [Source.Look] has found, at most n of each, without joining the group.
// It returns what it has read when all are there, or when ctx ends.
func (s *Source) Sample(ctx context.Context, logs []Log, n int) ([]pawl.Record, error) {
	if err := s.validate(ctx); err != nil {
		return nil, err
	}
	from, until := map[string]map[int32]kgo.Offset{}, map[ownedPartition]Log{}
	for _, l := range logs {
		if l.End <= l.Start {
			continue
		}
		if from[l.Partition.Topic] == nil {
			from[l.Partition.Topic] = map[int32]kgo.Offset{}
		}
		from[l.Partition.Topic][l.Partition.Index] = kgo.NewOffset().At(max(l.Start, l.End-int64(n)))
		until[ownedPartition{l.Partition.Topic, l.Partition.Index}] = l
	}
	if len(until) == 0 {
		return nil, nil
	}
	opts := slices.Concat(s.cfg.defaults(), s.cfg.Options, s.cfg.secure(), []kgo.Opt{
		kgo.SeedBrokers(s.cfg.Brokers...), kgo.ConsumePartitions(from), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(100 * time.Millisecond),
	})
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, &pawl.Error{Op: "read a sample", Class: pawl.Misconfigured, Err: err}
	}
	defer cl.Close()
	var all []pawl.Record
	for len(until) > 0 && ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		for _, e := range fetches.Errors() {
			if ctx.Err() == nil && !kerr.IsRetriable(e.Err) {
				return all, s.unanswered(fmt.Sprintf("read a sample of %s/%d", e.Topic, e.Partition), e.Err)
			}
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			l, ok := until[ownedPartition{p.Topic, p.Partition}]
			if !ok || len(p.Records) == 0 {
				return
			}
			for _, r := range convert(l.Partition, p.Records) {
				if !r.Control && r.Offset < l.End {
					all = append(all, r)
				}
			}
			if p.Records[len(p.Records)-1].Offset >= l.End-1 {
				delete(until, ownedPartition{p.Topic, p.Partition})
			}
		})
	}
	return all, nil
}

// unanswered says why the cluster did not answer a question.
func (s *Source) unanswered(op string, err error) error {
	class, hint, refused := refusal(err)
	if !refused {
		class, hint = pawl.Transient, "is the address right, and does the broker expect TLS or a login?"
	}
	return &pawl.Error{Op: fmt.Sprintf("ask %v to %s", s.cfg.Brokers, op), Class: class, Err: err, Hint: hint}
}
