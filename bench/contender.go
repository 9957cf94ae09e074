package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// consumer is the name that claims are kept under.
const consumer = "bench"

// contender is one way to get the records into the database.
type contender struct {
	name     string
	share    int // it gets 1/share of the records: rates are compared, and the slow ones need not take minutes
	run      func(ctx context.Context, t *task, w *stopwatch) error
	check    func(w want) []count
	table    string // its projection; empty: none
	fromLog  bool   // it reads the log
	copyOf   string // it writes what a run of this contender has written
	rows     []copyable
	kind     string // of a declared effect; empty: not one of them
	describe string
}

var contenders = []contender{
	{name: "classic-1", share: 20, run: runClassic1, check: checkClassic, table: "case_projection", fromLog: true,
		describe: "transaction per record, one worker"},
	{name: "classic-N", share: 10, run: runClassicN, check: checkClassic, table: "case_projection", fromLog: true,
		describe: fmt.Sprintf("transaction per record, %d workers", partitions)},
	{name: "pawl-record", share: 5, run: runPawlRecord, check: checkPawl, table: "case_projection", fromLog: true,
		describe: "pawl.Handle, two statements per record"},
	{name: "pawl-batch", share: 1, run: runPawlBatch, check: checkPawl, table: "case_projection", fromLog: true,
		describe: "pawl.HandleBatch, one statement per batch"},
	{name: "pawl-guarded", share: 1, run: runPawlGuarded, check: checkPawl, table: "case_projection", fromLog: true,
		describe: "the same with QuarantineStream and metrics"},
	{name: "copy", share: 1, run: copyOf(1, decisions, projection), check: checkCopy, table: "copy_projection", copyOf: "pawl-batch",
		rows: []copyable{decisions, projection}, describe: "COPY of Pawl's rows, one connection"},
	{name: "copy-2", share: 1, run: copyOf(2, decisions, projection), check: checkCopy, table: "copy_projection", copyOf: "pawl-batch",
		rows: []copyable{decisions, projection}, describe: "COPY of Pawl's rows, two connections"},

	{name: "classic-projection", kind: "projection", share: 20, run: classicEffect(classicProjection), check: checkClassic, table: "case_state", fromLog: true,
		describe: "transaction per record: marker, select for update, write"},
	{name: "pawl-projection", kind: "projection", share: 1, run: runPawlProjection, check: checkPawl, table: "case_state", fromLog: true,
		describe: "effect.Projection"},
	{name: "yaml-projection", kind: "projection", share: 1, run: runDeclared, check: checkPawl, table: "case_state", fromLog: true,
		describe: "the same from a file"},
	{name: "copy-projection", kind: "projection", share: 1, run: copyOf(1, decisions, caseState), check: checkCopy, table: "copy_state", copyOf: "pawl-projection",
		rows: []copyable{decisions, caseState}, describe: "COPY of its rows"},
	{name: "classic-workflow", kind: "workflow", share: 20, run: classicEffect(classicWorkflow), check: checkClassic, table: "case_state", fromLog: true,
		describe: "the same, with transitions"},
	{name: "pawl-workflow", kind: "workflow", share: 1, run: runPawlWorkflow, check: checkPawl, table: "case_state", fromLog: true,
		describe: "effect.Workflow"},
	{name: "copy-workflow", kind: "workflow", share: 1, run: copyOf(1, decisions, caseState), check: checkCopy, table: "copy_state", copyOf: "pawl-workflow",
		rows: []copyable{decisions, caseState}, describe: "COPY of its rows"},
	{name: "pawl-storm", kind: "storm", share: 1, run: runPawlStorm, describe: "effect.Projection that holds what comes early; for -storm"},
	{name: "classic-ledger", kind: "ledger", share: 20, run: classicEffect(classicLedger), fromLog: true,
		check: both(checkClassic, checkLedger("ledger_entry", "ledger_balance")), describe: "transaction per record: marker, entry, balance"},
	{name: "pawl-ledger", kind: "ledger", share: 1, run: runPawlLedger, fromLog: true,
		check: both(checkPawl, checkLedger("ledger_entry", "ledger_balance")), describe: "effect.Ledger with balances"},
	{name: "copy-ledger", kind: "ledger", share: 1, run: copyOf(1, decisions, ledgerEntry, ledgerBalance), copyOf: "pawl-ledger",
		check: both(checkCopy, checkLedger("copy_ledger_entry", "copy_ledger_balance")), rows: []copyable{decisions, ledgerEntry, ledgerBalance},
		describe: "COPY of its rows"},
}

func find(name string) (*contender, bool) {
	for i := range contenders {
		if contenders[i].name == name {
			return &contenders[i], true
		}
	}
	return nil, false
}

// task is what a contender's process is asked to do.
type task struct {
	Contender string
	Postgres  string // URL
	Brokers   []string
	BrokerPID int
	Topic     string
	Group     string
	Records   int
	Workers   int    // 0: the default of Pawl
	Profile   string // where profiles go, without their suffix; empty: nowhere
}

// runTask runs a contender in a process of its own: its CPU and memory are then its own, and no run inherits a heap from
// the one before.
func runTask(ctx context.Context, t *task) (figures, error) {
	self, err := os.Executable()
	if err != nil {
		return figures{}, err
	}
	spec, err := json.Marshal(t)
	if err != nil {
		return figures{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, asContender, string(spec))
	cmd.Stderr = os.Stderr
	var out bytes.Buffer
	cmd.Stdout = &out
	stdin, err := cmd.StdinPipe() // open as long as we live
	if err != nil {
		return figures{}, err
	}
	defer stdin.Close()
	if err := cmd.Run(); err != nil {
		return figures{}, fmt.Errorf("%s: %w", t.Contender, err)
	}
	var f figures
	if err := json.Unmarshal(out.Bytes(), &f); err != nil {
		return figures{}, fmt.Errorf("%s: read its figures: %w", t.Contender, err)
	}
	return f, nil
}

// serveTask is the other side of runTask.
func serveTask(ctx context.Context, spec string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel(errors.New("the process that started this one is gone"))
	}()
	var t task
	if err := json.Unmarshal([]byte(spec), &t); err != nil {
		return err
	}
	c, ok := find(t.Contender)
	if !ok {
		return fmt.Errorf("no contender %q", t.Contender)
	}
	w, err := newStopwatch(ctx, &t)
	if err != nil {
		return err
	}
	defer w.db.Close(context.WithoutCancel(ctx))
	endProfile, err := profile(t.Profile, w)
	if err != nil {
		return err
	}
	err = c.run(ctx, &t, w)
	if err := errors.Join(err, endProfile()); err != nil {
		return err
	}
	f, err := w.figures()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(f)
}

// profile writes a CPU profile of the run, and one of the heap as it is when half of the records are settled.
func profile(path string, w *stopwatch) (end func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	cpu, err := os.Create(path + ".cpu.pprof")
	if err != nil {
		return nil, err
	}
	heap, err := os.Create(path + ".heap.pprof")
	if err != nil {
		return nil, errors.Join(err, cpu.Close())
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, errors.Join(err, cpu.Close(), heap.Close())
	}
	w.half = func() { pprof.Lookup("heap").WriteTo(heap, 0) }
	return func() error {
		pprof.StopCPUProfile()
		return errors.Join(cpu.Close(), heap.Close())
	}, nil
}

func openPool(ctx context.Context, url string, conns int) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = int32(conns)
	return pgxpool.NewWithConfig(ctx, cfg)
}

func cores() float64 { return float64(runtime.NumCPU()) }
