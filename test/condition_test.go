package test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
	"github.com/pawlhq/pawl/internal/kafkatest"
	"github.com/pawlhq/pawl/internal/sqlitetest"
	"github.com/pawlhq/pawl/kafka"
	"github.com/pawlhq/pawl/sqlite"
)

// halted is a consumer of one topic with two partitions, whose states are looked at and resolved as an operator does.
type halted struct {
	*testing.T
	brokers      []string
	topic, group string
	store        *sqlite.Store
	produced     int
}

func onHaltedConsumer(t *testing.T, body func(*halted)) {
	kafkatest.Each(t, func(t *testing.T, brokers []string) {
		body(newHalted(t, brokers, kafkatest.Topic(t, brokers, 2)))
	})
}

func newHalted(t *testing.T, brokers []string, topic string) *halted {
	store, err := sqlite.Open(t.Context(), sqlitetest.Migrated(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return &halted{t, brokers, topic, kafkatest.Group(t), store, 0}
}

func (h *halted) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// produce writes n events to a partition.
func (h *halted) produce(partition int32, n int) {
	h.Helper()
	cl := kafkatest.Client(h.T, h.brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for range n {
		value, _ := json.Marshal(map[string]string{"id": fmt.Sprintf("%d-%d", partition, h.produced)})
		h.produced++
		h.must(cl.ProduceSync(h.Context(), &kgo.Record{Topic: h.topic, Partition: partition, Value: value}).FirstErr())
	}
}

// run starts the consumer; it ends with the test, or when stop is called.
func (h *halted) run() (stop func()) {
	r := pawl.NewRunner(h.store, kafka.New(kafka.Config{
		Brokers: h.brokers, Group: h.group, Watch: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Options: []kgo.Opt{kgo.FetchMaxWait(50 * time.Millisecond), kgo.MetadataMinAge(50 * time.Millisecond)},
	}), pawl.Config{Consumer: "test", CommitInterval: 10 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	dec := decode.JSON(func(_ pawl.Meta, e map[string]string) pawl.Identity { return pawl.Identity{Key: e["id"]} })
	pawl.Handle(r, pawl.Route{Name: "r", Topics: []string{h.topic}}, dec,
		func(context.Context, pawl.SQLTx, pawl.Envelope[map[string]string]) error { return nil })
	ctx, cancel := context.WithCancel(h.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	ended := false
	stop = func() {
		h.Helper()
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			h.Errorf("Run: %v", err)
		}
	}
	h.Cleanup(stop)
	return stop
}

func (h *halted) until(what string, ok func() bool) {
	h.Helper()
	deadline := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-deadline:
			all, _ := h.store.Admin().Conditions(h.Context(), "test")
			h.Fatalf("not within 30 s: %s; conditions: %+v", what, all)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (h *halted) count(query string) (n int) {
	h.Helper()
	h.must(h.store.DB().QueryRowContext(h.Context(), query).Scan(&n))
	return n
}

func (h *halted) untilApplied(n int) {
	h.Helper()
	h.until(fmt.Sprintf("%d applied", n), func() bool { return h.count(`select count(*) from pawl_decision where outcome = 1`) == n })
}

// condition waits for one in a state, and returns it.
func (h *halted) condition(state pawl.State) pawl.OpenCondition {
	h.Helper()
	var found pawl.OpenCondition
	h.until("a condition "+string(state), func() bool {
		all, err := h.store.Admin().Conditions(h.Context(), "test")
		h.must(err)
		for _, c := range all {
			if c.State == state {
				found = c
				return true
			}
		}
		return false
	})
	if found.Reason == "" || found.Hint == "" {
		h.Errorf("%s does not say what happened and what to do: %+v", state, found)
	}
	return found
}

func (h *halted) resolve(c pawl.OpenCondition, to int64) {
	h.Helper()
	h.must(h.store.Admin().Resolve(h.Context(), c.ID, pawl.Resolution{To: to, By: "ops", Why: "test", At: time.Now()}))
}

func (h *halted) untilCalm() {
	h.Helper()
	h.until("no conditions", func() bool {
		all, err := h.store.Admin().Conditions(h.Context(), "test")
		h.must(err)
		return len(all) == 0
	})
}

// Records that were deleted before they were read halt their partition until an operator has decided to go on without
// them; the other partition is read meanwhile.
func TestBelowTheLogAnOperatorDecides(t *testing.T) {
	onHaltedConsumer(t, func(h *halted) {
		h.produce(0, 5)
		stop := h.run()
		h.untilApplied(5)
		stop()
		h.produce(0, 15)
		admin := kadm.NewClient(kafkatest.Client(h.T, h.brokers))
		_, err := admin.DeleteRecords(h.Context(), kadm.Offsets{h.topic: {0: {Topic: h.topic, Partition: 0, At: 12}}})
		h.must(err)

		stop = h.run()
		c := h.condition(pawl.StateBelowLog)
		if c.Next != 5 || c.Start != 12 || c.End != 20 || c.Partition.Topic != h.topic || c.Partition.Index != 0 {
			h.Errorf("condition %+v", c)
		}
		h.produce(1, 3)
		h.untilApplied(8)

		h.resolve(c, pawl.GoOn) // without anything having changed: halted again
		h.until("halted again", func() bool { return h.condition(pawl.StateBelowLog).ID != c.ID })
		stop() // an answer finds the next owner as well
		h.resolve(h.condition(pawl.StateBelowLog), 12)
		h.run()
		h.untilApplied(16)
		h.untilCalm()
		if n := h.count(`select count(*) from pawl_condition where state = 'below_log' and answered_by = 'ops'`); n != 2 {
			h.Errorf("%d answers are kept, want 2", n)
		}
	})
}

// A position past the end heals into a loss when the log grows. It does not here: the partition stays halted.
func TestAboveTheLogAnOperatorDecides(t *testing.T) {
	onHaltedConsumer(t, func(h *halted) {
		h.produce(0, 5)
		stop := h.run()
		h.untilApplied(5)
		stop()
		bound, err := h.store.Open(h.Context(), h.binding())
		h.must(err)
		progress, err := h.store.Admin().Progress(h.Context(), "test")
		h.must(err)
		owned, err := bound.Acquire(h.Context(), progress[0].Partition, pawl.NoStart)
		h.must(err)
		h.must(bound.Move(h.Context(), owned, 9)) // as if four more had been read from a log that was since restored

		stop = h.run()
		c := h.condition(pawl.StateAboveLog)
		if c.Next != 9 || c.End != 5 {
			h.Errorf("condition %+v", c)
		}
		h.produce(0, 10)
		stop()
		h.run() // and for the next owner the log looks sound
		h.produce(1, 3)
		h.untilApplied(8)
		if n := h.count(`select next_offset from pawl_progress where partition = 0`); n != 9 {
			h.Errorf("position %d: it went on by itself", n)
		}
		h.resolve(c, 5)
		h.untilApplied(18)
		h.untilCalm()
	})
}

func (h *halted) binding() pawl.Binding {
	var cluster string
	h.must(h.store.DB().QueryRowContext(h.Context(), `select cluster from pawl_consumer`).Scan(&cluster))
	return pawl.Binding{Consumer: "test", Cluster: cluster, Group: h.group, Routes: []pawl.RouteName{{Name: "r"}}}
}

// A topic that is deleted and made again while it is read: both are told, and the new one is read when an operator says so.
func TestAfterATopicWasMadeAgainAnOperatorDecides(t *testing.T) {
	onHaltedConsumer(t, func(h *halted) {
		h.produce(0, 5)
		h.run()
		h.untilApplied(5)
		admin := kadm.NewClient(kafkatest.Client(h.T, h.brokers))
		_, err := admin.DeleteTopic(h.Context(), h.topic)
		h.must(err)
		h.condition(pawl.StateTopicMissing)
		_, err = kadm.NewClient(kafkatest.Client(h.T, h.brokers)).CreateTopic(h.Context(), 1, 1, nil, h.topic)
		h.must(err)
		h.produce(0, 7)
		c := h.condition(pawl.StateRecreated)
		if n := h.count(`select count(*) from pawl_decision`); n != 5 {
			h.Errorf("%d decisions: the new topic was read unasked", n)
		}
		h.resolve(c, pawl.GoOn)
		h.untilApplied(12)
		h.untilCalm()
	})
}

// The right to read a topic is taken away and given back: told, and tried again without being asked.
func TestARightThatIsGivenBackIsFoundAgain(t *testing.T) {
	const topic = "rights"
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, topic))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	h := newHalted(t, cluster.ListenAddrs(), topic)
	h.produce(0, 5)
	h.run()
	h.untilApplied(5)

	refuse := true
	cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if !refuse {
			return nil, nil, false
		}
		const topicAuthorizationFailed = 29
		fetch := req.(*kmsg.FetchRequest)
		resp := fetch.ResponseKind().(*kmsg.FetchResponse)
		for _, asked := range fetch.Topics {
			rt := kmsg.NewFetchResponseTopic()
			rt.Topic, rt.TopicID = asked.Topic, asked.TopicID
			for _, p := range asked.Partitions {
				rp := kmsg.NewFetchResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, topicAuthorizationFailed
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
	c := h.condition(pawl.StateUnauthorized)
	if !strings.Contains(c.Reason, "TOPIC_AUTHORIZATION_FAILED") {
		t.Errorf("condition %+v", c)
	}
	h.produce(0, 3)
	cluster.Control(func(kmsg.Request) (kmsg.Response, error, bool) { refuse = false; return nil, nil, false })
	h.untilApplied(8)
	h.untilCalm()
}
