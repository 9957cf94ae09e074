package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl"
)

// mostEarly bounds how many early records join a batch, over all streams.
const mostEarly = 10_000

// streamOf names a stream within its scope.
type streamOf struct {
	scope int32
	name  string
}

// lookGaps finds the gaps of the streams of a batch: in the round trip of the look, while there are none, only whether there
// are any. As with lookBlocked, what is remembered is which question to ask first.
type lookGaps struct {
	query    map[string]string
	work     *[]pawl.Gap
	now      time.Time
	streams  map[streamOf]*gapAsked
	order    []streamOf
	scopes   []int32
	any      bool
	askWhich bool
	near     []streamOf
	inBatch  []int64 // early records that are in the batch
}

type gapAsked struct {
	route           int
	lowest, highest int64 // versions that the batch brings
	waits           bool  // it has one of those that wait
	at              int   // in Work.Gaps
}

// gapped reports whether a record may be early.
func gapped(d *pawl.Decision) bool {
	return d.Gapped && d.Identity.Stream != "" && d.Identity.Version > 0
}

func (s *bound[Tx]) newLookGaps(w *pawl.Work[Tx]) *lookGaps {
	w.Gaps = nil
	g := &lookGaps{query: s.query, work: &w.Gaps, now: w.Now, askWhich: s.gaps.Load(), inBatch: []int64{}}
	for _, d := range w.Decisions {
		if d.Kept != nil && d.Kept.Early != 0 {
			g.inBatch = append(g.inBatch, d.Kept.Early)
		}
		if !gapped(d) {
			continue
		}
		if g.streams == nil {
			g.streams = map[streamOf]*gapAsked{}
		}
		of, v := streamOf{s.scopes[d.Route], d.GapOf()}, d.Identity.Version
		asked := g.streams[of]
		if asked == nil {
			asked = &gapAsked{route: d.Route, lowest: v, highest: v, at: -1}
			g.streams[of], g.order = asked, append(g.order, of)
			if !slices.Contains(g.scopes, of.scope) {
				g.scopes = append(g.scopes, of.scope)
			}
		}
		asked.lowest, asked.highest = min(asked.lowest, v), max(asked.highest, v)
		if d.Kept != nil && d.Kept.Early != 0 {
			asked.waits = true
		}
	}
	return g
}

// first is what to ask together with the look.
func (g *lookGaps) first() []stmt {
	if len(g.scopes) == 0 {
		return nil
	}
	stmts := []stmt{{sql: g.query["any_gap"], args: []any{g.scopes}, row: func(scan func(...any) error) error { return scan(&g.any) }}}
	if g.askWhich {
		stmts = append(stmts, g.which())
	}
	return stmts
}

func (g *lookGaps) which() stmt {
	n := len(g.order)
	scopes, names := make([]int32, n), make([]string, n)
	lowest, highest, waits := make([]int64, n), make([]int64, n), make([]bool, n)
	for i, of := range g.order {
		a := g.streams[of]
		scopes[i], names[i], lowest[i], highest[i], waits[i] = of.scope, of.name, a.lowest, a.highest, a.waits
	}
	return stmt{sql: g.query["which_gaps"], args: []any{scopes, names, lowest, highest, waits}, row: func(scan func(...any) error) error {
		var i int64
		var near bool
		var gap pawl.Gap
		if err := scan(&i, &gap.Expected, &gap.Since, &gap.Waiting, &near); err != nil {
			return err
		}
		of := g.order[i-1]
		a := g.streams[of]
		gap.Route, gap.Stream, a.at = a.route, of.name, len(*g.work)
		*g.work = append(*g.work, gap)
		if near {
			g.near = append(g.near, of)
		}
		return nil
	}}
}

// fillGaps asks what the first round trip left open: which gaps there are, and what waits in those that may be closed.
func (s *bound[Tx]) fillGaps(ctx context.Context, t txn[Tx], g *lookGaps) error {
	if len(g.scopes) == 0 {
		return nil
	}
	s.gaps.Store(g.any)
	if g.any && !g.askWhich {
		if err := t.exec(ctx, g.which()); err != nil {
			return err
		}
	}
	if len(g.near) == 0 {
		return nil
	}
	scopes, names := make([]int32, len(g.near)), make([]string, len(g.near))
	for i, of := range g.near {
		scopes[i], names[i] = of.scope, of.name
	}
	args := []any{scopes, names, g.inBatch, g.now, int32(pawl.MostEarly), int32(mostEarly), int64(pawl.MostEarlyBytes)}
	return t.exec(ctx, stmt{sql: s.query["early"], args: args, row: func(scan func(...any) error) error {
		var i int64
		var outcome *int16
		var fp, by []byte
		var row *int32
		var offset *int64
		var accepted *string
		task := pawl.Task{Act: pawl.ActReplay}
		err := s.scanTask(&task, scan, []any{&i, &outcome, &fp, &row, &offset, &accepted, &by, &task.Kept.Early, &task.Kept.Stream, &task.Kept.Expired}, nil)
		if err != nil {
			return err
		}
		task.Kept.Row = task.Row
		if outcome != nil {
			same := int64(*row) == task.Row && *offset == task.Record.Offset
			if task.Prior, err = newPrior(*outcome, fp, accepted, by, same); err != nil {
				return err
			}
		}
		gap := &(*g.work)[g.streams[g.near[i-1]].at]
		gap.Early = append(gap.Early, task)
		return nil
	}})
}

// newPrior is a decision as it was found.
func newPrior(outcome int16, fp []byte, accepted *string, supersededBy []byte, same bool) (p *pawl.Prior, err error) {
	p = &pawl.Prior{Outcome: pawl.Outcome(outcome), SamePosition: same, SupersededBy: string(supersededBy)}
	copy(p.Fingerprint[:], fp)
	if accepted != nil {
		p.Accepted, err = parseAccepted(*accepted)
	}
	return p, err
}

// settleGaps is what becomes of gaps: early records leave, others are held, and what each stream waits for is written.
func (s *bound[Tx]) settleGaps(o *pawl.Ownership, w *pawl.Work[Tx], b *batch) []stmt {
	gaps := w.SettledGaps()
	if len(gaps) == 0 {
		return nil
	}
	slices.SortFunc(gaps, func(x, y pawl.SettledGap) int {
		return cmp.Or(cmp.Compare(s.scopes[x.Route], s.scopes[y.Route]), cmp.Compare(x.Stream, y.Stream))
	})
	n := len(gaps)
	scopes, names, next, due := make([]int32, n), make([]string, n), make([]int64, n), make([]time.Time, n)
	seenScopes, seenNames := []int32{}, []string{}
	for i, g := range gaps {
		scopes[i], names[i], next[i], due[i] = s.scopes[g.Route], g.Stream, g.Expected, g.Due
		if g.Seen {
			seenScopes, seenNames = append(seenScopes, scopes[i]), append(seenNames, names[i])
		}
	}
	stmts := []stmt{{sql: s.query["open_gaps"], args: []any{scopes, names, next, w.Now, due, seenScopes, seenNames}}}
	var released []int64
	for _, d := range b.kept {
		if d.Kept.Early != 0 {
			released = append(released, d.Kept.Early)
		}
	}
	if len(released) > 0 {
		stmts = append(stmts, stmt{sql: s.query["release_early"], args: []any{released}})
	}
	if len(b.early) > 0 {
		args := append([]any{int32(o.Row), s.code, w.Now}, s.earlyColumns(b.early)...)
		stmts = append(stmts, stmt{sql: s.query["insert_early"], args: args})
	}
	// Also those that something was to stay in: it may have left meanwhile, or be in quarantine.
	return append(stmts, stmt{sql: s.query["close_gaps"], args: []any{scopes, names}})
}

// earlyColumns are the arguments $4… of insert_early.
func (s *bound[Tx]) earlyColumns(ds []*pawl.Decision) []any {
	w := s.wholeColumns(ds)
	stream, version, until := make([]string, len(ds)), make([]int64, len(ds)), make([]time.Time, len(ds))
	for i, d := range ds {
		stream[i], version[i], until[i] = d.Identity.Stream, d.Identity.Version, d.Until
	}
	return []any{
		w.scope, w.mode, w.offset, w.epoch, stream, version, w.form.arg(), w.id, w.key, w.recordKey, w.value, w.headers.arg(),
		w.ingested, until,
	}
}

// supersede marks what corrections correct, in key order.
func (s *bound[Tx]) supersede(o *pawl.Ownership, w *pawl.Work[Tx]) (st stmt, some bool) {
	var all []*pawl.Decision
	for _, d := range w.Decisions {
		if d.Supersedes() {
			all = append(all, d)
		}
	}
	if len(all) == 0 {
		return st, false
	}
	slices.SortStableFunc(all, func(x, y *pawl.Decision) int {
		a, b := pawl.NewKeyID(x.Identity.Supersedes), pawl.NewKeyID(y.Identity.Supersedes)
		return cmp.Or(cmp.Compare(s.scopes[x.Route], s.scopes[y.Route]), a.Compare(b))
	})
	all = slices.CompactFunc(all, func(x, y *pawl.Decision) bool { // of several the first
		return x.Route == y.Route && x.Identity.Supersedes == y.Identity.Supersedes
	})
	n := len(all)
	var key keyColumns
	mode, offset, ingested := make([]int16, n), make([]int64, n), make([]time.Time, n)
	readable, by, stream := make([][]byte, n), make([][]byte, n), newColumn[string](n)
	for i, d := range all {
		id := pawl.NewKeyID(d.Identity.Supersedes)
		key.add(s.scopes[d.Route], id)
		if id.Form == pawl.KeyHashed {
			readable[i] = []byte(d.Identity.Supersedes)
		}
		mode[i], offset[i], ingested[i], by[i] = int16(d.Mode), d.Record.Offset, d.Record.Timestamp, []byte(d.Identity.Key)
		stream.add(d.Identity.Stream, d.Identity.Stream != "")
	}
	return stmt{sql: s.query["supersede"], args: []any{
		int32(o.Row), s.code, w.Now, key.scope, mode, key.form, key.id, readable, offset, ingested, stream.arg(), by,
	}}, true
}

// dueGaps are gaps to be looked at again, by the first of those that wait.
func (s *bound[Tx]) dueGaps(ctx context.Context, partitions []int32, now time.Time, limit int) (tasks []pawl.Task, err error) {
	err = s.link.exec(ctx, stmt{sql: s.query["due_gaps"], args: []any{s.scopes, partitions, now, int32(limit)}, row: func(scan func(...any) error) error {
		t := pawl.Task{Act: pawl.ActReplay}
		err := s.scanTask(&t, scan, []any{&t.Kept.Early, &t.Kept.Stream, &t.Kept.Expired}, nil)
		t.Kept.Row = t.Row
		tasks = append(tasks, t)
		return err
	}})
	return tasks, err
}

// Gaps lists gaps. See pawl.Admin.
func (a *admin[Tx]) Gaps(ctx context.Context, consumer string, limit int) ([]pawl.OpenGap, error) {
	var all []pawl.OpenGap
	err := a.link.exec(ctx, stmt{sql: a.query["list_gaps"], args: []any{consumer, listed(limit)}, row: func(scan func(...any) error) error {
		var g pawl.OpenGap
		err := scan(&g.Route, &g.Stream, &g.Expected, &g.Since, &g.Waiting, &g.Lowest, &g.Highest, &g.Until)
		all = append(all, g)
		return err
	}})
	if err != nil {
		return nil, fmt.Errorf("list the gaps of %q: %w", consumer, err)
	}
	return all, nil
}

// GapGroups counts gaps. See pawl.Admin.
func (a *admin[Tx]) GapGroups(ctx context.Context, consumer string) ([]pawl.GapGroup, error) {
	var all []pawl.GapGroup
	err := a.link.exec(ctx, stmt{sql: a.query["gap_groups"], args: []any{consumer}, row: func(scan func(...any) error) error {
		var g pawl.GapGroup
		err := scan(&g.Route, &g.Gaps, &g.Waiting, &g.Oldest)
		all = append(all, g)
		return err
	}})
	if err != nil {
		return nil, fmt.Errorf("count the gaps of %q: %w", consumer, err)
	}
	return all, nil
}
