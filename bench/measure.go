package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
)

// figures are what one run of a contender took. CPU times are in seconds; those that cannot be had here are negative.
type figures struct {
	Records  int
	Seconds  float64
	Go       float64 // this process
	Postgres float64 // the server's processes, all of them
	Broker   float64
	Foreign  float64 // everything else on the machine, and what the host took away, as a share of its cores
	WAL      int64   // bytes
	Fetched  int64   // records read from the broker, those that were dropped and read again included
	Peak     int64   // bytes of resident memory, since the process began
}

// stopwatch measures from the first records that arrive to the commit of the last: joining a group and starting a
// process are not what is compared.
type stopwatch struct {
	db      *pgx.Conn // for the WAL position only
	server  int       // pid of the postmaster; 0: not on this machine
	broker  int
	want    int64
	settled atomic.Int64
	fetched atomic.Int64
	start   sync.Once
	began   sample
	ended   sample
	half    func()        // if set, called once when half of the records are settled
	done    chan struct{} // closed when everything is settled
}

type sample struct {
	at                            time.Time
	self, server, broker, machine float64
	wal                           int64
	err                           error
}

func newStopwatch(ctx context.Context, t *task) (*stopwatch, error) {
	db, err := pgx.Connect(ctx, t.Postgres)
	if err != nil {
		return nil, err
	}
	return &stopwatch{
		db: db, server: postmaster(ctx, db), broker: t.BrokerPID, want: int64(t.Records), done: make(chan struct{}),
	}, nil
}

// OnFetchBatchRead implements kgo.HookFetchBatchRead.
func (w *stopwatch) OnFetchBatchRead(_ kgo.BrokerMetadata, _ string, _ int32, m kgo.FetchBatchMetrics) {
	w.begin()
	w.fetched.Add(int64(m.NumRecords))
}

func (w *stopwatch) begin() {
	w.start.Do(func() {
		w.began = w.sample()
		w.began.at = time.Now() // last, so that sampling is not timed
	})
}

// settle counts committed records.
func (w *stopwatch) settle(n int) {
	settled := w.settled.Add(int64(n))
	if half := w.want / 2; w.half != nil && settled >= half && settled-int64(n) < half {
		w.half()
	}
	if settled == w.want {
		at := time.Now()
		w.ended = w.sample()
		w.ended.at = at
		close(w.done)
	}
}

func (w *stopwatch) finished() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

func (w *stopwatch) figures() (figures, error) {
	if !w.finished() {
		return figures{}, fmt.Errorf("stopped with %d of %d records settled", w.settled.Load(), w.want)
	}
	if w.settled.Load() != w.want {
		return figures{}, fmt.Errorf("WRONG RESULT: %d records settled, want %d", w.settled.Load(), w.want)
	}
	a, b := w.began, w.ended
	if a.err != nil || b.err != nil {
		return figures{}, fmt.Errorf("read WAL position: %w, %w", a.err, b.err)
	}
	f := figures{
		Records: int(w.want), Seconds: b.at.Sub(a.at).Seconds(), Go: b.self - a.self, Postgres: -1, Broker: -1, Foreign: -1,
		WAL: b.wal - a.wal, Fetched: w.fetched.Load(), Peak: peak(),
	}
	if a.server >= 0 && b.server >= 0 {
		f.Postgres = b.server - a.server
	}
	if a.broker >= 0 && b.broker >= 0 {
		f.Broker = b.broker - a.broker
	}
	if f.Postgres >= 0 && f.Broker >= 0 && a.machine >= 0 {
		ours := f.Go + f.Postgres + f.Broker
		f.Foreign = max(b.machine-a.machine-ours, 0) / (f.Seconds * cores())
	}
	return f, nil
}

func (w *stopwatch) sample() (s sample) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) // a hook has no context to pass on
	defer cancel()
	s.err = w.db.QueryRow(ctx, `select (pg_current_wal_insert_lsn() - '0/0')::bigint`).Scan(&s.wal)
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err == nil {
		s.self = seconds(u.Utime) + seconds(u.Stime)
	}
	s.server, s.broker, s.machine = serverCPU(w.server), -1, machineCPU()
	if p, ok := readStat(w.broker); ok {
		s.broker = p.own
	}
	return s
}

func seconds(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }

// tick is USER_HZ, which is 100 on every Linux that Go runs on.
const tick = 0.01

// process is what /proc/PID/stat says.
type process struct {
	parent int
	own    float64 // CPU seconds
	reaped float64 // of its children that have ended
}

func readStat(pid int) (p process, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if pid == 0 || err != nil {
		return p, false
	}
	// The name is in parentheses and may hold anything; the fields are counted from behind it.
	_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')'):]), " ")
	f := strings.Fields(rest)
	if len(f) < 15 {
		return p, false
	}
	n := func(i int) float64 { v, _ := strconv.ParseFloat(f[i], 64); return v }
	return process{int(n(1)), (n(11) + n(12)) * tick, (n(13) + n(14)) * tick}, true
}

// postmaster finds the server's main process through the one that serves us; 0 if it is not on this machine.
func postmaster(ctx context.Context, db *pgx.Conn) int {
	var backend int
	if err := db.QueryRow(ctx, `select pg_backend_pid()`).Scan(&backend); err != nil {
		return 0
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", backend))
	if err != nil || strings.TrimSpace(string(name)) != "postgres" {
		return 0
	}
	p, _ := readStat(backend)
	return p.parent
}

// serverCPU adds up the main process, its children, and those that have ended.
func serverCPU(postmaster int) float64 {
	p, ok := readStat(postmaster)
	if !ok {
		return -1
	}
	sum := p.own + p.reaped
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if child, ok := readStat(pid); ok && child.parent == postmaster {
				sum += child.own
			}
		}
	}
	return sum
}

// machineCPU is all CPU time that was not idle, over all cores, including what the host gave to others.
func machineCPU() float64 {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return -1
	}
	line, _, _ := strings.Cut(string(text), "\n")
	sum := 0.0
	for i, s := range strings.Fields(line) {
		if i >= 1 && i <= 8 && i != 4 && i != 5 { // user … steal without idle and iowait; guests are in user already
			v, _ := strconv.ParseFloat(s, 64)
			sum += v * tick
		}
	}
	return sum
}

// peak is the most memory this process has ever had resident; 0 where that cannot be read.
func peak() int64 {
	text, _ := os.ReadFile("/proc/self/status")
	_, rest, ok := strings.Cut(string(text), "VmHWM:")
	if !ok {
		return 0
	}
	kb, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	return kb << 10
}
