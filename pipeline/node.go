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
