package test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
	"github.com/pawlhq/pawl/internal/fault"
	"github.com/pawlhq/pawl/internal/pgtest"
	"github.com/pawlhq/pawl/postgres"
)

// Whatever arrives, fails, is set aside and held, is replayed, edited, skipped and archived, in whatever order, while
// processes die and partitions move: whenever it is calm, the store holds what the model says, record by record. The model
// (book) settles one record after the other, and knows neither processes nor owners.
//
// At each calm moment: each stream's effects, in order; each key's decision, at its place; the evidence of every other place;
// what is held, what is in quarantine and why, which streams are blocked and by what; of each operation, what is done, what
// has failed and the audit. In the end an operator deals with everything, and nothing is left held, open or blocked.
//
// A failure prints what was drawn, and -rapid.failfile repeats it. What it prints is the script, not the schedule.
func TestAnyInterleavingEndsAsTheModelSays(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	if checks.Value.String() == checks.DefValue { // nobody asked for another number
		n := "5"
		if os.Getenv("PAWL_PROOF") == "long" {
			n = "40"
		}
		if err := flag.Set("rapid.checks", n); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { flag.Set("rapid.checks", checks.DefValue) })
	}
	for _, order := range []pawl.Order{pawl.OrderPartition, pawl.OrderStream} {
		for _, batched := range []bool{false, true} {
			name := fmt.Sprintf("order %d, batched %v", order, batched)
			t.Run("sqlite, "+name, func(t *testing.T) {
				t.Parallel()
				exec := execSQL(func(q string) string { return q })
				interleave(t, order, batched, func(t testing.TB) *opened[pawl.SQLTx] { return openSQLite(t, effectSchema) }, nil, exec)
			})
			t.Run("pgx, "+name, func(t *testing.T) {
				t.Parallel()
				url := pgtest.Migrated(t)
				s := openPgx(t, url, effectSchemaPostgres)
				interleave(t, order, batched, func(t testing.TB) *opened[pgx.Tx] {
					create(t, s.db, `truncate effect, pawl_decision, pawl_redelivery, pawl_hold, pawl_stream, pawl_revision, pawl_operation_item,
						pawl_operation, pawl_audit, pawl_seal_head, pawl_seal, pawl_gap, pawl_early, pawl_attempt, pawl_pause,
						pawl_quarantine, pawl_condition, pawl_progress, pawl_scope, pawl_consumer`)
					return s
				}, func() (pawl.Store[pgx.Tx], func(), error) {
					pool, err := pgxpool.New(t.Context(), url)
					if err != nil {
						return nil, nil, err
					}
					return postgres.New(pool), pool.Close, nil
				}, execPgx)
			})
		}
	}
}

const (
	effectSchema         = `create table effect (id integer primary key autoincrement, key text not null, stream text not null)`
	effectSchemaPostgres = `create table effect (id bigint generated always as identity primary key, key text not null, stream text not null)`
)

// caseTB is the testing.TB of one generated case: what it opens ends with it, and what it fails is the case.
type caseTB struct {
	testing.TB
	rt *rapid.T
}

func (c *caseTB) Cleanup(f func())           { c.rt.Cleanup(f) }
func (c *caseTB) Helper()                    {}
func (c *caseTB) Error(args ...any)          { c.rt.Error(args...) }
func (c *caseTB) Errorf(f string, a ...any)  { c.rt.Errorf(f, a...) }
func (c *caseTB) Fatal(args ...any)          { c.rt.Fatal(args...) }
func (c *caseTB) Fatalf(f string, a ...any)  { c.rt.Fatalf(f, a...) }
func (c *caseTB) Logf(f string, args ...any) { c.rt.Logf(f, args...) }
func (c *caseTB) TempDir() string {
	dir, err := os.MkdirTemp("", "pawl-case")
	if err != nil {
		c.rt.Fatal(err)
	}
	c.rt.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// script is what handlers do: shared by all processes of a case.
type script struct {
	mu       sync.Mutex
	repaired map[string]bool
	calls    map[string]int
	settled  chan struct{} // something was settled
	troubles []string
}

func (s *script) repair(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repaired[id] = true
}

func (s *script) trouble(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.troubles = append(s.troubles, fmt.Sprintf(format, args...)); len(s.troubles) > 20 {
		s.troubles = s.troubles[1:]
	}
}

// verdict is what the handler returns for an event: fails a few times and then not, or until it is repaired.
func (s *script) verdict(e happening) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[e.ID]++
	n := s.calls[e.ID]
	switch {
	case e.Kind == "ignore":
		return pawl.Ignore("asked to")
	case e.Kind == "reject" && !s.repaired[e.ID]:
		return pawl.Reject(errors.New("asked to"))
	case e.Kind == "fail" && !s.repaired[e.ID]:
		return errors.New("fails until it is repaired")
	case e.Kind == "flaky" && n < modelTries:
		return errors.New("fails now and then")
	case e.Kind == "transient" && n == 1:
		return pawl.Classed(pawl.Transient, errors.New("in the way"))
	case e.Kind == "later" && n <= 2:
		return pawl.Later(time.Millisecond)
	}
	return nil
}

const (
	modelTries      = 3
	modelPartitions = 2
	modelPatience   = 20 * time.Second
)

func happenings() pawl.Decoder[happening] {
	return decode.JSON(func(_ pawl.Meta, e happening) pawl.Identity { return pawl.Identity{Key: e.ID, Stream: e.Stream} })
}

// interleaving is one case: two processes, an operator, and the model.
type interleaving[Tx any] struct {
	*caseTB
	*opened[Tx]
	connect  func() (pawl.Store[Tx], func(), error)
	exec     execTx[Tx]
	order    pawl.Order
	batched  bool
	workers  int
	batch    int
	crashes  bool
	script   *script
	group    *group
	book     *book
	lives    [2]*life
	unclean  int // ends of owners that were not in good order: three in a row would have the engine suspect a record
	serial   int
	paused   bool
	ops      []*modelOperation
	admin    pawl.Admin
	archived map[*fate]bool // since it was last calm
}

// modelOperation is an operation in the model.
type modelOperation struct {
	id     int64
	kind   pawl.OperationKind
	items  map[spot]bool // done?
	failed int
	canary int
	passed bool // its canary
	state  pawl.OperationState
}

// connect gives a process connections of its own; nil: all use the store that was opened.
func interleave[Tx any](
	t *testing.T, order pawl.Order, batched bool, open func(testing.TB) *opened[Tx], connect func() (pawl.Store[Tx], func(), error), exec execTx[Tx],
) {
	rapid.Check(t, func(rt *rapid.T) {
		tb := &caseTB{t, rt}
		c := &interleaving[Tx]{
			caseTB: tb, opened: open(tb), connect: connect, exec: exec, order: order, batched: batched,
			workers: rapid.IntRange(1, 4).Draw(rt, "workers"), batch: rapid.SampledFrom([]int{1, 2, 4, 20}).Draw(rt, "most in a batch"),
			crashes: rapid.Bool().Draw(rt, "crashes"),
			script:  &script{repaired: map[string]bool{}, calls: map[string]int{}, settled: make(chan struct{}, 1)},
			group:   newGroup("model", modelPartitions), book: newBook(modelPartitions),
		}
		c.admin = c.Store.Admin()
		rt.Cleanup(func() {
			for _, l := range c.lives {
				if l != nil {
					l.stop()
				}
			}
		})
		c.heal()
		for range rapid.IntRange(1, 3).Draw(rt, "rounds") {
			c.operate()
			for range rapid.IntRange(1, 8).Draw(rt, "steps") {
				c.step()
			}
			c.calm()
		}
		c.finish()
	})
}

// run is one process.
func (c *interleaving[Tx]) run(ctx context.Context, source pawl.Source) error {
	store := c.Store
	if c.connect != nil {
		own, end, err := c.connect()
		if err != nil {
			return err
		}
		defer end()
		store = own
	}
	r := pawl.NewRunner(store, source, pawl.Config{
		Consumer: "model", Workers: c.workers, MaxBatch: c.batch, MaxTries: modelTries, CommitInterval: 10 * time.Millisecond,
		Budget: pawl.Budget{Records: 1 << 30, Share: 1}, Logger: slog.New(slog.DiscardHandler),
		Hooks: pawl.Hooks{
			Settled: func(pawl.Settled) {
				select {
				case c.script.settled <- struct{}{}:
				default:
				}
			},
			Failed: func(f pawl.Failure) {
				c.script.trouble("failed: %s@%d, %d records: %v", f.Partition, f.First, f.Records, f.Err)
			},
			Raised: func(d pawl.Condition) { c.script.trouble("raised: %s %s", d.State, d.Reason) },
		},
	})
	route := pawl.Route{Name: "model", Topics: []string{c.group.parts[0].partition.Topic}, Order: c.order, Quarantine: pawl.QuarantineStream}
	effect := func(ctx context.Context, tx Tx, e happening) error {
		return c.exec(ctx, tx, `insert into effect (key, stream) values (?, ?)`, e.ID, e.Stream)
	}
	if c.batched {
		pawl.HandleBatch(r, route, happenings(), func(ctx context.Context, tx Tx, b *pawl.Batch[happening]) error {
			for i, e := range b.All() {
				switch err := c.script.verdict(e.Body); {
				case err != nil && e.Body.Kind == "ignore":
					b.Ignore(i, err.Error())
				case err != nil && e.Body.Kind == "reject":
					b.Reject(i, err)
				case err != nil:
					return err
				default:
					if err := effect(ctx, tx, e.Body); err != nil {
						return err
					}
				}
			}
			return nil
		})
	} else {
		pawl.Handle(r, route, happenings(), func(ctx context.Context, tx Tx, e pawl.Envelope[happening]) error {
			if err := effect(ctx, tx, e.Body); err != nil { // before the verdict: there is something to undo
				return err
			}
			return c.script.verdict(e.Body)
		})
	}
	return r.Run(ctx)
}

// heal has both processes run, nothing armed, and every partition with one of them.
func (c *interleaving[Tx]) heal() {
	for i, l := range c.lives {
		if l != nil {
			l.bomb.arm(0)
		}
		c.revive(i)
	}
	for p := range modelPartitions {
		for n := 0; c.group.owner(p) == nil || c.group.owner(p).isEnding(); n++ {
			if i := (p + n) % len(c.lives); !c.lives[i].take(p) {
				c.revive(i)
			}
			if n > 10 {
				c.Fatalf("partition %d finds no owner", p)
			}
		}
	}
	if c.paused {
		c.must(c.admin.Resume(c.Context(), "model", "ops", "calm", time.Now()))
		c.paused = false
	}
}

func (m *member) isEnding() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.over
}

// revive starts a process if it does not run. One that is about to end is waited for.
func (c *interleaving[Tx]) revive(i int) {
	if l := c.lives[i]; l != nil {
		if !l.bomb.isDead() && !l.isOver() && !l.isEnding() {
			return
		}
		l.cancel() // a crash that nothing has noticed yet
		<-l.ended
		if l.err != nil && !errors.Is(l.err, fault.ErrCrash) {
			c.Fatalf("a process ended: %v", l.err)
		}
	}
	var b *bomb
	if c.crashes {
		b = &bomb{}
	}
	c.lives[i] = c.group.live(c, b, c.run)
}

func (c *interleaving[Tx]) must(err error) {
	if err != nil {
		c.Fatalf("%v", err)
	}
}

// step is one thing that happens while others go on.
func (c *interleaving[Tx]) step() {
	rt := c.rt
	p, who := rapid.IntRange(0, modelPartitions-1).Draw(rt, "partition"), rapid.IntRange(0, len(c.lives)-1).Draw(rt, "process")
	switch what := rapid.SampledFrom([]string{
		"arrive", "arrive", "arrive", "arrive", "move", "take away", "crash", "stop", "pause", "resume", "settle", "item", "pause operation", "cancel operation",
	}).Draw(rt, "what"); what {
	case "arrive":
		for range rapid.IntRange(1, 5).Draw(rt, "records") {
			c.arrive(p)
		}
	case "move":
		c.revive(who)
		if o := c.group.owner(p); o != nil {
			o.giveBack(p)
		}
		c.lives[who].take(p)
	case "take away":
		if c.unclean++; c.unclean <= 2 {
			c.revive(who)
			c.lives[who].take(p)
		}
	case "crash":
		if c.unclean++; c.unclean <= 2 {
			c.lives[who].bomb.arm(rapid.IntRange(1, 25).Draw(rt, "window"))
		}
	case "stop":
		c.lives[who].leave(c)
		c.revive(who)
	case "pause":
		c.must(c.admin.Pause(c.Context(), "model", pawl.Pause{By: "ops", Why: "asked to", At: time.Now()}))
		c.paused = true
	case "resume":
		if c.paused {
			c.must(c.admin.Resume(c.Context(), "model", "ops", "asked to", time.Now()))
			c.paused = false
		}
	case "settle": // a nudge for the schedule: nothing depends on it
		select {
		case <-c.script.settled:
		case <-time.After(30 * time.Millisecond):
		}
	case "item":
		c.awaitItem()
	case "pause operation", "cancel operation":
		to := pawl.OperationPaused
		if what == "cancel operation" {
			to = pawl.OperationCanceled
		}
		if o := c.someOperation(pawl.OperationRunning); o != nil {
			c.set(o, to)
		}
	}
}

// awaitItem waits until an operation that runs has begun, so that what comes next falls into the middle of it.
func (c *interleaving[Tx]) awaitItem() {
	o := c.someOperation(pawl.OperationRunning)
	if o == nil || c.paused {
		return
	}
	for _, l := range c.lives {
		if l.isOver() || l.isEnding() {
			return
		}
	}
	query := fmt.Sprintf(`select count(*) from pawl_operation where id = %d and (done > 0 or state <> 'running')`, o.id)
	for deadline := time.Now().Add(3 * time.Second); c.int(c, query) == 0 && time.Now().Before(deadline); {
		time.Sleep(2 * time.Millisecond)
	}
}

func (c *interleaving[Tx]) someOperation(states ...pawl.OperationState) *modelOperation {
	var all []*modelOperation
	for _, o := range c.ops {
		if slices.Contains(states, o.state) {
			all = append(all, o)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[rapid.IntRange(0, 9).Draw(c.rt, "operation")%len(all)]
}

// set changes an operation. It may be over, or wait after its canary, by now.
func (c *interleaving[Tx]) set(o *modelOperation, to pawl.OperationState) {
	err := c.admin.SetOperation(c.Context(), o.id, to, "ops", "asked to", time.Now())
	if e := (*pawl.Error)(nil); errors.As(err, &e) && e.Class == pawl.Validation {
		return
	}
	c.must(err)
	o.state = to
}

// arrive appends a record to a partition, in the log and in the model.
func (c *interleaving[Tx]) arrive(p int) {
	rt := c.rt
	c.serial++
	e := happening{ID: fmt.Sprint("k", c.serial), Kind: "garbage"}
	switch form := rapid.SampledFrom([]string{"new", "new", "new", "new", "new", "copy", "conflict", "alone", "garbage"}).Draw(rt, "form"); form {
	case "garbage":
	case "alone":
		e.Kind = c.kind()
	default:
		e.Stream = fmt.Sprintf("s%d.%d", p, rapid.IntRange(0, 1).Draw(rt, "stream"))
		known := c.book.keys(e.Stream)
		if form == "new" || len(known) == 0 {
			e.Kind = c.kind()
			break
		}
		e = known[rapid.IntRange(0, 99).Draw(rt, "of")%len(known)]
		if form == "conflict" {
			e.Content = c.serial
		}
	}
	c.book.arrive(p, e)
	c.group.add(p, e.bytes())
}

func (c *interleaving[Tx]) kind() string {
	return rapid.SampledFrom([]string{"ok", "ok", "ok", "reject", "reject", "fail", "flaky", "transient", "later", "ignore"}).Draw(c.rt, "kind")
}

// operate is what an operator does at a calm moment, and what then goes on beside everything else.
func (c *interleaving[Tx]) operate() {
	rt := c.rt
	for _, f := range c.book.open() {
		if rapid.Bool().Draw(rt, "repair") {
			c.script.repair(f.now.ID)
			c.book.repaired[f.now.ID] = true
		}
	}
	waiting := c.someOperation(pawl.OperationPaused, pawl.OperationCanary)
	c.archived = map[*fate]bool{}
	known := c.free()
	for i := range rapid.IntRange(0, 2).Draw(rt, "operations") {
		c.start(known, i > 0, rapid.SampledFrom([]pawl.OperationKind{
			pawl.OperationReplay, pawl.OperationReplay, pawl.OperationSkip, pawl.OperationEdit, pawl.OperationEdit, pawl.OperationArchive,
		}).Draw(rt, "operation"))
	}
	if waiting != nil {
		waiting.passed = waiting.passed || waiting.state == pawl.OperationCanary
		c.set(waiting, rapid.SampledFrom([]pawl.OperationState{pawl.OperationRunning, pawl.OperationRunning, pawl.OperationCanceled}).Draw(rt, "to"))
	}
}

// free lists what is open and in no operation that is not over.
func (c *interleaving[Tx]) free() (free []*fate) {
	for _, f := range c.book.open() {
		taken := slices.ContainsFunc(c.ops, func(o *modelOperation) bool {
			done, has := o.items[f.spot]
			return has && !done && (o.state == pawl.OperationRunning || o.state == pawl.OperationPaused || o.state == pawl.OperationCanary)
		})
		if !taken && !c.archived[f] {
			free = append(free, f)
		}
	}
	return free
}

// start asks for an operation on some of what was open when it was last calm. Once another was started since, more may be open
// by now than the model knows of: then it is asked for by id.
func (c *interleaving[Tx]) start(known []*fate, moving bool, kind pawl.OperationKind) {
	rt := c.rt
	matches := slices.DeleteFunc(c.free(), func(f *fate) bool { return !slices.Contains(known, f) })
	if len(matches) == 0 {
		return
	}
	r := pawl.OperationRequest{Consumer: "model", Kind: kind, By: "ops", Why: "asked to", At: time.Now()}
	chosen := matches[rapid.IntRange(0, 99).Draw(rt, "item")%len(matches)]
	only := func(is func(*fate) bool) { matches = slices.DeleteFunc(matches, func(f *fate) bool { return !is(f) }) }
	by := "id"
	if kind != pawl.OperationEdit {
		by = rapid.SampledFrom([]string{"", "", "id", "stream", "cause"}).Draw(rt, "by")
		r.Limit = rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(rt, "limit")
		r.Canary = rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(rt, "canary")
		r.Rate = rapid.SampledFrom([]float64{0, 0, 20}).Draw(rt, "rate")
	}
	if moving && by != "id" {
		for _, f := range matches {
			r.Filter.IDs = append(r.Filter.IDs, c.quarantineID(f))
		}
	}
	switch by {
	case "id":
		r.Filter.IDs = []int64{c.quarantineID(chosen)}
		only(func(f *fate) bool { return f == chosen })
	case "stream":
		if r.Filter.Stream = chosen.came.Stream; r.Filter.Stream != "" {
			only(func(f *fate) bool { return f.came.Stream == chosen.came.Stream })
		}
	case "cause":
		r.Filter.Cause = chosen.cause
		only(func(f *fate) bool { return f.cause == chosen.cause })
	}
	if kind == pawl.OperationEdit {
		c.edit(chosen, &r)
	}
	want := len(matches)
	if r.Limit > 0 {
		want = min(want, r.Limit)
	}
	planned, err := c.admin.Plan(c.Context(), r)
	c.must(err)
	op, err := c.admin.Start(c.Context(), r)
	c.must(err)
	if kind == pawl.OperationArchive { // at once, and the book hears of it when it is calm
		for _, f := range matches {
			c.archived[f] = true
		}
	}
	o := &modelOperation{id: op.ID, kind: kind, canary: r.Canary, state: pawl.OperationRunning, items: map[spot]bool{}}
	for _, line := range c.lines(fmt.Sprintf(`select p.partition, i.position_offset from pawl_operation_item i join pawl_progress p on p.id = i.progress_id
		where i.operation_id = %d`, op.ID)) {
		var s spot
		fmt.Sscan(line, &s.partition, &s.offset)
		if !slices.ContainsFunc(matches, func(f *fate) bool { return f.spot == s }) {
			c.Fatalf("operation %d has %s, which does not match", op.ID, s)
		}
		o.items[s] = false
	}
	if planned != want || op.Total != want || len(o.items) != want {
		c.Fatalf("%s of %+v: planned %d, total %d, %d items, want %d", kind, r.Filter, planned, op.Total, len(o.items), want)
	}
	c.ops = append(c.ops, o)
	if kind == pawl.OperationArchive {
		o.state = pawl.OperationDone
		for s := range o.items {
			o.items[s] = true
			c.book.archive(c.book.records[s])
		}
	}
}

// edit draws other bytes for a record: better ones, ones that are as bad, of another key, or none that can be read.
func (c *interleaving[Tx]) edit(f *fate, r *pawl.OperationRequest) {
	e := f.came
	c.serial++
	switch form := rapid.SampledFrom([]string{"good", "good", "good", "bad", "as it came", "another's", "garbage"}).Draw(c.rt, "edit"); {
	case form == "garbage":
		e = happening{ID: "none", Kind: "garbage"}
	case f.came.Kind == "garbage": // what it is was not known: now it is a key of its own
		e = happening{ID: fmt.Sprint("k", c.serial), Kind: map[bool]string{true: "reject", false: "ok"}[form == "bad"]}
	case form == "good":
		e.Kind, e.Content = "ok", c.serial
	case form == "bad":
		e.Kind, e.Content = "reject", c.serial
	case form == "another's":
		if known := c.book.keys(e.Stream); len(known) > 0 {
			e = known[rapid.IntRange(0, 99).Draw(c.rt, "of")%len(known)]
		}
	}
	r.Value = e.bytes()
	f.now, f.edited = e, true
}

func (c *interleaving[Tx]) quarantineID(f *fate) int64 {
	return c.int(c, fmt.Sprintf(`select q.id from pawl_quarantine q join pawl_progress p on p.id = q.progress_id
		where p.partition = %d and q.position_offset = %d`, f.partition, f.offset))
}

// lines are the rows of a query, with spaces between columns.
func (c *interleaving[Tx]) lines(query string) (all []string) {
	rows, err := c.db.Query(query)
	c.must(err)
	defer rows.Close()
	columns, err := rows.Columns()
	c.must(err)
	for rows.Next() {
		values, to := make([]string, len(columns)), make([]any, len(columns))
		for i := range values {
			to[i] = &values[i]
		}
		c.must(rows.Scan(to...))
		all = append(all, strings.Join(values, " "))
	}
	c.must(rows.Err())
	return all
}

// busy counts what is not settled yet: records of the log, records to release, operations that run.
const busy = `select
	(select count(*) from pawl_stream where blocked_by is null)
	+ (select count(*) from pawl_operation where state = 'running')
	+ %d - (select coalesce(sum(next_offset), 0) from pawl_progress)`

// calm waits until nothing is left to do, and compares.
func (c *interleaving[Tx]) calm() {
	c.heal()
	end := c.group.end(0) + c.group.end(1)
	query := fmt.Sprintf(busy, end)
	for deadline := time.Now().Add(modelPatience); c.int(c, query) != 0; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.dump()
			c.Fatalf("not calm: %d left to do", c.int(c, query))
		}
		for _, l := range c.lives {
			if l.isOver() {
				c.Fatalf("a process ended: %v", l.err)
			}
		}
	}
	c.follow()
	c.early()
	c.compare()
}

// early finds out about later copies of a key that has its decision, in a stream that is blocked. They are decided at once
// where the decision was there before their transaction began, and held where it came later: because it was in the same
// batch, or was the replay of a record that was being dealt with. Either is right, and only for these.
func (c *interleaving[Tx]) early() {
	held := map[string]bool{}
	for _, at := range c.lines(`select p.partition || '@' || h.position_offset from pawl_hold h join pawl_progress p on p.id = h.progress_id`) {
		held[at] = true
	}
	for _, f := range c.book.all(func(f *fate) bool { return !f.claimed && c.book.claims[f.came.ID] != nil }) {
		b := c.book.blocker(f.came.Stream)
		switch is := held[f.String()]; {
		case f.outcome == pawl.Held && !is:
			c.book.decide(f)
		case f.outcome != pawl.Held && is && b != nil && b.offset < f.offset && !f.edited:
			f.outcome, f.aside, f.cause = pawl.Held, "", ""
		}
	}
}

// follow carries out in the model what operations have carried out.
func (c *interleaving[Tx]) follow() {
	for _, o := range c.ops {
		if o.kind == pawl.OperationArchive {
			continue
		}
		for _, line := range c.lines(fmt.Sprintf(`select p.partition, i.position_offset from pawl_operation_item i join pawl_progress p on p.id = i.progress_id
			where i.operation_id = %d and i.done_at is not null order by i.progress_id, i.position_offset`, o.id)) {
			var s spot
			fmt.Sscan(line, &s.partition, &s.offset)
			if o.items[s] {
				continue
			}
			o.items[s] = true
			if f := c.book.records[s]; o.kind == pawl.OperationSkip {
				c.book.skip(f)
			} else if c.book.replay(f) {
				o.failed++
			}
		}
		done := 0
		for _, d := range o.items {
			if d {
				done++
			}
		}
		switch {
		case done == len(o.items):
			o.state = pawl.OperationDone
		case o.state == pawl.OperationRunning && !o.passed && done == o.canary:
			o.state = pawl.OperationCanary
		}
		got, err := c.admin.Operation(c.Context(), o.id)
		c.must(err)
		if got.State != o.state || got.Total != len(o.items) || got.Done != done || got.Failed != o.failed {
			c.dump()
			c.Fatalf("operation %d, %s: %s, %d of %d done, %d failed; want %s, %d of %d, %d", o.id, o.kind, got.State, got.Done, got.Total, got.Failed,
				o.state, done, len(o.items), o.failed)
		}
		audit := c.lines(fmt.Sprintf(`select count(*), count(distinct item_id) from pawl_audit where operation_id = %d and item_id is not null`, o.id))
		if want := fmt.Sprint(done, " ", done); audit[0] != want {
			c.Fatalf("operation %d: audit of items %s, want %s", o.id, audit[0], want)
		}
	}
}

func (c *interleaving[Tx]) compare() {
	at := func(from string) string {
		return `select p.partition || '@' || x.position_offset` + from + ` x join pawl_progress p on p.id = x.progress_id`
	}
	c.same("quarantine", c.lines(at(`, case x.status when 1 then 'open ' || x.cause when 2 then 'replayed' when 3 then 'skipped' else 'archived' end from pawl_quarantine`)),
		c.book.quarantine())
	c.same("held", c.lines(at(` from pawl_hold`)), c.book.held())
	outcome := `, case x.outcome when 1 then 'applied' when 2 then 'duplicate' when 4 then 'ignored' when 6 then 'held' when 7 then 'quarantined' when 8 then 'skipped' end`
	c.same("decisions", c.lines(at(outcome+` from pawl_decision`)), c.book.decisions())
	// A place that was kept and has its claim since has both rows.
	c.same("other evidence", c.lines(at(outcome+` from pawl_redelivery`)+` where not exists (select 1 from pawl_decision d
		where d.progress_id = x.progress_id and d.position_offset = x.position_offset)`), c.book.others())
	c.same("blocked streams", c.lines(`select s.stream, 'by ' || p.partition || '@' || q.position_offset from pawl_stream s
		join pawl_quarantine q on q.id = s.blocked_by join pawl_progress p on p.id = q.progress_id`), c.book.blocked())
	var effects []string
	applied := map[string][]string{}
	for _, line := range c.lines(`select stream, key from effect order by id`) {
		stream, key, _ := strings.Cut(line, " ")
		applied[stream] = append(applied[stream], key)
	}
	for stream, keys := range applied {
		if stream == "" {
			slices.Sort(keys)
		}
		effects = append(effects, fmt.Sprint(stream, ": ", keys))
	}
	c.same("effects by stream", effects, c.book.effects())
}

func (c *interleaving[Tx]) same(what string, got, want []string) {
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		c.dump()
		c.Fatalf("%s:\ngot  %q\nwant %q", what, got, want)
	}
}

// dump says what there is, for who reads a failure.
func (c *interleaving[Tx]) dump() {
	for p, log := range c.book.logs {
		for _, f := range log {
			c.Logf("%d@%d %+v %s %s %s edited %v (%+v)", p, f.offset, f.came, f.outcome, f.aside, f.cause, f.edited, f.now)
		}
	}
	for _, o := range c.ops {
		c.Logf("operation %+v", *o)
	}
	c.script.mu.Lock()
	defer c.script.mu.Unlock()
	for _, s := range c.script.troubles {
		c.Logf("%s", s)
	}
}

// finish repairs everything and deals with everything: nothing stays open, held or blocked.
func (c *interleaving[Tx]) finish() {
	for _, o := range c.ops {
		if o.state == pawl.OperationPaused || o.state == pawl.OperationCanary {
			c.set(o, pawl.OperationCanceled)
		}
	}
	for _, f := range c.book.all(func(*fate) bool { return true }) {
		for _, id := range []string{f.came.ID, f.now.ID} {
			c.script.repair(id)
			c.book.repaired[id] = true
		}
	}
	kind := rapid.SampledFrom([]pawl.OperationKind{pawl.OperationReplay, pawl.OperationSkip}).Draw(c.rt, "in the end")
	for ; len(c.book.open()) > 0; kind = pawl.OperationSkip {
		op, err := c.admin.Start(c.Context(), pawl.OperationRequest{Consumer: "model", Kind: kind, By: "ops", Why: "in the end", At: time.Now()})
		c.must(err)
		o := &modelOperation{id: op.ID, kind: kind, state: pawl.OperationRunning, items: map[spot]bool{}}
		for _, f := range c.book.open() {
			o.items[f.spot] = false
		}
		c.ops = append(c.ops, o)
		c.calm()
	}
	for what, query := range map[string]string{"open": openCount, "held": heldCount, "blocked": streamRows} {
		if n := c.int(c, query); n != 0 {
			c.dump()
			c.Fatalf("%d %s in the end", n, what)
		}
	}
	for p := range modelPartitions {
		if n, end := c.int(c, fmt.Sprintf(`select coalesce(max(next_offset), 0) from pawl_progress where partition = %d`, p)), c.group.end(p); n != end {
			c.Fatalf("partition %d: position %d, want %d", p, n, end)
		}
	}
}
