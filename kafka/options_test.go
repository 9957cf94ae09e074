package kafka

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawlhq/pawl"
)

func TestReservedOptionsAreRefusedByName(t *testing.T) {
	callback := func(context.Context, *kgo.Client, map[string][]int32) {}
	options := map[string]kgo.Opt{
		"SeedBrokers":        kgo.SeedBrokers("elsewhere:9092"),
		"ConsumerGroup":      kgo.ConsumerGroup("other"),
		"Balancers":          kgo.Balancers(kgo.CooperativeStickyBalancer()), // the client's default, and named all the same
		"ServerSideBalancer": kgo.ServerSideBalancer(),
		"InstanceID":         kgo.InstanceID("one"),
		"ShareGroup":         kgo.ShareGroup("other"),
		"ConsumeTopics":      kgo.ConsumeTopics("t"),
		"ConsumeRegex":       kgo.ConsumeRegex(),
		"ConsumePartitions":  kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset()}}),
		"ConsumeStartOffset": kgo.ConsumeStartOffset(kgo.NewOffset().AtEnd()),
		"ConsumeResetOffset": kgo.ConsumeResetOffset(kgo.RewindOffset(time.Hour)),
		"AdjustFetchOffsetsFn": kgo.AdjustFetchOffsetsFn(func(_ context.Context, m map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
			return m, nil
		}),
		"OnOffsetsFetched":            kgo.OnOffsetsFetched(func(context.Context, *kgo.Client, *kmsg.OffsetFetchResponse) error { return nil }),
		"OnPartitionsAssigned":        kgo.OnPartitionsAssigned(callback),
		"OnPartitionsRevoked":         kgo.OnPartitionsRevoked(callback),
		"OnPartitionsLost":            kgo.OnPartitionsLost(callback),
		"OnPartitionsCallbackBlocked": kgo.OnPartitionsCallbackBlocked(func(context.Context, *kgo.Client) {}),
		"BlockRebalanceOnPoll":        kgo.BlockRebalanceOnPoll(),
		"DisableAutoCommit":           kgo.DisableAutoCommit(),
		"GreedyAutoCommit":            kgo.GreedyAutoCommit(),
		"AutoCommitMarks":             kgo.AutoCommitMarks(),
		"AutoCommitInterval":          kgo.AutoCommitInterval(time.Second),
		"AutoCommitCallback": kgo.AutoCommitCallback(func(*kgo.Client, *kmsg.OffsetCommitRequest, *kmsg.OffsetCommitResponse, error) {
		}),
		"FetchIsolationLevel":      kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		"KeepControlRecords":       kgo.KeepControlRecords(),
		"KeepRetryableFetchErrors": kgo.KeepRetryableFetchErrors(),
		"TransactionalID":          kgo.TransactionalID("tx"),
		"WithContext":              kgo.WithContext(t.Context()),
	}
	for _, o := range reserved {
		t.Run(o.name, func(t *testing.T) {
			opt, ok := options[o.name]
			if !ok {
				t.Fatal("no case for it")
			}
			src := New(Config{
				Brokers: []string{"127.0.0.1:1"}, Group: group, Logger: slog.New(slog.DiscardHandler), Options: []kgo.Opt{opt},
			})
			_, err := src.Origin(t.Context())
			want := "option kgo." + o.name + " is reserved: " + o.why
			if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "is reserved") != 1 {
				t.Errorf("got %v", err)
			}
			if e, ok := errors.AsType[*pawl.Error](err); !ok || e.Class != pawl.Misconfigured {
				t.Errorf("class of %v", err)
			}
			if rerr := src.Run(t.Context(), []string{topic}, newIntake()); rerr == nil || rerr.Error() != err.Error() {
				t.Errorf("Run says %v, Origin %v", rerr, err)
			}
		})
	}
}

func TestConfigErrorsAreReportedTogether(t *testing.T) {
	_, err := New(Config{
		Logger: slog.New(slog.DiscardHandler), Balance: BrokerSide + 1, Instance: "pod/1",
		Options: []kgo.Opt{kgo.DisableAutoCommit(), kgo.ConsumeTopics("t")},
	}).Origin(t.Context())
	for _, want := range []string{"Config.Brokers", "Config.Group", "Config.Balance is 3", `"pod/1": character '/'`, "kgo.DisableAutoCommit", "kgo.ConsumeTopics"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is missing from %v", want, err)
		}
	}
}

func TestOtherOptionsPassThrough(t *testing.T) {
	each(t, 1, func(t *testing.T, b *broker) {
		src := b.source(kgo.SessionTimeout(10*time.Second), kgo.Rack("one"))
		in := newIntake()
		m := b.start(t, src, in)
		in.wait(t, "assignment", func() bool { return in.assignment(0) != nil })
		cl := m.running.cl
		if got := cl.OptValue(kgo.Rack); got != "one" {
			t.Errorf("rack %v", got)
		}
		if got := cl.OptValue(kgo.SessionTimeout); got != 10*time.Second {
			t.Errorf("session timeout %v", got)
		}
	})
}

func TestOptionsThatTheClientRefusesAreReported(t *testing.T) {
	src := New(Config{Brokers: []string{"127.0.0.1:1"}, Group: group, Options: []kgo.Opt{kgo.SessionTimeout(time.Millisecond)}})
	if err := src.Run(t.Context(), []string{topic}, newIntake()); err == nil || !strings.Contains(err.Error(), "session timeout") {
		t.Errorf("got %v", err)
	}
}
