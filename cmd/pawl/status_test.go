package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/kafkatest"
	"github.com/pawlhq/pawl/kafka"
	"github.com/pawlhq/pawl/sqlite"
)

// run executes a command line in this process.
func runLine(t *testing.T, args ...string) (stdout string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	a := newApp(bytes.NewReader(nil), &out, &errs)
	a.env = func(string) string { return "" }
	code = a.run(t.Context(), args)
	if code != exitDone {
		t.Logf("%v: exit code %d: %s", args, code, errs.String())
	}
	return out.String(), code
}

// With the cluster's answer, status tells lag and owners; without a process it tells that, and how old what waits is.
func TestStatusTellsLagAndOwnersWhereTheClusterIsAsked(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, brokers []string) {
		topic, group := kafkatest.Topic(t, brokers, 2), kafkatest.Group(t)
		cl := kafkatest.Client(t, brokers)
		kafkatest.Produce(t, cl, topic, 0, 5)
		path := filepath.Join(t.TempDir(), "pawl.db")
		store, err := sqlite.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		if err := store.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		ask := func() *consumerStatus {
			t.Helper()
			out, code := runLine(t, "status", "--store", "sqlite:"+path, "--brokers", brokers[0], "-o", "json")
			var v statusView
			if err := json.Unmarshal([]byte(out), &v); err != nil || code != exitDone || len(v.Consumers) != 1 {
				t.Fatalf("exit code %d, %v: %s", code, err, out)
			}
			return &v.Consumers[0]
		}

		stop := consume(t, store, brokers, topic, group, 5)
		c := ask()
		if len(c.Partitions) != 2 || c.State != stateRunning {
			t.Fatalf("while it runs: %+v", c)
		}
		p := c.Partitions[0]
		if p.End == nil || *p.End != 5 || p.Settled == nil || *p.Settled != 5 || p.LagRecords == nil || *p.LagRecords != 0 ||
			p.LagSeconds == nil || *p.LagSeconds != 0 || p.Owner == "" {
			t.Errorf("while it runs: %+v", p)
		}
		stop()
		kafkatest.Produce(t, cl, topic, 0, 3)
		p = ask().Partitions[0]
		if p.State != stateStopped || *p.End != 8 || *p.LagRecords != 3 || p.Committed == nil || *p.Committed != 5 || p.Owner != "" ||
			p.LagSeconds == nil || *p.LagSeconds > 60 {
			t.Errorf("after it ended: %+v", p)
		}
	})
}

// consume runs a consumer until stop, and returns when it has settled n records.
func consume(t *testing.T, store *sqlite.Store, brokers []string, topic, group string, n int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	settled := make(chan int, 100)
	src := kafka.New(kafka.Config{Brokers: brokers, Group: group, Logger: slog.New(slog.DiscardHandler), Options: []kgo.Opt{
		kgo.FetchMaxWait(50 * time.Millisecond),
	}})
	r := pawl.NewRunner(store, src, pawl.Config{
		Consumer: "billing", Logger: slog.New(slog.DiscardHandler),
		Hooks: pawl.Hooks{Settled: func(s pawl.Settled) { settled <- len(s.Decisions) }},
	})
	pawl.Handle(r, pawl.Route{Name: "charge", Topics: []string{topic}}, byPosition{}, func(context.Context, pawl.SQLTx, pawl.Envelope[struct{}]) error { return nil })
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	for n > 0 {
		select {
		case k := <-settled:
			n -= k
		case err := <-ended:
			t.Fatalf("Run: %v", err)
		case <-time.After(30 * time.Second):
			t.Fatalf("%d records are not settled", n)
		}
	}
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

type byPosition struct{}

func (byPosition) Decode(m pawl.Meta, _ []byte) (pawl.Decoded[struct{}], error) {
	return pawl.Decoded[struct{}]{Identity: pawl.Identity{Key: m.PositionKey()}}, nil
}

func TestAPartitionIsJudgedByTheWorstThatIsKnown(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	here := pawl.Partition{Topic: "payments"}
	stored := func(owned bool, advanced time.Duration) *pawl.PartitionProgress {
		return &pawl.PartitionProgress{Partition: here, Next: 5, Owned: owned, AdvancedAt: now.Add(-advanced)}
	}
	log := func(end int64, owner string) *kafka.Log { return &kafka.Log{Partition: here, End: end, Owner: owner} }
	halts := pawl.OpenCondition{Condition: pawl.Condition{State: pawl.StateBelowLog, Partition: here}}
	latched := pawl.OpenCondition{Condition: pawl.Condition{State: pawl.StateLatched, Partition: pawl.Partition{Index: pawl.AllPartitions}}}
	told := pawl.OpenCondition{Condition: pawl.Condition{State: pawl.StateLogFrozen, Partition: here}}
	other := halts
	other.Partition.Index = 3
	for _, c := range []struct {
		name   string
		p      standing
		open   []pawl.OpenCondition
		paused bool
		want   string
	}{
		{"nothing is the matter", standing{stored: stored(true, 0), log: log(5, "a")}, nil, false, stateRunning},
		{"what halts nothing", standing{stored: stored(true, 0), log: log(5, "a")}, []pawl.OpenCondition{told}, false, stateRunning},
		{"another is halted", standing{stored: stored(true, 0), log: log(5, "a")}, []pawl.OpenCondition{other}, false, stateRunning},
		{"the cluster was not asked", standing{stored: stored(true, time.Hour)}, nil, false, stateRunning},
		{"a little behind", standing{stored: stored(true, 0), log: log(9, "a"), oldest: now.Add(-time.Second)}, nil, false, stateRunning},
		{"behind", standing{stored: stored(true, 0), log: log(9, "a"), oldest: now.Add(-time.Minute)}, nil, false, stateCatchingUp},
		{"idle for long, and a new record", standing{stored: stored(true, time.Hour), log: log(9, "a"), oldest: now.Add(-time.Second)}, nil, false, stateRunning},
		{"stands still", standing{stored: stored(true, time.Hour), log: log(9, "a"), oldest: now.Add(-time.Hour)}, nil, false, stateStalled},
		{"given back", standing{stored: stored(false, 0)}, nil, false, stateStopped},
		{"its owner died", standing{stored: stored(true, 0), log: log(9, "")}, nil, false, stateStopped},
		{"never read", standing{log: log(9, "a")}, nil, false, stateStopped},
		{"paused", standing{stored: stored(true, time.Hour), log: log(9, "a"), oldest: now.Add(-time.Hour)}, nil, true, statePaused},
		{"halted and paused", standing{stored: stored(true, 0)}, []pawl.OpenCondition{halts}, true, stateHalted},
		{"latched and halted", standing{stored: stored(true, 0)}, []pawl.OpenCondition{halts, latched}, true, stateLatched},
	} {
		c.p.Partition = here
		of := &pawl.BoundConsumer{Name: "billing"}
		if c.paused {
			of.Paused = &pawl.Pause{By: "ada"}
		}
		if got, why := judge(of, c.open, &c.p, now); got != c.want {
			t.Errorf("%s: %s (%s), want %s", c.name, got, why, c.want)
		}
	}
}
