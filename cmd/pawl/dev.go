package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/cmd/pawl/dev"
	"github.com/pawlhq/pawl/internal/fault"
	"github.com/pawlhq/pawl/kafka"
	"github.com/pawlhq/pawl/kafka/embedded"
	"github.com/pawlhq/pawl/pipeline"
	"github.com/pawlhq/pawl/sqlite"
)

const (
	// chunkCases are sent at a time, every chunkEvery.
	chunkCases = 25
	chunkEvery = 250 * time.Millisecond
	// sampleEvery is how often offsets are held against effects.
	sampleEvery = 25 * time.Millisecond
	// mostLife is after how long a consumer is killed that did not come to its window.
	mostLife = 4 * time.Second
	// drainTime bounds the wait for what was sent to be settled, at the end.
	drainTime = 45 * time.Second
)

// killWindows are where the consumer is killed, in turn: between any two durable steps.
var killWindows = []fault.Point{
	fault.Committed, fault.Effected, fault.Advanced, fault.Settled, fault.Claimed, fault.OffsetStored, fault.Taken, fault.Begun,
}

func (a *app) devCommand() *cobra.Command {
	var lasts time.Duration
	var seed uint64
	var dir string
	var fresh bool
	cmd := &cobra.Command{
		Use: "dev", Short: "See it work: a broker, a database, hostile traffic, kills, and a check of the result",
		Long: `See it work, with nothing installed: a Kafka broker in this process, a SQLite file, and events with everything that goes wrong
in practice: sent twice, out of order, missing, illegal, garbage. The consumer is a process of its own, which is killed at
named windows between two durable steps and comes back. A consumer without Pawl gets the same stream and the same kills.

It ends after --for, or on Ctrl-C, with a check that reads the topic again, works out with a model that knows nothing of Pawl what
the tables must hold, and compares. The exit code is 0 if they agree, else 1. What happened is kept in --dir, and a next run
goes on with it; --fresh starts over.`,
		Example: "  pawl dev --for 20s\n  pawl dev --seed 7 --fresh",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if lasts < 0 {
				return usage("--for is negative")
			}
			if !cmd.Flags().Changed("seed") {
				seed = rand.Uint64N(1_000_000)
			}
			d := &devRun{app: a, dir: dir, seed: seed, lasts: lasts, kills: map[string]int{}}
			return d.play(cmd.Context(), fresh)
		},
	}
	cmd.Flags().DurationVar(&lasts, "for", 0, "how long traffic is sent; 0: until Ctrl-C")
	cmd.Flags().Uint64Var(&seed, "seed", 0, "what the stream is made from: the same seed makes the same stream; otherwise another each time")
	cmd.Flags().StringVar(&dir, "dir", ".pawl-dev", "where everything is kept")
	cmd.Flags().BoolVar(&fresh, "fresh", false, "throw away what was kept, and start over")
	return cmd
}

// devRun is one run of dev.
type devRun struct {
	*app
	dir   string
	seed  uint64
	lasts time.Duration

	broker *embedded.Broker
	store  *sqlite.Store
	self   string // this program

	traffic *dev.Traffic
	mu      sync.Mutex
	kills   map[string]int // by window
	samples int
	ahead   int // samples in which an offset was ahead of its effects
}

type devView struct {
	Seed        uint64         `json:"seed"`
	Dir         string         `json:"dir"`
	Sent        int            `json:"sent"` // in this run
	Hostilities map[string]int `json:"hostilities"`
	Kills       map[string]int `json:"kills"`
	Check       *dev.Finding   `json:"check"`
	Samples     int            `json:"samples"`
	OffsetAhead int            `json:"offsetAhead"`
	Naive       *dev.Mistakes  `json:"naive"`
	OK          bool           `json:"ok"`
}

func (d *devRun) play(ctx context.Context, fresh bool) (err error) {
	if fresh {
		if err := os.RemoveAll(d.dir); err != nil {
			return fmt.Errorf("start over: %w", err)
		}
	}
	if d.self, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	// Ctrl-C ends the traffic, not the report.
	work := context.WithoutCancel(ctx)
	if err := d.open(work); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.store.Close(), d.broker.Close()) }()
	d.note("pawl dev: seed %d, everything is in %s", d.seed, d.dir)
	if err := d.attack(ctx, work); err != nil {
		return err
	}
	d.note("traffic has ended: waiting until everything is settled")
	if err := d.drain(work); err != nil {
		return err
	}
	v, err := d.check(work)
	if err != nil {
		return err
	}
	if err := d.printObject("DevReport", v, func(w io.Writer) { d.write(w, v) }); err != nil {
		return err
	}
	if !v.OK {
		return &exitError{exitFailed, nil}
	}
	return nil
}

func (d *devRun) database() string  { return filepath.Join(d.dir, "pawl.db") }
func (d *devRun) naiveFile() string { return filepath.Join(d.dir, "naive.jsonl") }

// open starts the broker and makes the tables.
func (d *devRun) open(ctx context.Context) (err error) {
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		return fmt.Errorf("make the folder of dev: %w", err)
	}
	_, statErr := os.Stat(d.database())
	if d.store, err = sqlite.Open(ctx, d.database()); err != nil {
		return err
	}
	if err := d.store.Migrate(ctx); err != nil {
		return errors.Join(err, d.store.Close())
	}
	if statErr != nil {
		if err := d.createTables(ctx); err != nil {
			return errors.Join(err, d.store.Close())
		}
	}
	d.broker, err = embedded.Start(embedded.Config{
		Dir: filepath.Join(d.dir, "kafka"), Topics: []embedded.Topic{{Name: dev.Topic, Partitions: dev.Partitions}},
	})
	if err != nil {
		return errors.Join(err, d.store.Close())
	}
	return nil
}

func (d *devRun) createTables(ctx context.Context) error {
	set, err := devPipelines(func(string) string { return "x" })
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", d.database())
	if err != nil {
		return err
	}
	defer db.Close()
	for _, p := range set.Pipelines {
		for _, t := range p.Tables() {
			if _, err := db.ExecContext(ctx, sqlite.DDL(t)); err != nil {
				return fmt.Errorf("create table %s: %w", t.Name, err)
			}
		}
	}
	return nil
}

// attack sends traffic while consumers are killed, until ctx ends or the time is over.
func (d *devRun) attack(ctx, work context.Context) error {
	if d.lasts > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.lasts)
		defer cancel()
	}
	var all sync.WaitGroup
	defer all.Wait()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var sendErr error
	all.Go(func() {
		if sendErr = d.send(ctx); sendErr != nil {
			fail(sendErr)
		}
	})
	all.Go(func() { d.sample(ctx, work) })
	err := d.killInTurn(ctx)
	fail(nil)
	all.Wait()
	return errors.Join(err, sendErr)
}

func (d *devRun) send(ctx context.Context) error {
	s, err := embedded.NewSender(d.broker.Addrs(), dev.Topic)
	if err != nil {
		return err
	}
	defer s.Close()
	d.traffic = dev.NewTraffic(d.seed)
	tick := time.NewTicker(chunkEvery)
	defer tick.Stop()
	for {
		// What was begun is sent whole: the model would not mind, but the numbers would.
		if err := s.Send(context.WithoutCancel(ctx), d.traffic.Next(chunkCases)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// killInTurn runs the consumers, and has them killed at one window after the other.
func (d *devRun) killInTurn(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(d.seed, 0x171))
	for n := 0; ctx.Err() == nil || n == 0; n++ { // on a slow machine too, one is killed
		over := ctx.Done()
		if n == 0 {
			over = nil
		}
		window := killWindows[n%len(killWindows)]
		naive, err := d.start("dev-naive")
		if err != nil {
			return err
		}
		spec := fmt.Sprintf("%s:%d=kill", window, 4+rng.IntN(12))
		c, err := d.start("dev-consumer", "PAWL_FAULT="+spec)
		if err != nil {
			naive.kill()
			return err
		}
		where := string(window)
		select {
		case <-c.ended:
			if !c.killed() {
				naive.kill()
				return fmt.Errorf("the consumer ended by itself: %s", c.said())
			}
		case <-time.After(mostLife):
			where = "anywhere"
		case <-over:
			where = ""
		}
		c.kill()
		naive.kill()
		if where != "" {
			d.mu.Lock()
			d.kills[where]++
			d.mu.Unlock()
			d.note("killed: %-14s %s", where, d.progressText(ctx))
		}
	}
	return nil
}

// progressText is how far the state machine is.
func (d *devRun) progressText(ctx context.Context) string {
	progress, err := d.store.Admin().Progress(context.WithoutCancel(ctx), "case-lifecycle")
	if err != nil {
		return ""
	}
	settled := int64(0)
	for _, p := range progress {
		settled += p.Next
	}
	return fmt.Sprintf("%d deliveries settled", settled)
}

// consumers are those that are held against their effects.
var devConsumers = []string{"case-lifecycle", "case-counts"}

func (d *devRun) look(ctx context.Context, group string) ([]kafka.Log, error) {
	src := kafka.New(kafka.Config{Brokers: d.broker.Addrs(), Group: group, Logger: slog.New(slog.DiscardHandler)})
	return src.Look(ctx, []string{dev.Topic})
}

// sample holds the group's offsets against the store's positions, again and again. The offset is read first: what is settled
// meanwhile can only help it.
func (d *devRun) sample(ctx, work context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, name := range devConsumers {
			logs, err := d.look(work, name)
			if err != nil {
				continue // the broker is busy; the next sample counts
			}
			progress, err := d.store.Admin().Progress(work, name)
			if err != nil {
				continue
			}
			for _, l := range logs {
				if l.Committed >= 0 {
					d.samples++
				}
				if l.Committed > positionOf(progress, l.Partition) {
					d.ahead++
				}
			}
		}
	}
}

// drain lets both consumers come to the end of the topic, without kills.
func (d *devRun) drain(ctx context.Context) error {
	before, err := d.epochs(ctx)
	if err != nil {
		return err
	}
	naive, err := d.start("dev-naive")
	if err != nil {
		return err
	}
	defer naive.kill()
	c, err := d.start("dev-consumer")
	if err != nil {
		return err
	}
	defer c.kill()
	deadline := time.After(drainTime)
	for {
		done, err := d.drained(ctx, before)
		switch {
		case err != nil:
			return err
		case done:
			return c.stop()
		}
		select {
		case <-c.ended:
			return fmt.Errorf("the consumer ended by itself: %s", c.said())
		case <-deadline:
			return fmt.Errorf("not everything is settled after %s: %s", drainTime, d.progressText(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// epochs is how often each partition was taken, by consumer.
func (d *devRun) epochs(ctx context.Context) (map[string]map[pawl.Partition]int64, error) {
	all := map[string]map[pawl.Partition]int64{}
	for _, name := range devConsumers {
		progress, err := d.store.Admin().Progress(ctx, name)
		if err != nil {
			return nil, err
		}
		all[name] = map[pawl.Partition]int64{}
		for _, p := range progress {
			all[name][p.Partition] = p.Epoch
		}
	}
	return all, nil
}

// drained reports whether both are at the end of the topic: Pawl by the store's positions, the other by its offsets. The last
// consumer must have taken every partition since before: it is there to give them back in good order.
func (d *devRun) drained(ctx context.Context, before map[string]map[pawl.Partition]int64) (bool, error) {
	logs, err := d.look(ctx, dev.NaiveGroup)
	if err != nil {
		return false, err
	}
	now, err := d.epochs(ctx)
	if err != nil {
		return false, err
	}
	for _, name := range devConsumers {
		progress, err := d.store.Admin().Progress(ctx, name)
		if err != nil {
			return false, err
		}
		for _, l := range logs {
			taken := now[name][l.Partition] > before[name][l.Partition]
			if !taken || l.End > positionOf(progress, l.Partition) || l.End > max(l.Committed, 0) {
				return false, nil
			}
		}
	}
	return true, nil
}

// positionOf is the store's position of a partition; 0 where it has none.
func positionOf(progress []pawl.PartitionProgress, p pawl.Partition) int64 {
	for _, at := range progress {
		if at.Partition == p {
			return at.Next
		}
	}
	return 0
}

// check reads the topic again by plain means, and compares.
func (d *devRun) check(ctx context.Context) (*devView, error) {
	deliveries, err := embedded.ReadAll(ctx, d.broker.Addrs(), dev.Topic)
	if err != nil {
		return nil, err
	}
	found, err := dev.Check(ctx, d.store.DB(), deliveries)
	if err != nil {
		return nil, err
	}
	naive, err := dev.Judge(d.naiveFile(), deliveries)
	if err != nil {
		return nil, err
	}
	v := &devView{
		Seed: d.seed, Dir: d.dir, Sent: d.traffic.Deliveries, Hostilities: d.traffic.Hostilities, Kills: d.kills, Check: found,
		Samples: d.samples, OffsetAhead: d.ahead, Naive: naive,
	}
	v.OK = found.OK() && d.ahead == 0
	return v, nil
}

func (d *devRun) write(w io.Writer, v *devView) {
	c := v.Check
	fmt.Fprintf(w, "\n%d events in %d deliveries, of which %d were sent now (seed %d). Hostile on purpose: %s.\n", c.Events, c.Deliveries,
		v.Sent, v.Seed, counted(v.Hostilities))
	kills := 0
	for _, n := range v.Kills {
		kills += n
	}
	fmt.Fprintf(w, "The consumer was killed %d times: %s.\n\ndeliveries by outcome:\n", kills, counted(v.Kills))
	sum := 0
	for _, o := range dev.Outcomes {
		fmt.Fprintf(w, "  %-24s %7d\n", o, c.Outcomes[o])
		sum += c.Outcomes[o]
	}
	fmt.Fprintf(w, "  %-24s %7d of %d\n\n", "together", sum, c.Deliveries)
	fmt.Fprintf(w, "%-42s %10s %14s\n", "the check, from the topic alone", "with Pawl", "without")
	for _, line := range []struct {
		what     string
		is, then int
	}{
		{"events lost", c.Lost, v.Naive.Lost},
		{"effects doubled", c.Doubled, v.Naive.Doubled},
		{fmt.Sprintf("rows that are wrong, of %d", c.Rows), c.Different, v.Naive.Different},
	} {
		fmt.Fprintf(w, "  %-40s %10d %14d\n", line.what, line.is, line.then)
	}
	fmt.Fprintf(w, "  %-40s %10d %14s\n", "deliveries without their reason", c.Unexplained, "all")
	fmt.Fprintf(w, "  %-40s %10d %14d\n", "undecodable records that are gone", 0, v.Naive.Dropped)
	fmt.Fprintf(w, "  %-40s %10d %14s\n", fmt.Sprintf("offset ahead of effects, in %d samples", v.Samples), v.OffsetAhead, "")
	for _, line := range c.Details {
		fmt.Fprintf(w, "  wrong: %s\n", line)
	}
	if v.OK {
		fmt.Fprintln(w, "\nThe check holds.")
	} else {
		fmt.Fprintln(w, "\nTHE CHECK DOES NOT HOLD.")
	}
	store := "sqlite:" + d.database()
	fmt.Fprintf(w, `
Try next:
  pawl explain case-%d-00001 --store %s
  pawl quarantine list --groups --consumer case-lifecycle --store %s
  pawl status --store %s
  pawl dev --seed %d --fresh      the same stream again
  pawl init                       a pipeline of your own
`, v.Seed, store, store, store, v.Seed)
}

// counted writes numbers by name, most first.
func counted(of map[string]int) string {
	var names []string
	for name := range of {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if of[a] != of[b] {
			return of[b] - of[a]
		}
		return strings.Compare(a, b)
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", of[name], name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// devPipelines reads the sample's file, with variables by lookup.
func devPipelines(lookup func(string) string) (*pipeline.Set, error) {
	return pipeline.Load([]string{"pipelines.yaml"}, pipeline.Env{
		Files: devFiles, Lookup: func(name string) (string, bool) { v := lookup(name); return v, v != "" },
	})
}
