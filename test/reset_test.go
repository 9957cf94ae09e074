package test

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/kafkatest"
	"github.com/pawlhq/pawl/internal/pgtest/services"
)

// Someone moves a stopped consumer with the tool that comes with Kafka: back to the beginning, or on, past two records that
// it has not read. Config.Reset says what becomes of it.
func TestAGroupThatWasResetWithKafkasOwnTool(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.Real(t)
	libs := services.Address(t, "kafka_libs")
	for _, move := range []struct {
		name string
		args []string
		to   int64
		met  []int64 // if it is accepted
	}{
		{"back", []string{"--to-earliest"}, 0, []int64{0, 1, 2, 3, 4, 5, 6, 7}},
		{"on", []string{"--to-offset", "7"}, 7, []int64{7}},
	} {
		t.Run(move.name, func(t *testing.T) {
			t.Parallel()
			topic := kafkatest.Topic(t, brokers, 1)
			cl := kafkatest.Client(t, brokers)
			admin := kadm.NewClient(cl)
			kafkatest.Produce(t, cl, topic, 0, 5)
			readers := make(map[pawl.Reset]*reader)
			args := append([]string{"--bootstrap-server", brokers[0], "--reset-offsets", "--execute", "--topic", topic}, move.args...)
			for _, reset := range []pawl.Reset{pawl.ResetHalt, pawl.ResetRefuse, pawl.ResetAccept} {
				r := newReader(t, brokers, topic)
				stop := r.start(t, pawl.ResetHalt)
				r.caughtUp(t, admin, 0)
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				r.took(0)
				readers[reset] = r
				args = append(args, "--group", r.group)
			}
			kafkatest.Produce(t, cl, topic, 0, 3)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			out, err := exec.CommandContext(ctx, "java", append([]string{
				"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
				"-cp", libs + "/*", "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
			}, args...)...).CombinedOutput()
			for _, r := range readers { // the tool ends well even where it has done nothing
				if at := r.committed(t, admin, 0); err != nil || at != move.to {
					t.Fatalf("the group's offset is %d, want %d: %v\n%s", at, move.to, err, out)
				}
			}

			stopped := readers[pawl.ResetHalt]
			stop := stopped.start(t, pawl.ResetHalt)
			said := fmt.Sprintf("group %s to %d, and the store's position is 5", stopped.group, move.to)
			if c := stopped.condition(t); c.State != pawl.StateOffsetReset || c.Hint == "" || !strings.Contains(c.Reason, said) {
				t.Errorf("ResetHalt: got %+v, want one that says %q", c, said)
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if got, at := stopped.took(0), stopped.committed(t, admin, 0); len(got) > 0 || at != move.to {
				t.Errorf("ResetHalt: met %v, committed %d; nobody has decided yet", got, at)
			}
			decided := []struct {
				reset  pawl.Reset
				reader *reader
				met    []int64
			}{
				{pawl.ResetRefuse, readers[pawl.ResetRefuse], []int64{5, 6, 7}},
				{pawl.ResetAccept, readers[pawl.ResetAccept], move.met},
				{pawl.ResetAccept, stopped, move.met}, // once someone has decided
			}
			for _, d := range decided {
				stop := d.reader.start(t, d.reset)
				d.reader.caughtUp(t, admin, 0)
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				effects := int64(5)
				for _, o := range d.met {
					if o >= 5 {
						effects++
					}
				}
				n, distinct := d.reader.effects(t)
				if got := d.reader.took(0); !slices.Equal(got, d.met) || n != effects || distinct != effects {
					t.Errorf("Reset %d: met %v, want %v; %d effects, %d distinct, want %d", d.reset, got, d.met, n, distinct, effects)
				}
			}
			// It is done once: from now on the group's offset is Pawl's again, and nobody has to decide anything.
			kafkatest.Produce(t, cl, topic, 0, 1)
			for _, d := range decided {
				d.reader.start(t, pawl.ResetHalt)
				d.reader.caughtUp(t, admin, 0)
				if got := d.reader.took(0); !slices.Equal(got, []int64{8}) {
					t.Errorf("Reset %d: met %v after that", d.reset, got)
				}
			}
		})
	}
}
