package test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/fault"
)

// However events are permuted, copied, spread over partitions and cut into batches, wherever processes die and whoever has which
// partition, and whatever is kept back while others are settled ahead of it: in the end the rows are what the model says of the distinct
// events, each key is decided once, every position is accounted for and was settled once, and nothing waits or is set aside that need not.
//
// A failure prints what was drawn, shrunk, and -rapid.failfile repeats it. PAWL_PROOF=long draws ten times as many.
func TestAnyScheduleFoldsToTheModel(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	if checks.Value.String() == checks.DefValue { // nobody asked for another number
		n := "50"
		if os.Getenv("PAWL_PROOF") == "long" {
			n = "500"
		}
		if err := flag.Set("rapid.checks", n); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { flag.Set("rapid.checks", checks.DefValue) })
	}
	met := &foldMet{}
	t.Run("on", func(t *testing.T) {
		for i := range 18 { // 20 times as many in all, most of them where nothing has to be waited for
			t.Run(fmt.Sprint("sqlite", i), func(t *testing.T) { anySchedule(t, sqliteHouse, met) })
		}
		t.Run("pgx", func(t *testing.T) { anySchedule(t, pgxHouse, met) })
		t.Run("databasesql", func(t *testing.T) { anySchedule(t, databaseSQLHouse, met) })
	})
	t.Logf("%d cases: %d records, of them %d waited for their turn in the store, %d were settled ahead and read again; %d crashes, %d partitions moved, %d taken away",
		met.cases.Load(), met.records.Load(), met.early.Load(), met.again.Load(), met.crashes.Load(), met.moves.Load(), met.stolen.Load())
	for what, n := range map[string]int64{
		"records that waited": met.early.Load(), "records read again": met.again.Load(), "crashes": met.crashes.Load(), "moves": met.moves.Load(),
		"partitions taken away": met.stolen.Load(),
	} {
		if n < met.cases.Load()/20 {
			t.Errorf("only %d %s in %d cases: they prove little", n, what, met.cases.Load())
		}
	}
}

// foldMet counts what the cases met.
type foldMet struct{ cases, records, early, again, crashes, moves, stolen atomic.Int64 }

func anySchedule(t *testing.T, open func(testing.TB) *house, met *foldMet) {
	t.Parallel()
	h := open(t)
	rapid.Check(t, func(rt *rapid.T) {
		tb := &caseTB{t, rt}
		h := &house{tb, h.db, h.admin, h.run}
		h.empty()
		c := drawFold(rt, h)
		met.cases.Add(1)
		defer func() {
			met.records.Add(int64(len(c.records)))
			met.early.Add(int64(c.waited()))
			met.again.Add(c.again.Load())
		}()
		c.play(met)
		c.check()
	})
}

// empty removes everything, those that reference others first.
func (h *house) empty() {
	h.Helper()
	for _, table := range []string{
		"cases", "flow", "entries", "balances", "totals", "contributions", "trail", "latest", "escalations", "pawl_decision", "pawl_redelivery",
		"pawl_early", "pawl_gap", "pawl_hold", "pawl_stream", "pawl_attempt", "pawl_quarantine", "pawl_condition", "pawl_progress",
	} {
		if _, err := h.db.Exec(`delete from ` + table); err != nil {
			h.Fatalf("empty %s: %v", table, err)
		}
	}
}

// foldCase is one case.
type foldCase struct {
	*stage
	rt      *rapid.T
	model   *foldModel
	records []fact // in the order they are written
	to      []int  // partition of each
	garbage int
	crashes bool
	lives   []*life
	barrier *barrier
	again   atomic.Int64 // deliveries of what was settled before, from the same position

	noting sync.Mutex
	noted  map[string]pawl.Outcome // by route and position, what was first settled there
	anew   []string                // what was settled there once more
}

// note follows a commit. What was settled once is a repeat from then on, whatever became of it: also what was held, or set aside.
func (c *foldCase) note(b pawl.Settled) {
	c.noting.Lock()
	defer c.noting.Unlock()
	for _, d := range b.Decisions {
		at := fmt.Sprintf("%s %s@%d", b.Routes[d.Route], d.Record.Partition, d.Record.Offset)
		switch before, ok := c.noted[at]; {
		case d.Kept != nil:
		case d.Repeat:
			c.again.Add(1)
		case ok:
			c.anew = append(c.anew, fmt.Sprintf("%s was %s, and then %s", at, before, d.Outcome))
		default:
			c.noted[at] = d.Outcome
		}
	}
}

// barrier keeps some events from being settled, and with them the position, for as long as it is down: where the order is not that of
// the partition, others are settled ahead of them, and read again by the next owner.
type barrier struct {
	keys map[string]bool
	up   atomic.Bool
}

// behind is an effect that waits for the barrier.
type behind struct {
	pawl.Effect[fact]
	*barrier
}

func (e behind) Fold(ctx context.Context, rows pawl.Rows, b *pawl.Batch[fact]) error {
	for i, of := range b.All() {
		if e.keys[of.Key] && !b.Early(i) && !e.up.Load() {
			return pawl.Later(time.Millisecond)
		}
	}
	return e.Effect.Fold(ctx, rows, b)
}

func drawFold(rt *rapid.T, h *house) *foldCase {
	c := &foldCase{rt: rt, model: newFoldModel(), barrier: &barrier{keys: map[string]bool{}}, noted: map[string]pawl.Outcome{}}
	corrections := rapid.Bool().Draw(rt, "corrections")
	effects := []declared{cases(), flow(), latest(), counter()}
	if !corrections { // what comes after its correction is neither posted, listed nor commanded: there is nothing to compare
		effects = append(effects, ledger(), audit(), commands())
	}
	order := rapid.SampledFrom([]pawl.Order{pawl.OrderPartition, pawl.OrderStream, pawl.OrderNone}).Draw(rt, "order of the route")
	c.drawEvents(corrections)
	if order != pawl.OrderPartition {
		one := rapid.SampledFrom(effects).Draw(rt, "effect")
		one.Order, one.effect = order, behind{one.effect, c.barrier}
		effects = []declared{one}
		for _, key := range slices.Sorted(maps.Keys(c.model.events)) {
			if rapid.IntRange(0, 5).Draw(rt, "kept back") == 0 {
				c.barrier.keys[key] = true
			}
		}
	}
	partitions := rapid.IntRange(1, 3).Draw(rt, "partitions")
	spread := rapid.Bool().Draw(rt, "streams spread")
	for i, f := range c.records {
		to := i % partitions
		if !spread && len(f.Stream) > 0 {
			to = int(f.Stream[1]) % partitions
		}
		c.to = append(c.to, to)
	}
	c.crashes = rapid.Bool().Draw(rt, "crashes")
	c.stage = h.stage(partitions, pawl.Config{
		MaxBatch: rapid.SampledFrom([]int{1, 2, 3, 7, 50}).Draw(rt, "most in a batch"), Workers: rapid.IntRange(1, 3).Draw(rt, "workers"), MaxDeaths: -1,
		Hooks: pawl.Hooks{Settled: c.note},
	}, effects...)
	c.lives = make([]*life, rapid.IntRange(1, 2).Draw(rt, "members"))
	return c
}

// drawEvents draws streams along the machine, copies of their events, the same fact under another key, and bytes that say nothing;
// in any order.
func (c *foldCase) drawEvents(corrections bool) {
	rt := c.rt
	for s := range rapid.IntRange(1, 4).Draw(rt, "streams") {
		stream, state := fmt.Sprint("s", s), ""
		var correctable []string
		for v := range rapid.Int64Range(1, 8).Draw(rt, "versions") {
			may := machine[state]
			if v == 0 {
				may = []string{"OPEN"}
			}
			state = rapid.SampledFrom(may).Draw(rt, "state")
			f := fact{
				Key: fmt.Sprintf("%s.%d", stream, v+1), Stream: stream, Version: v + 1, State: state,
				Fee:  rapid.SampledFrom([]string{"", "1", "-2.25", "0.10"}).Draw(rt, "fee"),
				Team: rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "team"),
			}
			if corrections && len(correctable) > 0 && rapid.IntRange(0, 2).Draw(rt, "corrects") == 0 {
				f.Corrects, correctable = correctable[0], correctable[1:]
			} else {
				correctable = append(correctable, f.Key)
			}
			copies := rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(rt, "copies")
			c.records = append(c.records, slices.Repeat([]fact{f}, copies)...)
			c.model.take(f)
			if !corrections && rapid.IntRange(0, 9).Draw(rt, "under another key") == 0 {
				f.Key += ".again"
				c.records = append(c.records, f)
				c.model.take(f)
			}
		}
	}
	c.garbage = rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(rt, "garbage")
	c.records = append(c.records, slices.Repeat([]fact{{Bad: "garbage"}}, c.garbage)...)
	c.records = rapid.Permutation(c.records).Draw(rt, "order")
}

// play writes the records in a few parts, while processes die and partitions move.
func (c *foldCase) play(met *foldMet) {
	rt := c.rt
	rt.Cleanup(func() {
		for _, l := range c.lives {
			if l != nil {
				l.stop()
			}
		}
	})
	c.heal()
	for rest := 0; rest < len(c.records); {
		n := rapid.IntRange(1, len(c.records)-rest).Draw(rt, "written at once")
		for i := rest; i < rest+n; i++ {
			c.add(c.to[i], c.records[i])
		}
		rest += n
		c.happen(met)
	}
	for range rapid.IntRange(0, 4).Draw(rt, "more") {
		c.happen(met)
	}
	c.heal()
	c.barrier.up.Store(true)
	c.settle()
	c.await(0, gapCount)
	for _, l := range c.lives {
		if err := l.stop(); err != nil {
			c.Fatalf("a process ended: %v", err)
		}
	}
}

// happen does something to processes and partitions, at once or when what can be settled is likely to be.
func (c *foldCase) happen(met *foldMet) {
	rt := c.rt
	time.Sleep(rapid.SampledFrom([]time.Duration{0, 0, 8 * time.Millisecond}).Draw(rt, "after"))
	p, who := rapid.IntRange(0, len(c.group.parts)-1).Draw(rt, "partition"), rapid.IntRange(0, len(c.lives)-1).Draw(rt, "process")
	switch rapid.SampledFrom([]string{"nothing", "settle", "move", "take away", "crash", "stop"}).Draw(rt, "then") {
	case "settle":
		c.heal()
		c.barrier.up.Store(true)
		c.settle()
		c.barrier.up.Store(false)
	case "move":
		met.moves.Add(1)
		c.revive(who)
		if o := c.group.owner(p); o != nil {
			o.giveBack(p)
		}
		c.lives[who].take(p)
	case "take away":
		met.stolen.Add(1)
		c.revive(who)
		c.lives[who].take(p)
	case "crash":
		if c.crashes {
			met.crashes.Add(1)
			c.lives[who].bomb.arm(rapid.IntRange(1, 25).Draw(rt, "window"))
		}
	case "stop":
		c.lives[who].leave(c)
		c.revive(who)
	}
}

// heal has every process run, nothing armed, and every partition with one of them.
func (c *foldCase) heal() {
	for i, l := range c.lives {
		if l != nil {
			l.bomb.arm(0)
		}
		c.revive(i)
	}
	for p := range c.group.parts {
		for n := 0; c.group.owner(p) == nil || c.group.owner(p).isEnding(); n++ {
			if i := (p + n) % len(c.lives); !c.lives[i].take(p) {
				c.revive(i)
			}
			if n > 10 {
				c.Fatalf("partition %d finds no owner", p)
			}
		}
	}
}

// revive starts a process if it does not run. One that is about to end is waited for.
func (c *foldCase) revive(i int) {
	if l := c.lives[i]; l != nil {
		if !l.bomb.isDead() && !l.isOver() && !l.isEnding() {
			return
		}
		l.cancel()
		<-l.ended
		if l.err != nil && !errors.Is(l.err, fault.ErrCrash) {
			c.Fatalf("a process ended: %v", l.err)
		}
	}
	var b *bomb
	if c.crashes {
		b = &bomb{}
	}
	c.lives[i] = c.live(b)
}

func (c *foldCase) check() {
	if len(c.anew) > 0 {
		c.Fatalf("settled anew: %q", c.anew)
	}
	keys := len(c.model.events)
	for i, d := range c.effects {
		for _, table := range foldTables[d.Name] {
			if got, want := c.folded(table[0], table[1]), c.model.rows(table[0]); !slices.Equal(got, want) {
				c.Fatalf("%s:\n got %q\nwant %q\n%s", table[0], got, want, c.trouble())
			}
		}
		// Each key is decided once, and each position has its line: its decision, or what became of a copy.
		scope := fmt.Sprintf(`(select id from pawl_scope where route = '%s')`, d.Name)
		own := `select progress_id, position_offset from pawl_decision where scope_id = ` + scope + ` and not (outcome = 5 and reason = 'corrected before it came')`
		claimed := c.int(`select count(*) from (` + own + `) as d`)
		beside := c.lines(`select outcome, count(*) from pawl_redelivery r where scope_id = ` + scope + ` and not exists (
			select 1 from (` + own + `) as d where d.progress_id = r.progress_id and d.position_offset = r.position_offset) group by outcome order by outcome`)
		aside, other := int64(0), int64(0)
		for _, line := range beside {
			var outcome pawl.Outcome
			var n int64
			fmt.Sscan(line, &outcome, &n)
			switch outcome {
			case pawl.Quarantined:
				aside += n
			case pawl.Duplicate, pawl.Superseded:
				other += n
			default:
				c.Fatalf("%s: %d positions are %s in the end", d.Name, n, outcome)
			}
		}
		if n := c.int(`select count(*) from pawl_decision where scope_id = ` + scope); n != int64(keys) {
			c.Fatalf("%s: %d keys are decided, want %d", d.Name, n, keys)
		}
		if aside != int64(c.garbage) || claimed+other+aside != int64(len(c.records)) {
			c.Fatalf("%s: %d records, of them %d decided, %d copies, %d set aside; want %d set aside, and all of them", d.Name, len(c.records), claimed, other, aside,
				c.garbage)
		}
		if i == 0 && strings.Contains("cases flow", d.Name) { // one event a version, whoever else says the same
			versions := int64(0)
			for _, all := range c.model.streams() {
				versions += all[len(all)-1].Version
			}
			if n := c.int(`select count(*) from pawl_decision where outcome = 1 and scope_id = ` + scope); n != versions {
				c.Fatalf("%s: %d applied, want %d", d.Name, n, versions)
			}
		}
	}
	for what, query := range map[string]string{"early records": earlyCount, "held records": heldCount, "blocked streams": streamRows} {
		if n := c.int(query); n != 0 {
			c.Fatalf("%d %s are left", n, what)
		}
	}
	if n := c.int(openCount); n != int64(c.garbage*len(c.effects)) {
		c.Fatalf("%d are set aside, want %d: %q", n, c.garbage*len(c.effects), c.lines(`select cause, reason from pawl_quarantine`))
	}
}
