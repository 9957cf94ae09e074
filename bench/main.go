// Command bench compares consumers that apply each event once: the classic one with a transaction per record, and Pawl.
// README.md says how to read what it prints.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"
)

// First arguments by which this program starts itself again.
const (
	asBroker    = "as-broker"
	asContender = "as-contender"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) > 0 && args[0] == asBroker:
		return runBroker(args[1:])
	case len(args) == 2 && args[0] == asContender:
		return serveTask(ctx, args[1])
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	b, err := open(ctx, o)
	if err != nil {
		return err
	}
	defer b.close(ctx)
	switch {
	case o.asked:
		return b.questions(ctx, o.history)
	case o.memory:
		return b.backlog(ctx)
	case o.order:
		return b.ordered(ctx)
	case o.byStream:
		return b.evidence(ctx)
	case o.sqlite:
		return b.onSQLite(ctx)
	case o.storm:
		return b.storms(ctx)
	case o.history > 0:
		return b.existing(ctx, o.history)
	}
	return b.compare(ctx)
}

// options are the flags.
type options struct {
	n, rounds, workers int
	ids, profile       string
	only               []*contender
	memory, order      bool
	byStream, effects  bool
	storm, sqlite      bool
	asked              bool
	history            int
}

func parse(args []string) (*options, error) {
	var o options
	var only string
	var quick bool
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.IntVar(&o.n, "n", 300_000, "records; slow contenders get a fixed share of them, from the beginning (with -memory: 1,000,000)")
	f.IntVar(&o.rounds, "rounds", 3, "rounds; each runs every contender once")
	f.IntVar(&o.workers, "workers", 0, "Pawl's workers (default: Pawl's own default)")
	f.StringVar(&o.ids, "ids", "v7", "kind of event ids: v7 (ordered by time) or v4 (random)")
	f.StringVar(&only, "only", "", "contenders to run, separated by commas (default: all)")
	f.StringVar(&o.profile, "profile", "", "folder for profiles of each contender's Go side (CPU, and the heap half way) in the last round")
	f.BoolVar(&quick, "quick", false, "a smoke test: few records, one round; its figures mean nothing")
	f.BoolVar(&o.memory, "memory", false, "instead: the peak memory of pawl-batch that works off a backlog")
	f.BoolVar(&o.order, "order", false, "instead: slow handlers in the order of streams, against what their number and the workers allow")
	f.BoolVar(&o.byStream, "evidence", false, "instead: what it costs to find decisions by their stream")
	f.BoolVar(&o.effects, "effects", false, "instead: declared effects, each next to the classic consumer that does the same and to COPY of its rows")
	f.BoolVar(&o.storm, "storm", false, "instead: what disorder costs a projection, streams in reverse by blocks of ten")
	f.BoolVar(&o.sqlite, "sqlite", false, "instead: a declared projection on SQLite, next to a transaction per record")
	f.BoolVar(&o.asked, "questions", false, "instead: how long people wait for pawl explain, status and test, "+
		"on 10,000,000 decisions or -existing of them (with -sqlite: there)")
	f.IntVar(&o.history, "existing", 0, "instead: pawl-batch on tables that hold this many decisions already, such as 10,000,000 of them")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	given := map[string]bool{}
	f.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if (o.order || o.asked) && !given["n"] {
		o.n = 1000 // of the other workload, which is not used
	}
	if o.asked && o.history == 0 {
		o.history = 10_000_000
	}
	if o.memory && !given["n"] {
		o.n = 1_000_000
	}
	if quick && !given["n"] {
		o.n = 20_000
	}
	if quick && !given["rounds"] {
		o.rounds = 1
	}
	if o.n < 1000 || o.rounds < 1 || o.workers < 0 || o.ids != "v7" && o.ids != "v4" {
		return nil, errors.New("want -n of at least 1000, -rounds of at least 1, -workers not negative, -ids v7 or v4")
	}
	for i := range contenders {
		if c := &contenders[i]; only == "" && o.effects == (c.kind != "") && c.check != nil {
			o.only = append(o.only, &contenders[i])
		}
	}
	for name := range strings.SplitSeq(only, ",") {
		c, ok := find(strings.TrimSpace(name))
		ok = ok && c.check != nil
		if !ok && only != "" {
			return nil, fmt.Errorf("-only: there is no contender %q", name)
		}
		if ok {
			o.only = append(o.only, c)
		}
	}
	return &o, nil
}

// bench is one run of this command.
type bench struct {
	*options
	server *server
	broker *broker
	events []event
	runs   int
	kept   string       // whose rows are kept for COPY
	before func() error // called before each contender, on its empty tables; nil: nothing
}

func open(ctx context.Context, o *options) (*bench, error) {
	given := os.Getenv("PAWL_TEST_POSTGRES")
	if given == "" {
		return nil, errors.New("PAWL_TEST_POSTGRES is not set: `make bench` starts a server and sets it")
	}
	if o.profile != "" {
		if err := os.MkdirAll(o.profile, 0o755); err != nil {
			return nil, err
		}
	}
	b := &bench{options: o, events: generate(o.n, o.ids, 1, time.Now().Add(-time.Hour).Truncate(time.Millisecond))}
	describeSelf()
	fmt.Printf("workload    %s records of %d bytes, %d cases, %d partitions, %.0f%% duplicates, ids %s\n",
		thousands(float64(o.n)), len(b.events[0].json()), cases, partitions, 100*duplicates, o.ids)
	var err error
	if b.server, err = openServer(ctx, given); err != nil {
		return nil, err
	}
	if err := b.server.describe(ctx, os.Stdout); err != nil {
		b.close(ctx)
		return nil, err
	}
	if b.broker, err = startBroker(b.topics()); err != nil {
		b.close(ctx)
		return nil, err
	}
	for _, topic := range b.topics() {
		if err := b.broker.produce(ctx, topic, b.events[:size(topic)]); err != nil {
			b.close(ctx)
			return nil, err
		}
	}
	return b, nil
}

func (b *bench) close(ctx context.Context) {
	var errs []error
	if b.broker != nil {
		errs = append(errs, b.broker.stop())
	}
	errs = append(errs, b.server.drop(ctx))
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, "bench: cleaning up:", err)
	}
}

// A topic is named after its number of records.

func topicOf(records int) string { return fmt.Sprintf("events-%d", records) }

func size(topic string) (n int) {
	fmt.Sscanf(topic, "events-%d", &n)
	return n
}

// topics are those that the contenders of this run read; the whole log is always among them, because COPY needs a run
// of Pawl over it.
func (b *bench) topics() []string {
	all := []string{topicOf(b.n)}
	for _, c := range b.only {
		if c.share > 1 && !b.memory {
			all = append(all, topicOf(b.n/c.share))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// compare runs the contenders round by round. Each round starts with another one, so that none always runs behind the
// same neighbour.
func (b *bench) compare(ctx context.Context) error {
	fmt.Println()
	all := results{}
	for round := range b.rounds {
		for i := range b.only {
			c := b.only[(i+round)%len(b.only)]
			if c.copyOf != "" && b.kept != c.copyOf {
				if err := b.reference(ctx, c); err != nil {
					return err
				}
			}
			f, err := b.once(ctx, c, b.n/c.share, round == b.rounds-1)
			if err != nil {
				return err
			}
			all[c.name] = append(all[c.name], f)
			fmt.Printf("round %d  %-12s %9s records/s  (%s records in %.2f s, result right)\n", round+1, c.name,
				thousands(f.rate()), thousands(float64(f.Records)), f.Seconds)
		}
	}
	fmt.Println()
	all.print(os.Stdout)
	return nil
}

// reference keeps the rows of a run of Pawl for COPY. It is not measured.
func (b *bench) reference(ctx context.Context, c *contender) error {
	of, _ := find(c.copyOf)
	if _, err := b.once(ctx, of, b.n, false); err != nil {
		return err
	}
	script := []string{`drop schema if exists reference cascade`, `create schema reference`}
	for _, t := range c.rows {
		script = append(script, t.keep())
	}
	b.kept = c.copyOf
	return b.server.script(ctx, strings.Join(script, ";"))
}

// once runs a contender on empty tables and checks what it did.
func (b *bench) once(ctx context.Context, c *contender, records int, last bool) (figures, error) {
	if err := b.server.reset(ctx); err != nil {
		return figures{}, fmt.Errorf("empty the tables: %w", err)
	}
	if b.before != nil {
		if err := b.before(); err != nil {
			return figures{}, err
		}
	}
	b.runs++
	t := &task{
		Contender: c.name, Postgres: b.server.url, Brokers: b.broker.addrs, BrokerPID: b.broker.cmd.Process.Pid,
		Topic: topicOf(records), Group: fmt.Sprintf("%s-%d", c.name, b.runs), Records: records, Workers: b.workers,
	}
	if b.profile != "" && last {
		t.Profile = filepath.Join(b.profile, c.name)
	}
	f, err := runTask(ctx, t)
	if err != nil {
		return f, err
	}
	w := model(b.events[:records])
	if err := checkCounts(ctx, b.server.db, c.check(w)); err != nil {
		return f, fmt.Errorf("%s: %w", c.name, err)
	}
	if c.table != "" {
		if err := checkProjection(ctx, b.server.db, c.table, w); err != nil {
			return f, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	if c.fromLog {
		if err := b.broker.checkOffsets(ctx, t.Group, t.Topic, records); err != nil {
			return f, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return f, nil
}

// mostMemory is the bar of -memory.
const mostMemory = 150 << 20

func (b *bench) backlog(ctx context.Context) error {
	c, _ := find("pawl-batch")
	f, err := b.once(ctx, c, b.n, true)
	if err != nil {
		return err
	}
	fmt.Printf("\n%s  %s records of backlog in %.1f s (%s records/s, each fetched %s times), result right\n", c.name,
		thousands(float64(f.Records)), f.Seconds, thousands(f.rate()), decimals(f.fetched(), 2))
	if f.Peak == 0 {
		fmt.Println("its peak memory cannot be read on this system")
		return nil
	}
	fmt.Printf("bar peak memory ≤ %d MiB: %d MiB, %s\n", mostMemory>>20, f.Peak>>20, reached(f.Peak <= mostMemory))
	return nil
}

// describeSelf prints what the Go side is made of.
func describeSelf() {
	text := fmt.Sprintf("%s, %d cores", runtime.Version(), runtime.NumCPU())
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			switch m.Path {
			case "github.com/jackc/pgx/v5", "github.com/twmb/franz-go", "github.com/twmb/franz-go/pkg/kfake":
				text += ", " + strings.TrimPrefix(m.Path, "github.com/") + " " + m.Version
			}
		}
	}
	fmt.Println("program    ", text)
}
