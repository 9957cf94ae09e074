package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// Files of one's own are played as people play them, each of the examples too.
func TestDevPlaysFilesOfYourOwn(t *testing.T) {
	t.Parallel()
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, params("testdata/script/dev", func(env *testscript.Env) error {
		env.Setenv("EXAMPLES", examples)
		return nil
	}))
}

func TestTheLiveViewIsDrawnFromItsState(t *testing.T) {
	for _, c := range []struct {
		name  string
		state liveState
		want  string
	}{
		{"the beginning", liveState{left: -1}, `until Ctrl-C
deliveries   0 sent, 0 settled, 0 waiting
outcomes     nothing
kills        none yet
offsets      ahead of the effects in 0 of 0 samples
without Pawl 0 effects doubled so far`},
		{"in the middle", liveState{
			left: 12 * time.Second, sent: 1204, waiting: 38, effects: 2, outcomes: map[string]int{"applied": 940, "duplicate": 180, "stale": 12, "quarantined": 34},
			kills: map[string]int{"committed": 2, "effected": 1, "advanced": 1, "anywhere": 1}, lastKill: "effected", samples: 812, doubled: 57,
		}, `12s left
deliveries   1204 sent, 1166 settled, 38 waiting
outcomes     940 applied, 180 duplicate, 34 quarantined, 12 stale (over 2
             effects)
kills        5: 2 right after the commit, 1 at a random moment, 1 right before
             the commit, 1 with the effect uncommitted
last kill    with the effect uncommitted
offsets      ahead of the effects in 0 of 812 samples
without Pawl 57 effects doubled so far`},
		{"the end", liveState{left: 0, sent: 1300, waiting: 7, ahead: 1, samples: 900}, `no more traffic and no more kills: waiting until all is settled
deliveries   1300 sent, 1293 settled, 7 waiting
outcomes     nothing
kills        none yet
offsets      ahead of the effects in 1 of 900 samples
without Pawl 0 effects doubled so far`},
	} {
		if got := strings.Join(c.state.lines(), "\n"); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// terminal is what a terminal makes of cursor movements, as far as the view uses them.
type terminal struct {
	lines []string
	row   int
	wraps bool
}

func (term *terminal) Write(p []byte) (int, error) {
	rest := string(p)
	for rest != "" {
		if code, after, ok := escapeOf(rest); ok {
			rest = after
			switch {
			case code == "?7l" || code == "?7h":
				term.wraps = code == "?7h"
			case code == "2K":
				term.line()
				term.lines[term.row] = ""
			case code == "J":
				term.lines = term.lines[:min(term.row, len(term.lines))]
			case strings.HasSuffix(code, "A"):
				n := 0
				for _, c := range strings.TrimSuffix(code, "A") {
					n = n*10 + int(c-'0')
				}
				term.row -= n
			}
			continue
		}
		switch rest[0] {
		case '\n':
			term.row++
		case '\r':
		default:
			term.line()
			term.lines[term.row] += rest[:1]
		}
		rest = rest[1:]
	}
	return len(p), nil
}

func (term *terminal) line() {
	for len(term.lines) <= term.row {
		term.lines = append(term.lines, "")
	}
}

func escapeOf(s string) (code, rest string, ok bool) {
	body, ok := strings.CutPrefix(s, "\x1b[")
	if !ok {
		return "", s, false
	}
	end := strings.IndexFunc(body, func(r rune) bool { return r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' })
	return body[:end+1], body[end+1:], true
}

func TestTheLiveViewIsDrawnInPlace(t *testing.T) {
	term := &terminal{wraps: true}
	term.Write([]byte("before\n"))
	s := &screen{to: term}
	for _, picture := range [][]string{{"a", "bb", "ccc"}, {"x", "y", "z", "more"}, {"less"}, {"with \x1b[2J in it", "end"}} {
		s.draw(picture)
		want := []string{"before"}
		for _, line := range picture {
			want = append(want, printable(line))
		}
		if got := strings.Join(term.lines, "\n"); got != strings.Join(want, "\n") || term.row != len(want) || !term.wraps {
			t.Errorf("the screen is\n%s\nrow %d, want\n%s", got, term.row, strings.Join(want, "\n"))
		}
	}
}

// Only a person at a terminal gets a view that moves.
func TestTheLiveViewIsForTerminals(t *testing.T) {
	a := newApp(strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{})
	a.format = formatTable
	d := &devRun{app: a}
	if d.live() {
		t.Error("a view is drawn into a pipe")
	}
}

func TestDoubledEffectsAreCountedWhileTheFileGrows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "naive")
	n := &doubles{path: path, key: func(line []byte) string { return string(line) }}
	var got []int
	for _, more := range []string{"", "a\nb\n", "a\nc", "\nc\n", "\na\n"} {
		appendTo(t, path, more)
		got = append(got, n.count())
	}
	if want := []int{0, 0, 1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}
