package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/fault"
)

func modelTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"any sequence of owners, copies, conflicts and failures ends as the model says", modelSequences[Tx]},
	}
}

// place is where a record was, on one route.
type place struct {
	route     int
	partition int32
	offset    int64
}

// model is what a store should hold for one consumer.
type model struct {
	claims      map[string]claim // by route and key
	redelivered map[place]bool
	quarantined map[place]bool
	progress    [partitions]struct{ next, epoch, seq int64 }
}

type claim struct {
	place
	content string
	outcome pawl.Outcome
}

// entry is a record of the log, with what its handler would make of it.
type entry struct {
	Route   int
	Key     int // 0: does not decode
	Content int
	Outcome pawl.Outcome
}

const (
	partitions = 2
	logLength  = 10
)

func (m *model) clone() *model {
	c := *m
	c.claims, c.redelivered, c.quarantined = maps.Clone(m.claims), maps.Clone(m.redelivered), maps.Clone(m.quarantined)
	return &c
}

// settle is what a record should come to. Nothing is written for a repeat.
func (m *model) settle(at place, e entry) (outcome pawl.Outcome) {
	key, content := fmt.Sprintf("%d key %d", e.Route, e.Key), fmt.Sprint(e.Content)
	first, decided := m.claims[key]
	switch {
	case e.Key == 0:
		outcome = pawl.Quarantined
	case decided && first.content != content:
		outcome = pawl.Quarantined
	case decided:
		if first.place == at {
			return pawl.Duplicate
		}
		outcome = pawl.Duplicate
	case e.Outcome.Claims():
		m.claims[key] = claim{at, content, e.Outcome}
		return e.Outcome
	default:
		outcome = e.Outcome
	}
	m.redelivered[at] = true
	if outcome == pawl.Quarantined {
		m.quarantined[at] = true
	}
	return outcome
}

// run is one consumer with two processes against the model.
type run[Tx any] struct {
	*world[Tx]
	t      *rapid.T
	model  *model
	log    [partitions][]entry
	owners [2]*client[Tx]
	owned  [2][partitions]*pawl.Ownership
}

func modelSequences[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	owners := [2]*client[Tx]{w.client(binding()), w.another(binding())}
	rapid.Check(t, func(rt *rapid.T) {
		for _, table := range []string{"effect", "pawl_decision", "pawl_redelivery", "pawl_quarantine", "pawl_progress"} {
			w.exec(`delete from ` + table) // of the run before
		}
		r := &run[Tx]{world: w, t: rt, owners: owners, model: &model{
			claims: map[string]claim{}, redelivered: map[place]bool{}, quarantined: map[place]bool{},
		}}
		for p := range r.log {
			r.log[p] = rapid.SliceOfN(rapid.Custom(drawEntry), logLength, logLength).Draw(rt, fmt.Sprintf("log %d", p))
		}
		for range rapid.IntRange(1, 16).Draw(rt, "steps") {
			r.step()
			r.check()
		}
	})
}

func drawEntry(t *rapid.T) entry {
	return entry{
		Route:   rapid.IntRange(0, 1).Draw(t, "route"),
		Key:     rapid.IntRange(0, 5).Draw(t, "key"),
		Content: rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "content"),
		Outcome: rapid.SampledFrom([]pawl.Outcome{pawl.Applied, pawl.Applied, pawl.Ignored, pawl.WasStale, pawl.Quarantined}).
			Draw(t, "outcome"),
	}
}

// step does one thing.
func (r *run[Tx]) step() {
	who := rapid.IntRange(0, len(r.owners)-1).Draw(r.t, "owner")
	p := rapid.IntRange(0, partitions-1).Draw(r.t, "partition")
	what := rapid.SampledFrom([]string{"apply", "apply", "apply", "apply", "acquire", "release"}).Draw(r.t, "what")
	c, o := r.owners[who], r.owned[who][p]
	at := &r.model.progress[p]
	switch {
	case what == "acquire" || o == nil:
		o, err := c.store.Acquire(r.ctx, partition(int32(p)), 0)
		if err != nil {
			r.t.Fatalf("acquire: %v", err)
		}
		at.epoch++
		if o.Epoch != at.epoch || o.Seq != at.seq || o.Next != at.next {
			r.t.Fatalf("acquire: got %+v, want %+v", o, *at)
		}
		r.owned[who][p] = o
	case what == "release":
		if err := c.store.Release(r.ctx, o); err != nil {
			r.t.Fatalf("release: %v", err)
		}
		r.owned[who][p] = nil
	default:
		if died := r.apply(c, o, p); died {
			r.owned[who][p] = nil
		}
	}
}

// apply settles a few records from at or before the position, perhaps with something going wrong.
func (r *run[Tx]) apply(c *client[Tx], o *pawl.Ownership, p int) (died bool) {
	from := rapid.Int64Range(max(0, o.Next-3), min(o.Next, logLength-1)).Draw(r.t, "from")
	to := rapid.Int64Range(from+1, min(from+5, logLength)).Draw(r.t, "to")
	wrong := rapid.SampledFrom([]string{"", "", "", "error", "crash", "cancel"}).Draw(r.t, "wrong")

	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	crash := fault.NewCrash(1 << 20)
	if wrong == "crash" {
		crash = fault.NewCrash(rapid.IntRange(1, 7).Draw(r.t, "window"))
	}
	ctx = fault.With(ctx, crash.Inject)

	next := r.model.clone()
	var ds []*pawl.Decision
	var want []pawl.Outcome
	for offset := from; offset < to; offset++ {
		e := r.log[p][offset]
		ds = append(ds, e.decision(partition(int32(p)), offset))
		want = append(want, next.settle(place{e.Route, int32(p), offset}, e))
	}
	at := &next.progress[p]
	at.seq++
	at.next = max(at.next, to)
	current := at.epoch == o.Epoch

	boom := errors.New("boom")
	err := c.store.Apply(ctx, o, r.batch(c, ds, func() error {
		switch wrong {
		case "error":
			return boom
		case "cancel":
			cancel()
		}
		return nil
	}, r.log[p]))
	window, crashed := crash.Fired()
	switch {
	case err == nil && (!current || wrong == "error" || crashed):
		r.t.Fatalf("apply: committed; current owner %t, wrong %q, crashed %t", current, wrong, crashed)
	case err == nil:
		r.model = next
		if o.Seq != at.seq || o.Next != at.next {
			r.t.Fatalf("apply: ownership %+v, want %+v", o, *at)
		}
		for i, d := range ds {
			if d.Outcome != want[i] {
				r.t.Fatalf("record %d: got %s, want %s", d.Record.Offset, d.Outcome, want[i])
			}
		}
	case crashed:
		if window == fault.Committed {
			r.model = next
		}
	case wrong == "error" && !errors.Is(err, boom),
		wrong == "" && (current || !errors.Is(err, pawl.ErrFenced)),
		wrong == "crash" && !crashed && (current || !errors.Is(err, pawl.ErrFenced)):
		r.t.Fatalf("apply: %v; current owner %t, wrong %q", err, current, wrong)
	}
	return crashed
}

func (e entry) decision(p pawl.Partition, offset int64) *pawl.Decision {
	if e.Key == 0 {
		return onRoute(e.Route, undecoded(p, offset, []byte("\xff")))
	}
	return onRoute(e.Route, record(p, offset, fmt.Sprintf("key %d", e.Key), fmt.Sprint(e.Content)))
}

// batch decides as an engine would: from the prior, from an earlier copy in the batch, or by the handler.
func (r *run[Tx]) batch(c *client[Tx], ds []*pawl.Decision, last func() error, log []entry) *pawl.Work[Tx] {
	type scoped struct {
		route int
		key   pawl.KeyID
	}
	decided := map[scoped]pawl.Fingerprint{}
	w := work(func(ctx context.Context, s pawl.Session[Tx], d *pawl.Decision) error {
		at := scoped{d.Route, d.KeyID}
		first, copied := decided[at]
		switch e := log[d.Record.Offset]; {
		case e.Key == 0:
			d.Outcome, d.Cause, d.Reason = pawl.Quarantined, pawl.CausePoison, "bytes"
			return nil
		case d.Prior != nil:
			return c.settle(ctx, s, d)
		case copied:
			d.Prior = &pawl.Prior{Fingerprint: first}
			return c.settle(ctx, s, d)
		case e.Outcome == pawl.Quarantined:
			// A handler that wrote before it rejected.
			d.Outcome, d.Cause, d.Reason = pawl.Quarantined, pawl.CauseValidation, "no"
			return errors.Join(s.Mark(ctx), c.effect(ctx, s, d), s.Undo(ctx))
		case e.Outcome == pawl.Applied:
			if err := c.settle(ctx, s, d); err != nil {
				return err
			}
		default:
			d.Outcome, d.Reason = e.Outcome, "because"
		}
		decided[at] = d.Fingerprint
		return nil
	}, ds...)
	each := w.Run
	w.Run = func(ctx context.Context, s pawl.Session[Tx]) error {
		if err := each(ctx, s); err != nil {
			return err
		}
		return last()
	}
	return w
}

// check compares the database with the model.
func (r *run[Tx]) check() {
	b := r.owners[0].binding
	var claims, effects, positions, redelivered, quarantined []string
	for key, c := range r.model.claims {
		scope := b.Consumer + " " + b.Routes[c.route].Name
		id := keyText(pawl.NewKeyID(key[2:]))
		claims = append(claims, fmt.Sprint(scope, id, c.partition, c.offset, c.outcome, id16([16]byte(fingerprint(c.content)))))
		if c.outcome == pawl.Applied {
			effects = append(effects, scope+" "+id)
		}
	}
	for p, at := range r.model.progress {
		if at.epoch > 0 {
			positions = append(positions, fmt.Sprintf("%d %d %d %d", p, at.next, at.epoch, at.seq))
		}
	}
	places := func(set map[place]bool) (all []string) {
		for at := range set {
			all = append(all, fmt.Sprintf("%s %d %d", b.Routes[at.route].Name, at.partition, at.offset))
		}
		return all
	}
	redelivered, quarantined = places(r.model.redelivered), places(r.model.quarantined)

	var found []string
	for _, d := range r.decisions() {
		found = append(found, fmt.Sprint(d.scope, d.key, d.partition, d.offset, d.outcome, d.fingerprint))
	}
	r.same("claims", found, claims)
	r.same("effects", r.lines(`select scope, key from effect`), effects)
	r.same("positions", r.lines(`select partition, next_offset, epoch, seq from pawl_progress`), positions)
	for table, want := range map[string][]string{"pawl_redelivery": redelivered, "pawl_quarantine": quarantined} {
		r.same(table, r.lines(`
			select s.route, p.partition, x.position_offset
			from `+table+` x
			join pawl_progress p on p.id = x.progress_id
			join pawl_scope s on s.id = x.scope_id`), want)
	}
}

func (r *run[Tx]) same(what string, got, want []string) {
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		r.t.Fatalf("%s:\ngot  %q\nwant %q", what, got, want)
	}
}
