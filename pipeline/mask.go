package pipeline

import (
	"regexp"
	"slices"
	"strings"
)

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
