// Command cases builds a case register from a hostile event stream, and then checks every row of it.
//
// It needs nothing installed: a Kafka broker runs inside the process, and the database is a SQLite file.
//
//	go run ./examples/cases
//
// Events of a few thousand cases are sent to a topic with everything that goes wrong in practice: copies near and far, on
// other partitions and in other spellings, old versions, missing events, illegal transitions, ids used twice, garbage. A
// group of consumers that come, go and are cut off projects them into tables. At the end the topic is read once more by
// plain means, a model that knows nothing of Pawl says what the tables must hold, and the two are compared. The exit
// status is 0 if they agree in everything, 1 if not or if anything failed, and 2 for a wrong flag.
//
// The consumer itself is in handler.go. It is all that an application has to write.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	_ "modernc.org/sqlite" // the driver "sqlite", for the check's own connection

	"github.com/pawlhq/pawl/kafka/embedded"
	"github.com/pawlhq/pawl/sqlite"
)

const defaultCases = 2000

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main with everything passed in. It returns the exit status.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("cases", flag.ContinueOnError)
	flags.SetOutput(errs)
	cases := flags.Int("cases", defaultCases, "how many cases to make up")
	dir := flags.String("dir", "", "keep the topic and the database in this `directory`; run again to send more (default: nothing is kept)")
	seed := flags.Uint64("seed", rand.Uint64N(1_000_000), "what the stream is made from: the same seed makes the same stream; another one each time")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if *cases < 1 || flags.NArg() > 0 {
		fmt.Fprintln(errs, "cases: -cases must be at least 1, and there are no arguments besides flags")
		return 2
	}
	ok, err := demonstrate(ctx, out, *dir, *seed, *cases)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(errs, "cases: interrupted")
		return 1
	case err != nil:
		fmt.Fprintln(errs, "cases:", err)
		return 1
	case !ok:
		return 1
	}
	return 0
}

// demonstrate does everything, and reports whether the check holds. Without a directory nothing is kept.
func demonstrate(ctx context.Context, out io.Writer, dir string, seed uint64, cases int) (ok bool, err error) {
	place := dir
	if dir == "" {
		if place, err = os.MkdirTemp("", "pawl-cases-"); err != nil {
			return false, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(place)) }()
	}
	l, err := open(ctx, place)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, l.close()) }()

	p := newPrinter(out)
	defer p.progress("")
	p.start(seed, cases)
	if err := l.attack(ctx, p, generate(seed, cases)); err != nil {
		return false, err
	}
	p.progress("reading the topic again")
	records, err := readTopic(ctx, l.addrs)
	if err != nil {
		return false, err
	}
	found, err := check(ctx, l.db, records)
	if err != nil {
		return false, err
	}
	reasons, err := explain(ctx, l.db)
	if err != nil {
		return false, err
	}
	p.table(&found.table)
	p.finding(found)
	p.reasons(reasons)
	p.next(l, dir, seed, cases)
	return found.ok(), nil
}

// lab is a broker, a database, and a plain connection to the database.
type lab struct {
	broker   *embedded.Broker
	addrs    []string
	database string // path
	db       *sql.DB
}

func open(ctx context.Context, dir string) (*lab, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("cannot keep anything in %s: %w", dir, err)
	}
	l := &lab{database: filepath.Join(dir, "cases.db")}
	if err := l.createTables(ctx); err != nil {
		return nil, errors.Join(err, l.close())
	}
	broker, err := embedded.Start(embedded.Config{
		Dir: filepath.Join(dir, "kafka"), Topics: []embedded.Topic{{Name: topic, Partitions: partitions}},
	})
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	l.broker, l.addrs = broker, broker.Addrs()
	return l, nil
}

// createTables makes Pawl's tables and the application's.
func (l *lab) createTables(ctx context.Context) error {
	store, err := sqlite.Open(ctx, l.database)
	if err != nil {
		return fmt.Errorf("database %s: %w", l.database, err)
	}
	if err := errors.Join(store.Migrate(ctx), store.Close()); err != nil {
		return fmt.Errorf("database %s: %w", l.database, err)
	}
	if l.db, err = sql.Open("sqlite", l.database); err != nil {
		return fmt.Errorf("database %s: %w", l.database, err)
	}
	if _, err = l.db.ExecContext(ctx, schema); err != nil {
		return fmt.Errorf("database %s: %w", l.database, err)
	}
	return nil
}

func (l *lab) close() error {
	var errs []error
	if l.db != nil {
		errs = append(errs, l.db.Close())
	}
	if l.broker != nil {
		errs = append(errs, l.broker.Close())
	}
	return errors.Join(errs...)
}
