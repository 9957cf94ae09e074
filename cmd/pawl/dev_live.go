package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/pawl/dev/rehearsal"
)

// drawEvery is how often the live view is drawn.
const drawEvery = 250 * time.Millisecond

// liveState is what the live view shows.
type liveState struct {
	left     time.Duration // until the traffic ends; 0: it has ended; below: until Ctrl-C
	sent     int           // in this run
	waiting  int64         // of all deliveries: not settled by the slowest pipeline
	effects  int           // that each delivery goes to
	outcomes map[string]int
	kills    map[string]int // by window
	lastKill string
	samples  int
	ahead    int
	doubled  int // effects of the naive consumer
}

// lines draw a state. No line is longer than a narrow terminal.
func (s liveState) lines() []string {
	time := fmt.Sprintf("%.0fs left", s.left.Seconds())
	switch {
	case s.left < 0:
		time = "until Ctrl-C"
	case s.left == 0:
		time = "no more traffic and no more kills: waiting until all is settled"
	}
	out := []string{time, fmt.Sprintf("deliveries   %d sent, %d settled, %d waiting", s.sent, max(s.sent-int(s.waiting), 0), s.waiting)}
	total := 0
	by := map[string]int{}
	for window, n := range s.kills {
		total += n
		by[windowMeans[window]] += n
	}
	outcomes := counted(s.outcomes)
	if s.effects > 1 {
		outcomes += fmt.Sprintf(" (over %d effects)", s.effects)
	}
	out = append(out, wrapped("outcomes     ", outcomes)...)
	killed := "none yet"
	if total > 0 {
		killed = fmt.Sprintf("%d: %s", total, counted(by))
	}
	out = append(out, wrapped("kills        ", killed)...)
	if total > 0 {
		out = append(out, "last kill    "+windowMeans[s.lastKill])
	}
	out = append(out, fmt.Sprintf("offsets      ahead of the effects in %d of %d samples", s.ahead, s.samples),
		fmt.Sprintf("without Pawl %d effects doubled so far", s.doubled))
	return out
}

// liveWidth is the width of the view.
const liveWidth = 78

// wrapped breaks a text at its blanks; what follows is indented as the first line is.
func wrapped(head, text string) (lines []string) {
	line := head
	for word := range strings.SplitSeq(text, " ") {
		if len(line)+len(word) > liveWidth && line != strings.Repeat(" ", len(head)) && line != head {
			lines = append(lines, strings.TrimRight(line, " "))
			line = strings.Repeat(" ", len(head))
		}
		line += word + " "
	}
	return append(lines, strings.TrimRight(line, " "))
}

// screen draws lines in place of those that it drew before.
type screen struct {
	to    io.Writer
	drawn int // lines that are on it
}

const (
	cursorUp    = "\x1b[%dA"
	clearLine   = "\x1b[2K"
	clearBelow  = "\x1b[J"
	noWrapping  = "\x1b[?7l" // a line that is too long for the terminal is cut, so that each takes one line
	andWrapping = "\x1b[?7h"
)

func (s *screen) draw(lines []string) {
	var b bytes.Buffer
	if s.drawn > 0 {
		fmt.Fprintf(&b, cursorUp, s.drawn)
	}
	b.WriteString(noWrapping)
	for _, line := range lines {
		b.WriteString("\r" + clearLine + printable(line) + "\n")
	}
	b.WriteString(clearBelow + andWrapping)
	s.drawn = len(lines)
	s.to.Write(b.Bytes()) // a terminal that is gone is no reason to end
}

// live reports whether a view can be drawn: on a terminal, for a person.
func (d *devRun) live() bool {
	return isTerminal(d.err) && d.format == formatTable && d.color != "never" && d.env("TERM") != "dumb"
}

// say tells how it goes, unless the view does.
func (d *devRun) say(format string, args ...any) {
	if d.screen == nil {
		d.note(format, args...)
	}
}

// show runs do, with the view drawn meanwhile if there is a terminal.
func (d *devRun) show(ctx context.Context, do func() error) error {
	if !d.live() {
		return do()
	}
	d.screen = &screen{to: d.err}
	ended, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		naive := &doubles{path: d.naiveFile(), key: d.naiveKey}
		tick := time.NewTicker(drawEvery)
		defer tick.Stop()
		for {
			last := false
			select {
			case <-ended:
				last = true
			case <-tick.C:
			}
			d.screen.draw(d.state(ctx, naive).lines())
			if last {
				return
			}
		}
	}()
	err := do()
	close(ended)
	<-over
	return err
}

// state is how it goes now.
func (d *devRun) state(ctx context.Context, naive *doubles) liveState {
	outcomes, err := rehearsal.Outcomes(ctx, d.store.DB())
	if err != nil {
		outcomes = nil // the database is busy; the next picture has them
	}
	doubled := naive.count()
	d.mu.Lock()
	defer d.mu.Unlock()
	s := liveState{
		left: -1, sent: d.sentNow, outcomes: outcomes, kills: map[string]int{}, lastKill: d.lastKill, samples: d.samples, ahead: d.ahead,
		doubled: doubled,
	}
	switch {
	case d.draining:
		s.left = 0
	case d.lasts > 0:
		s.left = max(time.Until(d.until).Round(time.Second), time.Second)
	}
	for window, n := range d.kills {
		s.kills[window] = n
	}
	for _, p := range d.pipelines().Pipelines {
		s.effects += len(p.Effects())
	}
	for _, n := range d.waiting {
		s.waiting = max(s.waiting, n)
	}
	return s
}

// doubles counts the naive consumer's doubled effects while its file grows.
type doubles struct {
	path string
	key  func(line []byte) string

	at      int64 // read up to here
	seen    map[string]bool
	doubled int
}

func (n *doubles) count() int {
	f, err := os.Open(n.path)
	if err != nil {
		return n.doubled // it has not begun
	}
	defer f.Close()
	if _, err := f.Seek(n.at, io.SeekStart); err != nil {
		return n.doubled
	}
	more, err := io.ReadAll(f)
	if err != nil {
		return n.doubled
	}
	if n.seen == nil {
		n.seen = map[string]bool{}
	}
	for {
		line, rest, whole := bytes.Cut(more, []byte("\n"))
		if !whole {
			return n.doubled
		}
		n.at += int64(len(line)) + 1
		more = rest
		if key := n.key(line); key != "" && n.seen[key] {
			n.doubled++
		} else if key != "" {
			n.seen[key] = true
		}
	}
}
