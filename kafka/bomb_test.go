package kafka

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/kafkatest"
)

// A batch of a few kilobytes may hold gigabytes of zeros. It is not unpacked, whatever it was packed with; the error says
// where it is and what can be done, and what was before it and is behind it can be read.
//
// Not parallel, and on the real broker alone: it counts what is allocated in this process.
func TestABatchThatUnpacksToMoreThanTheLimitIsNotUnpacked(t *testing.T) {
	const limit, bomb, room = 1 << 20, 48 << 20, 36 << 20
	for name, codec := range map[string]kgo.CompressionCodec{
		"gzip": kgo.GzipCompression().WithLevel(1), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		t.Run(name, func(t *testing.T) {
			addrs := kafkatest.Real(t)
			b := &broker{addrs: addrs, topic: kafkatest.Topic(t, addrs, 1, "max.message.bytes=16777216"), group: kafkatest.Group(t)}
			cl := b.client(t, kgo.ProducerBatchCompression(codec), kgo.ProducerBatchMaxBytes(64<<20))
			b.produce(t, cl, 0, 3)
			check(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: b.topic, Value: make([]byte, bomb)}).FirstErr())
			b.produce(t, cl, 0, 3)
			runtime.GC()

			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			in := newIntake()
			b.start(t, b.source(kgo.MaxDecompressBatchBytes(limit)), in)
			c := in.waitCondition(t)
			runtime.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; got > room {
				t.Errorf("%d MiB allocated, for a batch of %d", got>>20, bomb>>20)
			}
			if c.State != pawl.StateUnreadable || c.Next != 3 || !strings.Contains(c.Hint, "from 3 to 3 are not read") || !strings.Contains(c.Hint, "move to 4") {
				t.Errorf("condition %+v", c)
			}
			if got := in.offsets(0); !slices.Equal(got, upTo(3)) {
				t.Errorf("taken %v", got)
			}
			in.assignment(0).Flow.Rewind(4, func() {}) // as an operator decides
			in.waitTaken(t, 0, 6)
			if got := in.offsets(0); !slices.Equal(got[3:], between(4, 7)) {
				t.Errorf("behind it: %v", got)
			}
		})
	}
}

func TestUnpackingIsLimitedByDefault(t *testing.T) {
	cl, err := New(Config{Brokers: []string{"127.0.0.1:1"}, Group: group}).plainClient(t.Context())
	check(t, err)
	defer cl.Close()
	if got := cl.OptValue(kgo.MaxDecompressBatchBytes); got != 64<<20 {
		t.Errorf("the limit is %v", got)
	}
}
