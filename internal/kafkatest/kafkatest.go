// Package kafkatest gives tests a Kafka to talk to: the embedded broker, the real one that scripts/services started or
// that PAWL_TEST_KAFKA names, or one of the test's own, to be killed.
//
// Where the real one is missing, a test is skipped and noted for the closing summary of scripts/test; with
// PAWL_REQUIRE_SERVICES=1 it fails instead.
package kafkatest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawlhq/pawl/internal/pgtest/services"
	"github.com/pawlhq/pawl/kafka/embedded"
)

// patience bounds each step of setting up and tearing down.
const patience = 30 * time.Second

// Each runs body as two subtests: on an embedded broker of its own, and on the real one, which other tests share.
func Each(t *testing.T, body func(t *testing.T, brokers []string)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) { body(t, Embedded(t)) })
	t.Run("real", func(t *testing.T) { body(t, Real(t)) })
}

// Embedded starts a broker in this process, in memory, and stops it when the test ends.
func Embedded(t testing.TB) []string {
	t.Helper()
	b, err := embedded.Start(embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b.Addrs()
}

// Real returns the brokers of the real cluster. Tests of other packages use it at the same time.
func Real(t testing.TB) []string {
	t.Helper()
	return strings.Split(services.Address(t, "kafka"), ",")
}

// Cluster is a real cluster whose nodes a test may kill.
type Cluster struct {
	Brokers []string

	own *services.Own
}

// Own starts a real cluster for the test alone, of one node or of three, and stops it when the test ends. It takes
// seconds. Of three nodes, one that "scripts/services up kafka3" started is used if the environment names it.
func Own(t testing.TB, nodes int) *Cluster {
	t.Helper()
	var own *services.Own
	switch nodes {
	case 1:
		own = services.Start(t, "kafka")
	case 3:
		if own = services.Shared("kafka3"); own == nil {
			own = services.Start(t, "kafka3")
		}
	default:
		t.Fatalf("a cluster of %d nodes: only 1 and 3 are to be had", nodes)
	}
	return &Cluster{Brokers: strings.Split(own.Address, ","), own: own}
}

// Kill ends a node, counted from 1, with SIGKILL.
func (c *Cluster) Kill(t testing.TB, node int) {
	t.Helper()
	c.own.Control(t, "kill", strconv.Itoa(node))
}

// Stop ends a node in good order: it first hands over what it leads.
func (c *Cluster) Stop(t testing.TB, node int) {
	t.Helper()
	c.own.Control(t, "stop", strconv.Itoa(node))
}

// Start starts a node that was ended, with its data, and returns when it serves. After a kill that takes as long as the
// cluster takes to miss it, about eight seconds.
func (c *Cluster) Start(t testing.TB, node int) {
	t.Helper()
	c.own.Control(t, "start", strconv.Itoa(node))
}

// Topic creates a topic with a name of its own, and deletes it when the test ends. Configs are of the form name=value.
// When it returns, every broker knows the topic.
func Topic(t testing.TB, brokers []string, partitions int, configs ...string) string {
	t.Helper()
	values := make(map[string]*string)
	for _, c := range configs {
		name, value, ok := strings.Cut(c, "=")
		if !ok {
			t.Fatalf("config %q is not name=value", c)
		}
		values[name] = &value
	}
	name := unique(t)
	create := func(ctx context.Context, cl *kgo.Client) error {
		if _, err := kadm.NewClient(cl).CreateTopic(ctx, int32(partitions), -1, values, name); err != nil {
			return err
		}
		return spread(ctx, cl, name, partitions)
	}
	if err := admin(brokers, create); err != nil {
		t.Fatalf("create topic of the test: %v", err)
	}
	t.Cleanup(func() {
		remove := func(ctx context.Context, cl *kgo.Client) error {
			_, err := kadm.NewClient(cl).DeleteTopic(ctx, name)
			return err
		}
		// The test may have deleted it.
		if err := admin(brokers, remove); err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			t.Errorf("delete topic of the test: %v", err)
		}
	})
	return name
}

// spread waits until every broker knows a topic and the leaders of its partitions: each learns of it in its own time.
func spread(ctx context.Context, cl *kgo.Client, topic string, partitions int) error {
	nodes, err := kadm.NewClient(cl).ListBrokers(ctx)
	if err != nil {
		return err
	}
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = kmsg.StringPtr(topic)
	req.Topics = []kmsg.MetadataRequestTopic{rt}
	for _, node := range nodes {
		known := func() (bool, error) {
			resp, err := req.RequestWith(ctx, cl.Broker(int(node.NodeID)))
			if err != nil {
				return false, err
			}
			led := 0
			for _, t := range resp.Topics {
				for _, p := range t.Partitions {
					if p.ErrorCode == 0 && p.Leader >= 0 {
						led++
					}
				}
			}
			return led == partitions, nil
		}
		if err := poll(ctx, known); err != nil {
			return fmt.Errorf("broker %d: %w", node.NodeID, err)
		}
	}
	return nil
}

// Group returns the name of a group that nobody uses.
func Group(t testing.TB) string {
	t.Helper()
	return unique(t)
}

// Client returns a client that produces to the partition that a record names. It is closed when the test ends.
func Client(t testing.TB, brokers []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	base := []kgo.Opt{kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner())}
	cl, err := kgo.NewClient(append(base, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// Produce writes n records to a partition with a [Client], and returns when all are acknowledged. The key, the value and
// the header n of each are its number among them, from 0.
func Produce(t testing.TB, cl *kgo.Client, topic string, partition int32, n int) {
	t.Helper()
	records := make([]*kgo.Record, n)
	for i := range records {
		number := strconv.AppendInt(nil, int64(i), 10)
		records[i] = &kgo.Record{
			Topic: topic, Partition: partition, Key: number, Value: number,
			Headers: []kgo.RecordHeader{{Key: "n", Value: number}},
		}
	}
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// WaitStable waits until a partition can be read up to offset by those who read only what is committed. A real broker
// ends a transaction a moment after it has answered so.
func WaitStable(t testing.TB, cl *kgo.Client, topic string, partition int32, offset int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var last int64
	err := poll(ctx, func() (bool, error) {
		ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, topic)
		if err != nil {
			return false, err
		}
		end, _ := ends.Lookup(topic, partition)
		last = end.Offset
		return end.Err == nil && last >= offset, end.Err
	})
	if err != nil {
		t.Fatalf("%s/%d can be read up to %d, want %d: %v", topic, partition, last, offset, err)
	}
}

// poll asks until the answer is yes.
func poll(ctx context.Context, ask func() (bool, error)) error {
	for {
		if ok, err := ask(); ok || err != nil {
			return err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// admin does something with a client of its own. It may run after the test's context has ended.
func admin(brokers []string, do func(context.Context, *kgo.Client) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return err
	}
	defer cl.Close()
	return do(ctx, cl)
}

// unique is a name that tells of its test, in characters that Kafka allows.
func unique(t testing.TB) string {
	t.Helper()
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '-'
	}, t.Name())
	return name[:min(len(name), 120)] + "-" + rand.Text()[:12]
}
