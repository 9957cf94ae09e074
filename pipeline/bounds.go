package pipeline

import (
	"bytes"
	"unicode"
	"unicode/utf8"
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
