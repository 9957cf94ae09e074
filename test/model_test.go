package test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/pawlhq/pawl"
)

// happening is an event of the model: what its handler makes of it, until it is repaired, is its kind.
type happening struct {
	ID      string `json:"id"`
	Stream  string `json:"stream"`
	Kind    string `json:"kind"`
	Content int    `json:"content"`
}

func (e happening) bytes() []byte {
	if e.Kind == "garbage" {
		return []byte("{")
	}
	value, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return value
}

// spot is where a record is.
type spot struct {
	partition int
	offset    int64
}

func (s spot) String() string { return fmt.Sprintf("%d@%d", s.partition, s.offset) }

// fate is a record in the model.
type fate struct {
	spot
	came    happening
	now     happening // with the last edit
	edited  bool
	outcome pawl.Outcome // by now: Quarantined and Held are not for ever
	claimed bool         // this is the decision for its key
	aside   string       // "", or a status of the quarantine
	cause   string
	blocks  bool // its stream, while it is open: a conflict does not, whatever it is refused for later
}

// claimOf is what a key was decided for.
type claimOf struct {
	contents []happening
}

// book is the model: a consumer that settles one record after the other, and its operator. It knows of no partition that
// moves, of no process that dies, and of nothing that happens at the same time: none of these may be seen in the end.
type book struct {
	partitions int
	records    map[spot]*fate
	logs       [][]*fate
	claims     map[string]*claimOf
	applied    map[string][]string // keys in the order of their effects, by stream
	repaired   map[string]bool
}

func newBook(partitions int) *book {
	return &book{
		partitions: partitions, records: map[spot]*fate{}, logs: make([][]*fate, partitions), claims: map[string]*claimOf{},
		applied: map[string][]string{}, repaired: map[string]bool{},
	}
}

// arrive is the next record of a partition.
func (b *book) arrive(partition int, e happening) {
	f := &fate{spot: spot{partition, int64(len(b.logs[partition]))}, came: e, now: e}
	b.logs[partition] = append(b.logs[partition], f)
	b.records[f.spot] = f
	switch {
	case e.Kind == "garbage":
		f.setAside(pawl.CausePoison)
	case b.claims[e.ID] == nil && e.Stream != "" && b.waits(e.Stream):
		f.outcome = pawl.Held
	default:
		b.decide(f)
	}
}

// waits reports whether a stream is blocked or has records held.
func (b *book) waits(stream string) bool {
	return b.blocker(stream) != nil || b.firstHeld(stream) != nil
}

func (b *book) blocker(stream string) *fate {
	return b.first(func(f *fate) bool { return f.came.Stream == stream && f.aside == pawl.QuarantineOpen && f.blocks })
}

func (b *book) firstHeld(stream string) *fate {
	return b.first(func(f *fate) bool { return f.came.Stream == stream && f.outcome == pawl.Held })
}

func (b *book) first(is func(*fate) bool) *fate {
	for _, log := range b.logs {
		if i := slices.IndexFunc(log, is); i >= 0 {
			return log[i]
		}
	}
	return nil
}

// decide settles a record whose turn it is: one of the log, one that was held, or one that is tried again.
func (b *book) decide(f *fate) {
	e := f.now
	own := e
	if f.came.Kind != "garbage" && e.ID != f.came.ID { // an edit does not make it another's
		own = f.came
	}
	prior := b.claims[own.ID]
	switch {
	case prior != nil && slices.Contains(prior.contents, own):
		f.settle(pawl.Duplicate)
	case prior != nil:
		f.setAside(pawl.CauseConflict)
	case e.Kind == "garbage":
		f.setAside(pawl.CausePoison)
	case e.ID != own.ID:
		f.setAside(pawl.CauseValidation)
	case e.Kind == "reject" && !b.repaired[e.ID]:
		f.setAside(pawl.CauseValidation)
	case e.Kind == "fail" && !b.repaired[e.ID]:
		f.setAside(pawl.CauseFailure)
	case e.Kind == "ignore":
		b.claim(f, pawl.Ignored)
	default:
		b.claim(f, pawl.Applied)
		b.applied[e.Stream] = append(b.applied[e.Stream], e.ID)
	}
}

func (f *fate) setAside(cause string) {
	if f.aside == "" {
		f.blocks = cause != pawl.CauseConflict && f.came.Stream != ""
	}
	f.outcome, f.aside, f.cause = pawl.Quarantined, pawl.QuarantineOpen, cause
}

func (f *fate) settle(o pawl.Outcome) {
	f.outcome = o
	switch {
	case f.aside == "":
	case o == pawl.Skipped:
		f.aside = pawl.QuarantineSkipped
	default:
		f.aside = pawl.QuarantineReplayed
	}
}

func (b *book) claim(f *fate, o pawl.Outcome) {
	f.settle(o)
	f.claimed = true
	c := &claimOf{contents: []happening{f.now}}
	if f.edited && f.came.Kind != "garbage" {
		c.contents = append(c.contents, f.came)
	}
	b.claims[f.now.ID] = c
}

// replay and skip are what an operation does with one item, and what follows from it for its stream.

func (b *book) replay(f *fate) (failed bool) {
	if b.decide(f); f.outcome == pawl.Quarantined {
		return true
	}
	b.goOn(f.came.Stream)
	return false
}

// skip settles a record as it came, whatever it was edited to.
func (b *book) skip(f *fate) {
	if f.came.Kind == "garbage" {
		if !f.edited || f.now.Kind == "garbage" || b.claims[f.now.ID] != nil {
			f.settle(pawl.Skipped)
		} else {
			b.claim(f, pawl.Skipped)
		}
		return
	}
	if b.claims[f.came.ID] != nil {
		f.settle(pawl.Skipped)
	} else {
		if f.now.ID != f.came.ID {
			f.now = f.came
		}
		b.claim(f, pawl.Skipped)
	}
	b.goOn(f.came.Stream)
}

func (b *book) archive(f *fate) {
	f.aside = pawl.QuarantineArchived
	b.goOn(f.came.Stream)
}

// goOn releases what is held in a stream, up to the next record that blocks it.
func (b *book) goOn(stream string) {
	for stream != "" && b.blocker(stream) == nil {
		f := b.firstHeld(stream)
		if f == nil {
			return
		}
		f.outcome = 0
		b.decide(f)
	}
}

// open lists what is in quarantine, by place.
func (b *book) open() []*fate {
	return b.all(func(f *fate) bool { return f.aside == pawl.QuarantineOpen })
}

func (b *book) all(is func(*fate) bool) (all []*fate) {
	for _, log := range b.logs {
		for _, f := range log {
			if is(f) {
				all = append(all, f)
			}
		}
	}
	return all
}

// keys lists the keys of a stream that have come, in order.
func (b *book) keys(stream string) (all []happening) {
	seen := map[string]bool{}
	for _, f := range b.all(func(f *fate) bool { return f.came.Stream == stream && f.came.Kind != "garbage" }) {
		if !seen[f.came.ID] {
			seen[f.came.ID] = true
			all = append(all, f.came)
		}
	}
	return all
}

// Lines of what a store should hold, to be compared with what it holds.

func (b *book) quarantine() (lines []string) {
	for _, f := range b.all(func(f *fate) bool { return f.aside != "" }) {
		line := fmt.Sprintf("%s %s", f.spot, f.aside)
		if f.aside == pawl.QuarantineOpen {
			line += " " + f.cause
		}
		lines = append(lines, line)
	}
	return lines
}

func (b *book) held() (lines []string) {
	for _, f := range b.all(func(f *fate) bool { return f.outcome == pawl.Held }) {
		lines = append(lines, f.String())
	}
	return lines
}

func (b *book) decisions() (lines []string) {
	for _, f := range b.all(func(f *fate) bool { return f.claimed }) {
		lines = append(lines, fmt.Sprintf("%s %s", f.spot, f.outcome))
	}
	return lines
}

// others is the evidence of places that have no claim.
func (b *book) others() (lines []string) {
	for _, f := range b.all(func(f *fate) bool { return !f.claimed }) {
		lines = append(lines, fmt.Sprintf("%s %s", f.spot, f.outcome))
	}
	return lines
}

func (b *book) blocked() (lines []string) {
	streams := map[string]bool{}
	for _, f := range b.records {
		if s := f.came.Stream; s != "" && !streams[s] && b.waits(s) {
			streams[s] = true
			lines = append(lines, fmt.Sprintf("%s by %s", s, b.blocker(s)))
		}
	}
	return lines
}

func (b *book) effects() (lines []string) {
	for _, s := range slices.Sorted(maps.Keys(b.applied)) {
		keys := slices.Clone(b.applied[s])
		if s == "" { // in order with nothing
			slices.Sort(keys)
		}
		lines = append(lines, fmt.Sprint(s, ": ", keys))
	}
	return lines
}
