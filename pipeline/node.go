package pipeline

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Bounds of a file. They are far beyond what people write, and keep a hostile one from costing anything.
const (
	maxFileBytes = 1 << 20
	maxLineBytes = 16 << 10
	maxLines     = 20_000
	maxNesting   = 64
	maxNodes     = 5000 // values, of a file of pipelines: each may be an expression
	maxCaseNodes = 200_000
	maxFindings  = 1000
	maxSiblings  = 1000 // keys of a mapping, one a line: the parser's time grows with their square
)

// place is where something is in a file; both from 1. What was given beside the files has neither, and says where it is from.
type place struct {
	line, col int
	from      string
}

func (p place) known() bool { return p.line > 0 || p.from != "" }

// node is a value of a file: what is left of YAML once anchors, tags and merge keys are refused.
type node struct {
	kind    nodeKind
	at      place
	text    string // of a scalar: its value as text, before variables are replaced
	keys    []key  // of a mapping
	items   []*node
	literal bool // a scalar that was quoted, or a block: it is text, whatever it looks like
	unread  bool // there was more here, which was refused: what seems to be missing may have been in it
}

type key struct {
	name string
	at   place
}

type nodeKind uint8

const (
	nullNode nodeKind = iota
	scalarNode
	mappingNode
	listNode
)

func (k nodeKind) String() string {
	return [...]string{"nothing", "a value", "a mapping", "a list"}[k]
}

// get returns the value of a mapping's key, or nil.
func (n *node) get(name string) *node {
	for i, k := range n.keys {
		if k.name == name {
			return n.items[i]
		}
	}
	return nil
}

// source is a file while it is read.
type source struct {
	name     string
	most     int // values that are read. Default: maxNodes
	nodes    int
	lines    []string
	findings []Finding
	hidden   []hidden // secrets that are written down in the file
}

// hidden is a text that is not shown, and where it is.
type hidden struct {
	text string
	at   place
}

// masked returns the findings, without what must not be shown.
func (s *source) masked() []Finding {
	for i := range s.findings {
		f := &s.findings[i]
		if f.Excerpt == "" {
			continue
		}
		line := []rune(f.Excerpt)
		at := min(max(f.Col-1, 0), len(line))
		// What is before the place and from there on is masked apart, so that the caret stays below it.
		before, after := s.mask(string(line[:at]), f.Line, 1), s.mask(string(line[at:]), f.Line, at+1)
		if whole := s.mask(f.Excerpt, f.Line, 1); whole != before+after { // a secret lies across the place
			before, after = "", whole
		}
		f.Excerpt, f.caret = window(before, after)
	}
	return s.findings
}

// looksSecret finds what is a password by the look of it, in lines that could not be read as what they are.
var looksSecret = regexp.MustCompile(`(?i)(://[^\s/:@]*:)[^\s@]+(@)|(\b[a-z_.-]*(?:pass?w(?:or)?d|passphrase|secret|token)["']?\s*[:=]\s*["']?)[^\s$"'{][^\s,}"']*()`)

// mask masks a part of a line that begins at a column. A short text is masked where it is, and nowhere else.
func (s *source) mask(text string, line, col int) string {
	// From the right to the left: what is masked moves only what was done.
	for _, h := range slices.SortedFunc(slices.Values(s.hidden), func(a, b hidden) int { return b.at.col - a.at.col }) {
		if h.at.line == line {
			from := len(string([]rune(text)[:min(max(h.at.col-col, 0), len([]rune(text)))]))
			text = text[:from] + strings.Replace(text[from:], h.text, "***", 1)
		}
	}
	for _, h := range s.hidden {
		if len(h.text) >= 8 {
			text = strings.ReplaceAll(text, h.text, "***")
		}
	}
	return looksSecret.ReplaceAllString(text, "$1$3***$2$4")
}

const mostExcerpt = 160

// window bounds a line to what is around a place in it. It returns the place as well, from 1.
func window(before, after string) (line string, at int) {
	b, a := []rune(before), []rune(after)
	if len(b)+len(a) > mostExcerpt && len(b) > mostExcerpt*2/3 {
		b = append([]rune("…"), b[len(b)-mostExcerpt*2/3:]...)
	}
	if most := mostExcerpt - len(b); len(a) > most {
		a = append(a[:most:most], '…')
	}
	return string(b) + string(a), len(b) + 1
}

// hide keeps the texts of a value from being shown.
func (s *source) hide(n *node) {
	if n.kind == scalarNode && n.text != "" {
		s.hidden = append(s.hidden, hidden{n.text, n.at})
	}
	for _, item := range n.items {
		s.hide(item)
	}
}

// guarded reports whether a place of the file is where logins are: what is misplaced there may be a password.
func guarded(path string) bool {
	return strings.HasPrefix(path, "store") || strings.HasPrefix(path, "kafka")
}

// full reports that nobody reads on: what is found from now on is not kept.
func (s *source) full() bool { return len(s.findings) > maxFindings }

func (s *source) report(sev Severity, rule string, at place, path, hint, format string, args ...any) {
	switch {
	case s.full():
		return
	case len(s.findings) == maxFindings:
		sev, rule, hint, format, args = Fault, "too-large", "mend these first", "there are more findings than the %d above", []any{maxFindings}
	}
	f := Finding{
		Rule: rule, Severity: sev, File: s.name, Line: at.line, Col: at.col, Path: path,
		Message: fmt.Sprintf(format, args...), Hint: hint,
	}
	if at.from != "" {
		f.File = at.from
	} else if at.line > 0 && at.line <= len(s.lines) {
		f.Excerpt = s.lines[at.line-1]
	}
	s.findings = append(s.findings, f)
}

func (s *source) fault(rule string, at place, path, hint, format string, args ...any) {
	s.report(Fault, rule, at, path, hint, format, args...)
}

// clip bounds text that is shown.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}

// parse reads YAML. It returns nil where there is nothing to go on with.
func (s *source) parse(content []byte) (root *node) {
	// As editors on Windows, and before, write it. The bounds are about lines: first of all it is known where they end.
	content = bytes.TrimPrefix(content, []byte("\uFEFF"))
	content = bytes.ReplaceAll(bytes.ReplaceAll(content, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
	if !s.bounded(content) {
		return nil
	}
	s.lines = strings.Split(string(content), "\n")
	if !s.plain() {
		return nil
	}
	defer func() {
		if p := recover(); p != nil { // the parser of a library, given anything
			s.fault("syntax", place{line: 1, col: 1}, "", "", "this is not YAML that can be read: %v", p)
			root = nil
		}
	}()
	file, err := parser.ParseBytes(content, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		at, message := place{line: 1, col: 1}, err.Error()
		if e, ok := err.(yaml.Error); ok {
			message = e.GetMessage()
			if tk := e.GetToken(); tk != nil && tk.Position != nil {
				at = place{line: tk.Position.Line, col: tk.Position.Column}
			}
		}
		s.fault("syntax", at, "", s.syntaxHint(at, message), "%s", message)
		return nil
	}
	var docs []*ast.DocumentNode
	for _, d := range file.Docs {
		if d.Body != nil {
			docs = append(docs, d)
		}
	}
	switch len(docs) {
	case 0:
		s.fault("syntax", place{line: 1, col: 1}, "", "pawl init writes one to begin with", "the file is empty")
		return nil
	case 1:
	default:
		s.fault("syntax", where(docs[1].Body), "", "write one file for each, or put the pipelines under one key pipelines",
			"a file holds one document, and this has %d", len(docs))
		return nil
	}
	if root = s.convert(docs[0].Body, "", 0); s.nodes >= cmp.Or(s.most, maxNodes) {
		return nil
	}
	return root
}

// bounded refuses what would cost too much to parse, and what is not text.
func (s *source) bounded(content []byte) bool {
	bad := func(line int, format string, args ...any) bool {
		s.fault("too-large", place{line: line, col: 1}, "", "", format, args...)
		return false
	}
	switch {
	case len(content) > maxFileBytes:
		return bad(0, "the file has %d bytes; at most %d are read", len(content), maxFileBytes)
	case !utf8.Valid(content):
		at := place{line: 1, col: 1}
		for rest := content; len(rest) > 0; {
			r, n := utf8.DecodeRune(rest)
			if r == utf8.RuneError && n == 1 {
				break
			}
			if at.col++; r == '\n' {
				at = place{line: at.line + 1, col: 1}
			}
			rest = rest[n:]
		}
		s.fault("syntax", at, "", "save the file as UTF-8", "the file is not UTF-8")
		return false
	case bytes.IndexByte(content, 0) >= 0:
		before := content[:bytes.IndexByte(content, 0)]
		at := place{line: 1 + bytes.Count(before, []byte("\n")), col: utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1}
		s.fault("syntax", at, "", "save the file as UTF-8", "the file holds a NUL byte")
		return false
	}
	open, siblings := 0, indents{}
	for i, line := range bytes.Split(content, []byte("\n")) {
		if i >= maxLines {
			return bad(i+1, "the file has more than %d lines", maxLines)
		}
		if len(line) > maxLineBytes {
			return bad(i+1, "the line has %d bytes; at most %d are read", len(line), maxLineBytes)
		}
		if siblings.line(line) > maxSiblings {
			return bad(i+1, "more than %d lines follow each other with this indent", maxSiblings)
		}
		for _, c := range line {
			switch c {
			case '[', '{':
				if open++; open > 4*maxNesting {
					return bad(i+1, "%d brackets are open here", open)
				}
			case ']', '}':
				open = max(open-1, 0)
			}
		}
		// "- - - -" nests without brackets.
		if bytes.Count(line, []byte("- ")) > 8*maxNesting || bytes.Count(line, []byte("? ")) > 8*maxNesting {
			return bad(i+1, "too many lists within lists on one line")
		}
	}
	return true
}

// indents counts, for each indent, the lines that may be keys of one mapping.
type indents map[int]int

func (c indents) line(line []byte) int {
	rest := bytes.TrimLeft(line, " ")
	if len(bytes.TrimSpace(rest)) == 0 || rest[0] == '#' {
		return 0
	}
	indent := len(line) - len(rest)
	for deeper := range c {
		if deeper > indent {
			delete(c, deeper)
		}
	}
	if bytes.HasPrefix(rest, []byte("- ")) { // each item is a mapping of its own
		return 0
	}
	c[indent]++
	return c[indent]
}

// plain refuses characters that YAML does not take as they are, and that would steer a terminal.
func (s *source) plain() bool {
	ok := true
	for i, line := range s.lines {
		for j, r := range []rune(line) {
			if r != '\t' && unicode.IsControl(r) {
				s.fault("syntax", place{line: i + 1, col: j + 1}, "", `remove it, or write it in quotes as "\x1b"`, "a control character (%U) is not read", r)
				ok = false
				break
			}
		}
	}
	return ok
}

// syntaxHint says what mostly is behind what the parser says.
func (s *source) syntaxHint(at place, message string) string {
	line := ""
	if at.line > 0 && at.line <= len(s.lines) {
		line = s.lines[at.line-1]
	}
	switch indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]; {
	case strings.Contains(indent, "\t"):
		return "indent with spaces: YAML takes no tabs there"
	case strings.Contains(message, "end character of"):
		return "close the quote; a quote within quotes is written twice, or with a backslash before it in double quotes"
	case strings.Contains(message, "reserved character"):
		return "put the value in quotes"
	case strings.Contains(message, "mapping value is not allowed"):
		return "put a text that has \": \" in it in quotes; or is a line too far to the right?"
	case strings.Contains(message, "must be specified"):
		return "close the bracket, and put texts that have brackets in them in quotes"
	}
	return "is every line as far to the right as the other keys of its mapping? Texts with : # [ ] { } or quotes in them go in quotes"
}

func where(n ast.Node) place {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
		n = m.Values[0].Key
	} else if v, ok := n.(*ast.MappingValueNode); ok {
		n = v.Key
	}
	if tk := n.GetToken(); tk != nil && tk.Position != nil {
		return place{line: max(tk.Position.Line, 1), col: max(tk.Position.Column, 1)}
	}
	return place{line: 1, col: 1}
}

// convert makes a node, and reports what Pawl does not take of YAML.
func (s *source) convert(n ast.Node, path string, depth int) *node {
	if depth > maxNesting {
		s.fault("too-large", where(n), path, "", "it is nested more than %d deep", maxNesting)
		return &node{kind: nullNode, at: where(n)}
	}
	if s.nodes++; s.nodes >= cmp.Or(s.most, maxNodes) {
		if s.nodes == cmp.Or(s.most, maxNodes) {
			s.fault("too-large", where(n), path, "split the file", "the file has more than %d values", s.nodes)
		}
		return &node{kind: nullNode, at: where(n)}
	}
	switch n := n.(type) {
	case nil:
		return &node{at: place{line: 1, col: 1}}
	case *ast.NullNode:
		return &node{kind: nullNode, at: where(n)}
	case *ast.MappingNode:
		m := &node{kind: mappingNode, at: where(n)}
		if len(n.Values) > 0 {
			m.at = where(n.Values[0].Key)
		}
		seen := make(map[string]int, len(n.Values))
		for _, v := range n.Values {
			s.member(m, seen, v, path, depth)
		}
		return m
	case *ast.MappingValueNode:
		m := &node{kind: mappingNode, at: where(n.Key)}
		s.member(m, map[string]int{}, n, path, depth)
		return m
	case *ast.SequenceNode:
		l := &node{kind: listNode, at: where(n)}
		for i, v := range n.Values {
			item := unglue(v)
			if item == nil {
				item = s.convert(v, fmt.Sprintf("%s[%d]", path, i), depth+1)
			}
			l.items = append(l.items, item)
		}
		return l
	case *ast.LiteralNode:
		return &node{kind: scalarNode, at: where(n), text: n.Value.Value, literal: true}
	case *ast.StringNode:
		quoted := strings.HasPrefix(n.Token.Origin, `"`) || strings.HasPrefix(n.Token.Origin, "'")
		if origin := strings.TrimSpace(n.Token.Origin); origin != "" {
			quoted = origin[0] == '"' || origin[0] == '\''
		}
		return &node{kind: scalarNode, at: where(n), text: n.Value, literal: quoted}
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return &node{kind: scalarNode, at: where(n), text: n.GetToken().Value}
	case *ast.AnchorNode:
		s.unread(where(n), path)
		return s.convert(n.Value, path, depth+1)
	case *ast.TagNode:
		s.unread(where(n), path)
		return s.convert(n.Value, path, depth+1)
	case *ast.AliasNode, *ast.MergeKeyNode, *ast.DirectiveNode:
		s.unread(where(n), path)
		return &node{at: where(n), unread: true}
	}
	s.fault("syntax", where(n), path, "", "this is no value (%s)", n.Type())
	return &node{at: where(n)}
}

func (s *source) unread(at place, path string) {
	s.fault("syntax", at, path, "write it out, or use a variable", "anchors, aliases, merge keys and tags are not read")
}

// unglue makes a text again of host:9092, which the parser takes for a mapping in a list that is within braces: in YAML a key
// ends with a colon and a space. It returns nil for everything else.
func unglue(item ast.Node) *node {
	if m, ok := item.(*ast.MappingNode); ok && len(m.Values) == 1 {
		item = m.Values[0]
	}
	v, ok := item.(*ast.MappingValueNode)
	if !ok || v.Value == nil || v.Value.GetToken() == nil {
		return nil
	}
	key, ok := v.Key.(*ast.StringNode)
	if !ok {
		return nil
	}
	from, to := key.GetToken(), v.Value.GetToken()
	plain := strings.TrimSpace(from.Origin) == key.Value && !strings.ContainsAny(strings.TrimSpace(to.Origin), `"'`)
	if !plain || from.Position.Line != to.Position.Line || to.Position.Column != from.Position.Column+utf8.RuneCountInString(key.Value)+1 {
		return nil
	}
	text := ""
	switch value := v.Value.(type) {
	case *ast.StringNode:
		text = value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		text = to.Value
	case *ast.MappingNode, *ast.MappingValueNode:
		rest := unglue(value)
		if rest == nil {
			return nil
		}
		text = rest.text
	default:
		return nil
	}
	return &node{kind: scalarNode, at: where(key), text: key.Value + ":" + text, literal: true}
}

// member adds a member to a mapping. seen are the lines of those that it has, by name.
func (s *source) member(m *node, seen map[string]int, v *ast.MappingValueNode, path string, depth int) {
	at := where(v.Key)
	var name string
	switch k := v.Key.(type) {
	case *ast.StringNode:
		name = k.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		name = k.GetToken().Value
	case *ast.MergeKeyNode:
		s.unread(at, path)
		m.unread = true
		return
	default:
		s.fault("syntax", at, path, "a key is a word, in quotes if it has other characters", "this is no name of a key")
		return
	}
	if line, twice := seen[name]; twice {
		s.fault("twice", at, join(path, name), "remove one of them", "%q is there already, in line %d", clip(name, 60), line)
		if guarded(path) {
			s.hide(s.convert(v.Value, join(path, name), depth+1))
		}
		return
	}
	seen[name] = at.line
	value := s.convert(v.Value, join(path, name), depth+1)
	if value.kind == nullNode {
		value.at = at
	}
	m.keys = append(m.keys, key{name, at})
	m.items = append(m.items, value)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
