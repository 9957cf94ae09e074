package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
	"github.com/pawlhq/pawl/effect"
)

// column is a column that was compiled.
type column struct {
	Column
	*program        // nil: the effect fills it, by its role
	role     string // the expression in full, such as event.stream; or state, account, amount
}

// roles are the words that stand for a part of the identity in columns.
var roles = map[string]string{
	"stream": "event.stream", "version": "event.version", "id": "event.id", "type": "event.type", "at": "event.at", "key": "event.key",
}

// notes describe an event, not the state that it leads to.
var notes = map[string]bool{
	"event.id": true, "event.at": true, "event.key": true, "event.message_id": true, "event.correlation": true, "event.causation": true,
	"meta.timestamp": true, "meta.topic": true, "meta.position": true,
}

// compiler compiles the expressions of a pipeline, and reports what is wrong with them.
type compiler struct {
	*check
	raw, full scope
	positions bool // an expression uses meta.position
}

func (c *compiler) run() {
	p := c.p
	c.raw = scope{
		"$": dynKind, "headers": mapKind, "meta.key": textKind, "meta.topic": textKind, "meta.timestamp": timeKind, "meta.position": textKind,
	}
	ce := p.Format == "cloudevents"
	if ce {
		c.raw["ce"] = mapKind
		def := func(e *Expr, text string) {
			if e.IsZero() {
				e.Text = text
			}
		}
		def(&p.Event.ID, "ce.id")
		def(&p.Event.Type, "ce.type")
		def(&p.Event.At, "timestamp(ce.?time)")
		def(&p.Event.Stream, "ce.?subject")
	}
	d := &decoder{cloudevents: ce, tombstones: p.State != nil}
	c.full = maps.Clone(c.raw)
	c.full["event.key"] = textKind
	for _, f := range []struct {
		name string
		expr Expr
		to   **program
		kind kind
	}{
		{"id", p.Event.ID, &d.id, textKind}, {"stream", p.Event.Stream, &d.stream, textKind},
		{"stream_type", p.Event.StreamType, &d.streamType, textKind},
		{"version", p.Event.Version, &d.version, intKind}, {"type", p.Event.Type, &d.typ, textKind},
		{"at", p.Event.At, &d.at, timeKind},
		{"message_id", p.Event.MessageID, &d.messageID, textKind},
		{"schema_version", p.Event.SchemaVersion, &d.schemaVersion, intKind},
		{"supersedes", p.Event.Supersedes, &d.supersedes, textKind}, {"correlation", p.Event.Correlation, &d.correlation, textKind},
		{"causation", p.Event.Causation, &d.causation, textKind},
	} {
		if !f.expr.IsZero() {
			c.full["event."+f.name] = f.kind
			*f.to = c.expr(f.expr, "event."+f.name, c.raw, f.kind)
		}
	}
	keys := maps.Clone(c.full)
	delete(keys, "event.key") // it is what is being found
	if !p.OncePer.IsZero() {
		d.key = c.expr(p.OncePer, "once_per", keys, textKind)
	}
	p.decoder = d
	d.when = c.optional(p.When, "when", c.full, boolKind)

	options := []decode.Option{}
	if n := p.Limits.RecordBytes; n > 256<<20 {
		c.fault("value", "limits.record_bytes", "", "at most 256 MiB are decoded")
	} else if n > 0 {
		options = append(options, decode.MaxBytes(n))
	}
	if n := p.Limits.Depth; n > 10_000 {
		c.fault("value", "limits.depth", "", "at most 10000 levels are decoded")
	} else if n > 0 {
		options = append(options, decode.MaxDepth(n))
	}
	if !ce && len(p.Content.Except) > 0 {
		options = append(options, decode.EnvelopeFields(p.Content.Except...))
	}
	d.json = decode.JSON(noIdentity, options...)
	if ce {
		d.json = d.json.FingerprintBy(contentOf(p.Content.Except))
	}
	c.effects()
	d.positions = c.positions
}

func (c *compiler) optional(e Expr, path string, sc scope, want ...kind) *program {
	if e.IsZero() {
		return nil
	}
	return c.expr(e, path, sc, want...)
}

// expr compiles an expression whose value must be of one of the kinds. What only the record knows may be any.
func (c *compiler) expr(e Expr, path string, sc scope, want ...kind) *program {
	p, err := compile(e.Text, sc)
	if err == nil && p.uses["meta.position"] {
		c.positions = true
	}
	if err != nil {
		at, hint := e.at, ""
		if ce, ok := errors.AsType[*celError](err); ok {
			hint = ce.hint
			at = c.f.b.within(e, ce)
		}
		c.report(Fault, "expression", at, path, hint, "%v", err)
		return nil
	}
	if len(want) == 0 {
		return p
	}
	for _, k := range want {
		switch {
		case p.kind == k:
			return p
		case p.kind == dynKind && len(want) == 1:
			return p // converted, strictly, when it is evaluated
		case k == decimalKind && p.kind == intKind, k == textKind && p.kind == intKind:
			return p // exact
		}
	}
	hint := ""
	switch {
	case p.kind == dynKind:
		hint = fmt.Sprintf("write %s(%s)", conversionName(want[0]), e.Text)
	case want[0] == boolKind:
		hint = "compare it with something, as in " + e.Text + " == …"
	case want[0] == textKind && p.kind != jsonKind && p.kind != mapKind && p.kind != boolKind:
		hint = "write string(" + e.Text + ")"
	}
	c.report(Fault, "expression", e.at, path, hint, "%s is %s, and must be %s", e.Text, p.kind, want[0])
	return nil
}

func conversionName(k kind) string {
	for name, to := range conversions {
		if to == k {
			return name
		}
	}
	return k.String()
}

// within is where in the file a place of an expression is, if the expression is on one line as it is written.
func (b *binder) within(e Expr, ce *celError) place {
	if ce.line != 1 || e.at.line < 1 || e.at.line > len(b.lines) {
		return e.at
	}
	line := []rune(b.lines[e.at.line-1])
	if from := min(max(e.at.col-1, 0), len(line)); from < len(line) {
		if i := strings.Index(string(line[from:]), e.Text); i >= 0 {
			return place{line: e.at.line, col: from + len([]rune(string(line[from:])[:i])) + ce.col}
		}
	}
	return e.at
}

// columns compiles the columns of a table. words are what a column may hold beside parts of the identity: the effect fills it.
func (c *compiler) columns(cols Columns, path string, words ...string) []column {
	var all []column
	for _, col := range cols {
		at := join(path, col.Name)
		c.identifier(col.Name, at)
		if slices.Contains(words, col.Value.Text) {
			if slices.ContainsFunc(all, func(o column) bool { return o.role == col.Value.Text }) {
				c.fault("columns", at, "", "another column holds the %s already", col.Value.Text)
				continue
			}
			all = append(all, column{Column: col, role: col.Value.Text})
			continue
		}
		e := col.Value
		if r, ok := roles[e.Text]; ok {
			e.Text = r
		}
		p := c.expr(e, at, c.full)
		if p == nil {
			continue
		}
		if p.kind == noKind || p.kind == mapKind {
			c.report(Fault, "expression", e.at, at, "", "%s is no value that a column holds", e.Text)
			continue
		}
		if col.Absent != "" && !p.optional {
			c.fault("no-effect", at+".absent", "write $.?name for what may be missing", "%s is never absent", e.Text)
		}
		col.Note = col.Note || notes[e.Text]
		all = append(all, column{col, p, e.Text})
	}
	return all
}

// find returns the column with a role, and the others.
func find(cols []column, role string) (name string, rest []column) {
	for _, col := range cols {
		if col.role == role && name == "" {
			name = col.Name
		} else {
			rest = append(rest, col)
		}
	}
	return name, rest
}

var kinds = map[kind]pawl.Kind{
	dynKind: pawl.KindText, textKind: pawl.KindText, intKind: pawl.KindInt, decimalKind: pawl.KindDecimal, boolKind: pawl.KindBool,
	timeKind: pawl.KindTime, jsonKind: pawl.KindJSON,
}

// Column makes of it what effects take.
func (col column) effect() effect.Column[*Document] {
	return effect.Column[*Document]{Name: col.Name, Kind: kinds[col.kind], Note: col.Note,
		Value: func(e *pawl.Envelope[*Document]) (any, error) {
			v, err := col.eval(inputOf(e))
			if err != nil {
				return nil, err
			}
			if v == absent && col.Absent == "keep" {
				return effect.Keep, nil
			}
			return stored(v, col.kind, col.text)
		}}
}

func effectColumns(cols []column) []effect.Column[*Document] {
	out := make([]effect.Column[*Document], len(cols))
	for i, col := range cols {
		out[i] = col.effect()
	}
	return out
}

func inputOf(e *pawl.Envelope[*Document]) *input {
	return &input{doc: e.Body, id: &e.Identity, headers: e.Headers}
}

// stored makes of a value what a column of its kind holds.
func stored(v any, k kind, text string) (any, error) {
	if v == absent || v == nil && k != jsonKind {
		return nil, nil
	}
	switch k {
	case dynKind:
		if _, ok := v.(string); !ok {
			return nil, fmt.Errorf("%s is %s: say what the column holds, as in int(%s), decimal(%s), bool(%s) or json(%s)",
				text, describe(v), text, text, text, text)
		}
		return v, nil
	case jsonKind:
		out, err := json.Marshal(plain(v))
		return json.RawMessage(out), err
	case decimalKind:
		d, err := convert(v, decimalKind)
		if err != nil {
			return nil, err
		}
		return d.(decimal).text(), nil
	case timeKind:
		t, err := convert(v, timeKind)
		if err != nil {
			return nil, err
		}
		if y := t.(time.Time).UTC().Year(); y < 1 || y > 9999 {
			return nil, fmt.Errorf("%s is in year %d, outside 1 to 9999", text, y)
		}
		return t, nil
	}
	return convert(v, k)
}

// plain makes of a value what encoding/json writes exactly.
func plain(v any) any {
	switch v := v.(type) {
	case decimal:
		return json.Number(v.text())
	case map[string]any:
		for _, e := range v {
			if needsPlain(e) {
				out := make(map[string]any, len(v))
				for k, e := range v {
					out[k] = plain(e)
				}
				return out
			}
		}
	case []any:
		for _, e := range v {
			if needsPlain(e) {
				out := make([]any, len(v))
				for i, e := range v {
					out[i] = plain(e)
				}
				return out
			}
		}
	}
	return v
}

func needsPlain(v any) bool {
	switch v.(type) {
	case decimal, map[string]any, []any:
		return true
	}
	return v == absent
}
