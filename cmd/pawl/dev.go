package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/kafka/embedded"
	"github.com/pawlhq/pawl/pipeline"
	"github.com/pawlhq/pawl/sqlite"
)

const defaultDevDir = ".pawl-dev"

func (a *app) devCommand() *cobra.Command {
	var lasts time.Duration
	var seed uint64
	var dir, records string
	var fresh bool
	cmd := &cobra.Command{
		Use: "dev [FILE|FOLDER…]", Short: "See it work: a broker, a database, hostile traffic, kills, and a check of the result",
		Long: `See it work, with nothing installed: a Kafka broker in this process, a SQLite file, and events with everything that goes wrong
in practice: sent twice, out of order, missing, illegal, garbage. The consumer is a process of its own, which is killed at
named windows between two durable steps and comes back. A consumer without Pawl gets the same stream and the same kills.

Without a file it plays a sample. With one, it plays your pipelines: broker and database stand in for those that the file names,
and the traffic is made of the records in the fixtures beside it (orders.yaml has orders_test.yaml), or of --records. Each round
of them becomes new streams: ids and streams get new names wherever the file says them by plain paths.

A file of --records has a record on each line, as JSON: {"value": {…}}, and where they matter "key": "…", "headers": {"name": "…"}
and "topic": "…". A value that is a text is sent as it is, null is a tombstone, and anything else is sent as JSON.

It ends after --for, or on Ctrl-C, with a check that reads the topic again. For the sample, a model that knows nothing of Pawl
works out what the tables must hold. For your own file, it is a quiet run of the same pipelines: a new database, one process, no
kills, and copies left out by the check itself. It shows what an attack changes, not whether the file says what you mean: pawl
test does. The exit code is 0 if the tables agree, else 1. What happened is kept in --dir, and a next run goes on with it;
--fresh starts over.`,
		Example: "  pawl dev --for 20s\n  pawl dev orders.yaml --for 20s\n  pawl dev --seed 7 --fresh",
		RunE: func(cmd *cobra.Command, args []string) error {
			if lasts < 0 {
				return usage("--for is negative")
			}
			if !cmd.Flags().Changed("seed") {
				seed = rand.Uint64N(1_000_000)
			}
			d := &devRun{app: a, dir: dir, seed: seed, lasts: lasts, kills: map[string]int{}, waiting: map[string]int64{}}
			var err error
			if len(args)+len(a.files) > 0 {
				d.piece, err = a.ownPiece(a.paths(args), records, seed)
			} else if records != "" {
				err = usage("--records is for pipelines of your own: name their file, as in pawl dev orders.yaml --records %s", records)
			} else {
				d.piece, err = newSamplePiece(a, seed)
			}
			if err != nil {
				return err
			}
			return d.play(cmd.Context(), fresh)
		},
	}
	cmd.Flags().DurationVar(&lasts, "for", 0, "how long traffic is sent; 0: until Ctrl-C")
	cmd.Flags().Uint64Var(&seed, "seed", 0, "what the stream is made from: the same seed makes the same stream; otherwise another each time")
	cmd.Flags().StringVar(&dir, "dir", defaultDevDir, "where everything is kept")
	cmd.Flags().BoolVar(&fresh, "fresh", false, "throw away what was kept, and start over")
	cmd.Flags().StringVar(&records, "records", "", "make the traffic of the records in this file, instead of the fixtures")
	return cmd
}

// piece is what dev plays: its sample, or pipelines of the user's own.
type piece interface {
	pipelines() *pipeline.Set
	// content is the pipeline files, as they are kept for the consumers.
	content() [][]byte
	topics() []embedded.Topic
	// intro says what is played, a line each.
	intro() []string
	// next is what is sent next.
	next() []embedded.Message
	// sent is how much was sent, and what was put in on purpose.
	sent() (int, map[string]int)
	// own reports whether it is the user's.
	own() bool
	// naiveKey is which effect a line of the naive consumer's file is about; "": none.
	naiveKey(line []byte) string
	// judge compares what is there with what must be there.
	judge(ctx context.Context, d *devRun, topic []embedded.Message) (*devVerdict, error)
	// tryNext is what to do next, a command on each line. The flags play the same stream again.
	tryNext(store, flags string) []string
}

// devRun is one run of dev.
type devRun struct {
	*app
	piece
	dir   string
	seed  uint64
	lasts time.Duration

	broker *embedded.Broker
	store  *sqlite.Store
	self   string  // this program
	screen *screen // nil: there is no terminal to draw on

	mu       sync.Mutex
	until    time.Time // when the traffic ends
	draining bool
	kills    map[string]int // by window
	lastKill string
	sentNow  int
	waiting  map[string]int64 // deliveries that a consumer has not settled
	samples  int
	ahead    int // samples in which an offset was ahead of its effects
}

func (d *devRun) play(ctx context.Context, fresh bool) (err error) {
	release, err := d.claimFolder(fresh)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	if d.self, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	// Ctrl-C ends the traffic, not the report.
	work := context.WithoutCancel(ctx)
	if err := d.open(work); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.store.Close(), d.broker.Close()) }()
	d.note("pawl dev: seed %d, everything is kept in %s", d.seed, d.dir)
	for _, line := range d.intro() {
		d.note("%s", line)
	}
	if err := d.show(work, func() error { return d.attackAndDrain(ctx, work) }); err != nil {
		return err
	}
	v, err := d.report(work)
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

func (d *devRun) attackAndDrain(ctx, work context.Context) error {
	if err := d.attack(ctx, work); err != nil {
		return err
	}
	d.mu.Lock()
	d.draining = true
	d.mu.Unlock()
	d.say("no more traffic and no more kills: waiting until every delivery is settled")
	return d.drain(work)
}

func (d *devRun) database() string  { return filepath.Join(d.dir, "pawl.db") }
func (d *devRun) naiveFile() string { return filepath.Join(d.dir, "naive.jsonl") }

// open starts the broker and makes the tables.
func (d *devRun) open(ctx context.Context) (err error) {
	_, statErr := os.Stat(d.database())
	if d.store, err = sqlite.Open(ctx, d.database()); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.store.Close())
		}
	}()
	if err := d.store.Migrate(ctx); err != nil {
		return err
	}
	for _, p := range d.pipelines().Pipelines {
		if statErr == nil {
			break // they are there
		}
		if err := pipeline.CreateTables(ctx, d.database(), p.Tables()); err != nil {
			return err
		}
	}
	d.broker, err = embedded.Start(embedded.Config{Dir: filepath.Join(d.dir, "kafka"), Topics: d.topics()})
	return err
}
