package embedded

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Message is a record by plain means: for filling a topic, for looking at it, and for a consumer to compare with. What
// follows uses Kafka as its documentation shows it, and nothing of Pawl.
type Message struct {
	Partition int32
	Offset    int64 // filled in when it is read
	Key       []byte
	Value     []byte
}

// Sender writes to a topic.
type Sender struct {
	cl    *kgo.Client
	topic string
}

// NewSender connects. Close it.
func NewSender(addrs []string, topic string) (*Sender, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return nil, fmt.Errorf("connect to send: %w", err)
	}
	return &Sender{cl, topic}, nil
}

// Send writes messages to their partitions, in order, and returns when all are acknowledged.
func (s *Sender) Send(ctx context.Context, messages []Message) error {
	records := make([]*kgo.Record, len(messages))
	for i, m := range messages {
		records[i] = &kgo.Record{Topic: s.topic, Partition: m.Partition, Key: m.Key, Value: m.Value}
	}
	if err := s.cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("send to %s: %w", s.topic, err)
	}
	return nil
}

// Close ends the connection.
func (s *Sender) Close() { s.cl.Close() }

// ReadAll returns all that is in a topic, each partition in order.
func ReadAll(ctx context.Context, addrs []string, topic string) ([]Message, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, fmt.Errorf("connect to read: %w", err)
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", topic, err)
	}
	left := int64(0)
	ends.Each(func(o kadm.ListedOffset) { left += o.Offset })
	var all []Message
	for left > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("read %s: %w", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if end, ok := ends.Lookup(topic, r.Partition); ok && r.Offset < end.Offset {
				all = append(all, Message{r.Partition, r.Offset, r.Key, r.Value})
				left--
			}
		})
	}
	return all, nil
}

// Consume reads a topic as a member of a group, in the way that careful consumers do without Pawl: records are handled one after
// the other, and their offsets are committed when all of a poll are handled. It returns when ctx ends or handle fails.
func Consume(ctx context.Context, addrs []string, group, topic string, handle func(Message) error) error {
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(addrs...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.InstanceID(group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.FetchMaxWait(100*time.Millisecond),
	)
	if err != nil {
		return fmt.Errorf("connect to consume: %w", err)
	}
	defer cl.Close()
	for {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := fetches.Err0(); err != nil && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("consume %s: %w", topic, err)
		}
		for iter := fetches.RecordIter(); !iter.Done(); {
			r := iter.Next()
			if err := handle(Message{r.Partition, r.Offset, r.Key, r.Value}); err != nil {
				return err
			}
		}
		if err := cl.CommitUncommittedOffsets(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("commit offsets of %s: %w", topic, err)
		}
	}
}
