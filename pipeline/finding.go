package pipeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity says whether a finding keeps a pipeline from running.
type Severity string

const (
	Fault   Severity = "error"   // it does not run
	Warning Severity = "warning" // it runs, and somebody should know
)

// Finding is one thing that is wrong with a file.
type Finding struct {
	Rule     string   `json:"rule"` // one of Rules
	Severity Severity `json:"severity"`
	File     string   `json:"file"`
	Line     int      `json:"line,omitempty"` // from 1; 0: the file as a whole
	Col      int      `json:"col,omitempty"`  // from 1
	Path     string   `json:"path,omitempty"` // such as pipelines.orders.once_per
	Message  string   `json:"message"`
	Hint     string   `json:"hint,omitempty"`    // what to do
	Excerpt  string   `json:"excerpt,omitempty"` // the line, as it is written: variables are not expanded in it

	caret int // where in Excerpt the place is, from 1: what was masked or left out before it does not count. 0: at Col
}

// String is "file:line:col: error: message [rule]".
func (f Finding) String() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", f.Line, f.Col)
	}
	fmt.Fprintf(&b, ": %s: %s [%s]", f.Severity, f.Message, f.Rule)
	return b.String()
}

// Text is String, with the excerpt, a caret below the place, and the hint.
func (f Finding) Text() string {
	var b strings.Builder
	b.WriteString(f.String())
	b.WriteByte('\n')
	if f.Excerpt != "" {
		// Tabs stay tabs, so that the caret is below its place however wide they are shown.
		indent := strings.Map(func(r rune) rune {
			if r == '\t' {
				return r
			}
			return ' '
		}, string([]rune(f.Excerpt)[:min(max(cmp.Or(f.caret, f.Col)-1, 0), len([]rune(f.Excerpt)))]))
		fmt.Fprintf(&b, "%6d | %s\n       | %s^\n", f.Line, f.Excerpt, indent)
	}
	if f.Hint != "" {
		fmt.Fprintf(&b, "         %s\n", f.Hint)
	}
	return b.String()
}

// Refused is the error of what does not run: it has at least one Fault.
type Refused struct{ Findings []Finding }

func (e *Refused) Error() string {
	var b strings.Builder
	n := 0
	for _, f := range e.Findings {
		if f.Severity == Fault {
			if n++; n > 1 {
				b.WriteByte('\n')
			}
			b.WriteString(strings.TrimSuffix(f.Text(), "\n"))
		}
	}
	return b.String()
}

// sorted puts findings in the order of the files, and drops repetitions.
func sorted(all []Finding) []Finding {
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col),
			strings.Compare(a.Rule, b.Rule))
	})
	return slices.Compact(all)
}

// Rule is something that is checked.
type Rule struct {
	ID  string `json:"id"`
	Why string `json:"why"`
}

// nearest returns the word that name was probably meant to be, or "".
func nearest(name string, words []string) string {
	best, least := "", 3 // a distance of 3 is another word
	if len(name) > 64 {
		return ""
	}
	for _, w := range words {
		if d := distance(strings.ToLower(name), strings.ToLower(w)); d < least && d*2 <= max(len(name), len(w)) {
			best, least = w, d
		}
	}
	return best
}

// distance counts the letters to add, drop, replace or swap with their neighbour.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	before, last, row := []int(nil), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := range x {
		row[0] = i + 1
		for j := range y {
			cost := 1
			if x[i] == y[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, make([]int, len(y)+1)
	}
	return last[len(y)]
}
