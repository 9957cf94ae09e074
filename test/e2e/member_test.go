//go:build unix

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
	"github.com/pawlhq/pawl/internal/fault"
	"github.com/pawlhq/pawl/kafka"
	"github.com/pawlhq/pawl/postgres"
)

// consumer is the name under which all members of all proofs work; each proof has a database of its own.
const consumer = "ledger"

// memberConfig is what a member is told by its environment.
type memberConfig struct {
	Brokers  []string
	Topic    string
	Group    string
	Database string        // URL
	Name     string        // shown as the application's name in pg_stat_activity
	Instance string        // of a static member; empty: a dynamic one
	Batch    bool          // handle batches, not single records
	Workers  int           // default: 4
	Linger   time.Duration // of the handler, after its writes

	Via string // where to reach the broker instead of where it says it is; empty: there

	Session        time.Duration
	HandlerTimeout time.Duration
}

// note is a line that a child writes to its standard output.
type note struct {
	What      string // settled, committed, failed, restarted, window, ended
	Partition int32  `json:",omitempty"`
	Next      int64  `json:",omitempty"` // settled: the position after it
	Records   int    `json:",omitempty"`
	Window    string `json:",omitempty"`
	N         int    `json:",omitempty"` // window: which hit of it
	Err       string `json:",omitempty"`
}

var stdout sync.Mutex

// say writes in one call, so that a process that is killed leaves whole lines behind.
func say(n note) {
	line, err := json.Marshal(n)
	if err != nil {
		panic(err)
	}
	stdout.Lock()
	defer stdout.Unlock()
	os.Stdout.Write(append(line, '\n'))
}

// runMember is the child: one member of the group, until SIGTERM.
func runMember() int {
	go exitWithParent()
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	var cfg memberConfig
	err := json.Unmarshal([]byte(os.Getenv(configVariable)), &cfg)
	if err == nil {
		ctx, err = withFaults(ctx, os.Getenv(faultVariable))
	}
	if err == nil {
		err = member(ctx, cfg)
	}
	if err != nil {
		say(note{What: "ended", Err: err.Error()})
		return 1
	}
	say(note{What: "ended"})
	return 0
}

// exitWithParent ends the process when whoever started it is gone: its end of the pipe is closed then.
func exitWithParent() {
	io.Copy(io.Discard, os.Stdin)
	os.Exit(4)
}

// withFaults says each hit of the windows that are asked for, before the fault can happen: the last words of a process
// that dies of it.
func withFaults(ctx context.Context, spec string) (context.Context, error) {
	if spec == "" {
		return ctx, nil
	}
	in, err := fault.FromEnv(spec)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	hits := map[fault.Point]int{}
	return fault.With(ctx, func(p fault.Point) error {
		if strings.Contains(","+spec, fmt.Sprintf(",%s:", p)) {
			mu.Lock()
			hits[p]++
			n := hits[p]
			mu.Unlock()
			say(note{What: "window", Window: string(p), N: n})
		}
		return in(p)
	}), nil
}

func member(ctx context.Context, cfg memberConfig) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	poolConfig, err := pgxpool.ParseConfig(cfg.Database)
	if err != nil {
		return err
	}
	poolConfig.MaxConns = 6
	poolConfig.ConnConfig.RuntimeParams["application_name"] = cfg.Name
	pool, err := pgxpool.NewWithConfig(ctx, poolConfig)
	if err != nil {
		return err
	}
	defer pool.Close()
	store := postgres.New(pool)
	if err := store.Migrate(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}

	opts := []kgo.Opt{
		kgo.SessionTimeout(cfg.Session), kgo.HeartbeatInterval(cfg.Session / 6), kgo.RebalanceTimeout(10 * time.Second),
		kgo.FetchMaxWait(100 * time.Millisecond), kgo.MetadataMinAge(100 * time.Millisecond),
	}
	if cfg.Via != "" {
		opts = append(opts, kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, cfg.Via)
		}))
	}
	source := kafka.New(kafka.Config{Brokers: cfg.Brokers, Group: cfg.Group, Instance: cfg.Instance, Logger: log, Options: opts})
	r := pawl.NewRunner(store, source, pawl.Config{
		Consumer: consumer, Workers: cmp.Or(cfg.Workers, 4), MaxBatch: 50, CommitInterval: 20 * time.Millisecond, HandlerTimeout: cfg.HandlerTimeout,
		ShutdownTimeout: 3 * time.Second, Logger: log, Hooks: hooks(), MaxDeaths: -1, // members are killed on purpose, and no record is to blame
	})
	route := pawl.Route{Name: "entries", Topics: []string{cfg.Topic}}
	if cfg.Batch {
		pawl.HandleBatch(r, route, entries(), applyBatch)
	} else {
		pawl.Handle(r, route, entries(), func(ctx context.Context, tx pgx.Tx, e pawl.Envelope[entry]) error {
			defer time.Sleep(cfg.Linger)
			return apply(ctx, tx, e)
		})
	}
	return r.Run(ctx)
}

func hooks() pawl.Hooks {
	return pawl.Hooks{
		Settled: func(s pawl.Settled) {
			say(note{What: "settled", Partition: s.Partition.Index, Next: s.Next, Records: len(s.Decisions)})
		},
		Failed: func(f pawl.Failure) {
			say(note{What: "failed", Partition: f.Partition.Index, Next: f.First, Records: f.Records, Err: f.Class.String() + ": " + f.Err.Error()})
		},
		Restarted: func(p pawl.Partition, err error) {
			say(note{What: "restarted", Partition: p.Index, Err: err.Error()})
		},
		Committed: func(cs []pawl.Commit) {
			for _, c := range cs {
				say(note{What: "committed", Partition: c.Assignment.Partition.Index, Next: c.Next})
			}
		},
	}
}

// entry is the event: an amount that goes to an account, once per id.
type entry struct {
	ID      string `json:"id"`
	Account string `json:"account"`
	Amount  int64  `json:"amount"`
	Verb    string `json:"verb,omitempty"` // what the handler is to say: ignore, reject
}

func entries() pawl.Decoder[entry] {
	return decode.JSON(func(_ pawl.Meta, e entry) pawl.Identity {
		return pawl.Identity{Key: e.ID, EventID: e.ID, Stream: e.Account, Type: "entry"}
	})
}

// ledgerSchema has a row per effect and a balance that is incremented: a doubled effect shows in both, a lost one too.
// Nothing in it is unique but the accounts: what keeps an effect from being doubled must be Pawl.
const ledgerSchema = `
create table ledger (id text not null, account text not null, amount bigint not null);
create table account (id text primary key, balance bigint not null)`

// apply writes before it decides, so that what it refuses has something to undo.
func apply(ctx context.Context, tx pgx.Tx, e pawl.Envelope[entry]) error {
	if err := write(ctx, tx, []entry{e.Body}); err != nil {
		return err
	}
	switch e.Body.Verb {
	case "ignore":
		return pawl.Ignore("asked to")
	case "reject":
		return pawl.Reject(errors.New("asked to"))
	}
	return nil
}

func applyBatch(ctx context.Context, tx pgx.Tx, b *pawl.Batch[entry]) error {
	var all []entry
	for i, e := range b.All() {
		switch e.Body.Verb {
		case "ignore":
			b.Ignore(i, "asked to")
		case "reject":
			b.Reject(i, errors.New("asked to"))
		default:
			all = append(all, e.Body)
		}
	}
	return write(ctx, tx, all)
}

func write(ctx context.Context, tx pgx.Tx, all []entry) error {
	var ids, accounts []string
	var amounts []int64
	for _, e := range all {
		ids, accounts, amounts = append(ids, e.ID), append(accounts, e.Account), append(amounts, e.Amount)
	}
	if _, err := tx.Exec(ctx, `
		insert into ledger (id, account, amount)
		select * from unnest($1::text[], $2::text[], $3::bigint[])`, ids, accounts, amounts); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `
		insert into account (id, balance)
		select account, sum(amount) from unnest($1::text[], $2::bigint[]) as e (account, amount) group by account order by account
		on conflict (id) do update set balance = account.balance + excluded.balance`, accounts, amounts)
	return err
}
