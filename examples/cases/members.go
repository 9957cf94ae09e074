package main

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/kafka"
	"github.com/pawlhq/pawl/sqlite"
)

// member is one consumer of the group, with a connection to the database of its own: in production, a process.
type member struct {
	number  int
	ending  ending
	settled atomic.Int64 // deliveries; for show
	cancel  context.CancelFunc
	done    chan struct{}
}

// ending says how a member is going to be stopped.
type ending time.Duration

const (
	inOrder ending = ending(10 * time.Second) // it may finish and commit what it is doing
	cutOff  ending = ending(time.Nanosecond)  // it may not: batches in flight are rolled back, offsets stay behind
)

// startMember starts a consumer. An error that ends it ends ctx, through fail.
func startMember(ctx context.Context, fail context.CancelCauseFunc, l *lab, number int, end ending) (*member, error) {
	store, err := sqlite.Open(ctx, l.database)
	if err != nil {
		return nil, err
	}
	m := &member{number: number, ending: end, done: make(chan struct{})}
	quiet := slog.New(slog.DiscardHandler)
	source := kafka.New(kafka.Config{
		Brokers: l.addrs, Group: group, Logger: quiet,
		Options: []kgo.Opt{kgo.HeartbeatInterval(50 * time.Millisecond)}, // members notice each other soon: the demonstration is short
	})
	runner := pawl.NewRunner(store, source, pawl.Config{
		Consumer: "case-projection", Logger: quiet, ShutdownTimeout: time.Duration(end),
		Hooks: pawl.Hooks{Settled: func(s pawl.Settled) { m.settled.Add(int64(len(s.Decisions))) }},
	})
	pawl.Handle(runner, pawl.Route{Name: "project", Topics: []string{topic}}, events, project)

	ctx, m.cancel = context.WithCancel(ctx)
	go func() {
		defer close(m.done)
		err := runner.Run(ctx)
		if cerr := store.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			fail(fmt.Errorf("member %d: %w", number, err))
		}
	}()
	return m, nil
}

// stop ends the member and waits until it is gone.
func (m *member) stop() {
	m.cancel()
	<-m.done
}

// settled asks the database how many deliveries are settled. The topic begins at offset 0 and has no holes.
func settled(ctx context.Context, db *sql.DB) (n int64, err error) {
	err = db.QueryRowContext(ctx, `select coalesce(sum(next_offset), 0) from pawl_progress`).Scan(&n)
	return n, err
}

// patience is how long nothing may happen before the demonstration gives up.
const patience = 30 * time.Second

// waitFor waits until enough deliveries are settled.
func waitFor(ctx context.Context, db *sql.DB, enough func(settled int64) bool) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	last, moved := int64(-1), time.Now()
	for {
		n, err := settled(ctx, db)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case enough(n):
			return nil
		case n != last:
			last, moved = n, time.Now()
		case time.Since(moved) > patience:
			return fmt.Errorf("nothing was settled for %s, at %d deliveries", patience, n)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
