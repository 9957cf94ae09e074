package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl/kafka/embedded"
)

// broker is the embedded broker in a process of its own, so that its work is not counted as the consumer's.
type broker struct {
	cmd   *exec.Cmd
	stdin io.Closer
	addrs []string
}

// startBroker starts this program again as the broker. It ends when its standard input does: also when we are killed.
func startBroker(topics []string) (*broker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, append([]string{asBroker}, topics...)...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start broker: %w", err)
	}
	b := &broker{cmd: cmd, stdin: stdin}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		b.stop()
		return nil, fmt.Errorf("start broker: it said no address: %w", err)
	}
	b.addrs = strings.Fields(line)
	return b, nil
}

func (b *broker) stop() error {
	b.stdin.Close()
	return b.cmd.Wait()
}

// runBroker is the other side of startBroker.
func runBroker(topics []string) error {
	var cfg embedded.Config
	for _, name := range topics {
		cfg.Topics = append(cfg.Topics, embedded.Topic{Name: name, Partitions: partitions})
	}
	b, err := embedded.Start(cfg)
	if err != nil {
		return err
	}
	fmt.Println(strings.Join(b.Addrs(), " "))
	io.Copy(io.Discard, os.Stdin)
	return b.Close()
}

// produce writes the records in order.
func (b *broker) produce(ctx context.Context, topic string, events []event) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MaxBufferedRecords(50_000))
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for i := range events {
		e := &events[i]
		// The time of the record is now: the broker deletes what is older than its retention.
		r := &kgo.Record{
			Topic: topic, Partition: e.partition(), Key: []byte(e.caseID()), Value: e.json(), Timestamp: time.Now(),
		}
		cl.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				cancel(err)
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return fmt.Errorf("produce to %s: %w", topic, context.Cause(ctx))
	}
	return context.Cause(ctx)
}

// checkOffsets looks whether the group has committed the end of the log: a contender that does not is not finished.
func (b *broker) checkOffsets(ctx context.Context, group, topic string, records int) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.addrs...))
	if err != nil {
		return err
	}
	defer cl.Close()
	offsets, err := kadm.NewClient(cl).FetchOffsetsForTopics(ctx, group, topic)
	if err != nil {
		return fmt.Errorf("read offsets of %s: %w", group, err)
	}
	sum := int64(0)
	offsets.Each(func(o kadm.OffsetResponse) { sum += max(o.At, 0) })
	if sum != int64(records) {
		return fmt.Errorf("WRONG RESULT: group %s has committed offsets that sum to %d, want %d", group, sum, records)
	}
	return nil
}
