package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// printer writes what a person is to read.
type printer struct {
	out      io.Writer
	terminal bool
	showing  string // the progress line
}

func newPrinter(out io.Writer) *printer {
	p := &printer{out: out}
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// progress shows what is being done, in one line that the next one replaces; nothing where lines cannot be replaced.
func (p *printer) progress(text string) {
	if p.terminal && text != p.showing {
		fmt.Fprintf(p.out, "\r%-*s\r%s", len(p.showing), "", text)
		p.showing = text
	}
}

func (p *printer) line(format string, args ...any) {
	p.progress("")
	fmt.Fprintf(p.out, format+"\n", args...)
}

func (p *printer) start(seed uint64, cases int) {
	p.line("A register of cases, built from a hostile event stream. Broker (Kafka) and database (SQLite) are inside this process.")
	p.line("Seed %d, %s cases. The same stream again: %s", seed, comma(cases), command("", seed, cases))
}

// command is how to run this again.
func command(dir string, seed uint64, cases int) string {
	c := fmt.Sprintf("go run ./examples/cases -seed %d", seed)
	if cases != defaultCases {
		c += fmt.Sprintf(" -cases %d", cases)
	}
	if dir != "" {
		c += " -dir " + dir
	}
	return c
}

func (p *printer) sent(s *stream, before int64) {
	b := s.bad
	p.line("")
	if before > 0 {
		p.line("The topic has %s deliveries of earlier runs.", comma(before))
	}
	p.line("Sent %s deliveries to %s (%d partitions). Among them, on purpose:", comma(len(s.main)), topic, partitions)
	for _, l := range []struct {
		n    int
		what string
	}{
		{b.near + b.far + b.respelt + b.stray, fmt.Sprintf("copies: %s near, %s far, %s in another spelling, %s on another partition",
			comma(b.near), comma(b.far), comma(b.respelt), comma(b.stray))},
		{b.stale, "new events that bring an old version"},
		{b.missing, "events left out, so that those after them come too early"},
		{b.overtaken, "events overtaken by the next one, which is sent again after them"},
		{b.illegal, "illegal transitions"},
		{b.conflict, "event ids used again for something else"},
		{b.garbage, "records that are no events: cut short, empty, plain text, without an id"},
	} {
		p.line("  %6s  %s", comma(l.n), l.what)
	}
	p.line("")
	p.line("Consuming, with members of one group that come and go:")
}

// event tells of something that happened when so much was settled.
func (p *printer) event(percent int64, format string, args ...any) {
	p.line("  %3d %%  %s", percent, fmt.Sprintf(format, args...))
}

func (p *printer) consumed() {
	p.line("Each member went on from the position in the database. Kafka's offsets may lag behind that; they never lead.")
}

// table shows what became of everything. Both columns add up.
func (p *printer) table(t *tally) {
	p.line("")
	p.line("%-40s %10s %12s", "What became of them", "events", "deliveries")
	events, ofEvents, ofDeliveries := t.events(), 0, 0
	for _, o := range outcomes {
		text := comma(events[o])
		if o == duplicate || o == conflict || o == undecodable {
			text = "-" // of no event, or of one that is counted elsewhere
		}
		p.line("  %-38s %10s %12s", o, text, comma(t.deliveries[o]))
		ofEvents += events[o]
		ofDeliveries += t.deliveries[o]
	}
	p.line("  %-38s %10s %12s", "total", comma(ofEvents), comma(ofDeliveries))
}

func (p *printer) finding(f *finding) {
	p.line("")
	p.line("Check: the topic is read again, and a model that shares no code with Pawl says what the database must hold.")
	p.line("  %6s  lost         of %s effects that there must be", comma(f.lost), comma(f.effects))
	p.line("  %6s  doubled", comma(f.doubled))
	p.line("  %6s  different    of %s cases", comma(f.different), comma(f.cases))
	p.line("  %6s  unexplained  of %s deliveries", comma(f.unexplained), comma(f.deliveries))
	if f.ok() {
		p.line("The check holds: what must have an effect has it once, and everything else has its reason on record.")
		return
	}
	p.line("THE CHECK FAILED. First findings:")
	for _, d := range f.details {
		p.line("  - %s", d)
	}
}

func (p *printer) reasons(reasons []string) {
	p.line("")
	p.line("Why did these have no effect? The database says, in rows that were committed together with the effects:")
	for _, r := range reasons {
		p.line("  - %s", r)
	}
}

// next says where to go from here. dir is empty if nothing was kept.
func (p *printer) next(l *lab, dir string, seed uint64, cases int) {
	p.line("")
	p.line("Next:")
	p.line("  read examples/cases/handler.go, the consumer: it is all that an application has to write")
	if dir == "" {
		p.line("  keep the topic and the database, which are removed now, and look into them:")
		p.line("    %s", command(filepath.Join(os.TempDir(), "cases-demo"), seed, cases))
		return
	}
	p.line("  look into the database:")
	p.line("    sqlite3 %s \"select cause, reason, count(*) from pawl_quarantine group by 1, 2 order by 3 desc limit 10\"", l.database)
	p.line("  send all of it once more, and see nothing applied twice:")
	p.line("    %s", command(dir, seed, cases))
}

// comma writes a number with its thousands apart.
func comma[N int | int64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	var b strings.Builder
	for i, c := range s {
		if i > 0 && s[i-1] != '-' && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String()
}
