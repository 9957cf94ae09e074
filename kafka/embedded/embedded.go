// Package embedded runs a Kafka broker inside the process, for trying Pawl out, for demonstrations and for tests.
//
// It is not a production broker: one node, no replication, no security, every request served by one goroutine. It
// listens on the loopback address only. With a directory it keeps records and offsets across restarts, and every write
// is synced before it is acknowledged.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ClusterID is the id of every embedded cluster.
const ClusterID = "pawl-embedded"

// Config is how a broker runs. The zero value is a broker in memory, on any free port, without topics.
type Config struct {
	// Dir keeps the data. It is created if it does not exist. Default: everything is in memory and gone with the broker.
	Dir string

	// Port to listen on. Default: any free one.
	Port int

	// Topics are created where they do not exist. One that exists is left as it is. Topics that are not listed here must
	// be created by a client: they are not made by being asked for. Default: none.
	Topics []Topic
}

// Topic is a topic that should exist.
type Topic struct {
	Name       string
	Partitions int
}

// Broker is a running broker.
type Broker struct {
	cluster *kfake.Cluster
	addrs   []string
	log     *lastErrors
}

// Start starts a broker. When it returns, the topics exist.
func Start(cfg Config) (*Broker, error) {
	for _, t := range cfg.Topics {
		if t.Name == "" || t.Partitions < 1 {
			return nil, fmt.Errorf("start embedded broker: topic %q with %d partitions", t.Name, t.Partitions)
		}
	}
	log := new(lastErrors)
	opts := []kfake.Opt{
		kfake.Ports(cfg.Port),
		kfake.ClusterID(ClusterID),
		kfake.WithLogger(log),
		// A member that dies is missed soon, if it asks for that: by default a session lasts 6 s at least.
		kfake.GroupMinSessionTimeout(100 * time.Millisecond),
		kfake.BrokerConfigs(map[string]string{
			"group.consumer.heartbeat.interval.ms": "500",
			"group.consumer.session.timeout.ms":    "10000",
		}),
	}
	if cfg.Dir != "" {
		opts = append(opts, kfake.DataDir(cfg.Dir), kfake.SyncWrites())
	}
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		return nil, fmt.Errorf("start embedded broker: %w", err)
	}
	b := &Broker{cluster: cluster, addrs: cluster.ListenAddrs(), log: log}
	if err := b.create(cfg.Topics); err != nil {
		return nil, errors.Join(fmt.Errorf("start embedded broker: %w", err), b.Close())
	}
	return b, nil
}

// create makes the topics that are missing, by request: a topic that the broker makes on its own would be forgotten if
// it were killed.
func (b *Broker) create(topics []Topic) error {
	if len(topics) == 0 {
		return nil
	}
	// Start has no context to pass on; this only talks to the broker in this process.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.addrs...))
	if err != nil {
		return err
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	for _, t := range topics {
		_, err := admin.CreateTopic(ctx, int32(t.Partitions), 1, nil, t.Name)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("create topic %s: %w", t.Name, err)
		}
	}
	return nil
}

// Addrs are the addresses to connect to, host:port.
func (b *Broker) Addrs() []string { return b.addrs }

// Close stops the broker. It returns an error if the data could not be written.
func (b *Broker) Close() error {
	b.log.clear()
	b.cluster.Close()
	return b.log.err()
}

// lastErrors is a logger that keeps errors: the broker has no other way to say that closing failed.
type lastErrors struct {
	mu   sync.Mutex
	errs []error
}

// Logf implements kfake.Logger.
func (l *lastErrors) Logf(level kfake.LogLevel, format string, args ...any) {
	if level != kfake.LogLevelError {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.errs) < 10 {
		l.errs = append(l.errs, fmt.Errorf(format, args...))
	}
}

func (l *lastErrors) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = nil
}

func (l *lastErrors) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.errs...)
}
