package test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/kafka"
	"github.com/pawlhq/pawl/kafka/embedded"
)

// Members join and leave one group while they read: each event takes effect once, and the offsets that the group has
// committed never lead what is settled.
//
// All entries go to two accounts, from every partition: the handlers' transactions are in each other's way all the time.
func TestMembersThatComeAndGoApplyEachEventOnce(t *testing.T) {
	onEveryStore(t, ledgerSchema, membersProof{})
}

type membersProof struct{}

func (membersProof) onPgx(t *testing.T, open func(testing.TB) *opened[pgx.Tx], exec execTx[pgx.Tx]) {
	membersComeAndGo(t, open(t), exec)
}

func (membersProof) onSQL(t *testing.T, open func(testing.TB) *opened[pawl.SQLTx], exec execTx[pawl.SQLTx]) {
	membersComeAndGo(t, open(t), exec)
}

func membersComeAndGo[Tx any](t *testing.T, s *opened[Tx], exec execTx[Tx]) {
	const events, partitions = 1500, 6
	broker, err := embedded.Start(embedded.Config{Topics: []embedded.Topic{{Name: "entries", Partitions: partitions}}})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	sum := produceEntries(t, broker.Addrs(), "entries", events)

	var applied atomic.Int64
	member := func(ctx context.Context) error {
		r := pawl.NewRunner(s.Store, kafka.New(kafka.Config{
			Brokers: broker.Addrs(), Group: "g", Logger: slog.New(slog.DiscardHandler),
			Options: []kgo.Opt{kgo.HeartbeatInterval(50 * time.Millisecond)},
		}), pawl.Config{
			Consumer: "test", MaxBatch: 20, CommitInterval: 5 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
			Hooks: pawl.Hooks{Settled: func(b pawl.Settled) {
				for _, d := range b.Decisions {
					if d.Outcome == pawl.Applied {
						applied.Add(1)
					}
				}
			}},
		})
		pawl.Handle(r, pawl.Route{Name: "ledger", Topics: []string{"entries"}}, entries(), ledgerHandler(exec))
		return r.Run(ctx)
	}

	// One stays; another joins and leaves at each tenth of the way.
	stays := running(t, member)
	deadline := time.Now().Add(90 * time.Second)
	for tenth := int64(1); tenth < 10; tenth++ {
		joins := running(t, member)
		waitUntil(t, deadline, func() bool { return applied.Load() >= tenth*events/10 })
		if err := joins(); err != nil {
			t.Fatal(err)
		}
	}
	waitUntil(t, deadline, func() bool { return s.int(t, `select count(*) from pawl_decision`) == events })
	if err := stays(); err != nil {
		t.Fatal(err)
	}
	if n := s.int(t, `select count(*) from ledger`); n != events {
		t.Errorf("%d effects, want %d", n, events)
	}
	if n := s.int(t, `select sum(balance) from account`); n != sum {
		t.Errorf("balances sum to %d, want %d", n, sum)
	}
	if n := s.int(t, `select count(*) from pawl_quarantine`); n != 0 {
		t.Errorf("%d quarantined, want none", n)
	}
}

// produceEntries writes events entries, each followed now and then by a copy, and returns the sum of what they carry once.
func produceEntries(t testing.TB, brokers []string, topic string, events int) (sum int64) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	var records []*kgo.Record
	for i := range events {
		e := entry{ID: fmt.Sprintf("e-%d", i), Account: string(rune('a' + i%2)), Amount: int64(i % 100)}
		value, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		sum += e.Amount
		for range 1 + rnd.IntN(4)/3 { // the copy goes anywhere: the key of the record is random
			records = append(records, &kgo.Record{Key: []byte(fmt.Sprint(rnd.Int())), Value: value})
		}
	}
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return sum
}

func waitUntil(t testing.TB, deadline time.Time, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatal("not in time")
		}
		<-tick.C
	}
}
