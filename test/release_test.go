package test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/pgtest"
)

// teller is a consumer on PostgreSQL whose route blocks streams, and its operator, for tests that tell one story.
type teller struct {
	*testing.T
	*opened[pgx.Tx]
	group   *group
	config  pawl.Config
	route   pawl.Route
	batched bool
	dec     pawl.Decoder[happening]
	script  *script
	handled func(happening) // called by handlers, in their transactions
}

func newTeller(t *testing.T) *teller {
	return tellerOn(t, openPgx(t, pgtest.Migrated(t), effectSchemaPostgres), "teller")
}

func tellerOn(t *testing.T, s *opened[pgx.Tx], consumer string) *teller {
	g := newGroup(consumer, 2)
	return &teller{
		T: t, opened: s, group: g, dec: happenings(), handled: func(happening) {},
		config: pawl.Config{
			Consumer: consumer, Workers: 4, MaxTries: 2, Budget: pawl.Budget{Records: 1 << 30, Share: 1}, Logger: slog.New(slog.DiscardHandler),
		},
		route:  pawl.Route{Name: "tale", Topics: []string{g.parts[0].partition.Topic}, Quarantine: pawl.QuarantineStream},
		script: &script{repaired: map[string]bool{}, calls: map[string]int{}},
	}
}

// start runs a process that has the given partitions.
func (s *teller) start(partitions ...int) *life {
	l := s.group.live(s, nil, s.run)
	s.Cleanup(func() { s.stop(l) })
	for _, p := range partitions {
		if !l.take(p) {
			s.Fatal("the process is over")
		}
	}
	return l
}

func (s *teller) stop(l *life) {
	if err := l.stop(); err != nil {
		s.Error(err)
	}
}

func (s *teller) run(ctx context.Context, source pawl.Source) error {
	r := pawl.NewRunner(s.Store, source, s.config)
	effect := func(ctx context.Context, tx pgx.Tx, e happening) error {
		s.handled(e)
		return execPgx(ctx, tx, `insert into effect (key, stream) values (?, ?)`, s.config.Consumer+"/"+e.ID, e.Stream)
	}
	if s.batched {
		pawl.HandleBatch(r, s.route, s.dec, func(ctx context.Context, tx pgx.Tx, b *pawl.Batch[happening]) error {
			for i, e := range b.All() {
				switch err := s.script.verdict(e.Body); {
				case e.Body.Kind == "ignore":
					b.Ignore(i, "asked to")
				case err != nil:
					b.Reject(i, err)
				default:
					if err := effect(ctx, tx, e.Body); err != nil {
						return err
					}
				}
			}
			return nil
		})
	} else {
		pawl.Handle(r, s.route, s.dec, func(ctx context.Context, tx pgx.Tx, e pawl.Envelope[happening]) error {
			if err := effect(ctx, tx, e.Body); err != nil {
				return err
			}
			return s.script.verdict(e.Body)
		})
	}
	return r.Run(ctx)
}

// tell appends events to a partition.
func (s *teller) tell(p int, events ...happening) {
	for _, e := range events {
		s.group.add(p, e.bytes())
	}
}

// ev is the event of a key, whose first letter is its stream.
func ev(id, kind string) happening { return happening{ID: id, Stream: id[:1], Kind: kind} }

func (s *teller) await(n int64, query string) {
	s.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for got := s.int(s, query); got != n; got = s.int(s, query) {
		if time.Now().After(deadline) {
			s.Fatalf("%s: %d, want %d", query, got, n)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (s *teller) ask(kind pawl.OperationKind, with func(*pawl.OperationRequest)) *pawl.Operation {
	s.Helper()
	r := pawl.OperationRequest{Consumer: s.config.Consumer, Kind: kind, By: "ops", Why: "asked to", At: time.Now()}
	if with != nil {
		with(&r)
	}
	op, err := s.Store.Admin().Start(s.Context(), r)
	if err != nil {
		s.Fatal(err)
	}
	return op
}

// effects lists the keys of a stream in the order of their effects.
func (s *teller) effects(stream string) (keys []string) {
	s.Helper()
	rows, err := s.db.Query(`select key from effect where stream = $1 order by id`, stream)
	if err != nil {
		s.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var key string
		if err := rows.Scan(&key); err != nil {
			s.Fatal(err)
		}
		keys = append(keys, key)
	}
	if err := rows.Err(); err != nil {
		s.Fatal(err)
	}
	return keys
}

const operationsRun = `select count(*) from pawl_operation where state = 'running'`

// Held records of one stream overtook each other in the order of streams, where there were more of them than go in a batch:
// each batch of them was put before the last.
func TestReleasedRecordsKeepTheirOrderWhateverTheBatch(t *testing.T) {
	s := newTeller(t)
	s.route.Order, s.config.MaxBatch = pawl.OrderStream, 1
	s.tell(0, ev("a00", "reject"))
	want := []string{"teller/a00"}
	for i := 1; i <= 30; i++ {
		e := ev(fmt.Sprintf("a%02d", i), "ok")
		s.tell(0, e)
		want = append(want, "teller/"+e.ID)
	}
	s.start(0)
	s.await(30, heldCount)
	s.script.repair("a00")
	s.ask(pawl.OperationReplay, nil)
	s.await(0, streamRows)
	if got := s.effects("a"); !slices.Equal(got, want) {
		t.Errorf("effects %q, want %q", got, want)
	}
}

// A task that was refused, because its operation was paused meanwhile, had all tasks of its batch dropped, and those that
// waited behind them went on: the first held record of a stream was overtaken by the next.
func TestWhatIsDroppedIsNotOvertaken(t *testing.T) {
	for _, order := range []pawl.Order{pawl.OrderPartition, pawl.OrderStream} {
		t.Run(fmt.Sprint("order ", order), func(t *testing.T) {
			t.Parallel()
			s := newTeller(t)
			s.route.Order, s.config.MaxBatch, s.config.Workers = order, 2, 1
			s.tell(0, ev("b1", "reject"), ev("a1", "reject"), ev("b2", "ok"), ev("b3", "ok"), ev("b4", "ok"), ev("b5", "ok"))
			first := s.start(0)
			s.await(4, heldCount)
			s.stop(first)

			op := s.ask(pawl.OperationReplay, func(r *pawl.OperationRequest) { r.Filter.Stream = "a" })
			s.ask(pawl.OperationArchive, func(r *pawl.OperationRequest) { r.Filter.Stream = "b" })
			s.script.repair("a1")
			var once sync.Once
			s.handled = func(e happening) { // a1 is being replayed, together with the release of b2
				if e.ID == "a1" {
					once.Do(func() {
						if err := s.Store.Admin().SetOperation(context.Background(), op.ID, pawl.OperationPaused, "ops", "wait", time.Now()); err != nil {
							t.Error(err)
						}
					})
				}
			}
			s.start(0)
			s.await(0, heldCount)
			if got, want := s.effects("b"), []string{"teller/b2", "teller/b3", "teller/b4", "teller/b5"}; !slices.Equal(got, want) {
				t.Errorf("effects %q, want %q", got, want)
			}
			if got := s.effects("a"); len(got) > 0 {
				t.Errorf("%q, and its operation is paused", got)
			}
		})
	}
}

// A batch handler that rejected a record had what came behind it in its stream decided all the same, unless it was applied:
// ignored, rejected as well, or set aside as a copy.
func TestABatchDecidesNothingBehindARejectedRecord(t *testing.T) {
	s := newTeller(t)
	s.batched = true
	s.tell(0, ev("a1", "reject"), ev("a2", "ignore"), ev("a3", "reject"), ev("a1", "reject"), ev("b1", "ignore"))
	s.start(0)
	s.await(5, position)
	if open, held, decided := s.int(t, openCount), s.int(t, heldCount), s.int(t, `select count(*) from pawl_decision`); open != 1 || held != 3 || decided != 1 {
		t.Errorf("%d in quarantine, %d held, %d decided; want a1, what is behind it, and b1", open, held, decided)
	}
}

// An edit to the bytes of another event closed the record as a duplicate of that event; and a record that was skipped after
// an edit to another key claimed that key, so that the event it belongs to was dropped as a duplicate when it came.
func TestAnEditDoesNotMakeARecordAnothers(t *testing.T) {
	for _, edited := range []happening{ev("a1", "ok"), ev("z1", "ok"), {Kind: "garbage"}} {
		t.Run(edited.ID+edited.Kind, func(t *testing.T) {
			t.Parallel()
			s := newTeller(t)
			s.tell(0, ev("a1", "ok"), ev("a2", "reject"), ev("a3", "ok"))
			s.start(0)
			s.await(3, position)
			op := s.ask(pawl.OperationEdit, func(r *pawl.OperationRequest) {
				r.Filter.IDs = []int64{s.int(t, `select id from pawl_quarantine`)}
				r.Value = edited.bytes()
			})
			s.await(0, operationsRun)
			op, err := s.Store.Admin().Operation(t.Context(), op.ID)
			if err != nil || op.Failed != 1 || s.int(t, openCount) != 1 || s.int(t, heldCount) != 1 {
				t.Errorf("the edit: %+v, %v; %d open and %d held, want a2 and a3", op, err, s.int(t, openCount), s.int(t, heldCount))
			}
			s.ask(pawl.OperationSkip, nil)
			s.await(0, streamRows)
			s.tell(0, ev("a2", "reject"), ev("z1", "ok"))
			s.await(5, position)
			if got, want := s.effects("a"), []string{"teller/a1", "teller/a3"}; !slices.Equal(got, want) {
				t.Errorf("effects %q, want %q", got, want)
			}
			if got := s.effects("z"); len(got) != 1 {
				t.Errorf("effects of z: %q: it was taken for the record that was skipped", got)
			}
			if n := s.int(t, `select count(*) from pawl_redelivery where outcome = 2 and position_offset = 3`); n != 1 {
				t.Errorf("a copy of what was skipped is no duplicate")
			}
		})
	}
}

// A kept record whose route does not read its topic any more ended the process of whoever has the partition.
func TestWhatIsKeptForARouteThatLeftItsTopicWaits(t *testing.T) {
	for _, order := range []pawl.Order{pawl.OrderPartition, pawl.OrderStream} {
		t.Run(fmt.Sprint("order ", order), func(t *testing.T) {
			t.Parallel()
			s := newTeller(t)
			s.route.Order = order
			s.tell(0, ev("a1", "reject"), ev("a2", "ok"))
			first := s.start(0)
			s.await(1, heldCount)
			s.stop(first)
			op := s.ask(pawl.OperationReplay, nil)

			here := s.route
			here.Name = "here"
			there := s.route
			there.Topics = []string{"elsewhere"}
			looked := make(chan struct{}, 100)
			second := s.group.live(s, nil, func(ctx context.Context, source pawl.Source) error {
				r := pawl.NewRunner[pgx.Tx](watchedOrders{s.Store, looked}, source, s.config)
				for _, route := range []pawl.Route{here, there} {
					pawl.Handle(r, route, s.dec, func(context.Context, pgx.Tx, pawl.Envelope[happening]) error { return nil })
				}
				return r.Run(ctx)
			})
			defer s.stop(second)
			second.take(0)
			for range 2 { // the second look is behind what came of the first
				select {
				case <-looked:
				case <-time.After(30 * time.Second):
					t.Fatal("no orders were looked for")
				}
			}
			s.tell(0, ev("a3", "ok"))
			s.await(3, position)
			if op, err := s.Store.Admin().Operation(t.Context(), op.ID); err != nil || op.Done != 0 || s.int(t, heldCount) != 1 {
				t.Errorf("the operation: %+v, %v", op, err)
			}
		})
	}
}

// watchedOrders tells of looks for orders that found tasks.
type watchedOrders struct {
	pawl.Store[pgx.Tx]
	looked chan struct{}
}

func (w watchedOrders) Open(ctx context.Context, b pawl.Binding) (pawl.BoundStore[pgx.Tx], error) {
	bound, err := w.Store.Open(ctx, b)
	return watchedBound{bound, w.looked}, err
}

type watchedBound struct {
	pawl.BoundStore[pgx.Tx]
	looked chan struct{}
}

func (w watchedBound) Orders(ctx context.Context, rows []int64, now time.Time, limit int) (*pawl.Orders, error) {
	orders, err := w.BoundStore.Orders(ctx, rows, now, limit)
	if err == nil && len(orders.Tasks) > 0 {
		select {
		case w.looked <- struct{}{}:
		default:
		}
	}
	return orders, err
}

// A partition that was taken away while its records were being decoded, in the order of streams, ended the process.
func TestAPartitionMayBeLostWhileItsRecordsAreDecoded(t *testing.T) {
	s := newTeller(t)
	s.route.Order = pawl.OrderStream
	decoding, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	dec := s.dec
	s.dec = decoderFunc(func(m pawl.Meta, value []byte) (pawl.Decoded[happening], error) {
		once.Do(func() {
			close(decoding)
			<-goOn
		})
		return dec.Decode(m, value)
	})
	s.tell(0, ev("a1", "ok"), ev("b1", "ok"))
	s.start(0)
	<-decoding
	s.start(0) // lost by the first
	close(goOn)
	s.await(2, position)
}

type decoderFunc func(m pawl.Meta, value []byte) (pawl.Decoded[happening], error)

func (f decoderFunc) Decode(m pawl.Meta, value []byte) (pawl.Decoded[happening], error) {
	return f(m, value)
}
