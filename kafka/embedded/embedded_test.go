package embedded_test

import (
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/pawlhq/pawl/kafka/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func admin(t *testing.T, b *embedded.Broker) (*kgo.Client, *kadm.Client) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...))
	check(t, err)
	return cl, kadm.NewClient(cl)
}

func TestRestartKeepsRecordsOffsetsAndTopicIDs(t *testing.T) {
	dir := t.TempDir()
	b, err := embedded.Start(embedded.Config{Dir: dir, Topics: []embedded.Topic{{Name: "a", Partitions: 2}}})
	check(t, err)
	cl, adm := admin(t, b)
	for range 10 {
		check(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: "a", Value: []byte("y")}).FirstErr())
	}
	check(t, adm.CommitAllOffsets(t.Context(), "g", kadm.Offsets{"a": {1: {Topic: "a", Partition: 1, At: 4, Metadata: "m"}}}))
	before, err := adm.ListTopics(t.Context(), "a")
	check(t, err)
	cl.Close()
	check(t, b.Close())

	b, err = embedded.Start(embedded.Config{Dir: dir, Topics: []embedded.Topic{{Name: "a", Partitions: 9}, {Name: "b", Partitions: 3}}})
	check(t, err)
	cl, adm = admin(t, b)
	after, err := adm.ListTopics(t.Context(), "a", "b")
	check(t, err)
	if after["a"].ID != before["a"].ID || len(after["a"].Partitions) != 2 || len(after["b"].Partitions) != 3 {
		t.Errorf("topics before %v, after %v", before, after)
	}
	ends, err := adm.ListEndOffsets(t.Context(), "a")
	check(t, err)
	total := int64(0)
	ends.Each(func(o kadm.ListedOffset) { total += o.Offset })
	if total != 10 {
		t.Errorf("%d records, want 10", total)
	}
	offsets, err := adm.FetchOffsets(t.Context(), "g")
	check(t, err)
	if o, _ := offsets.Lookup("a", 1); o.At != 4 || o.Metadata != "m" {
		t.Errorf("committed %+v", o)
	}
	cl.Close()
	check(t, b.Close())
}

func TestListensOnLoopbackOnlyAndCreatesNothingUnasked(t *testing.T) {
	b, err := embedded.Start(embedded.Config{})
	check(t, err)
	host, _, err := net.SplitHostPort(b.Addrs()[0])
	check(t, err)
	if !net.ParseIP(host).IsLoopback() {
		t.Errorf("listens on %s", host)
	}
	cl, adm := admin(t, b)
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "unknown", Value: []byte("x")}).FirstErr(); err == nil {
		t.Error("a topic was created by being written to")
	}
	topics, err := adm.ListTopics(t.Context())
	check(t, err)
	if len(topics) != 0 {
		t.Errorf("topics: %v", topics.Names())
	}
	cl.Close()
	check(t, b.Close())
}

func TestATopicWithoutPartitionsIsRefused(t *testing.T) {
	if _, err := embedded.Start(embedded.Config{Topics: []embedded.Topic{{Name: "a"}}}); err == nil {
		t.Error("no error")
	}
}
