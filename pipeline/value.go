package pipeline

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/secret"
)

// Strings is a text, or a list of texts.
type Strings []string

// Transitions are, for each state, those that may follow, in the order of the file.
type Transitions []Transition

// Transition is one of [Transitions].
type Transition struct {
	From string
	To   []string
}

// Columns are in the order of the file.
type Columns []Column

// Column is what a column of a table holds.
type Column struct {
	Name   string `yaml:"-"`
	Value  Expr   `yaml:"value" need:"yes" doc:"What it holds."`
	Note   bool   `yaml:"note" doc:"It describes the event, not the state: two events that differ in nothing else say the same."`
	Absent string `yaml:"absent" enum:"null|keep" doc:"What to do where $.?name is missing: store null, or keep what is there. Default: null."`
}

// Headers are sent with a request, in the order of the file.
type Headers []Header

// Header is one of [Headers]. Whatever it is, it is kept as a secret.
type Header struct {
	Name  string
	Value secret.Ref
}

// Get returns the column with a name, or nil.
func (c Columns) Get(name string) *Column {
	for i := range c {
		if c[i].Name == name {
			return &c[i]
		}
	}
	return nil
}

// Duration is a time.Duration, written 90s, 10m, 12h or 7d.
type Duration time.Duration

func (d Duration) String() string {
	if day := Duration(24 * time.Hour); d != 0 && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return time.Duration(d).String()
}

func parseDuration(text string) (Duration, bool) {
	days, isDays := strings.CutSuffix(text, "d")
	if n, err := strconv.ParseUint(days, 10, 16); isDays && err == nil {
		return Duration(n) * Duration(24*time.Hour), true
	}
	d, err := time.ParseDuration(text)
	return Duration(d), err == nil && d > 0
}

// Expr is an expression: a plain path, or CEL.
type Expr struct {
	Text string
	at   place
}

// IsZero reports whether there is none.
func (e Expr) IsZero() bool { return e.Text == "" }

func (e Expr) String() string { return e.Text }

// What follows says how each type is read from a file, and what the schema says of it. Types of other shapes are read by
// their fields: see bind.go.

type binds interface {
	bind(b *binder, n *node, path string)
	schema() map[string]any
}

func (s *Strings) bind(b *binder, n *node, path string) {
	if n.kind != listNode {
		if text, ok := b.word(n, path); ok {
			*s = Strings{text}
		}
		return
	}
	for i, item := range n.items {
		at := fmt.Sprintf("%s[%d]", path, i)
		b.mark(at, item.at, item)
		if text, ok := b.word(item, at); ok {
			*s = append(*s, text)
		}
	}
}

func (s *Strings) schema() map[string]any {
	return map[string]any{"oneOf": []any{
		map[string]any{"type": "string", "minLength": 1},
		map[string]any{"type": "array", "minItems": 1, "items": map[string]any{"type": "string", "minLength": 1}},
	}}
}

func (d *Duration) bind(b *binder, n *node, path string) {
	text, ok := b.text(n, path)
	if !ok {
		return
	}
	v, ok := parseDuration(text)
	if !ok { // without the text, which may come from a variable
		b.fault("type", n.at, path, "write 90s, 10m, 12h or 7d", "%s is no time", name(path))
	}
	*d = v
}

func (d *Duration) schema() map[string]any {
	return map[string]any{"type": "string", "pattern": `^([0-9]+d|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$|^\$\{`}
}

func (e *Expr) bind(b *binder, n *node, path string) {
	if text, ok := b.text(n, path); ok {
		*e = Expr{strings.TrimSpace(text), n.at}
	}
}

func (e *Expr) schema() map[string]any {
	return map[string]any{"type": []any{"string", "integer", "boolean"}}
}

func (c *Columns) bind(b *binder, n *node, path string) {
	if !b.mapping(n, path) {
		return
	}
	for i, k := range n.keys {
		col, item, at := Column{Name: k.name}, n.items[i], join(path, k.name)
		if item.kind == mappingNode {
			b.bind(item, &col, at)
		} else {
			col.Value.bind(b, item, at)
		}
		b.mark(at, k.at, item)
		*c = append(*c, col)
	}
}

func (c *Columns) schema() map[string]any {
	return map[string]any{"type": "object", "minProperties": 1, "additionalProperties": map[string]any{
		"oneOf": []any{(*Expr)(nil).schema(), refer(Column{})},
	}}
}

func (h *Headers) bind(b *binder, n *node, path string) {
	if !b.mapping(n, path) {
		return
	}
	for i, k := range n.keys {
		at := join(path, k.name)
		b.mark(at, k.at, n.items[i])
		*h = append(*h, Header{k.name, b.secretRef(n.items[i], at)})
	}
}

func (h *Headers) schema() map[string]any {
	return map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string", "minLength": 1}}
}

func (t *Transitions) bind(b *binder, n *node, path string) {
	if !b.mapping(n, path) {
		return
	}
	for i, k := range n.keys {
		var to Strings
		if at := join(path, k.name); n.items[i].kind != nullNode {
			to.bind(b, n.items[i], at)
		}
		b.mark(join(path, k.name), k.at, n.items[i])
		*t = append(*t, Transition{k.name, to})
	}
}

func (t *Transitions) schema() map[string]any {
	return map[string]any{"type": "object", "additionalProperties": map[string]any{"oneOf": []any{
		(*Strings)(nil).schema(), map[string]any{"type": "array", "maxItems": 0}, map[string]any{"type": "null"},
	}}}
}

func (p *Pipelines) bind(b *binder, n *node, path string) {
	if !b.mapping(n, path) {
		return
	}
	if len(n.keys) == 0 {
		b.fault("required", n.at, path, "pawl init writes one to begin with", "there are no pipelines")
	}
	for i, k := range n.keys {
		pl := &Pipeline{Name: k.name}
		pl.path = join(path, k.name)
		b.mark(pl.path, k.at, n.items[i])
		b.bind(n.items[i], pl, pl.path)
		*p = append(*p, pl)
	}
}

func (p *Pipelines) schema() map[string]any {
	return map[string]any{"type": "object", "minProperties": 1, "additionalProperties": refer(Pipeline{})}
}

var earlyActs = []string{"ignore", "quarantine", "requery"}

func (e *Early) bind(b *binder, n *node, path string) {
	if n.kind == mappingNode {
		b.fields(n, e, path)
		return
	}
	text, ok := b.text(n, path)
	if !ok {
		return
	}
	if _, isTime := parseDuration(text); isTime || text == "hold" {
		if !isTime {
			text = "10m"
		}
		b.fault("value", n.at, path, "write early: {hold: "+text+", then: quarantine}", "how long to wait is said with hold")
		return
	}
	if b.oneOf(n, path, text, earlyActs) {
		e.Act = text
	}
}

func (e *Early) schema() map[string]any {
	s := object(*e)
	s["required"] = []any{"hold"}
	return map[string]any{"oneOf": []any{map[string]any{"enum": anys(earlyActs)}, s}}
}

// secretRef reads a secret.Ref, which is another package's type.
func (b *binder) secretRef(n *node, path string) (ref secret.Ref) {
	if n.kind != scalarNode || n.text == "" {
		b.hide(n)
		b.fault("type", n.at, path, "write ${file:/path} or ${NAME}", "%s must be a text", name(path))
		return ref
	}
	b.bare(n, path)
	ref, err := reference(n.text, b.env)
	all, _ := parts(n.text)
	for _, p := range all {
		if p.name == "" && p.file == "" {
			b.hidden = append(b.hidden, hidden{p.text, n.at})
		} else if p.word != "" {
			b.hidden = append(b.hidden, hidden{p.word, n.at})
		}
	}
	shown := "***"
	if !ref.Inline() {
		shown = ref.String()
	}
	b.setting(path, shown, n, "")
	if err != nil {
		b.hidden = append(b.hidden, hidden{n.text, n.at})
		b.fault("variable", n.at, path, "write ${NAME}, ${NAME:-default}, ${NAME:?message} or ${file:/path}, and $$ for a dollar sign", "%v", err)
	}
	return ref
}

func anys[T any](list []T) []any {
	all := make([]any, len(list))
	for i, v := range list {
		all[i] = v
	}
	return all
}
