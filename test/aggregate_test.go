package test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/pgtest"
	"github.com/pawlhq/pawl/postgres"
)

// shareVariable makes the test binary a member that has one partition, on PostgreSQL: <partition> <order> <url>. It reads
// the partition's records from its standard input, a line each.
const shareVariable = "PAWL_TEST_SHARE"

// aggregateSchema has a row for each key that the handler takes by now: what a deploy would change, for every process.
const aggregateSchema = `create table effect (id bigint generated always as identity primary key, key text not null, stream text not null);
create table repaired (key text primary key)`

// runShare is the child.
func runShare(spec string) int {
	var partition, order int
	var url string
	if _, err := fmt.Sscan(spec, &partition, &order, &url); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer pool.Close()
	g := newGroup("share", 2)
	m := g.member()
	go func() { // until its input ends
		defer cancel()
		<-m.joined
		m.take(partition)
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			g.add(partition, []byte(lines.Text()))
		}
	}()
	r := pawl.NewRunner(postgres.New(pool), m, pawl.Config{
		Consumer: "share", Workers: 3, MaxBatch: 5, Budget: pawl.Budget{Records: 1 << 30, Share: 1}, Logger: slog.New(slog.DiscardHandler),
	})
	route := pawl.Route{Name: "share", Topics: []string{g.parts[0].partition.Topic}, Order: pawl.Order(order), Quarantine: pawl.QuarantineStream}
	pawl.Handle(r, route, happenings(), func(ctx context.Context, tx pgx.Tx, e pawl.Envelope[happening]) error {
		if err := execPgx(ctx, tx, `insert into effect (key, stream) values (?, ?)`, e.Key, e.Stream); err != nil {
			return err
		}
		var taken bool
		if err := tx.QueryRow(ctx, `select exists (select from repaired where key = $1)`, e.Key).Scan(&taken); err != nil {
			return err
		}
		if e.Body.Kind == "reject" && !taken {
			return pawl.Reject(fmt.Errorf("not before it is repaired"))
		}
		return nil
	})
	if err := r.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// share is one child.
type share struct {
	t         *testing.T
	partition int
	input     io.WriteCloser
	sent      []string // keys
}

func startShare(t *testing.T, partition int, order pawl.Order, url string) *share {
	cmd := exec.Command(os.Args[0]) // ends with its input
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %s", shareVariable, partition, order, url))
	var said strings.Builder
	cmd.Stderr = &said
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		input.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("member %d: %v\n%s", partition, err, said.String())
		}
	})
	return &share{t: t, partition: partition, input: input}
}

// send appends an event of the aggregate to the member's partition.
func (s *share) send(kind string) (key string) {
	key = fmt.Sprintf("%d/%04d", s.partition, len(s.sent))
	s.sent = append(s.sent, key)
	value, _ := json.Marshal(happening{ID: key, Stream: "aggregate", Kind: kind})
	if _, err := s.input.Write(append(value, '\n')); err != nil {
		s.t.Fatal(err)
	}
	return key
}

// One aggregate whose events come over two partitions, which two processes have. A record of it that is set aside by one
// process blocks it for both; while an operator releases it, both go on reading, and their arrivals meet the release: one is
// held behind a stream that is being freed, or the stream is freed behind it.
//
// Kept: each event takes effect once; none is lost; none stays held when nothing blocks the aggregate, though the process
// that freed it and the one that held it know nothing of each other; each partition's events take effect in their order.
//
// Not promised: how the two partitions interleave. What the other partition had under way when a record was set aside may
// take effect before the stream is blocked, and when it is free the two release side by side.
func TestReleasesMeetArrivalsOfTheSameAggregateInTwoProcesses(t *testing.T) {
	for _, order := range []pawl.Order{pawl.OrderPartition, pawl.OrderStream} {
		t.Run(fmt.Sprint("order ", order), func(t *testing.T) {
			t.Parallel()
			url := pgtest.Migrated(t)
			s := tellerOn(t, openPgx(t, url, aggregateSchema), "share")
			members := [2]*share{startShare(t, 0, order, url), startShare(t, 1, order, url)}
			rounds := 6
			if os.Getenv("PAWL_PROOF") == "long" {
				rounds = 40
			}
			members[1].send("ok")
			s.await(1, noteless)
			for round := range rounds {
				blocking, other := members[round%2], members[1-round%2]
				blocking.send("ok")
				bad := blocking.send("reject")
				s.await(1, openCount)
				other.send("ok") // held, behind a record of another process
				blocking.send("ok")
				s.await(2, heldCount)
				if round == 0 {
					if got := s.int(t, `select count(distinct progress_id) from pawl_hold`); got != 2 {
						t.Fatalf("held records of %d partitions, want 2", got)
					}
				}
				if _, err := s.db.Exec(`insert into repaired values ($1)`, bad); err != nil {
					t.Fatal(err)
				}
				op := s.ask(pawl.OperationReplay, nil)
				for n := 0; n < 150 && s.int(t, streamRows) > 0; n++ { // both keep arriving while it is released
					members[n%2].send("ok")
					if n > 20 { // the replay has not begun: what comes then is what it meets
						before := s.int(t, operationsRun)
						for deadline := time.Now().Add(20 * time.Millisecond); before > 0 && s.int(t, operationsRun) > 0 && time.Now().Before(deadline); {
							time.Sleep(time.Millisecond)
						}
					}
				}
				// What is still on its way would be held behind the next bad one, and not be what this round counts.
				s.await(int64(len(members[0].sent)+len(members[1].sent)), `select coalesce(sum(next_offset), 0) from pawl_progress`)
				s.await(0, streamRows)
				if op, err := s.Store.Admin().Operation(t.Context(), op.ID); err != nil || op.State != pawl.OperationDone || op.Failed != 0 {
					t.Fatalf("the operation: %+v, %v", op, err)
				}
			}
			s.await(int64(len(members[0].sent)+len(members[1].sent)), `select coalesce(sum(next_offset), 0) from pawl_progress`)
			s.await(0, heldCount)
			s.await(0, streamRows)
			got := s.effects("aggregate")
			if len(got) != len(members[0].sent)+len(members[1].sent) {
				t.Errorf("%d effects of %d events", len(got), len(members[0].sent)+len(members[1].sent))
			}
			for _, m := range members {
				mine := slices.DeleteFunc(slices.Clone(got), func(key string) bool { return !strings.HasPrefix(key, strconv.Itoa(m.partition)+"/") })
				if !slices.Equal(mine, m.sent) {
					t.Errorf("effects of partition %d are not its events in order, once each:\n%q\nwant\n%q", m.partition, mine, m.sent)
				}
			}
			if n := s.int(t, openCount); n != 0 {
				t.Errorf("%d in quarantine in the end", n)
			}
		})
	}
}

const noteless = `select count(*) from effect`

// An aggregate whose events come over several partitions of one member, with bad records on each: every partition's events
// take effect in their order and once, and when all bad ones are dealt with, nothing is held and nothing blocked. The order
// between partitions is not kept: a version in the event, compared by the handler, would.
func TestAnAggregateOverSeveralPartitionsKeepsTheOrderOfEach(t *testing.T) {
	for _, order := range []pawl.Order{pawl.OrderPartition, pawl.OrderStream} {
		t.Run(fmt.Sprint("order ", order), func(t *testing.T) {
			t.Parallel()
			s := newTeller(t)
			s.group, s.route.Order, s.config.MaxBatch = newGroup("teller", 4), order, 7
			var want [4][]string
			for i := range 60 {
				for p := range 4 {
					e := happening{ID: fmt.Sprintf("%d/%02d", p, i), Stream: "aggregate", Kind: "ok"}
					if i%20 == 5*p { // each blocks all four
						e.Kind = "reject"
					}
					s.tell(p, e)
					want[p] = append(want[p], "teller/"+e.ID)
				}
			}
			s.start(0, 1, 2, 3)
			s.await(240, `select coalesce(sum(next_offset), 0) from pawl_progress`)
			for p := range 4 {
				for i := range 60 {
					s.script.repair(fmt.Sprintf("%d/%02d", p, i))
				}
			}
			s.ask(pawl.OperationReplay, nil)
			s.await(0, streamRows)
			got := s.effects("aggregate")
			for p := range 4 {
				mine := slices.DeleteFunc(slices.Clone(got), func(key string) bool { return !strings.HasPrefix(key, fmt.Sprintf("teller/%d/", p)) })
				if !slices.Equal(mine, want[p]) {
					t.Errorf("partition %d: %q", p, mine)
				}
			}
			if open, held := s.int(t, openCount), s.int(t, heldCount); open != 0 || held != 0 || len(got) != 240 {
				t.Errorf("%d open, %d held, %d effects of 240", open, held, len(got))
			}
		})
	}
}
