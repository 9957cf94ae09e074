package effect

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawlhq/pawl"
)

// Rule says which event may follow on a version.
type Rule uint8

const (
	// Next takes the version that follows on the row's, and no other; a stream begins with version 1. What comes early is
	// dealt with as [Early] says.
	Next Rule = iota
	// Newer takes any version above the row's, and a stream may begin with any: what is missing in between is not noticed, and
	// is stale if it comes later.
	Newer
	// NewerTime is Newer with the time the event occurred (Identity.OccurredAt, to the microsecond) in place of a version: for
	// sources that have none. It is weaker: two events of one instant cannot be put in order and are a conflict, and where the
	// clocks of two producers differ, a newer event is taken for a stale one.
	NewerTime
)

func (r Rule) String() string {
	switch r {
	case Next:
		return "Next"
	case Newer:
		return "Newer"
	case NewerTime:
		return "NewerTime"
	}
	return fmt.Sprintf("Rule(%d)", uint8(r))
}

// sequence is what Projection and Workflow share: a table with one row per stream, whose events move it from version to
// version. The stream and the version are its first two columns.
type sequence[T any] struct {
	table   *pawl.Table
	rule    Rule
	early   Early
	columns columns[T]
	states  bool

	// allow may refuse to move a row, which is nil where there is none, to values; both without stream and version.
	allow func(row, values []any) (refused pawl.Verdict, ok bool)
	// sound says what is wrong with a row that was read or answered, without stream and version; "" is nothing.
	sound func(row []any) string
}

const first = 2 // column that is filled from events

// track is a stream in a batch.
type track struct {
	stream  string
	before  pawl.Row // as it was read
	row     pawl.Row // as it is now; nil: there is none
	current int64    // the row's version, or its time in microseconds; 0 where there is none
	changed bool
	corrupt string // what is wrong with the row
	pending []int  // records that are early, by version and then as they came
	held    int    // how many records of the stream are held in the store
}

// folding is one call of fold.
type folding[T any] struct {
	*sequence[T]
	b      *pawl.Batch[T]
	tracks []track
	values []any // of the event at hand
}

// open makes the table.
func (s *sequence[T]) open(name, stream, guard string, p *problems) {
	p.need("Stream", stream)
	p.need("Version", guard)
	if s.rule > NewerTime {
		p.add("%s is no rule", s.rule)
	}
	kind := pawl.KindInt
	if s.rule == NewerTime {
		kind = pawl.KindTime
	}
	s.table = &pawl.Table{Name: name, Key: 1, Guard: true, Columns: []pawl.Column{
		{Name: stream, Kind: pawl.KindText, NotNull: true}, {Name: guard, Kind: kind, NotNull: true},
	}}
	s.columns.of(s.table)
	s.columns.check(p)
	s.early.check(p, s.rule)
	if s.early.Most == 0 {
		s.early.Most = defaultMost
	}
}

func (s *sequence[T]) fold(ctx context.Context, rows pawl.Rows, b *pawl.Batch[T]) error {
	f := &folding[T]{sequence: s, b: b, values: make([]any, len(s.columns))}
	of := make([]int, b.Len()) // track of each record; -1: none
	known := make(map[string]int, b.Len())
	var keys []pawl.Row
	for i := range of {
		e := b.At(i)
		if err := s.identified(e); err != nil {
			of[i] = -1
			b.Reject(i, err)
			continue
		}
		at, ok := known[e.Stream]
		if !ok {
			at = len(f.tracks)
			known[e.Stream] = at
			f.tracks = append(f.tracks, track{stream: e.Stream, held: b.Waiting(e.Stream)})
			keys = append(keys, pawl.Row{e.Stream})
		}
		of[i] = at
	}
	if len(keys) == 0 {
		return nil
	}
	read, err := rows.Read(ctx, s.table, keys)
	if err != nil {
		return err
	}
	for i := range f.tracks {
		f.begin(&f.tracks[i], read[i])
	}

	for i, at := range of { // what was held came before the rest
		if at >= 0 && b.Early(i) {
			f.wait(&f.tracks[at], i)
		}
	}
	for i := range f.tracks {
		f.chain(&f.tracks[i])
	}
	for i, at := range of {
		if at >= 0 && !b.Early(i) {
			f.arrive(&f.tracks[at], i)
		}
	}

	var ask []string
	for i := range f.tracks {
		if t := &f.tracks[i]; len(t.pending) > 0 && !f.end(t) {
			ask = append(ask, t.stream)
		}
	}
	if len(ask) > 0 {
		return b.Ask(ask...)
	}
	var put, before []pawl.Row
	for i := range f.tracks {
		if t := &f.tracks[i]; t.changed {
			put, before = append(put, t.row), append(before, t.before)
		}
	}
	if len(put) == 0 {
		return nil
	}
	return rows.Put(ctx, s.table, put, before)
}

// identified refuses an event that has no place in a stream.
func (s *sequence[T]) identified(e *pawl.Envelope[T]) error {
	switch {
	case e.Stream == "":
		return errNoStream
	case s.rule == NewerTime && e.OccurredAt.IsZero():
		return errNoTime
	case s.rule != NewerTime && e.Version < 1:
		return errNoVersion
	}
	return nil
}

// place is where an event stands in its stream.
func (s *sequence[T]) place(e *pawl.Envelope[T]) int64 {
	if s.rule == NewerTime {
		return e.OccurredAt.UnixMicro()
	}
	return e.Version
}

// begin takes over a row that was read.
func (f *folding[T]) begin(t *track, row pawl.Row) {
	if row == nil {
		return
	}
	t.before, t.row = row, slices.Clone(row)
	switch v := row[1].(type) {
	case int64:
		if t.current = v; v < 0 {
			t.corrupt = fmt.Sprintf("the row has version %d", v)
		}
	case time.Time:
		t.current = v.UnixMicro()
	default:
		t.corrupt = "the row has no version"
	}
	if f.sound != nil && t.corrupt == "" {
		t.corrupt = f.sound(row[first:])
	}
}

// arrive decides record i, or has it wait for what is missing before it.
func (f *folding[T]) arrive(t *track, i int) {
	at := f.place(f.b.At(i))
	if f.rule == Next && at-1 > t.current && t.corrupt == "" {
		f.wait(t, i)
		return
	}
	if f.decide(t, i, at) {
		f.chain(t)
	}
}

// wait puts record i in its place among those that are early.
func (f *folding[T]) wait(t *track, i int) {
	at := f.place(f.b.At(i))
	to := len(t.pending)
	for to > 0 && f.place(f.b.At(t.pending[to-1])) > at {
		to--
	}
	t.pending = slices.Insert(t.pending, to, i)
}

// chain decides those early records whose turn it is.
func (f *folding[T]) chain(t *track) {
	for len(t.pending) > 0 {
		i := t.pending[0]
		at := f.place(f.b.At(i))
		if f.rule == Next && at-1 > t.current && t.corrupt == "" {
			return
		}
		f.leave(t)
		f.decide(t, i, at)
	}
}

// leave takes the first early record out.
func (f *folding[T]) leave(t *track) {
	if f.b.Early(t.pending[0]) {
		t.held--
	}
	t.pending = t.pending[1:]
}

// decide gives record i, which is not early, its verdict. It reports whether the row moved on.
func (f *folding[T]) decide(t *track, i int, at int64) bool {
	b, e := f.b, f.b.At(i)
	switch {
	case t.corrupt != "":
		b.Decide(i, pawl.Verdict{Outcome: pawl.Quarantined, Cause: pawl.CauseCorruption, Reason: "corruption: " + t.corrupt})
		return false
	case t.row != nil && at < t.current:
		b.Decide(i, pawl.Verdict{Outcome: pawl.WasStale, Reason: f.stale(t, e)})
		return false
	}
	if err := f.columns.fill(e, f.values); err != nil {
		b.Reject(i, err)
		return false
	}
	if t.row != nil && at == t.current {
		place := version(at)
		if f.rule == NewerTime {
			place = "this time"
		}
		b.Decide(i, again(f.columns.same(t.row[first:], f.values), place))
		return false
	}
	var now []any
	if t.row != nil {
		now = t.row[first:]
	}
	if f.allow != nil {
		if refused, ok := f.allow(now, f.values); !ok {
			b.Decide(i, refused)
			return false
		}
	}
	v := pawl.Verdict{Outcome: pawl.Applied}
	if f.rule != NewerTime {
		v.VersionBefore = t.current
	}
	if f.states {
		v.StateBefore = stateOf(f.table, t.row)
	}
	f.move(t, at, f.values)
	if f.states {
		v.StateAfter = stateOf(f.table, t.row)
	}
	b.Decide(i, v)
	return true
}

// move writes values into the row, at a version.
func (f *folding[T]) move(t *track, at int64, values []any) {
	if t.row == nil {
		t.row = make(pawl.Row, len(f.table.Columns))
		t.row[0] = t.stream
	}
	if t.row[1] = at; f.rule == NewerTime {
		t.row[1] = time.UnixMicro(at).UTC()
	}
	settle(t.row[first:], values)
	t.current, t.changed = at, true
}

func (f *folding[T]) stale(t *track, e *pawl.Envelope[T]) string {
	if f.rule == NewerTime {
		return fmt.Sprintf("it occurred at %s, and the row is of %s", e.OccurredAt.UTC().Format(time.RFC3339Nano),
			time.UnixMicro(t.current).UTC().Format(time.RFC3339Nano))
	}
	return fmt.Sprintf("it is version %d, and the row is at version %d", e.Version, t.current)
}

// again decides an event whose place the row has already.
func again(same bool, place string) pawl.Verdict {
	if same {
		return pawl.Verdict{Outcome: pawl.Duplicate, Reason: "the row has " + place + " already, and says the same"}
	}
	return pawl.Verdict{Outcome: pawl.Quarantined, Cause: pawl.CauseConflict, Reason: "the row has " + place + " already, and says something else"}
}

func version(v int64) string { return fmt.Sprintf("version %d", v) }

// end decides what the batch leaves early. It reports false if the source of truth must be asked first.
func (f *folding[T]) end(t *track) bool {
	why := ""
	if f.early.Then == Requery && slices.ContainsFunc(t.pending, f.over(t)) {
		answer, known, asked := f.b.Answer(t.stream)
		if !asked {
			return false
		}
		why = f.jump(t, answer, known)
	}
	over := f.over(t)
	for _, i := range t.pending {
		e := f.b.At(i)
		switch {
		case !over(i):
			f.b.Decide(i, f.early.hold(e.Version, t.current+1, f.b.Now()))
		case f.early.Then == Requery:
			f.b.Decide(i, f.early.end(e.Version, t.current+1, why))
		default:
			f.b.Decide(i, f.early.end(e.Version, t.current+1, f.whyNot(i)))
		}
	}
	return true
}

// over returns a function that says, of one early record after the other, whether it can be held no longer, or not at all.
func (f *folding[T]) over(t *track) func(i int) bool {
	held := t.held
	return func(i int) bool {
		switch {
		case f.b.Early(i):
			return f.b.Expired(i)
		case f.early.Hold == 0 || f.b.Full() || held >= f.early.Most:
			return true
		}
		held++
		return false
	}
}

// whyNot says why record i is not held.
func (f *folding[T]) whyNot(i int) string {
	switch {
	case f.b.Expired(i):
		return fmt.Sprintf("it was held for %s, and what is missing did not come", f.early.Hold)
	case f.early.Hold == 0:
		return "nothing is held here"
	case f.b.Full():
		return "as many records are held as may be (Config.MaxHeld; in a file: limits.held)"
	}
	return fmt.Sprintf("%d events of its stream are held, and no more may be", f.early.Most)
}

// jump moves the row forward to what the source of truth says, and decides the early records that this concerns. It returns
// what the others may be told.
func (f *folding[T]) jump(t *track, a pawl.Answer, known bool) string {
	switch {
	case !known:
		return "the source of truth does not know the stream"
	case a.Version <= t.current:
		return fmt.Sprintf("the source of truth is at version %d", a.Version)
	}
	v := pawl.Verdict{Outcome: pawl.Superseded, VersionBefore: t.current}
	v.Reason = fmt.Sprintf("the source of truth was asked, and moved the row from version %d to %d", t.current, a.Version)
	if f.states {
		v.StateBefore = stateOf(f.table, t.row)
	}
	for i := range f.columns {
		f.values[i] = Keep
		if value, ok := a.Values[f.columns[i].Name]; ok {
			f.values[i] = value
		}
	}
	f.move(t, a.Version, f.values)
	if f.states {
		v.StateAfter = stateOf(f.table, t.row)
	}
	for len(t.pending) > 0 && f.b.At(t.pending[0]).Version <= a.Version {
		f.b.Decide(t.pending[0], v)
		f.leave(t)
		v.VersionBefore, v.StateBefore, v.StateAfter = 0, "", "" // the first of them bears the evidence
	}
	f.chain(t)
	return v.Reason
}

// declared makes a declaration usable once, however often and by whom it is asked.
type declared struct {
	once   sync.Once
	tables []*pawl.Table
	err    error
}

func (d *declared) do(f func() ([]*pawl.Table, error)) ([]*pawl.Table, error) {
	d.once.Do(func() { d.tables, d.err = f() })
	return d.tables, d.err
}
