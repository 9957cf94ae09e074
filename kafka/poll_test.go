package kafka

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl"
)

// openRun is a run with one open assignment, of partition 0, and no client.
func openRun(in *intake) *run {
	r := newRun(Config{}, in)
	a := &assignment{r: r}
	a.Partition = pawl.Partition{Topic: topic, TopicID: pawl.TopicID{1}}
	r.live[topic] = map[int32]*assignment{0: a}
	in.live[0] = &a.Assignment
	return r
}

func fetched(offsets ...int64) *kgo.FetchPartition {
	p := new(kgo.FetchPartition)
	for _, o := range offsets {
		p.Records = append(p.Records, &kgo.Record{Offset: o})
	}
	return p
}

// A client has been seen to return one offset in two polls in a row.
func TestARepeatedOffsetIsTakenOnce(t *testing.T) {
	in := newIntake()
	r := openRun(in)
	for _, p := range []*kgo.FetchPartition{fetched(0, 1, 2), fetched(2), fetched(1, 2, 3, 7), fetched(8)} {
		check(t, r.handOver(t.Context(), &kgo.FetchTopic{Topic: topic}, p))
	}
	if got := in.offsets(0); !slices.Equal(got, []int64{0, 1, 2, 3, 7, 8}) {
		t.Errorf("taken %v", got)
	}
}

func TestRecordsOfARecreatedTopicAreNotTaken(t *testing.T) {
	in := newIntake()
	r := openRun(in)
	err := r.handOver(t.Context(), &kgo.FetchTopic{Topic: topic, TopicID: [16]byte{2}}, fetched(0))
	if err == nil || !strings.Contains(err.Error(), "deleted and made again") {
		t.Errorf("got %v", err)
	}
	if got := in.offsets(0); len(got) > 0 {
		t.Errorf("taken %v", got)
	}
}

func TestConvertAllocatesPerPartitionNotPerRecord(t *testing.T) {
	records := make([]*kgo.Record, 1000)
	for i := range records {
		records[i] = &kgo.Record{Offset: int64(i), Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "a"}, {Key: "b"}}}
	}
	if n := testing.AllocsPerRun(10, func() { convert(pawl.Partition{}, records) }); n > 2 {
		t.Errorf("%v allocations", n)
	}
	out := convert(pawl.Partition{}, records)
	if len(out[999].Headers) != 2 || out[999].Headers[1].Key != "b" || out[999].Value == nil || out[999].Key != nil {
		t.Errorf("record: %+v", out[999])
	}
}
