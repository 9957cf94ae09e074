package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// place is where something is in a file; both from 1. What was given beside the files has neither, and says where it is from.
type place struct {
	line, col int
	from      string
}

func (p place) known() bool { return p.line > 0 || p.from != "" }

// source is a file while it is read.
type source struct {
	name     string
	most     int // values that are read. Default: maxNodes
	nodes    int
	lines    []string
	findings []Finding
	hidden   []hidden // secrets that are written down in the file
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

// faults is how many of the findings keep the file from running.
func (s *source) faults() int {
	n := 0
	for _, f := range s.findings {
		if f.Severity == Fault {
			n++
		}
	}
	return n
}

// failedWithin reports whether something is wrong at a path, or below it.
func (s *source) failedWithin(path string) bool {
	below := path + "."
	return slices.ContainsFunc(s.findings, func(f Finding) bool {
		return f.Severity == Fault && (f.Path == path || strings.HasPrefix(f.Path, below))
	})
}

// isNoMapping reports whether a mapping was expected at a path, and something else was there.
func (s *source) isNoMapping(path string) bool {
	return slices.ContainsFunc(s.findings, func(f Finding) bool { return f.Path == path && f.Rule == "type" })
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
