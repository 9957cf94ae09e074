package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	formatTable = "table"
	formatJSON  = "json"
	formatJSONL = "jsonl"
	formatYAML  = "yaml"
	formatCSV   = "csv"
)

var formats = []string{formatTable, formatJSON, formatJSONL, formatYAML, formatCSV}

// apiVersion is that of every document. Fields are added under it; none changes its meaning or goes away.
const apiVersion = "pawl/v1"

// column is one column of a table and of CSV.
type column[T any] struct {
	name  string
	of    func(T) string
	color func(T) string // nil: none; an ANSI color
}

// listing is a list of things of one kind.
type listing[T any] struct {
	kind    string // of one of them; the document is of kind …List
	items   []T
	columns []column[T]
	empty   string // what a person is told where there is none, on stderr
}

func printList[T any](a *app, l listing[T]) error {
	if l.items == nil {
		l.items = []T{}
	}
	switch a.format {
	case formatJSON, formatYAML:
		return a.printDocument(l.kind+"List", struct {
			Items []T `json:"items"`
		}{l.items})
	case formatJSONL:
		for _, item := range l.items {
			if err := a.printDocument(l.kind, item); err != nil {
				return err
			}
		}
		return nil
	case formatCSV:
		w := csv.NewWriter(a.plainOut())
		var head []string
		for _, c := range l.columns {
			head = append(head, c.name)
		}
		w.Write(head) // what fails is kept until Flush
		for _, item := range l.items {
			var row []string
			for _, c := range l.columns {
				row = append(row, c.of(item))
			}
			w.Write(row)
		}
		w.Flush()
		return w.Error()
	}
	if len(l.items) == 0 {
		if l.empty != "" {
			a.note("%s", l.empty)
		}
		return nil
	}
	_, err := io.WriteString(a.out, tableText(a, l.items, l.columns))
	return err
}

// printObject writes one thing; text writes it for people.
func (a *app) printObject(kind string, v any, text func(w io.Writer)) error {
	switch a.format {
	case formatCSV:
		return usage("csv is for lists: use -o json for a single %s", strings.ToLower(kind))
	case formatTable:
		var b bytes.Buffer
		text(&b)
		_, err := a.out.Write(b.Bytes())
		return err
	}
	return a.printDocument(kind, v)
}

// printDocument writes v, which must be an object, with its kind in front.
func (a *app) printDocument(kind string, v any) error {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write %s: %w", kind, err)
	}
	rest := escapeControls(strings.TrimSpace(body.String()))[1:]
	if rest != "}" {
		rest = "," + rest
	}
	doc := []byte(fmt.Sprintf(`{"apiVersion":%q,"kind":%q`, apiVersion, kind) + rest)
	switch a.format {
	case formatYAML:
		text, err := asYAML(doc)
		if err != nil {
			return fmt.Errorf("write %s: %w", kind, err)
		}
		_, err = io.WriteString(a.out, text)
		return err
	case formatJSON:
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, doc, "", "  "); err != nil {
			return fmt.Errorf("write %s: %w", kind, err)
		}
		doc = pretty.Bytes()
	}
	_, err := a.out.Write(append(doc, '\n'))
	return err
}

// escapeControls writes what steers terminals, and JSON takes as it is, as \u…: it means the same. Outside of texts there is
// none of it.
func escapeControls(doc string) string {
	var b strings.Builder
	for _, r := range doc {
		if r >= 0x7f && !unicode.IsPrint(r) && r != utf8.RuneError {
			for _, u := range utf16.AppendRune(nil, r) {
				fmt.Fprintf(&b, `\u%04x`, u)
			}
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// plainOut is stdout for CSV, which has no way to write what steers terminals: to a file or a pipe it goes as it is, to a terminal
// without.
func (a *app) plainOut() io.Writer {
	if isTerminal(a.out) {
		return printableWriter{a.out}
	}
	return a.out
}

type printableWriter struct{ out io.Writer }

func (w printableWriter) Write(p []byte) (int, error) {
	_, err := io.WriteString(w.out, printable(string(p)))
	return len(p), err
}

// note tells a person something that is not data.
func (a *app) note(format string, args ...any) { fmt.Fprintf(a.err, format+"\n", args...) }

// minding remembers what could not be written, for those who write and do not look.
type minding struct {
	io.Writer
	err error
}

func (m *minding) Write(p []byte) (int, error) {
	n, err := m.Writer.Write(p)
	if err != nil && m.err == nil {
		m.err = err
	}
	return n, err
}

const mostCell = 72 // characters of a cell; what is longer is in the other formats, and in show

func tableText[T any](a *app, items []T, columns []column[T]) string {
	rows := make([][]string, 0, len(items)+1)
	var head []string
	for _, c := range columns {
		head = append(head, strings.ToUpper(c.name))
	}
	rows = append(rows, head)
	for _, item := range items {
		var row []string
		for _, c := range columns {
			text, _, _ := strings.Cut(c.of(item), "\n")
			row = append(row, shorten(printable(text), mostCell))
		}
		rows = append(rows, row)
	}
	widths := make([]int, len(columns))
	for _, row := range rows {
		for i, text := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	var b strings.Builder
	colored := a.colored()
	for n, row := range rows {
		var line strings.Builder
		for i, text := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+2)
			if f := columns[i].color; f != nil && n > 0 && colored {
				if code := f(items[n-1]); code != "" {
					text = "\x1b[" + code + "m" + text + "\x1b[0m"
				}
			}
			line.WriteString(text + pad)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// colored says whether to color what goes to stdout.
func (a *app) colored() bool {
	switch {
	case a.color == "always":
		return true
	case a.color == "never" || a.env("NO_COLOR") != "" || a.env("TERM") == "dumb":
		return false
	}
	return isTerminal(a.out)
}

func isTerminal(w any) bool {
	if m, ok := w.(*minding); ok {
		w = m.Writer
	}
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

const (
	red    = "31"
	green  = "32"
	yellow = "33"
)

// printable keeps what records and errors say from steering the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == utf8.RuneError || !unicode.IsPrint(r):
			return '�'
		}
		return r
	}, s)
}

func shorten(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// at writes a time, always with its zone; "" is none.
func (a *app) at(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return a.zone(t).Format(time.RFC3339)
}

func (a *app) zone(t time.Time) time.Time {
	if a.utc {
		return t.UTC()
	}
	return t.Local()
}

// stamp is a time of a document, to the microsecond that stores keep; nil is none.
func (a *app) stamp(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = a.zone(t).Truncate(time.Microsecond)
	return &t
}

// moment reads a time: how long ago, such as 2h, or RFC 3339, or a date.
func (a *app) moment(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return a.now().Add(-d), nil
	}
	if days, isDays := strings.CutSuffix(text, "d"); isDays { // as pipeline files write them
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return a.now().Add(-time.Duration(n) * 24 * time.Hour), nil
		}
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, a.zone(a.now()).Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usage("--%s %q is no time: give how long ago (2h, 7d), or 2006-01-02T15:04:05Z", flag, text)
}

// plural is a number and its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
