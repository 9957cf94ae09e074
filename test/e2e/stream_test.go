//go:build unix

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl/internal/kafkatest"
)

// stream writes a seeded mix of events to the topic for as long as it is wanted, and knows what each record is: the model
// that the database is compared with in the end.
type stream struct {
	cl         *kgo.Client
	partitions int
	rnd        *rand.Rand

	mu       sync.Mutex
	families []*family        // in the order they were begun
	records  map[place]record // acknowledged
	serial   int
}

// place is where a record is in the topic.
type place struct {
	partition int32
	offset    int64
}

// record is one acknowledged record. Its family is nil if it is poison.
type record struct {
	of       *family
	conflict bool // other content than the family's first
	value    []byte
}

// family is every record with one key.
type family struct {
	first entry
	home  int32 // the partition of the first record
	kind  kind
}

type kind string

const (
	plain   kind = "plain"   // takes effect
	ignored kind = "ignored" // the handler ignores it
	refused kind = "refused" // the handler rejects it
	rivals  kind = "rivals"  // two contents on two partitions, of which the first to be met takes effect
)

func newStream(t *testing.T, brokers []string, topic string, partitions int, seed uint64) *stream {
	t.Helper()
	return &stream{
		cl:         kafkatest.Client(t, brokers, kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0), kgo.MetadataMinAge(100*time.Millisecond)),
		partitions: partitions, rnd: rand.New(rand.NewPCG(seed, 1)), records: map[place]record{},
	}
}

// run produces perSecond records a second until ctx ends. What was begun is acknowledged when it returns.
func (s *stream) run(ctx context.Context, perSecond int) error {
	const beat = 25 * time.Millisecond
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := s.produce(max(perSecond*int(beat)/int(time.Second), 1)); err != nil {
			return err
		}
	}
}

// produce writes n records or a few more, and waits for their acknowledgement.
func (s *stream) produce(n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience) // not the caller's: no record may be in doubt
	defer cancel()
	var out []*kgo.Record
	var is []record
	for len(out) < n {
		for partition, r := range s.next() {
			out, is = append(out, &kgo.Record{Partition: partition, Value: r.value}), append(is, r)
		}
	}
	if err := s.cl.ProduceSync(ctx, out...).FirstErr(); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range out {
		at := place{r.Partition, r.Offset}
		if _, twice := s.records[at]; twice {
			return fmt.Errorf("the broker has acknowledged two records at %v", at)
		}
		s.records[at] = is[i]
	}
	return nil
}

// next yields the next record, or two that belong together, with their partitions.
func (s *stream) next() func(yield func(int32, record) bool) {
	return func(yield func(int32, record) bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		here := int32(s.rnd.IntN(s.partitions))
		there := (here + 1 + int32(s.rnd.IntN(s.partitions-1))) % int32(s.partitions)
		switch dice := s.rnd.IntN(100); {
		case dice < 3:
			yield(here, record{value: []byte(`{"id": `)})
		case dice < 5:
			yield(here, s.begin(here, ignored, "ignore"))
		case dice < 7:
			yield(here, s.begin(here, refused, "reject"))
		case dice < 9:
			r := s.begin(here, rivals, "")
			other := r.of.first
			other.Account = fmt.Sprintf("rival-%d", there) // the amounts are equal, so that the sum does not depend on who wins
			if yield(here, r) {
				yield(there, record{of: r.of, conflict: true, value: encode(other)})
			}
		case dice < 30 && len(s.families) > 0: // a copy, of a recent one more often than of an old one
			f := s.families[len(s.families)-1-min(s.rnd.IntN(len(s.families)), s.rnd.IntN(len(s.families)))]
			switch {
			case f.kind != plain:
				yield(f.home, s.begin(f.home, plain, ""))
			case dice < 16:
				yield(f.home, record{of: f, value: encode(f.first)})
			case dice < 27:
				yield(there, record{of: f, value: encode(f.first)})
			default:
				// Behind the first on its own partition, so that it is certain who was first.
				other := f.first
				other.Amount += 1000
				yield(f.home, record{of: f, conflict: true, value: encode(other)})
			}
		default:
			yield(here, s.begin(here, plain, ""))
		}
	}
}

// begin is called with mu held.
func (s *stream) begin(home int32, k kind, verb string) record {
	s.serial++
	account := fmt.Sprintf("account-%d", home)
	if s.rnd.IntN(20) == 0 {
		account = "shared" // by all partitions: transactions wait for each other
	}
	f := &family{
		first: entry{ID: fmt.Sprintf("entry-%d", s.serial), Account: account, Amount: int64(s.rnd.IntN(1000) + 1), Verb: verb},
		home:  home, kind: k,
	}
	s.families = append(s.families, f)
	return record{of: f, value: encode(f.first)}
}

func encode(e entry) []byte {
	b, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return b
}

// ends returns how many records each partition has, and an error if that is not what was acknowledged.
func (s *stream) ends() (map[int32]int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ends, count := map[int32]int64{}, map[int32]int64{}
	for at := range s.records {
		ends[at.partition] = max(ends[at.partition], at.offset+1)
		count[at.partition]++
	}
	for p, end := range ends {
		if count[p] != end {
			return nil, errors.New("the log has offsets that were never acknowledged")
		}
	}
	return ends, nil
}
