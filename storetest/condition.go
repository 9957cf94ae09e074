package storetest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
)

func conditionTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"a topic that was made again is told from one that was never seen", otherTopic[Tx]},
		{"a condition is kept once, and seen by everyone", conditionKept[Tx]},
		{"an answer reaches the owner, and only for what it was given to", conditionAnswered[Tx]},
		{"what halts nothing is over once someone has seen it", conditionSeen[Tx]},
		{"conditions that are over stay as history", conditionHistory[Tx]},
		{"an answer without a name, a reason or a place is refused", answerRefused[Tx]},
		{"progress is listed by topic and partition", progressListed[Tx]},
	}
}

func belowLog(p pawl.Partition) pawl.Condition {
	return pawl.Condition{Partition: p, State: pawl.StateBelowLog, Reason: "r", Hint: "h", Next: 5, Start: 12, End: 20, Since: now}
}

func otherTopic[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	anew := partition(0)
	anew.TopicID[0]++
	if _, err := c.store.Acquire(w.ctx, anew, pawl.NoStart); !errors.Is(err, pawl.ErrNoPosition) || errors.Is(err, pawl.ErrOtherTopic) {
		t.Errorf("nothing was read before: %v, want ErrNoPosition alone", err)
	}
	c.acquire(partition(0), 0)
	if _, err := c.store.Acquire(w.ctx, anew, pawl.NoStart); !errors.Is(err, pawl.ErrOtherTopic) || !errors.Is(err, pawl.ErrNoPosition) {
		t.Errorf("read under another id before: %v, want ErrOtherTopic", err)
	}
	other := binding()
	other.Consumer = "another"
	if _, err := w.client(other).store.Acquire(w.ctx, anew, pawl.NoStart); errors.Is(err, pawl.ErrOtherTopic) {
		t.Error("another consumer's topic was taken for ours")
	}
	if o := c.acquire(anew, 3); o.Next != 3 {
		t.Errorf("with a start: %+v", o)
	}
}

func (c *client[Tx]) raise(want pawl.Condition) *pawl.Resolution {
	c.Helper()
	r, err := c.store.Raise(c.ctx, want)
	if err != nil {
		c.Fatalf("raise: %v", err)
	}
	return r
}

// conditions lists what is the matter with the consumer of most tests.
func (w *world[Tx]) conditions() []pawl.OpenCondition {
	w.Helper()
	all, err := w.Store.Admin().Conditions(w.ctx, binding().Consumer)
	if err != nil {
		w.Fatalf("list conditions: %v", err)
	}
	return all
}

func conditionKept[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	one, two := w.client(binding()), w.another(binding())
	want := belowLog(partition(3))
	for range 2 {
		if r := one.raise(want); r != nil {
			t.Errorf("answered %+v, and nobody has", r)
		}
	}
	again := want
	again.Reason, again.Since = "later", now.Add(time.Hour)
	two.raise(again)
	got := w.conditions()
	if len(got) != 1 || got[0].Partition != want.Partition || got[0].State != want.State || got[0].Reason != "r" || got[0].Hint != "h" ||
		got[0].Next != 5 || got[0].Start != 12 || got[0].End != 20 || !got[0].Since.Equal(now) || got[0].Resolution != nil {
		t.Errorf("kept %+v, want the first, once: %+v", got, want)
	}
	for p, n := range map[pawl.Partition]int{partition(3): 1, partition(4): 0} {
		if standing, err := two.store.Standing(w.ctx, p); err != nil || len(standing) != n || n > 0 && standing[0].Reason != "r" {
			t.Errorf("standing for %s: %+v, %v", p, standing, err)
		}
	}
	if all, err := w.Store.Admin().Conditions(w.ctx, "nobody"); err != nil || len(all) > 0 {
		t.Errorf("another consumer has %+v, %v", all, err)
	}
}

func answer(to int64) pawl.Resolution {
	return pawl.Resolution{To: to, By: "ops", Why: "restored from the archive", At: now}
}

func conditionAnswered[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	c.raise(belowLog(partition(0)))
	c.raise(belowLog(partition(1)))
	id := w.conditions()[0].ID
	for _, to := range []int64{pawl.GoOn, 12} { // the second replaces the first
		if err := w.Store.Admin().Resolve(w.ctx, id, answer(to)); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.conditions(); len(got) != 2 || got[0].Resolution == nil || got[0].Resolution.To != 12 || got[1].Resolution != nil {
		t.Errorf("listed %+v, want the answer beside the first", got)
	}
	if r := c.raise(belowLog(partition(0))); r == nil || r.To != 12 || r.By != "ops" || r.Why == "" || !r.At.Equal(now) {
		t.Errorf("the owner got %+v", r)
	}
	if r := c.raise(belowLog(partition(1))); r != nil {
		t.Errorf("the other partition's owner got %+v", r)
	}
	above := belowLog(partition(0))
	above.State = pawl.StateAboveLog
	if r := c.raise(above); r != nil {
		t.Errorf("an answer to one state was taken for another: %+v", r)
	}
	if err := c.store.Clear(w.ctx, partition(0), pawl.StateBelowLog, pawl.StateFenced); err != nil {
		t.Fatal(err)
	}
	if r := c.raise(belowLog(partition(0))); r != nil {
		t.Errorf("an answer that was carried out came back: %+v", r)
	}
}

func conditionSeen[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	for _, p := range []pawl.Partition{partition(0), {Topic: "payments", Index: pawl.AllPartitions}, {Index: pawl.AllPartitions}} {
		c.raise(pawl.Condition{Partition: p, State: pawl.StateStoreWentBack, Next: pawl.NoStart, Since: now})
	}
	for _, open := range w.conditions() {
		if err := w.Store.Admin().Resolve(w.ctx, open.ID, answer(pawl.GoOn)); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.conditions(); len(got) > 0 {
		t.Errorf("still there: %+v", got)
	}
}

func conditionHistory[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	for range 2 {
		c.raise(belowLog(partition(0)))
		if err := w.Store.Admin().Resolve(w.ctx, w.conditions()[0].ID, answer(12)); err != nil {
			t.Fatal(err)
		}
		if err := c.store.Clear(w.ctx, partition(0), pawl.StateBelowLog); err != nil {
			t.Fatal(err)
		}
	}
	w.wantInt(2, `select count(*) from pawl_condition where ended_at is not null and answered_by = 'ops' and answer_to = 12`)
}

func answerRefused[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	c.raise(belowLog(partition(0)))
	id := w.conditions()[0].ID
	err := w.Store.Admin().Resolve(w.ctx, id, pawl.Resolution{To: -7})
	for _, want := range []string{"offset -7", "By is empty", "Why is empty", "At is zero"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
	if err := w.Store.Admin().Resolve(w.ctx, id+1000, answer(1)); err == nil || !strings.Contains(err.Error(), "there is none") {
		t.Errorf("a condition that does not exist: %v", err)
	}
	if r := c.raise(belowLog(partition(0))); r != nil {
		t.Errorf("a refused answer was kept: %+v", r)
	}
}

func progressListed[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	one := c.acquire(partition(1), 7)
	c.apply(one, record(partition(1), 7, "k", "v"))
	if err := c.store.Release(w.ctx, c.acquire(partition(0), 3)); err != nil {
		t.Fatal(err)
	}
	got, err := w.Store.Admin().Progress(w.ctx, binding().Consumer)
	if err != nil || len(got) != 2 {
		t.Fatalf("listed %+v, %v", got, err)
	}
	if p := got[0]; p.Partition != partition(0) || p.Next != 3 || p.Owned || !p.AdvancedAt.IsZero() || p.AcquiredAt.IsZero() {
		t.Errorf("partition 0: %+v", p)
	}
	if p := got[1]; p.Partition != partition(1) || p.Next != 8 || !p.Owned || p.Epoch != one.Epoch || !p.AdvancedAt.Equal(now) {
		t.Errorf("partition 1: %+v", p)
	}
}
