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
	Topic     string
	Partition int32
	Offset    int64     // filled in when it is read
	Time      time.Time // filled in when it is read: that of sending
	Key       []byte
	Value     []byte // nil is a tombstone
	Headers   []Header
}

// Header is a header of a message.
type Header struct {
	Key   string
	Value []byte
}

// message is a record as it was read.
func message(r *kgo.Record) Message {
	m := Message{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Time: r.Timestamp, Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		m.Headers = append(m.Headers, Header(h))
	}
	return m
}

// Sender writes to topics.
type Sender struct {
	cl *kgo.Client
}

// NewSender connects. Close it.
func NewSender(addrs []string) (*Sender, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return nil, fmt.Errorf("connect to send: %w", err)
	}
	return &Sender{cl}, nil
}

// Send writes messages to their partitions, in order, and returns when all are acknowledged.
func (s *Sender) Send(ctx context.Context, messages []Message) error {
	records := make([]*kgo.Record, len(messages))
	for i, m := range messages {
		records[i] = &kgo.Record{Topic: m.Topic, Partition: m.Partition, Key: m.Key, Value: m.Value}
		for _, h := range m.Headers {
			records[i].Headers = append(records[i].Headers, kgo.RecordHeader(h))
		}
	}
	if err := s.cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// Close ends the connection.
func (s *Sender) Close() { s.cl.Close() }

// ReadAll returns all that is in topics, each partition in order.
func ReadAll(ctx context.Context, addrs []string, topics ...string) ([]Message, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, fmt.Errorf("connect to read: %w", err)
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("read %v: %w", topics, err)
	}
	left := int64(0)
	ends.Each(func(o kadm.ListedOffset) { left += o.Offset })
	var all []Message
	for left > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("read %v: %w", topics, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if end, ok := ends.Lookup(r.Topic, r.Partition); ok && r.Offset < end.Offset {
				all = append(all, message(r))
				left--
			}
		})
	}
	return all, nil
}

// Consume reads topics as a member of a group, in the way that careful consumers do without Pawl: records are handled one after
// the other, and their offsets are committed when all of a poll are handled. It returns when ctx ends or handle fails.
func Consume(ctx context.Context, addrs []string, group string, topics []string, handle func(Message) error) error {
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(addrs...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topics...), kgo.InstanceID(group),
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
			return fmt.Errorf("consume %v: %w", topics, err)
		}
		for iter := fetches.RecordIter(); !iter.Done(); {
			r := iter.Next()
			if err := handle(message(r)); err != nil {
				return err
			}
		}
		if err := cl.CommitUncommittedOffsets(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("commit offsets of %v: %w", topics, err)
		}
	}
}
