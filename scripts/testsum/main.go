// Command testsum reads the output of go test -json and prints what go test prints without
// -v: a line for each package, and for a package that failed the whole output of the tests
// that did. It appends one line per finished test to a file, for a script to count.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	counts := flag.String("counts", os.DevNull, "`file` to which results are appended: kind, package, test, reason of a skip")
	flag.Parse()
	if err := run(*counts); err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(1)
	}
}

func run(counts string) error {
	f, err := os.OpenFile(counts, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if err := summarize(os.Stdin, os.Stdout, f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// event is one line of go test -json, see go doc test2json.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// pkg holds what a package printed until its end is known.
type pkg struct {
	events []event
	good   map[string]bool // tests that passed or were skipped
}

// summarize never drops what it does not understand: lines that are not events are printed
// as they are, and packages that never ended are printed whole.
func summarize(in io.Reader, out, counts io.Writer) error {
	pkgs := map[string]*pkg{}
	var order []string
	r := bufio.NewReader(in)
	for {
		line, err := r.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
				fmt.Fprint(out, line)
			} else if e.Package == "" {
				fmt.Fprint(out, e.Output) // of the build
			} else {
				p := pkgs[e.Package]
				if p == nil {
					p = &pkg{good: map[string]bool{}}
					pkgs[e.Package] = p
					order = append(order, e.Package)
				}
				if p.add(e, out, counts) {
					delete(pkgs, e.Package)
				}
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	for _, name := range order {
		if p := pkgs[name]; p != nil {
			p.printFailed(out)
		}
	}
	return nil
}

// add reports whether the package has ended.
func (p *pkg) add(e event, out, counts io.Writer) bool {
	switch e.Action {
	case "output":
		p.events = append(p.events, e)
	case "pass", "fail", "skip":
		if e.Test == "" {
			if e.Action == "fail" {
				p.printFailed(out)
			} else {
				p.printPassed(out)
			}
			return true
		}
		p.good[e.Test] = e.Action != "fail"
		reason := ""
		if e.Action == "skip" {
			reason = p.skipReason(e.Test)
		}
		fmt.Fprintf(counts, "%s\t%s\t%s\t%s\n", e.Action, e.Package, e.Test, reason)
	}
	return false
}

// printPassed prints the lines of go test itself: "ok", "no test files", coverage.
func (p *pkg) printPassed(out io.Writer) {
	for _, e := range p.events {
		if e.Test == "" && (strings.HasPrefix(e.Output, "ok ") || strings.HasPrefix(e.Output, "? ") || strings.HasPrefix(e.Output, "\t")) {
			fmt.Fprint(out, e.Output)
		}
	}
}

func (p *pkg) printFailed(out io.Writer) {
	for _, e := range p.events {
		if !p.good[e.Test] && !isProgress(e.Output) {
			fmt.Fprint(out, e.Output)
		}
	}
}

func (p *pkg) skipReason(test string) string {
	reason := ""
	for _, e := range p.events {
		text := strings.TrimSpace(e.Output)
		if e.Test == test && !isProgress(e.Output) && !strings.HasPrefix(text, "--- SKIP") {
			reason = text
		}
	}
	return strings.ReplaceAll(reason, "\t", " ")
}

// isProgress tells the lines that -json adds, as -v does.
func isProgress(line string) bool {
	for _, s := range []string{"=== RUN ", "=== PAUSE ", "=== CONT ", "=== NAME "} {
		if strings.HasPrefix(line, s) {
			return true
		}
	}
	return false
}
