package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
	"github.com/pawlhq/pawl/pawltest"
	"github.com/pawlhq/pawl/postgres"
	"github.com/pawlhq/pawl/sqlite"
)

type payment struct {
	ID      string `json:"id"`
	Account string `json:"account"`
	Version int64  `json:"version"`
	Amount  int    `json:"amount"`
}

func identify(_ pawl.Meta, p payment) pawl.Identity {
	return pawl.Identity{Key: p.ID, EventID: p.ID, Stream: p.Account, Version: p.Version, Type: "PAID"}
}

// payments are what the scripts find: applied, quarantined with one held behind it, a duplicate, poison and a conflict.
var payments = []string{
	`{"id":"p-1","account":"acc-a","version":1,"amount":5}`,
	`{"id":"p-2","account":"acc-a","version":2,"amount":-1}`,
	`{"id":"p-3","account":"acc-a","version":3,"amount":7}`,
	`{"id":"q-1","account":"acc-b","version":1,"amount":1}`,
	"not json \x1b[31m",
	`{"id":"q-1","account":"acc-b","version":1,"amount":1}`,
	`{"id":"q-1","account":"acc-b","version":1,"amount":2}`,
}

func records() []pawl.Record {
	var all []pawl.Record
	for i, p := range payments {
		all = append(all, pawl.Record{
			Partition: pawl.Partition{Topic: "payments", TopicID: pawl.TopicID{7}}, Offset: int64(i), Value: []byte(p),
			Timestamp: time.Date(2026, 7, 1, 10, 0, i, 0, time.UTC), Headers: []pawl.Header{{Key: "source", Value: []byte("till")}},
		})
	}
	return all
}

// seed [consumer]: a migrated store in which a consumer has settled payments and given its partition back.
func cmdSeed(ts *testscript.TestScript, _ bool, args []string) {
	name := "billing"
	if len(args) > 0 {
		name = args[0]
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	left := len(payments)
	var mu sync.Mutex
	done := pawl.Hooks{Settled: func(s pawl.Settled) {
		mu.Lock()
		defer mu.Unlock()
		if left -= len(s.Decisions); left == 0 {
			cancel()
		}
	}}
	ts.Check(onStore(ctx, ts.Getenv("PAWL_STORE"), &job{name: name, most: 0, hooks: done, migrate: true}))
	if left != 0 {
		ts.Fatalf("%d records were not settled", left)
	}
}

// work N: a process works for the consumer until the script ends, and takes amounts from N on.
func cmdWork(ts *testscript.TestScript, _ bool, args []string) {
	most, err := strconv.Atoi(args[0])
	ts.Check(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	assigned := make(chan struct{})
	var once sync.Once
	hooks := pawl.Hooks{Assigned: func(pawl.Partition) { once.Do(func() { close(assigned) }) }}
	go func() {
		ended <- onStore(ctx, ts.Getenv("PAWL_STORE"), &job{name: "billing", most: most, hooks: hooks})
	}()
	ts.Defer(func() {
		cancel()
		if err := <-ended; err != nil {
			ts.Fatalf("work: %v", err)
		}
	})
	select {
	case <-assigned:
	case err := <-ended:
		ts.Fatalf("work: %v", err)
	case <-time.After(30 * time.Second):
		ts.Fatalf("work: nothing was assigned")
	}
}

// raise STATE partition|-: the consumer is in that state.
func cmdRaise(ts *testscript.TestScript, _ bool, args []string) {
	c := pawl.Condition{
		State: pawl.State(args[0]), Reason: "the log begins at 12", Hint: "go on, or restore the records", Next: 12, Start: 12, End: 20,
		Since: time.Date(2026, 7, 1, 11, 0, 0, 0, time.UTC), Partition: pawl.Partition{Index: pawl.AllPartitions},
	}
	if args[1] != "-" {
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		c.Partition = pawl.Partition{Topic: "payments", TopicID: pawl.TopicID{7}, Index: int32(n)}
	} else {
		c.Next = pawl.NoStart
	}
	ts.Check(onStore(context.Background(), ts.Getenv("PAWL_STORE"), &job{name: "billing", raise: &c}))
}

// job is what is done with a store in the name of a consumer.
type job struct {
	name    string
	most    int // the least amount that the handler takes
	hooks   pawl.Hooks
	migrate bool
	raise   *pawl.Condition
}

func onStore(ctx context.Context, url string, j *job) error {
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		s, err := sqlite.Open(ctx, path)
		if err != nil {
			return err
		}
		return errors.Join(do(ctx, s, s.Migrate, j), s.Close())
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	s := postgres.New(pool)
	return do(ctx, s, s.Migrate, j)
}

func do[Tx any](ctx context.Context, s pawl.Store[Tx], migrate func(context.Context) error, j *job) error {
	if j.migrate {
		if err := migrate(ctx); err != nil {
			return err
		}
	}
	log := pawltest.NewLog(records())
	if j.raise != nil {
		origin, err := log.Origin(ctx)
		if err != nil {
			return err
		}
		bound, err := s.Open(ctx, pawl.Binding{Consumer: j.name, Cluster: origin.Cluster, Group: origin.Group, Version: "v1"})
		if err != nil {
			return err
		}
		_, err = bound.Raise(ctx, *j.raise)
		return err
	}
	r := pawl.NewRunner(s, log, pawl.Config{
		Consumer: j.name, Version: "v1", Hooks: j.hooks, Logger: slog.New(slog.DiscardHandler), Budget: pawl.Budget{Share: 1},
	})
	route := pawl.Route{Name: "charge", Topics: []string{"payments"}, Quarantine: pawl.QuarantineStream}
	pawl.Handle(r, route, decode.JSON(identify), func(_ context.Context, _ Tx, e pawl.Envelope[payment]) error {
		if e.Body.Amount < j.most {
			return pawl.Reject(fmt.Errorf("amount %d is below %d", e.Body.Amount, j.most))
		}
		return nil
	})
	return r.Run(ctx)
}
