package test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
	"github.com/pawlhq/pawl/internal/kafkatest"
	"github.com/pawlhq/pawl/kafka"
)

// reader is a consumer with a store of its own, that notes what it met.
type reader struct {
	brokers      []string
	topic, group string
	store        *opened[pawl.SQLTx]

	mu  sync.Mutex
	met map[int32][]int64 // offsets that were decided, in order
}

func newReader(t testing.TB, brokers []string, topic string) *reader {
	t.Helper()
	return &reader{
		brokers: brokers, topic: topic, group: kafkatest.Group(t), met: make(map[int32][]int64),
		store: openSQLite(t, `create table seen (place text not null, bytes integer not null)`),
	}
}

// run reads until ctx ends.
func (r *reader) run(ctx context.Context, reset pawl.Reset) error {
	runner := pawl.NewRunner(r.store.Store, kafka.New(kafka.Config{
		Brokers: r.brokers, Group: r.group, Logger: slog.New(slog.DiscardHandler),
		Options: []kgo.Opt{kgo.HeartbeatInterval(50 * time.Millisecond), kgo.FetchMaxWait(50 * time.Millisecond)},
	}), pawl.Config{
		Consumer: "log", Reset: reset, CommitInterval: 5 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Hooks: pawl.Hooks{Settled: func(b pawl.Settled) {
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, d := range b.Decisions {
				r.met[b.Partition.Index] = append(r.met[b.Partition.Index], d.Record.Offset)
			}
		}},
	})
	byPosition := decode.Bytes(func(m pawl.Meta, _ []byte) (pawl.Identity, error) {
		return pawl.Identity{Key: m.PositionKey()}, nil
	})
	pawl.Handle(runner, pawl.Route{Name: "log", Topics: []string{r.topic}}, byPosition,
		func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[[]byte]) error {
			_, err := tx.ExecContext(ctx, `insert into seen values (?, ?)`, e.Key, len(e.Body))
			return err
		})
	return runner.Run(ctx)
}

func (r *reader) start(t testing.TB, reset pawl.Reset) (stop func() error) {
	return running(t, func(ctx context.Context) error { return r.run(ctx, reset) })
}

// took is what was met since the last time, by partition.
func (r *reader) took(p int32) []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	met := r.met[p]
	delete(r.met, p)
	return met
}

// committed is what the group has stored; -1 is nothing.
func (r *reader) committed(t testing.TB, admin *kadm.Client, p int32) int64 {
	t.Helper()
	all, err := admin.FetchOffsets(t.Context(), r.group)
	if errors.Is(err, kerr.GroupIDNotFound) || kerr.IsRetriable(err) { // nobody has joined yet, or a new cluster has no coordinator yet
		return -1
	}
	if err != nil {
		t.Fatal(err)
	}
	if o, ok := all.Lookup(r.topic, p); ok {
		return o.At
	}
	return -1
}

// caughtUp waits until nothing is left of the log, as anyone sees it who compares the group's offset with the log's end.
func (r *reader) caughtUp(t testing.TB, admin *kadm.Client, partitions ...int32) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for _, p := range partitions {
		ends, err := admin.ListEndOffsets(t.Context(), r.topic)
		if err != nil {
			t.Fatal(err)
		}
		end, _ := ends.Lookup(r.topic, p)
		for at := int64(-1); at != end.Offset; at = r.committed(t, admin, p) {
			if time.Now().After(deadline) {
				t.Fatalf("partition %d: the group's offset is %d, and the log ends at %d", p, at, end.Offset)
			}
			time.Sleep(5 * time.Millisecond) // between two looks
		}
	}
}

func (r *reader) effects(t testing.TB) (n, distinct int64) {
	t.Helper()
	return r.store.int(t, `select count(*) from seen`), r.store.int(t, `select count(distinct place) from seen`)
}

// condition waits for one that stands.
func (r *reader) condition(t testing.TB) (found pawl.OpenCondition) {
	t.Helper()
	waitUntil(t, time.Now().Add(30*time.Second), func() bool {
		all, err := r.store.Admin().Conditions(t.Context(), "log")
		if err != nil {
			t.Fatal(err)
		}
		if len(all) > 0 {
			found = all[0]
		}
		return len(all) > 0
	})
	return found
}

// onEachBroker runs body on both brokers side by side.
func onEachBroker(t *testing.T, body func(t *testing.T, brokers []string)) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, brokers []string) {
		t.Parallel()
		body(t, brokers)
	})
}

func TestALogThatEndsInTransactionMarkersIsReadToItsEnd(t *testing.T) {
	onEachBroker(t, func(t *testing.T, brokers []string) {
		topic := kafkatest.Topic(t, brokers, 2)
		tx := kafkatest.Client(t, brokers, kgo.TransactionalID(topic))
		end := func(p int32, n int, how kgo.TransactionEndTry) {
			t.Helper()
			if err := tx.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			kafkatest.Produce(t, tx, topic, p, n)
			if err := tx.EndTransaction(t.Context(), how); err != nil {
				t.Fatal(err)
			}
		}
		end(0, 3, kgo.TryCommit) // 0 to 2, marker 3
		end(0, 2, kgo.TryAbort)  // 4 and 5, marker 6
		end(1, 4, kgo.TryAbort)  // nothing to be met at all
		kafkatest.WaitStable(t, tx, topic, 0, 7)
		kafkatest.WaitStable(t, tx, topic, 1, 5)

		r := newReader(t, brokers, topic)
		admin := kadm.NewClient(tx)
		stop := r.start(t, pawl.ResetHalt)
		r.caughtUp(t, admin, 0, 1)
		end(0, 1, kgo.TryAbort) // 7, marker 8: and while it is read
		kafkatest.WaitStable(t, tx, topic, 0, 9)
		r.caughtUp(t, admin, 0)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if a, b := r.took(0), r.took(1); !slices.Equal(a, []int64{0, 1, 2}) || len(b) > 0 {
			t.Errorf("met %v and %v", a, b)
		}

		// The group's offset is ahead of the store's position by markers alone: no reason to alarm, nor to read anything again.
		end(0, 1, kgo.TryCommit) // 9, marker 10
		kafkatest.WaitStable(t, tx, topic, 0, 11)
		stop = r.start(t, pawl.ResetHalt)
		r.caughtUp(t, admin, 0, 1)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if got := r.took(0); !slices.Equal(got, []int64{9}) {
			t.Errorf("met %v after the restart", got)
		}
	})
}

func TestDeletedRecordsAreNotWaitedFor(t *testing.T) {
	onEachBroker(t, func(t *testing.T, brokers []string) {
		topic := kafkatest.Topic(t, brokers, 1)
		cl := kafkatest.Client(t, brokers)
		admin := kadm.NewClient(cl)
		deleteTo := func(offset int64) {
			t.Helper()
			if _, err := admin.DeleteRecords(t.Context(), kadm.Offsets{topic: {0: {Topic: topic, At: offset}}}); err != nil {
				t.Fatal(err)
			}
		}
		kafkatest.Produce(t, cl, topic, 0, 20)
		deleteTo(12)
		r := newReader(t, brokers, topic)
		stop := r.start(t, pawl.ResetHalt)
		r.caughtUp(t, admin, 0)
		if got := r.took(0); len(got) != 8 || got[0] != 12 {
			t.Errorf("met %v, want all from the log's first on", got)
		}
		deleteTo(20) // everything, while it is read, and nothing is missed by it
		kafkatest.Produce(t, cl, topic, 0, 5)
		r.caughtUp(t, admin, 0)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		deleteTo(25) // an empty log, whose first and last are where the consumer is
		stop = r.start(t, pawl.ResetHalt)
		kafkatest.Produce(t, cl, topic, 0, 3)
		r.caughtUp(t, admin, 0)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if got := r.took(0); !slices.Equal(got, []int64{20, 21, 22, 23, 24, 25, 26, 27}) {
			t.Errorf("met %v", got)
		}

		kafkatest.Produce(t, cl, topic, 0, 4) // 28 to 31, never read
		deleteTo(30)
		r.start(t, pawl.ResetHalt)
		c := r.condition(t)
		if c.State != pawl.StateBelowLog || !strings.Contains(c.Reason, "28, and the log has 30 to 32") {
			t.Errorf("records are gone that were never read: got %+v", c)
		}
	})
}

// The embedded broker is left out: it compacts once an hour.
func TestACompactedLogIsReadOnFromInsideAHole(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.Real(t)
	topic := kafkatest.Topic(t, brokers, 1, "cleanup.policy=compact", "segment.ms=1000", "min.cleanable.dirty.ratio=0.001",
		"min.compaction.lag.ms=0", "max.compaction.lag.ms=1", "delete.retention.ms=0")
	cl := kafkatest.Client(t, brokers)
	admin := kadm.NewClient(cl)
	const keys = 5
	clock := time.Now().Add(-time.Hour)
	produce := func(n int) { // each call begins a segment, because its records are of another time
		t.Helper()
		clock = clock.Add(time.Minute)
		var records []*kgo.Record
		for i := range n {
			records = append(records, &kgo.Record{Topic: topic, Key: fmt.Append(nil, i%keys), Value: []byte("v"), Timestamp: clock})
		}
		if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	produce(20)
	r := newReader(t, brokers, topic)
	stop := r.start(t, pawl.ResetHalt)
	r.caughtUp(t, admin, 0)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	r.took(0)
	produce(20)
	produce(20)
	produce(2) // the last segment is never compacted, and these two must not follow their predecessors
	want := []int64{57, 58, 59, 60, 61}
	deadline := time.Now().Add(30 * time.Second)
	for got := []int64(nil); !slices.Equal(got[max(0, len(got)-len(want)):], want) || len(got) > keys+2; got = everything(t, brokers, topic, 62) {
		if time.Now().After(deadline) {
			t.Fatalf("not compacted: the log has %v", got)
		}
	}
	left := everything(t, brokers, topic, 62)

	stop = r.start(t, pawl.ResetHalt) // from 20, which is gone
	r.caughtUp(t, admin, 0)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if got := r.took(0); !slices.Equal(got, left) {
		t.Errorf("met %v, and the log has %v", got, left)
	}
	fresh := newReader(t, brokers, topic)
	fresh.start(t, pawl.ResetHalt)
	fresh.caughtUp(t, admin, 0)
	if got := fresh.took(0); !slices.Equal(got, left) {
		t.Errorf("from the beginning: met %v, and the log has %v", got, left)
	}
}

// everything is the offsets that a log has, up to its end.
func everything(t testing.TB, brokers []string, topic string, end int64) []int64 {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.FetchMaxWait(50*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var offsets []int64
	for len(offsets) == 0 || offsets[len(offsets)-1] < end-1 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) { offsets = append(offsets, r.Offset) })
	}
	return offsets
}

// With the settings that Pawl has by default: the client's own would find them after five minutes.
func TestPartitionsAddedWhileRunningAreReadFromTheirBeginning(t *testing.T) {
	onEachBroker(t, func(t *testing.T, brokers []string) {
		topic := kafkatest.Topic(t, brokers, 1)
		cl := kafkatest.Client(t, brokers)
		admin := kadm.NewClient(cl)
		kafkatest.Produce(t, cl, topic, 0, 10)
		r := newReader(t, brokers, topic)
		r.start(t, pawl.ResetHalt)
		r.caughtUp(t, admin, 0)
		added, err := admin.UpdatePartitions(t.Context(), 3, topic)
		if err == nil {
			err = added.Error()
		}
		if err != nil {
			t.Fatal(err)
		}
		waitUntil(t, time.Now().Add(30*time.Second), func() bool {
			topics, err := kadm.NewClient(kafkatest.Client(t, brokers)).ListTopics(t.Context(), topic)
			return err == nil && len(topics[topic].Partitions) == 3
		})
		producer := kafkatest.Client(t, brokers) // one that knows them
		for p := range int32(3) {
			kafkatest.Produce(t, producer, topic, p, 10) // before the reader has found them
		}
		r.caughtUp(t, admin, 0, 1, 2)
		for p, want := range map[int32]int{0: 20, 1: 10, 2: 10} {
			if got := r.took(p); len(got) != want || got[0] != 0 {
				t.Errorf("partition %d: met %v", p, got)
			}
		}
	})
}

// A fetch has a limit, and a record may be larger: the broker then sends it alone.
func TestARecordLargerThanAFetchIsRead(t *testing.T) {
	onEachBroker(t, func(t *testing.T, brokers []string) {
		topic := kafkatest.Topic(t, brokers, 1, "max.message.bytes=8388608")
		cl := kafkatest.Client(t, brokers, kgo.ProducerBatchMaxBytes(8<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
		big := make([]byte, 5<<20) // more than a whole fetch, of all partitions
		for _, rec := range []*kgo.Record{
			{Topic: topic, Value: []byte("small")},
			{Topic: topic, Value: big},
			{Topic: topic, Key: big[:1<<20], Headers: []kgo.RecordHeader{{Key: strings.Repeat("h", 1<<20), Value: big[:1<<20]}}},
			{Topic: topic, Value: []byte("small")},
		} {
			if err := cl.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		r := newReader(t, brokers, topic)
		r.start(t, pawl.ResetHalt)
		r.caughtUp(t, kadm.NewClient(cl), 0)
		if n := r.store.int(t, `select sum(bytes) from seen`); n != 5<<20+10 {
			t.Errorf("%d bytes", n)
		}
		if n := r.store.int(t, `select count(*) from pawl_quarantine`); n != 0 {
			t.Errorf("%d set aside", n)
		}
	})
}
