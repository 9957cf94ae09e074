package kafka

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
)

func TestLookTellsBoundsCommitsAndOwnersFromOutside(t *testing.T) {
	eachBalance(t, 2, func(t *testing.T, b *broker) {
		cl := b.client(t)
		b.produce(t, cl, 0, 10)
		in := newIntake()
		m := b.start(t, b.source(), in)
		in.wait(t, "all partitions", func() bool { return len(in.assigned()) == 2 })
		check(t, m.Commit(t.Context(), []pawl.Commit{{Assignment: in.assignment(0), Next: 7, Metadata: "pawl/1 next=7"}}))

		logs, err := b.source().Look(t.Context(), []string{b.topic, "no-such-topic"})
		if err != nil || len(logs) != 2 {
			t.Fatalf("%+v, %v", logs, err)
		}
		named := b.real(t) || b.balance != BrokerSide // the embedded broker leaves the topic's name out there
		for _, l := range logs {
			if l.Partition != in.assignment(l.Partition.Index).Partition || strings.Contains(l.Owner, "pawl@") != named {
				t.Errorf("%+v", l)
			}
		}
		if l := logs[0]; l.Start != 0 || l.End != 10 || l.Committed != 7 {
			t.Errorf("partition 0: %+v", l)
		}
		if l := logs[1]; l.End != 0 || l.Committed != -1 {
			t.Errorf("partition 1: %+v", l)
		}
		check(t, m.end(t))
		if logs, err = b.source().Look(t.Context(), []string{b.topic}); err != nil || len(logs) != 2 || logs[0].Owner != "" || logs[0].Committed != 7 {
			t.Errorf("after it has left: %+v, %v", logs, err)
		}
	})
}

func TestLookSaysWhyItCannot(t *testing.T) {
	src := New(Config{Brokers: []string{"127.0.0.1:1"}, Group: "g"})
	_, err := src.Look(t.Context(), []string{"t"})
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") || !strings.Contains(err.Error(), "is the address right") {
		t.Errorf("got %v", err)
	}
}

func TestStampTellsHowOldARecordIs(t *testing.T) {
	each(t, 2, func(t *testing.T, b *broker) {
		cl := b.client(t)
		before := time.Now().Add(-time.Minute)
		b.produce(t, cl, 1, 3)
		logs, err := b.source().Look(t.Context(), []string{b.topic})
		check(t, err)
		places := []Stamp{{Partition: logs[1].Partition, Offset: 2}}
		check(t, b.source().Stamp(t.Context(), places))
		if at := places[0].At; at.Before(before) || at.After(time.Now().Add(time.Minute)) {
			t.Errorf("written at %s", at)
		}
	})
}
