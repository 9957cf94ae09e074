package pipeline

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
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

// place is where something is in a file; both from 1.
type place struct{ line, col int }

// node is a value of a file: what is left of YAML once anchors, tags and merge keys are refused.
type node struct {
	kind    nodeKind
	at      place
	text    string // of a scalar: its value as text, before variables are replaced
	keys    []key  // of a mapping
	items   []*node
	literal bool // a scalar that was quoted, or a block: it is text, whatever it looks like
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
	hidden   []string // secrets that are written down in the file
}

// masked returns the findings, without what must not be shown.
func (s *source) masked() []Finding {
	for i := range s.findings {
		for _, h := range s.hidden {
			s.findings[i].Excerpt = strings.ReplaceAll(s.findings[i].Excerpt, h, "***")
		}
		s.findings[i].Excerpt = clip(s.findings[i].Excerpt, 160)
	}
	return s.findings
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
	if at.line > 0 && at.line <= len(s.lines) {
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
	if !s.bounded(content) {
		return nil
	}
	s.lines = strings.Split(strings.ReplaceAll(string(content), "\r\n", "\n"), "\n")
	defer func() {
		if p := recover(); p != nil { // the parser of a library, given anything
			s.fault("syntax", place{1, 1}, "", "", "this is not YAML that can be read: %v", p)
			root = nil
		}
	}()
	file, err := parser.ParseBytes(content, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		at, message := place{1, 1}, err.Error()
		if e, ok := err.(yaml.Error); ok {
			message = e.GetMessage()
			if tk := e.GetToken(); tk != nil && tk.Position != nil {
				at = place{tk.Position.Line, tk.Position.Column}
			}
		}
		s.fault("syntax", at, "", "", "%s", message)
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
		s.fault("syntax", place{1, 1}, "", "", "the file is empty")
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
		s.fault("too-large", place{line, 1}, "", "", format, args...)
		return false
	}
	switch {
	case len(content) > maxFileBytes:
		return bad(0, "the file has %d bytes; at most %d are read", len(content), maxFileBytes)
	case !utf8.Valid(content):
		s.fault("syntax", place{}, "", "", "the file is not UTF-8")
		return false
	case bytes.IndexByte(content, 0) >= 0:
		s.fault("syntax", place{}, "", "", "the file holds a NUL byte")
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
		if cr := bytes.IndexByte(line, '\r'); cr >= 0 && cr < len(line)-1 {
			s.fault("syntax", place{i + 1, cr + 1}, "", "", "a line ends with a carriage return alone")
			return false
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

func where(n ast.Node) place {
	if tk := n.GetToken(); tk != nil && tk.Position != nil {
		return place{max(tk.Position.Line, 1), max(tk.Position.Column, 1)}
	}
	return place{1, 1}
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
		return &node{at: place{1, 1}}
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
			l.items = append(l.items, s.convert(v, fmt.Sprintf("%s[%d]", path, i), depth+1))
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
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode, *ast.TagNode, *ast.DirectiveNode:
		s.fault("syntax", where(n), path, "write it out, or use a variable", "anchors, aliases, merge keys and tags are not read")
		return &node{at: where(n)}
	}
	s.fault("syntax", where(n), path, "", "this is no value (%s)", n.Type())
	return &node{at: where(n)}
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
	default:
		s.fault("syntax", at, path, "", "this is no name of a key")
		return
	}
	if line, twice := seen[name]; twice {
		s.fault("twice", at, join(path, name), "remove one of them", "%q is there already, in line %d", clip(name, 60), line)
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
