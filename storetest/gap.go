package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
)

func gapTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"an early record is held, and its gap is seen", gapOpens[Tx]},
		{"what waits is given to the batch that may close the gap, and to no other", gapNear[Tx]},
		{"what waited leaves with the batch that closes the gap", gapCloses[Tx]},
		{"what waited says what it is when it leaves", gapTyped[Tx]},
		{"a gap that is closed in part waits for the next", gapInPart[Tx]},
		{"an early record of another partition keeps its position", gapElsewhere[Tx]},
		{"two owners do not release one record", gapReleasedOnce[Tx]},
		{"the same early position again writes nothing", gapRepeated[Tx]},
		{"a gap is looked at again after a while, and when it has lasted too long", gapDue[Tx]},
		{"an early record that waited too long can be set aside", gapExpired[Tx]},
		{"what was decided for the key of an early record is told with it", gapPrior[Tx]},
		{"a held record that turns out to be early waits in the gap", gapFromHold[Tx]},
		{"a stream that is blocked keeps its early records", gapBlocked[Tx]},
		{"what a batch went without is looked at again at once", gapPassedOver[Tx]},
		{"what came early in a stream that was blocked is looked at again when it is free", gapFreed[Tx]},
		{"early records count as held", gapCounted[Tx]},
		{"a gap of one consumer is nobody else's", gapOfOne[Tx]},
		{"two owners hold early records of one stream at once", gapShared[Tx]},
		{"many wait in one stream", gapMany[Tx]},
		{"a stream that goes on coming early is looked at all the same", gapGoesOn[Tx]},
		{"one that stays does not open a gap that was closed meanwhile", gapClosedMeanwhile[Tx]},
		{"what waits joins a batch within bounds of memory", gapLarge[Tx]},
		{"a position that is in quarantine opens no gap", gapOfQuarantined[Tx]},
		{"what is ignored does not change what its stream waits for", gapIgnored[Tx]},
		{"an early record that names another stream by now", gapRenamed[Tx]},
	}
}

// versioned is a record of a route that holds what comes early.
func versioned(p pawl.Partition, offset int64, stream string, version int64) *pawl.Decision {
	d := ordered(p, offset, stream, fmt.Sprintf("%s.%d", stream, version))
	d.Sequenced, d.Gapped, d.Identity.Version = false, true, version
	return d
}

// folding is the Run of a route that holds what comes early, as an effect would do it: at is the version of each stream,
// and moves with what it applies. What waited is added to the batch.
func (c *client[Tx]) folding(w *pawl.Work[Tx], at map[string]int64) func(context.Context, pawl.Session[Tx]) error {
	given := w.Decisions
	return func(ctx context.Context, s pawl.Session[Tx]) error {
		w.Decisions = slices.Clone(given)
		for i := range w.Gaps {
			for j := range w.Gaps[i].Early {
				t := &w.Gaps[i].Early[j]
				d := decoded(&t.Record)
				_, v, _ := strings.Cut(d.Identity.Key, ".")
				version, err := strconv.ParseInt(v, 10, 64)
				if err != nil {
					return err
				}
				d.Route, d.Kept, d.Prior, d.Identity.Version, d.Gapped, d.Sequenced = t.Route, &t.Kept, t.Prior, version, true, false
				w.Decisions = append(w.Decisions, d)
			}
		}
		now := map[string]int64{}
		for stream, v := range at {
			now[stream] = v
		}
		for again := true; again; {
			again = false
			for _, d := range w.Decisions {
				stream := d.Identity.Stream
				if d.Outcome != 0 && d.Outcome != pawl.Held {
					continue
				}
				switch v := d.Identity.Version; {
				case d.Prior != nil:
					d.Outcome, d.Reason, d.Repeat, again = pawl.Duplicate, "decided before", d.Prior.SamePosition, true
				case v <= now[stream]:
					d.Outcome, d.Reason, again = pawl.WasStale, "old", true
				case v == now[stream]+1:
					d.Outcome, again, d.VersionBefore = pawl.Applied, true, now[stream]
					d.Reason, d.Expected = "", 0
					now[stream] = v
					if err := c.effect(ctx, s, d); err != nil {
						return err
					}
				case d.Kept != nil && d.Kept.Expired:
					d.Outcome, d.Cause, d.Reason, d.Tries, d.Expected = pawl.Quarantined, pawl.CauseGap, "too late", 1, 0
				default:
					d.Outcome, d.Reason = pawl.Held, "early"
				}
			}
		}
		for _, d := range w.Decisions {
			if d.Outcome == pawl.Held {
				d.Expected, d.Until = now[d.Identity.Stream]+1, w.Now.Add(time.Hour)
			}
		}
		for stream, v := range now {
			at[stream] = v
		}
		return nil
	}
}

// fold settles records of a route that holds what comes early.
func (c *client[Tx]) fold(o *pawl.Ownership, at map[string]int64, ds ...*pawl.Decision) *pawl.Work[Tx] {
	c.Helper()
	w, err := c.tryFold(o, at, now, ds...)
	if err != nil {
		c.Fatalf("apply: %v", err)
	}
	return w
}

func (c *client[Tx]) tryFold(o *pawl.Ownership, at map[string]int64, when time.Time, ds ...*pawl.Decision) (*pawl.Work[Tx], error) {
	w := work[Tx](nil, ds...)
	w.Now = when
	if !slices.ContainsFunc(ds, func(d *pawl.Decision) bool { return d.Kept == nil }) {
		w.Next = o.Next
	}
	w.Run = c.folding(w, at)
	return w, c.store.Apply(c.ctx, o, w)
}

// early is the task of a gap as a decision.
func early(t pawl.Task) *pawl.Decision {
	d := decoded(&t.Record)
	_, v, _ := strings.Cut(d.Identity.Key, ".")
	version, _ := strconv.ParseInt(v, 10, 64)
	d.Route, d.Kept, d.Identity.Version, d.Gapped, d.Sequenced = t.Route, &t.Kept, version, true, false
	return d
}

func (w *world[Tx]) wantGaps(want ...string) {
	w.Helper()
	gaps, err := w.Store.Admin().Gaps(w.ctx, binding().Consumer, 0)
	if err != nil {
		w.Fatal(err)
	}
	var got []string
	for _, g := range gaps {
		got = append(got, fmt.Sprintf("%s %s waits for %d: %d from %d to %d", g.Route, g.Stream, g.Expected, g.Waiting, g.Lowest, g.Highest))
	}
	if !slices.Equal(got, want) {
		w.Errorf("gaps:\n got %q\nwant %q", got, want)
	}
}

func gapOpens[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c, at, p := w.client(binding()), map[string]int64{}, partition(0)
	o := c.acquire(p, 0)
	first, third := versioned(p, 0, "s", 1), versioned(p, 1, "s", 3)
	c.fold(o, at, first, third, versioned(p, 2, "s", 5), versioned(p, 3, "t", 2))
	w.wantOutcome(first, pawl.Applied)
	w.wantOutcome(third, pawl.Held)
	w.wantGaps("charge s waits for 2: 2 from 3 to 5", "charge t waits for 1: 1 from 2 to 2")
	gaps, err := w.Store.Admin().Gaps(w.ctx, binding().Consumer, 1)
	if err != nil || len(gaps) != 1 || !gaps[0].Since.Equal(now) || !gaps[0].Until.Equal(now.Add(time.Hour)) {
		t.Errorf("gaps: %+v, %v", gaps, err)
	}
	groups, err := w.Store.Admin().GapGroups(w.ctx, binding().Consumer)
	if err != nil || len(groups) != 1 || groups[0].Route != "charge" || groups[0].Gaps != 2 || groups[0].Waiting != 3 || !groups[0].Oldest.Equal(now) {
		t.Errorf("groups: %+v, %v", groups, err)
	}
	if o.Next != 4 {
		t.Errorf("the position is %d, want 4: what is held is settled", o.Next)
	}
	found := w.evidence(pawl.EvidenceQuery{Stream: "s"})
	if len(found) != 3 || found[0].Outcome != pawl.Held || found[0].Identity.Version != 3 || found[0].Identity.Key != "s.3" {
		t.Errorf("evidence: %+v", found)
	}
	w.consistent()
}

func gapNear[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c, at, p := w.client(binding()), map[string]int64{}, partition(0)
	o := c.acquire(p, 0)
	c.fold(o, at, versioned(p, 0, "s", 3), versioned(p, 1, "s", 4))
	for _, step := range []struct {
		version int64
		early   int
	}{{7, 0}, {2, 0}, {1, 4}} {
		got := c.fold(o, at, versioned(p, o.Next, "s", step.version))
		if len(got.Gaps) != 1 || got.Gaps[0].Stream != "s" || got.Gaps[0].Expected != 1 || len(got.Gaps[0].Early) != step.early {
			t.Errorf("version %d: gaps %+v, want %d early", step.version, got.Gaps, step.early)
		}
	}
	if got := c.fold(o, at, versioned(p, o.Next, "t", 1)); len(got.Gaps) != 0 {
		t.Errorf("another stream: gaps %+v", got.Gaps)
	}
	off := versioned(p, o.Next, "s", 5)
	off.Gapped = false
	if got := c.fold(o, at, off); len(got.Gaps) != 0 {
		t.Errorf("a route without gaps: %+v", got.Gaps)
	}
}

func gapCloses[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c, at, p := w.client(binding()), map[string]int64{}, partition(0)
	o := c.acquire(p, 0)
	for i, v := range []int64{4, 3, 2} {
		c.fold(o, at, versioned(p, int64(i), "s", v))
	}
	w.wantInt(0, `select count(*) from effect`)
	done := c.fold(o, at, versioned(p, 3, "s", 1))
	if len(done.Decisions) != 4 || at["s"] != 4 {
		t.Fatalf("%d decisions, the stream is at %d", len(done.Decisions), at["s"])
	}
	w.wantGaps()
	w.wantInt(4, `select count(*) from effect`)
	w.wantInt(0, `select count(*) from pawl_early`)
	for i, want := range []int64{0, 1, 2, 3} { // as they were decided, with the version before
		w.wantInt(want, `select coalesce(version_before, 0) from pawl_decision where version = ?`, i+1)
	}
	w.consistent()
}

// What waited joins the batch behind the others: also where it is of another type than any of them, and where this process has not
// seen that type, or nobody has.
func gapTyped[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	at, p := map[string]int64{}, partition(0)
	first := w.client(binding())
	mine := first.acquire(p, 0)
	for i, held := range []string{"SHIPPED", "RETURNED"} {
		d := versioned(p, int64(i), fmt.Sprint("s", i), 2)
		d.Identity.Type, d.Identity.StreamType = held, "parcel"
		first.fold(mine, at, d)
	}
	c := w.another(binding())
	o := c.acquire(p, 0)
	for i, released := range []string{"SHIPPED", "NEW TO ALL"} {
		d := versioned(p, int64(2+i), fmt.Sprint("s", i), 1)
		d.Identity.Type, d.Identity.StreamType = "ORDERED", "order"
		batch := work[Tx](nil, d)
		fold := c.folding(batch, at)
		batch.Run = func(ctx context.Context, s pawl.Session[Tx]) error {
			err := fold(ctx, s)
			for _, d := range batch.Decisions {
				if d.Kept != nil {
					d.Identity.Type, d.Identity.StreamType = released, "parcel"
				}
			}
			return err
		}
		if err := c.store.Apply(c.ctx, o, batch); err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string]string{"1": "ORDERED of order", "2": released + " of parcel"} {
			got := ""
			for _, e := range w.evidence(pawl.EvidenceQuery{Key: fmt.Sprintf("s%d.%s", i, key)}) {
				if e.Claim {
					got = e.Identity.Type + " of " + e.Identity.StreamType
				}
			}
			if got != want {
				t.Errorf("s%d.%s is %s, want %s", i, key, got, want)
			}
		}
	}
	w.consistent()
}

func gapInPart[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c, at, p := w.client(binding()), map[string]int64{}, partition(0)
	o := c.acquire(p, 0)
	c.fold(o, at, versioned(p, 0, "s", 2), versioned(p, 1, "s", 5), versioned(p, 2, "s", 6))
	c.fold(o, at, versioned(p, 3, "s", 1))
	w.wantGaps("charge s waits for 3: 2 from 5 to 6")
	if got := c.fold(o, at, versioned(p, 4, "s", 3)); len(got.Gaps[0].Early) != 2 {
		t.Errorf("gaps: %+v", got.Gaps)
	}
	w.wantGaps("charge s waits for 4: 2 from 5 to 6")
	c.fold(o, at, versioned(p, 5, "s", 4))
	w.wantGaps()
	w.consistent()
}

func gapElsewhere[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	one, two, at := w.client(binding()), w.another(binding()), map[string]int64{}
	p, q := partition(0), partition(1)
	a, b := one.acquire(p, 0), two.acquire(q, 0)
	two.fold(b, at, versioned(q, 0, "t", 1), versioned(q, 1, "s", 2))
	one.fold(a, at, versioned(p, 0, "s", 1))
	w.wantInt(3, `select count(*) from effect`)
	w.wantInt(1, `select count(*) from pawl_decision where version = 2 and progress_id = ? and position_offset = 1`, b.Row)
	if a.Next != 1 || b.Next != 2 {
		t.Errorf("positions %d and %d, want 1 and 2", a.Next, b.Next)
	}
	w.consistent()
}

func gapReleasedOnce[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c, at, p := w.client(binding()), map[string]int64{}, partition(0)
	o := c.acquire(p, 0)
	c.fold(o, at, versioned(p, 0, "s", 2))
	task := c.dueTasks(o, now.Add(time.Minute))
	c.fold(o, at, versioned(p, 1, "s", 1))
	if len(task) != 1 {
		t.Fatalf("tasks: %+v", task)
	}
	before := w.state()
	if _, err := c.tryFold(o, map[string]int64{"s": 1}, now, early(task[0])); !errors.Is(err, pawl.ErrNotKept) && !errors.Is(err, pawl.ErrRaced) {
		// its key is decided: as a duplicate it would be released a second time
		t.Errorf("released twice: %v", err)
	}
	if after := w.state(); !slices.Equal(before, after) {
		t.Errorf("it left something:\nbefore %q\nafter  %q", before, after)
	}
}

// dueTasks are the early records that are to be looked at by when.
func (c *client[Tx]) dueTasks(o *pawl.Ownership, when time.Time) []pawl.Task {
	c.Helper()
	orders, err := c.store.Orders(c.ctx, []int64{o.Row}, when, 100)
	if err != nil {
		c.Fatal(err)
	}
	return orders.Tasks
}

func gapRepeated[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c, at, p := w.client(binding()), map[string]int64{}, partition(0)
	o := c.acquire(p, 0)
	c.fold(o, at, versioned(p, 0, "s", 2))
	c.fold(o, at, versioned(p, 0, "s", 2))
	w.wantInt(1, `select count(*) from pawl_early`)
	w.wantInt(1, `select count(*) from pawl_redelivery`)
	w.wantGaps("charge s waits for 1: 1 from 2 to 2")
}

func gapDue[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c, at, p := w.client(binding()), map[string]int64{}, partition(0)
	o := c.acquire(p, 0)
	c.fold(o, at, versioned(p, 0, "s", 3), versioned(p, 1, "s", 2))
	for after, want := range map[time.Duration]string{0: "", 4 * time.Second: "", 5 * time.Second: "0@1", 2 * time.Hour: "0@1"} {
		tasks := c.dueTasks(o, now.Add(after))
		if places(tasks) != want || want != "" && tasks[0].Kept.Expired != (after > time.Hour) {
			t.Errorf("after %s: %+v, want %q", after, tasks, want)
		}
	}
	if tasks := c.dueTasks(c.acquire(partition(1), 0), now.Add(time.Hour)); len(tasks) != 0 {
		t.Errorf("the owner of another partition got %s", places(tasks))
	}
	// Another owner closed the gap at the moment it was opened: whoever looks finds the stream further on.
	at["s"] = 1
	c.fold(o, at, early(c.dueTasks(o, now.Add(5*time.Second))[0]))
	w.wantGaps()
	w.wantInt(2, `select count(*) from effect`)
}

func gapExpired[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c, at, p := w.client(binding()), map[string]int64{}, partition(0)
	o := c.acquire(p, 0)
	c.fold(o, at, versioned(p, 0, "s", 3), versioned(p, 1, "s", 2))
	late := now.Add(2 * time.Hour)
	if _, err := c.tryFold(o, at, late, early(c.dueTasks(o, late)[0])); err != nil {
		t.Fatal(err)
	}
	w.wantGaps()
	w.wantInt(2, `select count(*) from pawl_quarantine where cause = ? and status = 1`, pawl.CauseGap)
	w.wantInt(0, `select count(*) from pawl_stream`)
	w.wantInt(2, `select count(*) from pawl_redelivery where outcome = 7`)
	w.consistent()
}

func gapPrior[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c, at, p := w.client(binding()), map[string]int64{}, partition(0)
	o := c.acquire(p, 0)
	c.fold(o, at, versioned(p, 0, "s", 3))
	again := versioned(p, 1, "s", 3)
	at["s"] = 2
	c.fold(o, at, again) // by another way the stream came to 2, and a copy of 3 took effect
	w.wantOutcome(again, pawl.Applied)
	w.wantInt(1, `select count(*) from pawl_early`)
	got := c.fold(o, at, early(c.dueTasks(o, now.Add(time.Minute))[0]))
	if d := got.Decisions[0]; d.Outcome != pawl.Duplicate || d.Prior == nil {
		t.Errorf("a copy that waited: %s, prior %v", d.Outcome, d.Prior)
	}
	w.wantGaps()
	w.consistent()
}

func gapFromHold[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c, at, p := w.client(binding()), map[string]int64{}, partition(0)
	o := c.acquire(p, 0)
	c.must(o, blocking, ordered(p, 0, "s", "bad"))
	c.must(o, c.inOrder, ordered(p, 1, "s", "s.3"))
	c.unblock(o, 0, decide[Tx](pawl.Skipped))
	c.fold(o, at, early(c.tasks(o)[0]))
	w.wantInt(0, `select count(*) from pawl_hold`)
	w.wantInt(0, `select count(*) from pawl_stream`)
	w.wantGaps("charge s waits for 1: 1 from 3 to 3")
	w.consistent()
}

func gapBlocked[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c, at, p := w.client(binding()), map[string]int64{}, partition(0)
	o := c.acquire(p, 0)
	c.fold(o, at, versioned(p, 0, "s", 2))
	task := c.dueTasks(o, now.Add(time.Minute))[0]
	c.must(o, blocking, ordered(p, 1, "s", "bad"))
	if tasks := c.dueTasks(o, now.Add(time.Minute)); len(tasks) != 0 {
		t.Errorf("a blocked stream: %s", places(tasks))
	}
	if got := c.fold(o, at, versioned(p, 2, "s", 1)); len(got.Gaps[0].Early) != 0 {
		t.Errorf("a blocked stream gave %d early records", len(got.Gaps[0].Early))
	}
	d := early(task)
	d.Sequenced = true
	c.must(o, func(ctx context.Context, s pawl.Session[Tx], d *pawl.Decision) error {
		d.Outcome, d.Reason = pawl.Held, "its stream is blocked"
		return nil
	}, d)
	w.wantBlocked(true, d)
	w.wantInt(1, `select count(*) from pawl_early`)
	w.wantInt(0, `select count(*) from pawl_hold`)
}

func gapPassedOver[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c, at, p := w.client(binding()), map[string]int64{}, partition(0)
	o := c.acquire(p, 0)
	c.fold(o, at, versioned(p, 0, "s", 2))
	closer := versioned(p, 1, "s", 1)
	batch := work(c.settle, closer) // which takes nothing from the gap
	if err := c.store.Apply(w.ctx, o, batch); err != nil {
		t.Fatal(err)
	}
	if len(batch.Gaps) != 1 || len(batch.Gaps[0].Early) != 1 {
		t.Fatalf("gaps: %+v", batch.Gaps)
	}
	at["s"] = 1
	c.fold(o, at, early(c.dueTasks(o, now)[0]))
	w.wantGaps()
	w.consistent()
}

func gapFreed[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c, at, p := w.client(binding()), map[string]int64{}, partition(0)
	o := c.acquire(p, 0)
	c.fold(o, at, versioned(p, 0, "s", 2))
	c.must(o, blocking, ordered(p, 1, "s", "bad"))
	c.must(o, c.inOrder, ordered(p, 2, "s", "s.1"))
	c.unblock(o, 1, decide[Tx](pawl.Skipped))
	if tasks := c.dueTasks(o, now); places(tasks) != "0@2" {
		t.Fatalf("tasks: %s", places(tasks))
	}
	c.must(o, c.inOrder, func() *pawl.Decision { d := early(c.tasks(o)[0]); d.Gapped = false; return d }())
	if tasks := c.dueTasks(o, now); places(tasks) != "0@0" {
		t.Errorf("the stream is free, and the tasks are %q", places(tasks))
	}
}

func gapCounted[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c, at, p := w.client(binding()), map[string]int64{}, partition(0)
	o := c.acquire(p, 0)
	c.fold(o, at, versioned(p, 0, "s", 2), versioned(p, 1, "t", 2))
	if held := c.orders(10, o).Held; held != 2 {
		t.Errorf("%d held, want 2", held)
	}
}

func gapOfOne[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c, at, p := w.client(binding()), map[string]int64{}, partition(0)
	c.fold(c.acquire(p, 0), at, versioned(p, 0, "s", 2))
	b := binding()
	b.Consumer, b.Group = "shipping", "shipping-group"
	shipping := w.another(b)
	o := shipping.acquire(p, 0)
	if got := shipping.fold(o, map[string]int64{}, versioned(p, 0, "s", 1)); len(got.Gaps) != 0 {
		t.Errorf("gaps of another: %+v", got.Gaps)
	}
	if tasks := shipping.dueTasks(o, now.Add(time.Hour)); len(tasks) != 0 {
		t.Errorf("tasks of another: %s", places(tasks))
	}
	w.wantGaps("charge s waits for 1: 1 from 2 to 2")
}

func gapShared[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	one, two := w.client(binding()), w.another(binding())
	a, b := one.acquire(partition(0), 0), two.acquire(partition(1), 0)
	done := make(chan error, 2)
	const n = 20
	hold := func(c *client[Tx], o *pawl.Ownership, first int64) {
		for i := range int64(n) {
			_, err := c.tryFold(o, map[string]int64{}, now, versioned(o.Partition, i, "s", first+2*i))
			if err != nil && !errors.Is(err, pawl.ErrRaced) && c.store.Classify(err) != pawl.Transient {
				done <- fmt.Errorf("hold %d: %w", i, err)
				return
			} else if err != nil {
				done <- fmt.Errorf("hold %d was refused: %w", i, err)
				return
			}
		}
		done <- nil
	}
	go hold(one, a, 2)
	go hold(two, b, 3)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	w.wantGaps("charge s waits for 1: 40 from 2 to 41")
	at := map[string]int64{}
	one.fold(a, at, versioned(partition(0), n, "s", 1))
	if at["s"] != 41 {
		t.Errorf("the stream came to %d, want 41", at["s"])
	}
	w.wantGaps()
	w.consistent()
}

func gapMany[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c, at, p := w.client(binding()), map[string]int64{}, partition(0)
	o := c.acquire(p, 0)
	const n = pawl.MostEarly + 7
	var ds []*pawl.Decision
	for i := range int64(n) {
		ds = append(ds, versioned(p, i, "s", i+2))
	}
	c.fold(o, at, ds...)
	c.fold(o, at, versioned(p, n, "s", 1))
	w.wantGaps(fmt.Sprintf("charge s waits for %d: 7 from %d to %d", pawl.MostEarly+2, pawl.MostEarly+2, n+1))
	c.fold(o, at, early(c.dueTasks(o, now)[0])) // at once: they need not wait for anything
	w.wantGaps()
	w.wantInt(n+1, `select count(*) from effect`)
	w.consistent()
}

// gapGoesOn: were a gap put off with each record that joins it, nobody would find out that it is closed, or has lasted too long.
func gapGoesOn[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c, at, p := w.client(binding()), map[string]int64{}, partition(0)
	o := c.acquire(p, 0)
	when := now
	for i := range int64(5) {
		if _, err := c.tryFold(o, at, when, versioned(p, i, "s", i+3)); err != nil {
			t.Fatal(err)
		}
		when = when.Add(900 * time.Millisecond)
	}
	tasks := c.dueTasks(o, now.Add(5*time.Second))
	if places(tasks) != "0@0" {
		t.Fatalf("a second after it was opened: %+v, want the first", tasks)
	}
	if _, err := c.tryFold(o, at, when, early(tasks[0])); err != nil {
		t.Fatal(err)
	}
	if tasks := c.dueTasks(o, when); len(tasks) != 0 {
		t.Errorf("it was looked at, and is to be again at once: %s", places(tasks))
	}
}

// wantNoGap counts rows, not what people see: one without records would be there for ever.
func (w *world[Tx]) wantNoGap() {
	w.Helper()
	w.wantInt(0, `select count(*) from pawl_gap`)
	if groups, err := w.Store.Admin().GapGroups(w.ctx, binding().Consumer); err != nil || len(groups) != 0 {
		w.Errorf("groups: %+v, %v", groups, err)
	}
}

func gapClosedMeanwhile[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c, at, p := w.client(binding()), map[string]int64{}, partition(0)
	o := c.acquire(p, 0)
	c.fold(o, at, versioned(p, 0, "s", 2))
	task := c.dueTasks(o, now.Add(time.Minute))[0]
	c.fold(o, at, versioned(p, 1, "s", 1))
	d := early(task)
	c.must(o, func(_ context.Context, _ pawl.Session[Tx], d *pawl.Decision) error { // as who has read before that was committed
		d.Outcome, d.Reason, d.Expected, d.Until = pawl.Held, "early", 1, now.Add(time.Hour)
		return nil
	}, d)
	w.wantNoGap()
}

func gapOfQuarantined[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c, at, p := w.client(binding()), map[string]int64{}, partition(0)
	o := c.acquire(p, 0)
	c.fold(o, at, versioned(p, 0, "s", 2))
	late := now.Add(2 * time.Hour)
	if _, err := c.tryFold(o, at, late, early(c.dueTasks(o, late)[0])); err != nil {
		t.Fatal(err)
	}
	c.fold(o, at, versioned(p, 0, "s", 2)) // read again
	w.wantInt(0, `select count(*) from pawl_early`)
	w.wantNoGap()
}

// gapLarge: a thousand large records would be more than a process has memory for, and then for ever.
func gapLarge[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c, at, p := w.client(binding()), map[string]int64{}, partition(0)
	o := c.acquire(p, 0)
	const n = 5
	for i := range int64(n) {
		d := versioned(p, i, "s", i+2)
		d.Record.Headers = append(d.Record.Headers, pawl.Header{Key: "large", Value: make([]byte, pawl.MostEarlyBytes/4)})
		c.fold(o, at, d)
	}
	got := c.fold(o, at, versioned(p, n, "s", 1))
	if joined := len(got.Gaps[0].Early); joined < 1 || joined > 4 {
		t.Errorf("%d joined", joined)
	}
	for range n {
		if tasks := c.dueTasks(o, now); len(tasks) > 0 { // the rest follow at once
			c.fold(o, at, early(tasks[0]))
		}
	}
	w.wantGaps()
	if at["s"] != n+1 {
		t.Errorf("the stream came to %d, want %d", at["s"], n+1)
	}
	w.consistent()
}

func gapIgnored[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c, at, p := w.client(binding()), map[string]int64{}, partition(0)
	o := c.acquire(p, 0)
	c.fold(o, at, versioned(p, 0, "s", 5), versioned(p, 1, "s", 3))
	when := now.Add(time.Minute)
	wk := work[Tx](nil, early(c.dueTasks(o, when)[0]))
	wk.Now, wk.Next = when, o.Next
	fold := c.folding(wk, at)
	wk.Run = func(ctx context.Context, s pawl.Session[Tx]) error {
		err := fold(ctx, s)
		for _, d := range wk.Decisions {
			if d.Identity.Version == 5 {
				d.Outcome, d.Reason, d.Expected = pawl.Ignored, "too late", 0
			}
		}
		return err
	}
	if err := c.store.Apply(c.ctx, o, wk); err != nil || len(wk.Decisions) != 2 {
		t.Fatalf("%d decisions, %v", len(wk.Decisions), err)
	}
	w.wantGaps("charge s waits for 1: 1 from 3 to 3")
	if tasks := c.dueTasks(o, when); len(tasks) != 0 {
		t.Errorf("it is to be looked at again at once: %s", places(tasks))
	}
	if got := c.fold(o, at, versioned(p, 2, "s", 1)); len(got.Gaps[0].Early) != 1 {
		t.Errorf("what is missing came: gaps %+v", got.Gaps)
	}
}

func gapRenamed[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c, at, p := w.client(binding()), map[string]int64{}, partition(0)
	o := c.acquire(p, 0)
	c.fold(o, at, versioned(p, 0, "s", 3))
	when := now.Add(time.Minute)
	renamed := func(stream string) *pawl.Decision {
		d := early(c.dueTasks(o, when)[0])
		d.Identity.Stream = stream
		return d
	}
	if _, err := c.tryFold(o, at, when, renamed("t")); err != nil {
		t.Fatal(err)
	}
	w.wantInt(1, `select count(*) from pawl_gap`)
	if tasks := c.dueTasks(o, when); len(tasks) != 0 {
		t.Fatalf("it is to be looked at again at once, for ever: %s", places(tasks))
	}
	at["t"] = 2
	when = when.Add(time.Hour)
	if _, err := c.tryFold(o, at, when, renamed("t")); err != nil {
		t.Fatal(err)
	}
	w.wantInt(0, `select count(*) from pawl_early`)
	w.wantNoGap()
}
