package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
	"github.com/pawlhq/pawl/internal/pgtest"
	"github.com/pawlhq/pawl/pawltest"
)

// noted is an event of the tests of order: the n-th of its stream.
type noted struct {
	ID     string `json:"id"`
	Stream string `json:"stream"`
	N      int    `json:"n"`
}

func notes() pawl.Decoder[noted] {
	return decode.JSON(func(_ pawl.Meta, e noted) pawl.Identity { return pawl.Identity{Key: e.ID, Stream: e.Stream} })
}

const noteSchema = `create table note (stream text not null, n integer not null)`

// sequence watches that each stream is applied in order.
type sequence struct {
	mu   sync.Mutex
	last map[string]int64 // offsets
	errs []string
}

func (q *sequence) settled(s pawl.Settled) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.last == nil {
		q.last = map[string]int64{}
	}
	for _, d := range s.Decisions {
		name := d.Identity.Stream
		if d.Outcome != pawl.Applied || name == "" {
			continue
		}
		if last, ok := q.last[name]; ok && d.Record.Offset <= last {
			q.errs = append(q.errs, fmt.Sprintf("%s: offset %d after %d", name, d.Record.Offset, last))
		}
		q.last[name] = d.Record.Offset
	}
}

func (q *sequence) check(t *testing.T) {
	t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.errs) > 0 {
		t.Errorf("%d out of order, the first: %s", len(q.errs), q.errs[0])
	}
}

// noteLog is a topic of two partitions with streams of different length, each in one partition, mixed; some records come
// twice, and some have no stream.
func noteLog(rnd *rand.Rand, events, streams int) []pawl.Record {
	var log []pawl.Record
	counts := map[string]int{}
	offsets := map[int32]int64{}
	add := func(partition int32, e noted) {
		value, _ := json.Marshal(e)
		log = append(log, pawl.Record{
			Partition: pawl.Partition{Topic: pawltest.Topic, TopicID: pawl.TopicID{7}, Index: partition}, Offset: offsets[partition],
			Timestamp: time.Unix(1, 0), Value: value,
		})
		offsets[partition] += 1 + int64(rnd.IntN(3)/2) // with holes
	}
	for i := range events {
		e := noted{ID: strconv.Itoa(i)}
		partition := int32(i % 2)
		if rnd.IntN(20) > 0 {
			s := min(rnd.IntN(streams), rnd.IntN(streams)) // some are hot
			partition, e.Stream = int32(s%2), fmt.Sprint("s", s)
			counts[e.Stream]++
			e.N = counts[e.Stream]
		}
		add(partition, e)
		if rnd.IntN(15) == 0 {
			add(partition, e)
		}
	}
	return log
}

// Whatever fails in between, and although streams are worked on side by side, each stream takes effect in the order of its
// records, each record once; and restarts in the middle change nothing.
func TestStreamsTakeEffectInOrder(t *testing.T) {
	onEveryStore(t, noteSchema, orderProof{})
}

type orderProof struct{}

func (orderProof) onPgx(t *testing.T, open func(testing.TB) *opened[pgx.Tx], exec execTx[pgx.Tx]) {
	streamsInOrder(t, open(t), exec)
}

func (orderProof) onSQL(t *testing.T, open func(testing.TB) *opened[pawl.SQLTx], exec execTx[pawl.SQLTx]) {
	streamsInOrder(t, open(t), exec)
}

func streamsInOrder[Tx any](t *testing.T, s *opened[Tx], exec execTx[Tx]) {
	const events, streams = 1200, 40
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	log := noteLog(rnd, events, streams)
	var calls atomic.Int64
	var order sequence
	apply := func(ctx context.Context, tx Tx, e noted) error {
		n := calls.Add(1)
		if err := exec(ctx, tx, `insert into note (stream, n) values (?, ?)`, e.Stream, e.N); err != nil {
			return err
		}
		switch {
		case n%97 == 0:
			return errors.New("fails now and then")
		case n%53 == 0:
			return pawl.Later(time.Millisecond)
		}
		return nil
	}
	run := func(register func(r *pawl.Runner[Tx])) func(context.Context) error {
		return func(ctx context.Context) error {
			r := pawl.NewRunner(s.Store, pawltest.NewLog(log), pawl.Config{
				Consumer: "order", Workers: 6, MaxBatch: 25, MaxTries: 1000, CommitInterval: time.Millisecond,
				Logger: slog.New(slog.DiscardHandler), Hooks: pawl.Hooks{Settled: order.settled},
			})
			register(r)
			return r.Run(ctx)
		}
	}
	route := pawl.Route{Name: "notes", Topics: []string{pawltest.Topic}, Order: pawl.OrderStream}
	single := run(func(r *pawl.Runner[Tx]) {
		pawl.Handle(r, route, notes(), func(ctx context.Context, tx Tx, e pawl.Envelope[noted]) error { return apply(ctx, tx, e.Body) })
	})
	batched := run(func(r *pawl.Runner[Tx]) {
		pawl.HandleBatch(r, route, notes(), func(ctx context.Context, tx Tx, b *pawl.Batch[noted]) error {
			for _, e := range b.All() {
				if err := apply(ctx, tx, e.Body); err != nil {
					return err
				}
			}
			return nil
		})
	})
	deadline := time.Now().Add(60 * time.Second)
	for part := int64(1); part <= 6; part++ { // each part of the way with a new runner, in turn of both kinds
		member := single
		if part%2 == 0 {
			member = batched
		}
		stop := running(t, member)
		waitUntil(t, deadline, func() bool { return s.int(t, `select count(*) from pawl_decision`) >= part*events/6 })
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.int(t, `select count(*) from note`); n != events {
		t.Errorf("%d effects, want %d", n, events)
	}
	if n := s.int(t, `select count(*) from pawl_quarantine`); n != 0 {
		t.Errorf("%d quarantined, want none", n)
	}
	order.check(t)
	for partition, last := range map[int]int64{0: lastOffset(log, 0), 1: lastOffset(log, 1)} {
		got := s.int(t, fmt.Sprintf(`select next_offset from pawl_progress where partition = %d`, partition))
		if got != last+1 {
			t.Errorf("partition %d: position %d, want %d", partition, got, last+1)
		}
	}
}

func lastOffset(log []pawl.Record, partition int32) (last int64) {
	for _, r := range log {
		if r.Partition.Index == partition {
			last = r.Offset
		}
	}
	return last
}

// A stream whose handler hangs, and one that fails again and again, delay no other stream of their partition.
func TestAStuckStreamDelaysOnlyItself(t *testing.T) {
	s := openPgx(t, pgtest.Migrated(t), noteSchema)
	var log []pawl.Record
	for i := range 400 {
		e := noted{ID: strconv.Itoa(i), Stream: fmt.Sprint("s", i%20), N: i/20 + 1}
		value, _ := json.Marshal(e)
		log = append(log, pawl.Record{Partition: pawl.Partition{Topic: pawltest.Topic, TopicID: pawl.TopicID{7}}, Offset: int64(i), Value: value})
	}
	release := make(chan struct{})
	var once sync.Once
	defer once.Do(func() { close(release) })
	var failing atomic.Bool
	failing.Store(true)
	var order sequence
	stop := running(t, func(ctx context.Context) error {
		r := pawl.NewRunner(s.Store, pawltest.NewLog(log), pawl.Config{
			Consumer: "order", Workers: 4, MaxTries: 1000, Logger: slog.New(slog.DiscardHandler), Hooks: pawl.Hooks{Settled: order.settled},
		})
		pawl.Handle(r, pawl.Route{Name: "notes", Topics: []string{pawltest.Topic}, Order: pawl.OrderStream}, notes(),
			func(ctx context.Context, tx pgx.Tx, e pawl.Envelope[noted]) error {
				if e.Stream == "s3" && e.Body.N == 2 {
					select {
					case <-release:
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				if e.Stream == "s5" && e.Body.N == 4 && failing.Load() {
					return errors.New("fails until it is repaired")
				}
				return execPgx(ctx, tx, `insert into note (stream, n) values (?, ?)`, e.Stream, e.Body.N)
			})
		return r.Run(ctx)
	})
	deadline := time.Now().Add(30 * time.Second)
	// Of the stream that hangs, only its first may be through. Streams that share a transaction with it wait for that one: while
	// it is not known how long handlers take, each worker gets its share of the streams, which here is five.
	waitUntil(t, deadline, func() bool {
		return s.int(t, `select count(*) from note where stream not in ('s3', 's5')`) >= (18-4)*20 &&
			(s.int(t, `select count(*) from note where stream = 's5'`) == 3 || s.int(t, `select count(*) from note where stream = 's4'`) == 0)
	})
	if n := s.int(t, `select count(*) from note where stream = 's3'`); n > 1 {
		t.Errorf("%d of the stream that hangs", n)
	}
	if n := s.int(t, `select next_offset from pawl_progress`); n > 23 {
		t.Errorf("the position is %d, past a record that is not settled", n)
	}
	failing.Store(false)
	once.Do(func() { close(release) })
	waitUntil(t, deadline, func() bool { return s.int(t, `select count(*) from note`) == 400 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if n := s.int(t, `select next_offset from pawl_progress`); n != 400 {
		t.Errorf("position %d, want 400", n)
	}
	order.check(t)
}
