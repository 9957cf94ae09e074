package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/kafka/embedded"
)

type devView struct {
	Seed        uint64         `json:"seed"`
	Dir         string         `json:"dir"`
	Sent        int            `json:"sent"` // in this run
	Hostilities map[string]int `json:"hostilities"`
	Kills       map[string]int `json:"kills"`
	Reference   string         `json:"reference"` // what the tables were compared with
	Check       any            `json:"check"`
	Samples     int            `json:"samples"`
	OffsetAhead int            `json:"offsetAhead"`
	Naive       any            `json:"naive"`
	OK          bool           `json:"ok"`

	verdict *devVerdict
}

// devVerdict is what came out of comparing what is there with what must be there.
type devVerdict struct {
	reference          string
	check, naive       any // as they are in the document
	events, deliveries int
	outcomes           []devOutcomes
	lines              []devLine
	details            []string
	ok                 bool
}

// devOutcomes are the deliveries to one effect, by what became of them.
type devOutcomes struct {
	effect     string
	deliveries int
	by         map[string]int
	order      []string // in which they are shown; nil: most first
}

// devLine is a line of the check: with Pawl, and without.
type devLine struct {
	what     string
	is, then string
}

// report reads the topic again by plain means, and compares.
func (d *devRun) report(ctx context.Context) (*devView, error) {
	topic, err := embedded.ReadAll(ctx, d.broker.Addrs(), d.topicNames()...)
	if err != nil {
		return nil, err
	}
	verdict, err := d.judge(ctx, d, topic)
	if err != nil {
		return nil, err
	}
	v := &devView{
		Seed: d.seed, Dir: d.dir, Kills: d.kills, Reference: verdict.reference, Check: verdict.check, Samples: d.samples, OffsetAhead: d.ahead,
		Naive: verdict.naive, OK: verdict.ok && d.ahead == 0, verdict: verdict,
	}
	v.Sent, v.Hostilities = d.sent()
	return v, nil
}

func (d *devRun) write(w io.Writer, v *devView) {
	c := v.verdict
	fmt.Fprintf(w, "\n%d events in %d deliveries, of which %d were sent now (seed %d). Hostile on purpose: %s.\n", c.events, c.deliveries,
		v.Sent, v.Seed, counted(v.Hostilities))
	kills := 0
	byMeaning := map[string]int{}
	for window, n := range v.Kills {
		kills += n
		byMeaning[windowMeans[window]] += n
	}
	fmt.Fprintf(w, "The consumer was killed %s, and came back each time: %s.\n", plural(kills, "time"), counted(byMeaning))
	for _, o := range c.outcomes {
		writeOutcomes(w, o)
	}
	fmt.Fprintf(w, "\n%s\n%-42s %10s %14s\n", strings.Join(wrapped("the check: ", c.reference), "\n"), "", "with Pawl", "without Pawl")
	lines := append(slices.Clone(c.lines),
		devLine{fmt.Sprintf("offset ahead of effects, in %d samples", v.Samples), fmt.Sprint(v.OffsetAhead), ""})
	for _, line := range lines {
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("  %-40s %10s %14s", line.what, line.is, line.then), " "))
	}
	fmt.Fprintln(w, "  (without Pawl: each effect is written, then the offset is committed; same stream, same kills)")
	for _, line := range c.details {
		fmt.Fprintf(w, "  wrong: %s\n", printable(line))
	}
	if v.OK {
		fmt.Fprintln(w, "\nThe check holds.")
	} else {
		fmt.Fprintln(w, "\nTHE CHECK DOES NOT HOLD.")
	}
	fmt.Fprintln(w, "\nTry next:")
	again := fmt.Sprintf("--seed %d --fresh", d.seed)
	if d.dir != defaultDevDir {
		again += " --dir " + shellWord(d.dir)
	}
	for _, line := range d.tryNext(shellWord("sqlite:"+d.database()), again) {
		fmt.Fprintln(w, "  "+strings.Replace(line, "pawl", d.calledAs(), 1))
	}
}

// shellWord is a text as a shell takes it for one word.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+=,", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// calledAs is how this program is run by whoever reads the report.
func (d *devRun) calledAs() string {
	if strings.Contains(filepath.ToSlash(d.self), "/go-build") {
		return "go run ./cmd/pawl"
	}
	return "pawl"
}

// outcomeMeans says what an outcome is, for people.
var outcomeMeans = map[string]string{
	"applied": "took effect", "duplicate": "had taken effect before", "stale": "the state is past it", "ignored": "needs no effect",
	"superseded": "was corrected before it came", "held: early": "waits for the event before it",
	"held: its stream waits": "waits behind one that was set aside", "quarantined: gap": "set aside: the event before it is missing",
	"quarantined: transition": "set aside: a step that is not declared", "quarantined: conflict": "set aside: one key or version, two contents",
	"quarantined: poison": "set aside: it cannot be read", "quarantined: validation": "set aside: it says something impossible",
}

func writeOutcomes(w io.Writer, o devOutcomes) {
	fmt.Fprintf(w, "\ndeliveries to %s, by outcome:\n", o.effect)
	order := o.order
	if order == nil {
		order = byNumber(o.by)
	}
	sum := 0
	for _, name := range order {
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("  %-24s %7d   %s", name, o.by[name], outcomeMeans[name]), " "))
		sum += o.by[name]
	}
	fmt.Fprintf(w, "  %-24s %7d of %d\n", "together", sum, o.deliveries)
}

// counted writes numbers by name, most first.
func counted(of map[string]int) string {
	names := byNumber(of)
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", of[name], name)
	}
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

// byNumber are the names, most first.
func byNumber(of map[string]int) (names []string) {
	for name := range of {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if of[a] != of[b] {
			return of[b] - of[a]
		}
		return strings.Compare(a, b)
	})
	return names
}
