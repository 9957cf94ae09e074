//go:build synctests

package storm

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl"
)

// stream produces events: new ones, copies on the same and on other partitions, copies that say something else, and
// bytes that say nothing.
type stream struct {
	w  *world
	cl *kgo.Client

	mu     sync.Mutex
	count  int32
	keys   int
	recent []string // values that may be sent again
	asked  map[string]bool
}

func newStream(w *world) *stream {
	return &stream{w: w, cl: w.client(), count: int32(len(w.cluster.PartitionInfos(topic))), asked: map[string]bool{}}
}

func (s *stream) partitions() int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// postponed is true the first time.
func (s *stream) postponed(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.asked[key]
	s.asked[key] = true
	return first
}

func (s *stream) value() string {
	w := s.w
	roll := w.intn(100)
	n := w.intn(1 << 30)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.recent) > 0 {
		old := s.recent[n%len(s.recent)]
		switch {
		case roll < 12:
			w.count(sentCopy)
			return old
		case roll < 15:
			w.count(sentConflict)
			return old + "'"
		}
	}
	s.keys++
	kind := "plain"
	switch {
	case roll < 18:
		w.count(sentPoison)
		return fmt.Sprintf("poison %d", s.keys)
	case roll < 21:
		kind = "reject"
	case roll < 24:
		kind = "ignore"
	case roll < 27:
		kind = "later"
	case roll < 28:
		kind = "fail"
	}
	v := fmt.Sprintf("key-%d|%s|content %d", s.keys, kind, s.keys)
	s.recent = append(s.recent, v)
	if len(s.recent) > 60 {
		s.recent = s.recent[1:]
	}
	return v
}

// produce sends n records to random partitions.
func (s *stream) produce(cl *kgo.Client, n int) {
	var ps []int32
	for range n {
		ps = append(ps, int32(s.w.intn(int(s.partitions()))))
	}
	s.send(cl, ps...)
}

func (s *stream) send(cl *kgo.Client, partitions ...int32) {
	var rs []*kgo.Record
	for _, p := range partitions {
		rs = append(rs, &kgo.Record{Partition: p, Value: []byte(s.value())})
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := cl.ProduceSync(ctx, rs...).FirstErr(); err != nil {
		s.w.logf("produce: %v", err)
	}
}

// transaction produces in a transaction, and commits or aborts it.
func (s *stream) transaction() {
	w := s.w
	cl := w.client(kgo.TransactionalID("storm-tx"))
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := cl.BeginTransaction(); err != nil {
		w.logf("begin: %v", err)
		return
	}
	s.produce(cl, 1+w.intn(4))
	time.Sleep(w.between(time.Millisecond, 2*time.Second))
	end, k := kgo.TryCommit, txnCommitted
	if w.intn(2) == 0 {
		end, k = kgo.TryAbort, txnAborted
	}
	if err := cl.EndTransaction(ctx, end); err != nil {
		w.logf("end of transaction: %v", err)
		return
	}
	w.count(k)
}

// grow adds a partition.
func (s *stream) grow() {
	resp, err := kadm.NewClient(s.w.admin).CreatePartitions(context.Background(), 1, topic)
	if err == nil {
		_, err = resp.On(topic, nil)
	}
	if err != nil {
		s.w.logf("add a partition: %v", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	s.w.count(partitionsAdded)
	s.w.logf("there are %d partitions", s.count)
	s.cl.ForceMetadataRefresh()
}

// read returns the log as a reader of committed records sees it.
func (s *stream) read() map[place]string {
	from := map[int32]kgo.Offset{}
	left := map[int32]int64{}
	for _, p := range s.w.cluster.PartitionInfos(topic) {
		if p.HighWatermark > p.LogStartOffset {
			from[p.Partition], left[p.Partition] = kgo.NewOffset().AtStart(), p.HighWatermark
		}
	}
	all := map[place]string{}
	id := s.w.topicID()
	if len(left) == 0 {
		return all
	}
	cl := s.w.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for len(left) > 0 {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			s.w.breach("the log cannot be read to its end: %v", left)
			return all
		}
		fs.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				all[place{id, r.Partition, r.Offset}] = string(r.Value)
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return all
}

// body is what an event says.
type body struct{ kind, content string }

type decoder struct{}

// Decode implements pawl.Decoder.
func (decoder) Decode(_ pawl.Meta, value []byte) (pawl.Decoded[body], error) {
	key, b, ok := parse(string(value))
	if !ok {
		return pawl.Decoded[body]{}, errors.New("these bytes say nothing")
	}
	d := pawl.Decoded[body]{Identity: pawl.Identity{Key: key, Stream: streamOf(key)}, Body: b}
	sum := sha256.Sum256([]byte(b.kind + "|" + b.content))
	copy(d.Fingerprint[:], sum[:])
	return d, nil
}

// streamOf is the stream that a key belongs to: one of a few, or none.
func streamOf(key string) string {
	if n := sha256.Sum256([]byte(key))[0] % 8; n > 0 {
		return fmt.Sprintf("stream-%d", n)
	}
	return ""
}

func parse(value string) (key string, b body, ok bool) {
	parts := strings.SplitN(value, "|", 3)
	if len(parts) != 3 {
		return "", body{}, false
	}
	return parts[0], body{parts[1], parts[2]}, true
}
