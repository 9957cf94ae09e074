package kafkatest_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/pawlhq/pawl/internal/kafkatest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEachCallGetsItsOwnTopicWithItsConfig(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, brokers []string) {
		a := kafkatest.Topic(t, brokers, 3, "retention.ms=123456")
		b := kafkatest.Topic(t, brokers, 1)
		if a == b {
			t.Fatalf("both are %s", a)
		}
		cl := kafkatest.Client(t, brokers)
		topics, err := kadm.NewClient(cl).ListTopics(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(topics[a].Partitions); got != 3 {
			t.Errorf("%d partitions", got)
		}
		configs, err := kadm.NewClient(cl).DescribeTopicConfigs(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(configs[0].Configs, func(c kadm.Config) bool {
			return c.Key == "retention.ms" && c.MaybeValue() == "123456"
		}) {
			t.Errorf("configs: %+v", configs[0].Configs)
		}
	})
}

func TestTopicIsDeletedAtTheEndOfTheTest(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, brokers []string) {
		var name string
		t.Run("user", func(t *testing.T) { name = kafkatest.Topic(t, brokers, 1) })
		cl := kafkatest.Client(t, brokers)
		deadline := time.After(10 * time.Second) // a real broker forgets it a moment after it has answered so
		for {
			topics, err := kadm.NewClient(cl).ListTopics(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !topics.Has(name) {
				return
			}
			select {
			case <-deadline:
				t.Fatalf("topic %s is still there", name)
			default:
			}
		}
	})
}

func TestProducedRecordsAreThere(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, brokers []string) {
		topic := kafkatest.Topic(t, brokers, 2)
		cl := kafkatest.Client(t, brokers, kgo.TransactionalID(topic))
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		kafkatest.Produce(t, cl, topic, 1, 10)
		if err := cl.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
		kafkatest.WaitStable(t, cl, topic, 1, 11)
		ends, err := kadm.NewClient(cl).ListEndOffsets(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		for p, want := range map[int32]int64{0: 0, 1: 11} {
			if end, _ := ends.Lookup(topic, p); end.Offset != want {
				t.Errorf("partition %d ends at %d, want %d", p, end.Offset, want)
			}
		}
	})
}

func TestABrokerOfTheTestsOwnIsKilledAndKeepsWhatItAcknowledged(t *testing.T) {
	own := kafkatest.Own(t, 1)
	topic := kafkatest.Topic(t, own.Brokers, 1)
	cl := kafkatest.Client(t, own.Brokers)
	kafkatest.Produce(t, cl, topic, 0, 10)
	own.Kill(t, 1)
	own.Start(t, 1)
	kafkatest.Produce(t, cl, topic, 0, 10)
	ends, err := kadm.NewClient(cl).ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	if end, _ := ends.Lookup(topic, 0); end.Offset != 20 {
		t.Errorf("the log ends at %d, want 20", end.Offset)
	}
}

func TestTwoOfThreeNodesServeWhileTheThirdIsDead(t *testing.T) {
	if os.Getenv("PAWL_PROOF") != "long" {
		t.Skip("starts three brokers: PAWL_PROOF=long")
	}
	own := kafkatest.Own(t, 3)
	topic := kafkatest.Topic(t, own.Brokers, 3)
	cl := kafkatest.Client(t, own.Brokers)
	for node := 1; node <= 3; node++ {
		own.Kill(t, node)
		for p := range int32(3) {
			kafkatest.Produce(t, cl, topic, p, 10)
		}
		own.Start(t, node)
	}
	ends, err := kadm.NewClient(cl).ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	for p := range int32(3) {
		if end, _ := ends.Lookup(topic, p); end.Offset != 30 {
			t.Errorf("partition %d ends at %d, want 30", p, end.Offset)
		}
	}
}

func TestMissingServiceSkipsAndIsNoted(t *testing.T) {
	skips := filepath.Join(t.TempDir(), "skips")
	t.Setenv("PAWL_TEST_KAFKA", "")
	t.Setenv("PAWL_REQUIRE_SERVICES", "")
	t.Setenv("PAWL_TEST_SKIPS", skips)

	if p := try(t); !p.skipped || p.failed {
		t.Errorf("failed: %v, skipped: %v; want a skip", p.failed, p.skipped)
	}
	noted, err := os.ReadFile(skips)
	if want := "kafka\t" + t.Name() + "\n"; err != nil || string(noted) != want {
		t.Errorf("noted %q, %v; want %q", noted, err, want)
	}
}

func TestMissingServiceFailsWhereServicesAreRequired(t *testing.T) {
	t.Setenv("PAWL_TEST_KAFKA", "")
	t.Setenv("PAWL_REQUIRE_SERVICES", "1")
	if p := try(t); !p.failed || p.skipped {
		t.Errorf("failed: %v, skipped: %v; want a failure", p.failed, p.skipped)
	}
}

// try asks for the real cluster in place of a test.
func try(t *testing.T) *probe {
	p := &probe{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		kafkatest.Real(p)
	}()
	<-done
	return p
}

// probe stands in for a test and records how it was ended.
type probe struct {
	testing.TB
	failed, skipped bool
}

func (p *probe) Fatalf(string, ...any) {
	p.failed = true
	runtime.Goexit()
}

func (p *probe) Skipf(string, ...any) {
	p.skipped = true
	runtime.Goexit()
}
