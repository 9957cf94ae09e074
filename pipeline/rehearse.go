package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"strings"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/effect"
)

// Template is a case of a fixture as traffic: its records, in order.
type Template struct {
	File     string
	Case     string
	Pipeline *Pipeline
	Records  []pawl.Record
}

// Templates reads the cases of the set's fixtures. The error is a [*Refused] if one cannot be read.
func Templates(set *Set, env Env) ([]Template, error) {
	var all []Template
	findings := set.eachCase(env, func(b *binder, p *Pipeline, c *fixture) {
		if log, ok := c.log(b, p); ok {
			all = append(all, Template{b.name, c.Name, p, log})
		}
	})
	return all, refused(findings)
}

// patientHold is how long a rehearsal waits for an event that is missing: longer than any rehearsal takes.
const patientHold = 1000 * time.Hour

// Rehearse prepares the pipeline for traffic that is hostile on purpose, without the systems around it, and such that its result
// follows from what is in the topic and not from when it was read. It returns what is another than the file says, in words. Call it
// before [Register] and [Pipeline.Config].
func (p *Pipeline) Rehearse() (changes []string) {
	changed := func(format string, args ...any) { changes = append(changes, p.Name+": "+fmt.Sprintf(format, args...)) }
	p.Budget = Budget{Records: 1 << 30, Percent: 100} // much is set aside on purpose
	p.Start, p.Limits.Held = "", 0
	if p.On.Poison == "stop" {
		p.On.Poison = "quarantine"
		changed("what cannot be read is set aside, and does not stop the pipeline (the file says poison: stop)")
	}
	if p.Order != "" && p.Order != "partition" {
		changed("records are handled in the order of their partition (the file says order: %s)", p.Order)
		if p.Order == "none" && p.Quarantine == "" {
			p.Quarantine = "record" // as it would be
		}
		p.Order = ""
	}
	if p.refuses() && p.Limits.Batch != 1 {
		p.Limits.Batch = 1
		changed("each record has a transaction of its own: a copy of what was refused is tried again, unless it shares one with it " +
			"(negative: quarantine)")
	}
	for i := range p.routes {
		early := earlyOf(p.routes[i].effect)
		if early.Then == effect.Requery {
			early = effect.Early{Hold: patientHold}
			changed("the source of truth is not asked (requery): an event whose predecessor is missing waits")
		}
		if early.Hold > 0 {
			early.Hold, early.Most = patientHold, 0
			p.routes[i].effect = withEarly(p.routes[i].effect, early)
		}
	}
	return changes
}

// earlyOf is what becomes of early events; the zero value is also that of effects that know none.
func earlyOf(e pawl.Effect[*Document]) effect.Early {
	switch e := e.(type) {
	case *filter:
		return earlyOf(e.Effect)
	case *effect.Projection[*Document]:
		return e.Early
	case *effect.Workflow[*Document]:
		return e.Early
	}
	return effect.Early{}
}

// withEarly is the effect, with other rules for early events. An effect keeps the rules that it was first asked with: this is a new
// one.
func withEarly(e pawl.Effect[*Document], early effect.Early) pawl.Effect[*Document] {
	switch e := e.(type) {
	case *filter:
		return &filter{withEarly(e.Effect, early), e.when, e.deleted}
	case *effect.Projection[*Document]:
		return &effect.Projection[*Document]{
			Table: e.Table, Stream: e.Stream, Version: e.Version, Rule: e.Rule, Columns: e.Columns, Early: early, States: e.States,
		}
	case *effect.Workflow[*Document]:
		return &effect.Workflow[*Document]{
			Table: e.Table, Stream: e.Stream, Version: e.Version, State: e.State, Rule: e.Rule, Initial: e.Initial, Transitions: e.Transitions,
			To: e.To, Columns: e.Columns, Early: early, States: e.States,
		}
	}
	return e
}

// TakesInTurn reports whether an event that comes before its predecessor is given up at once. Then it depends on how records fall
// into transactions what becomes of it: within one, it waits for what comes behind it.
func (p *Pipeline) TakesInTurn() bool {
	next := p.Projection != nil && (p.Projection.Rule == "" || p.Projection.Rule == "next") ||
		p.Workflow != nil && (p.Workflow.Rule == "" || p.Workflow.Rule == "next")
	return next && earlyOf(p.routes[0].effect).Hold == 0
}

// refuses reports whether an event may be refused now, and take effect when a copy of it comes later.
func (p *Pipeline) refuses() bool {
	return p.Ledger != nil && p.Ledger.Balances != nil && p.Ledger.Balances.Negative == "quarantine"
}

// Entangled reports whether what becomes of an event depends on those of other streams: only one order of all events then has one
// result.
func (p *Pipeline) Entangled() bool {
	return p.Commands != nil || p.refuses()
}

// Effects are the names of the pipeline's effects, the main one first: those of its routes.
func (p *Pipeline) Effects() []string {
	var names []string
	for _, r := range p.routes {
		names = append(names, r.name)
	}
	return names
}

// Quiet runs the pipeline over records in this process, until each is settled: without a network, one transaction after the other.
// Offsets may have gaps. It says how each was decided by the main effect, in the order of the records.
func Quiet[Tx any](ctx context.Context, p *Pipeline, store pawl.Store[Tx], log []pawl.Record) ([]pawl.Decision, error) {
	w := &watch{left: map[pawl.Partition]int64{}, decided: map[position]pawl.Decision{}, done: make(chan struct{})}
	for _, r := range log {
		w.left[r.Partition] = max(w.left[r.Partition], r.Offset+1)
	}
	if err := until(ctx, w, p, store, log); err != nil {
		return nil, fmt.Errorf("pipeline %s: %w", p.Name, err)
	}
	out := make([]pawl.Decision, len(log))
	for i, r := range log {
		out[i] = w.decided[position{r.Partition, r.Offset}]
	}
	return out, nil
}

// Place is where a record says a part of its event's identity as it is: in a member of its document, an attribute of a CloudEvent, a
// header, or its key.
type Place struct {
	root        string // $, ce, headers or meta.key
	steps       []step
	cloudevents bool
}

// Places are where id, stream, key, and the key of what is corrected are said. What is computed has none.
func (p *Pipeline) Places() []Place {
	exprs := []Expr{p.Event.ID, p.Event.Stream, p.Event.Supersedes, p.OncePer}
	if p.Commands != nil {
		exprs = append(exprs, p.Commands.Command)
	}
	var all []Place
	for _, e := range exprs {
		text := strings.TrimSpace(e.Text)
		pl := Place{root: text, cloudevents: p.Format == "cloudevents"}
		rest := ""
		if i := strings.IndexAny(text, ".["); i >= 0 && text != "meta.key" {
			pl.root, rest = text[:i], text[i:]
		}
		ok := true
		switch pl.root {
		case "meta.key":
		case "$":
			pl.steps, ok = parseSteps(pl.root, rest)
		case "ce", "headers":
			pl.steps, ok = parseSteps(pl.root, rest)
			ok = ok && len(pl.steps) == 1 && pl.steps[0].index < 0
		default:
			ok = false
		}
		if ok {
			all = append(all, pl)
		}
	}
	return all
}

// Replace gives the record, whose parts it does not change, another text or whole number there. Where the record says nothing, or
// something else, it stays as it is.
func (pl Place) Replace(r pawl.Record, with func(old string, number bool) string) pawl.Record {
	header := ""
	steps := pl.steps
	switch structured := pl.cloudevents && !binaryMode(r.Headers); {
	case pl.root == "meta.key":
		if r.Key != nil {
			r.Key = []byte(with(string(r.Key), false))
		}
		return r
	case pl.root == "headers":
		header = steps[0].name
	case pl.root == "ce" && !structured:
		header = "ce_" + steps[0].name
	case pl.root == "$" && structured:
		steps = append([]step{{name: "data", index: -1}}, steps...)
	}
	if header != "" {
		headers := append([]pawl.Header(nil), r.Headers...)
		for i, h := range headers {
			if h.Key == header {
				headers[i].Value = []byte(with(string(h.Value), false))
			}
		}
		r.Headers = headers
		return r
	}
	dec := json.NewDecoder(bytes.NewReader(r.Value))
	raw, err := follow(dec, steps)
	if err != nil || !json.Valid(r.Value) {
		return r
	}
	to := dec.InputOffset()
	from := to - int64(len(raw))
	var text string
	switch {
	case json.Unmarshal(raw, &text) == nil && raw[0] == '"':
		raw = quoted(with(text, false))
	case wholeNumber(raw):
		raw = []byte(with(string(raw), true))
	}
	r.Value = append(append(append([]byte(nil), r.Value[:from]...), raw...), r.Value[to:]...)
	return r
}

// binaryMode reports whether a CloudEvent is sent in binary mode.
func binaryMode(headers []pawl.Header) bool {
	for _, h := range headers {
		if strings.EqualFold(h.Key, "content-type") {
			if media, _, _ := mime.ParseMediaType(string(h.Value)); strings.HasPrefix(media, "application/cloudevents") {
				return false
			}
		}
	}
	return hasAttributes(headers)
}

func wholeNumber(raw []byte) bool {
	digits := bytes.TrimPrefix(raw, []byte("-"))
	return len(digits) > 0 && len(digits) < 18 && len(bytes.Trim(digits, "0123456789")) == 0
}

var errNotThere = errors.New("there is nothing at this path")

// follow reads a document up to the value that the steps lead to, and returns it as it is written.
func follow(dec *json.Decoder, steps []step) (raw json.RawMessage, err error) {
	if len(steps) == 0 {
		err = dec.Decode(&raw)
		return raw, err
	}
	open, err := dec.Token()
	if err != nil {
		return nil, err
	}
	if open != json.Delim('{') && open != json.Delim('[') {
		return nil, errNotThere
	}
	s := steps[0]
	for i := 0; dec.More(); i++ {
		here := open == json.Delim('[') && i == s.index
		if open == json.Delim('{') {
			name, err := dec.Token()
			if err != nil {
				return nil, err
			}
			here = s.index < 0 && name == s.name
		}
		if here {
			return follow(dec, steps[1:])
		}
		if err := dec.Decode(&raw); err != nil {
			return nil, err
		}
	}
	return nil, errNotThere
}
