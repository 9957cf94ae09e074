package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// results are the figures of each contender, round by round.
type results map[string][]figures

func (f figures) rate() float64 { return float64(f.Records) / f.Seconds }

// fetched is how often a record was read from the broker; negative where there is none.
func (f figures) fetched() float64 {
	if f.Fetched == 0 {
		return -1
	}
	return float64(f.Fetched) / float64(f.Records)
}

// The bars of the design: how many times the classic consumer with one worker.
var bars = []struct {
	name  string
	times float64
}{{"pawl-batch", 12}, {"pawl-record", 3}}

// guardedShare: what the guards against trouble may cost while there is none.
const guardedShare = 0.95

// declaredShare: what a pipeline from a file must keep of the throughput of the same effect in Go.
const declaredShare = 0.85

// The bars of declared effects: how many times the classic form with one worker, and which share of COPY.
const (
	effectTimes = 16
	effectShare = 0.35
)

// print writes the table and the bars.
func (r results) print(out io.Writer) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "contender\trecords\trecords/s\t(min–max)\t× classic\t% of copy\tGo µs\tPG µs\tbroker µs\tfetched\tWAL B\tother CPU\t")
	for _, c := range contenders {
		fs := r[c.name]
		if len(fs) == 0 {
			continue
		}
		rates := each(fs, figures.rate)
		per := func(v func(figures) float64) string {
			return decimals(median(each(fs, func(f figures) float64 { return v(f) / float64(f.Records) * 1e6 })), 1)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t(%s–%s)\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", c.name, thousands(float64(fs[0].Records)),
			thousands(median(rates)), thousands(slices.Min(rates)), thousands(slices.Max(rates)),
			decimals(r.times(c.name, c.classic()), 1), percent(r.times(c.name, c.copied())),
			per(func(f figures) float64 { return f.Go }), per(func(f figures) float64 { return f.Postgres }),
			per(func(f figures) float64 { return f.Broker }),
			decimals(median(each(fs, figures.fetched)), 2),
			decimals(median(each(fs, func(f figures) float64 { return float64(f.WAL) / float64(f.Records) })), 0),
			percent(median(each(fs, func(f figures) float64 { return f.Foreign }))))
	}
	t.Flush()
	fmt.Fprintln(out)
	for _, b := range bars {
		got := r.times(b.name, "classic-1")
		if got < 0 {
			continue
		}
		fmt.Fprintf(out, "bar %s ≥ %g× classic-1: %.1f×, %s", b.name, b.times, got, reached(got >= b.times))
		if len(r.doubts(b.name))+len(r.doubts("classic-1")) > 0 {
			fmt.Fprint(out, " (IN DOUBT, see below)")
		}
		fmt.Fprintf(out, "; CPU per record: %s× less\n", decimals(r.cheaper(b.name, "classic-1"), 1))
	}
	if got := r.times("yaml-projection", "pawl-projection"); got > 0 {
		fmt.Fprintf(out, "bar yaml-projection ≥ %s of pawl-projection: %s, %s\n", percent(declaredShare), percent(got), reached(got >= declaredShare))
	}
	if got := r.times("pawl-guarded", "pawl-batch"); got > 0 {
		fmt.Fprintf(out, "bar pawl-guarded ≥ %s of pawl-batch: %s, %s; CPU per record: %s of it\n", percent(guardedShare), percent(got), reached(got >= guardedShare),
			percent(1/r.cheaper("pawl-guarded", "pawl-batch")))
	}
	for _, c := range contenders {
		times, share := r.times(c.name, c.classic()), r.times(c.name, c.copied())
		if c.kind == "" || c.name != "pawl-"+c.kind || times < 0 || share < 0 {
			continue
		}
		fmt.Fprintf(out, "bar %s ≥ %d× classic and ≥ %s of COPY: %.1f×, %s; %s, %s\n", c.name, effectTimes, percent(effectShare), times,
			reached(times >= effectTimes), percent(share), reached(share >= effectShare))
	}
	for _, c := range contenders {
		for _, d := range r.doubts(c.name) {
			fmt.Fprintln(out, "doubt:", d)
		}
	}
}

// cheaper is how much less CPU, of consumer and server together, a takes per record than b. Neighbours disturb it far less
// than they do a rate.
func (r results) cheaper(a, b string) float64 {
	cost := func(f figures) float64 { return (f.Go + f.Postgres) / float64(f.Records) }
	if r[a][0].Postgres < 0 {
		return -1
	}
	return median(each(r[b], cost)) / median(each(r[a], cost))
}

// Beyond these a run says more about its neighbours than about the contenders.
const (
	mostForeign = 0.10 // share of the machine's CPU
	mostSpread  = 1.5  // fastest to slowest round of a contender
)

// doubts are reasons not to trust the figures of a contender.
func (r results) doubts(name string) []string {
	if len(r[name]) == 0 {
		return nil
	}
	var out []string
	rates := each(r[name], figures.rate)
	if spread := slices.Max(rates) / slices.Min(rates); spread > mostSpread {
		out = append(out, fmt.Sprintf("%s was %.1f times as fast in one round as in another", name, spread))
	}
	if foreign := slices.Max(each(r[name], func(f figures) float64 { return f.Foreign })); foreign > mostForeign {
		out = append(out, fmt.Sprintf("others used up to %s of the machine's CPU while %s ran", percent(foreign), name))
	}
	return out
}

func reached(ok bool) string {
	if ok {
		return "reached"
	}
	return "NOT reached"
}

// times is how much faster a is than b: the median over the rounds of the ratio within each, so that a machine that
// slows down from round to round slows both. It is negative where one of them did not run.
func (r results) times(a, b string) float64 {
	if len(r[a]) == 0 || len(r[a]) != len(r[b]) {
		return -1
	}
	ratios := make([]float64, len(r[a]))
	for i := range ratios {
		ratios[i] = r[a][i].rate() / r[b][i].rate()
	}
	return median(ratios)
}

func each(fs []figures, v func(figures) float64) []float64 {
	out := make([]float64, len(fs))
	for i, f := range fs {
		out[i] = v(f)
	}
	return out
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// Figures that cannot be had are negative, and are shown as a dash.

func decimals(v float64, n int) string {
	if v < 0 {
		return "–"
	}
	return strconv.FormatFloat(v, 'f', n, 64)
}

func percent(v float64) string {
	if v < 0 {
		return "–"
	}
	return strconv.FormatFloat(100*v, 'f', 0, 64) + "%"
}

func thousands(v float64) string {
	s := strconv.FormatFloat(v, 'f', 0, 64)
	var b strings.Builder
	for i, c := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// classic and copied are whom a contender is compared with.
func (c *contender) classic() string {
	if c.kind != "" {
		return "classic-" + c.kind
	}
	return "classic-1"
}

func (c *contender) copied() string {
	if c.kind != "" {
		return "copy-" + c.kind
	}
	return "copy"
}
