package test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/pgtest"
	"github.com/pawlhq/pawl/pawltest"
	"github.com/pawlhq/pawl/postgres"
	"github.com/pawlhq/pawl/sqlite"
)

// deadlyVariable makes the test binary a consumer of the deadly log: sqlite:<file>, or postgres:<url>, and the order.
const deadlyVariable = "PAWL_TEST_DEADLY"

const deadlyRecords = 150

// deadlyLog has a record that kills its process and one that exhausts its memory.
func deadlyLog() []pawl.Record {
	var log []pawl.Record
	for i := range deadlyRecords {
		e := noted{ID: strconv.Itoa(i), Stream: fmt.Sprint("s", i%7), N: i}
		value, _ := json.Marshal(e)
		log = append(log, pawl.Record{
			Partition: pawl.Partition{Topic: pawltest.Topic, TopicID: pawl.TopicID{7}}, Offset: int64(i), Timestamp: time.Unix(1, 0), Value: value,
		})
	}
	return log
}

const (
	kills    = 43 // ends the process at once
	exhausts = 97 // takes all the memory there is
)

// runDeadly is the child: it consumes until it dies or everything is settled.
func runDeadly(spec string) int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	kind, rest, _ := strings.Cut(spec, ":")
	order, target, _ := strings.Cut(rest, ":")
	n, err := strconv.Atoi(order)
	if err == nil {
		err = limitMemory(2 << 30)
	}
	if err == nil && kind == "sqlite" {
		var store *sqlite.Store
		if store, err = sqlite.Open(ctx, target); err == nil {
			err = consumeDeadly(ctx, cancel, store, pawl.Order(n))
		}
	} else if err == nil {
		db, oerr := openURL(target)
		if err = oerr; err == nil {
			err = consumeDeadly(ctx, cancel, postgres.NewSQL(db), pawl.Order(n))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func consumeDeadly(ctx context.Context, cancel context.CancelFunc, store pawl.Store[pawl.SQLTx], order pawl.Order) error {
	settled := make(chan struct{}) // closed when something was
	var once sync.Once
	r := pawl.NewRunner(store, pawltest.NewLog(deadlyLog()), pawl.Config{
		Consumer: "deadly", Workers: 4, MaxBatch: 30, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Hooks: pawl.Hooks{Settled: func(s pawl.Settled) {
			once.Do(func() { close(settled) })
			if s.Next == deadlyRecords {
				cancel()
			}
		}},
	})
	pawl.Handle(r, pawl.Route{Name: "deadly", Topics: []string{pawltest.Topic}, Order: order}, notes(),
		func(_ context.Context, _ pawl.SQLTx, e pawl.Envelope[noted]) error {
			switch e.Body.N {
			case kills:
				if order != pawl.OrderPartition { // the worst moment: after others were settled, beside it
					select {
					case <-settled:
					case <-time.After(200 * time.Millisecond): // it is tried alone
					}
				}
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			case exhausts:
				var all [][]byte
				for {
					b := make([]byte, 64<<20)
					for i := 0; i < len(b); i += 4096 {
						b[i] = 1
					}
					all = append(all, b)
					_ = all
				}
			}
			return nil
		})
	return r.Run(ctx)
}

// limitMemory lets the process have so much more address space than it has.
func limitMemory(more uint64) error {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return nil // not on this system: the other killer is enough
	}
	var pages uint64
	fmt.Sscan(string(statm), &pages)
	limit := pages*uint64(os.Getpagesize()) + more
	return syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: limit, Max: limit})
}

// Records that kill whoever tries them are set aside after at most three deaths each that brought their partition no further,
// and their neighbours take effect once.
func TestARecordThatKillsItsProcessIsSetAside(t *testing.T) {
	for _, order := range []pawl.Order{pawl.OrderPartition, pawl.OrderStream} {
		t.Run(fmt.Sprintf("sqlite, order %d", order), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "pawl.db")
			store, err := sqlite.Open(t.Context(), path)
			if err == nil {
				err = store.Migrate(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			dieAndComeBack(t, fmt.Sprintf("sqlite:%d:%s", order, path), func(query string) (n int64) {
				if err := store.DB().QueryRow(query).Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n
			})
		})
		t.Run(fmt.Sprintf("postgres, order %d", order), func(t *testing.T) {
			t.Parallel()
			url := pgtest.Migrated(t)
			s := openDatabaseSQL(t, url, "")
			dieAndComeBack(t, fmt.Sprintf("postgres:%d:%s", order, url), func(query string) int64 { return s.int(t, query) })
		})
	}
}

func dieAndComeBack(t *testing.T, spec string, count func(string) int64) {
	const killers, most = 2, 3
	deaths, stuck, at := 0, 0, int64(0)
	var said []byte
	for {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), deadlyVariable+"="+spec, "GOTRACEBACK=none")
		out, err := cmd.CombinedOutput()
		if err == nil {
			break
		}
		said = fmt.Appendf(said, "%s%v\n", out, err)
		deaths++
		if next := count(`select coalesce(max(next_offset), 0) from pawl_progress`); next > at {
			at = next
		} else if stuck++; stuck > killers*most {
			t.Fatalf("%d deaths of %d records that kill, %d of them got no further:\n%s", deaths, killers, stuck, said)
		}
	}
	if deaths < killers {
		t.Fatalf("%d deaths: the records did not kill", deaths)
	}
	if n := count(`select count(*) from pawl_decision where outcome = 1`); n != deadlyRecords-killers {
		t.Errorf("%d applied, want %d", n, deadlyRecords-killers)
	}
	if n := count(`select count(*) from pawl_quarantine where cause = 'crash' and position_offset in (43, 97)`); n != killers {
		t.Errorf("%d set aside for crashing, want %d", n, killers)
	}
	if n := count(`select count(*) from pawl_quarantine`); n != killers {
		t.Errorf("%d in quarantine: neighbours were harmed", n)
	}
}
