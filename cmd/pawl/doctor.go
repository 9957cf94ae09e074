package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/kafka"
	"github.com/pawlhq/pawl/pipeline"
	"github.com/pawlhq/pawl/postgres"
)

// What a check may come to, worst first.
const (
	checkFailure = "failure" // it does not work, or not safely
	checkWarning = "warning" // it works, and somebody should know
	checkSkipped = "skipped" // it could not be looked at
	checkOK      = "ok"
)

// diagnosis is what a check has come to.
type diagnosis struct {
	status string
	text   string
	fix    string // what to do; of failures and warnings
}

func healthy(format string, args ...any) diagnosis {
	return diagnosis{checkOK, fmt.Sprintf(format, args...), ""}
}

func skipped(format string, args ...any) diagnosis {
	return diagnosis{checkSkipped, fmt.Sprintf(format, args...), ""}
}

func warning(fix, format string, args ...any) diagnosis {
	return diagnosis{checkWarning, fmt.Sprintf(format, args...), fix}
}

func failure(fix, format string, args ...any) diagnosis {
	return diagnosis{checkFailure, fmt.Sprintf(format, args...), fix}
}

// failed is the failure that an error tells.
func failed(err error) diagnosis {
	text, hint := apart(err)
	return diagnosis{checkFailure, text, hint}
}

// check is one thing that is looked at.
type check struct {
	name  string
	needs need
	of    func(ctx context.Context, v *visit) diagnosis
}

// need is what must have been reached for a check to say anything.
type need int

const (
	needsNothing need = iota
	needsStore
	needsServer // a store that is not a file: for others the check is left out
	needsCluster
	needsTopics // those of the pipeline exist
	needsBoth   // a store that is migrated, and the cluster
)

// checks are made once, pipelineChecks for each pipeline. They are made in this order.
var (
	checks = []check{
		{"store", needsNothing, checkStore},
		{"settings", needsServer, checkSettings},
		{"migrations", needsStore, checkMigrations},
		{"rights", needsServer, checkRights},
		{"connections", needsServer, checkConnections},
		{"proxy", needsServer, checkProxy},
		{"clock", needsServer, checkClock},
		{"cluster", needsNothing, checkCluster},
	}
	pipelineChecks = []check{
		{"tables", needsStore, checkTables},
		{"consumer", needsBoth, checkConsumer},
		{"topic", needsCluster, checkTopic},
		{"access", needsTopics, checkAccess},
		{"partitions", needsTopics, checkPartitions},
		{"cleanup", needsTopics, checkCleanup},
		{"retention", needsTopics, checkRetention},
		{"records", needsTopics, checkRecords},
		{"keys", needsTopics, checkKeys},
		{"hot-streams", needsTopics, checkHotStreams},
		{"timestamps", needsTopics, checkTimestamps},
	}
)

// visit is what the checks of one run look at.
type visit struct {
	set       *pipeline.Set
	pipelines []*pipeline.Pipeline // that are meant
	processes int
	now       func() time.Time

	file       bool     // the store is one, not a server
	store      *storage // nil: not reached
	storeErr   error
	version    int // of the store's tables
	versionErr error
	inspection *postgres.Inspection
	inspectErr error

	cluster    string // its id; "": not reached
	clusterErr error

	// Of the pipeline whose turn it is:
	p      *pipeline.Pipeline
	source *kafka.Source
	topics []kafka.Topic
	logs   []kafka.Log
	sample *sampling
}

type checkView struct {
	Number   int    `json:"number"`
	Check    string `json:"check"`
	Pipeline string `json:"pipeline,omitempty"`
	Status   string `json:"status"`
	Text     string `json:"text"`
	Fix      string `json:"fix,omitempty"`
}

const (
	// askTimeout bounds each question to a cluster or a server, and sampleTimeout the reading of samples of one pipeline.
	askTimeout    = 10 * time.Second
	sampleTimeout = 10 * time.Second
)

func (a *app) doctorCommand() *cobra.Command {
	var strict bool
	var only []string
	var bundle, live string
	var processes, records int
	cmd := &cobra.Command{
		Use: "doctor [FILE|FOLDER…]", Short: "Look the cluster and the store over, and say what to mend",
		Long: `Look over the cluster and the store that the files name, and say what to mend. Nothing is written, no group is joined, and no
topic is made by being asked for. Whether anything runs at the moment makes no difference.

Of the store: does it answer, may it lose a commit, migrations, rights that are missing or in excess, connections, a proxy, its
clock. For each pipeline: its tables, whom the consumer's name belongs to, the topics, what the login may do, partitions,
cleanup and retention, and from the last records of each partition: do they decode, does the record key agree with the
stream, does one stream have most of the traffic, do the timestamps make sense.

Ends with exit code 3 after a failure (with --strict: or a warning), and 1 if the store or the cluster could not be reached.

With --bundle, what there is to know is written to a zip file too, for those who are asked for help: version, settings without
secrets, findings, checks; positions, conditions, counts of quarantine and operations; metrics and progress of the process at
--live. Nothing of a record is in it.`,
		Example: "  pawl doctor\n  pawl doctor orders.yaml --processes 4 -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case processes < 1:
				return usage("--processes %d: at least one runs", processes)
			case records < 0:
				return usage("--sample %d: it is a number of records, and 0 is none", records)
			}
			set, err := a.load(args)
			if err != nil {
				return err
			}
			if set.Kafka == nil {
				return usage("the files name no cluster: add kafka: {brokers: […]}")
			}
			v := &visit{set: set, processes: processes, now: a.now}
			if v.pipelines, err = choose(set, only); err != nil {
				return err
			}
			l, err := a.locateFor(cmd.Context(), set)
			if err != nil {
				return err
			}
			settings, err := a.settings(cmd, set)
			if err != nil {
				return err
			}
			if bundle != "" {
				if err := isFree(bundle); err != nil {
					return err
				}
			}
			found := v.run(cmd.Context(), l, records)
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			if err := a.printChecks(found); err != nil {
				return err
			}
			if bundle != "" {
				if err := a.writeBundle(cmd.Context(), bundle, set, settings, l, found, live); err != nil {
					return err
				}
			}
			return v.verdict(a, found, strict)
		},
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "end with exit code 3 after a warning too")
	cmd.Flags().StringVar(&bundle, "bundle", "", "write what there is to know to this zip file too, without secrets and without records")
	cmd.Flags().StringVar(&live, "live", defaultListen, "with --bundle: where a process that runs tells its metrics; empty: none is asked")
	cmd.Flags().StringSliceVar(&only, "only", nil, "only these pipelines, by name")
	cmd.Flags().IntVar(&processes, "processes", 1, "how many processes run these pipelines")
	cmd.Flags().IntVar(&records, "sample", 1000, "how many records of each partition are read at most")
	return cmd
}

// run makes all checks.
func (v *visit) run(ctx context.Context, l *location, records int) []checkView {
	v.open(ctx, l)
	if v.store != nil {
		defer v.store.close()
	}
	v.reach(ctx)
	found := v.make(ctx, nil, checks, "")
	for _, p := range v.pipelines {
		v.meet(ctx, p, records)
		found = v.make(ctx, found, pipelineChecks, p.Name)
	}
	return found
}

// make makes checks, and adds what they have come to.
func (v *visit) make(ctx context.Context, found []checkView, of []check, pipeline string) []checkView {
	for _, c := range of {
		if c.needs == needsServer && v.file {
			continue
		}
		d, ok := v.lacks(c.needs)
		if ok {
			ctx, cancel := context.WithTimeout(ctx, askTimeout)
			d = c.of(ctx, v)
			cancel()
		}
		found = append(found, checkView{len(found) + 1, c.name, pipeline, d.status, d.text, d.fix})
	}
	return found
}

// lacks says what keeps a check from being made, or that nothing does.
func (v *visit) lacks(n need) (diagnosis, bool) {
	store := n == needsStore || n == needsServer || n == needsBoth
	cluster := n == needsCluster || n == needsTopics || n == needsBoth
	switch {
	case store && v.store == nil:
		return skipped("the store was not reached"), false
	case n == needsBoth && v.version != v.store.needs():
		return skipped("the store is not migrated"), false
	case cluster && v.cluster == "":
		return skipped("the cluster was not reached"), false
	case n == needsTopics && !v.readable():
		return skipped("there is no topic to look at"), false
	}
	return diagnosis{}, true
}

// open reaches the store, without making or changing a file.
func (v *visit) open(ctx context.Context, l *location) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	v.file = l.sqlite != ""
	if v.storeErr = isStore(l); v.storeErr != nil {
		return
	}
	s, err := l.open(ctx, false)
	if err != nil {
		v.storeErr = err
		return
	}
	v.version, v.versionErr = s.have(ctx)
	if s.server != nil {
		v.inspection, v.inspectErr = s.server.inspect(ctx)
	}
	if v.versionErr != nil && v.inspection == nil { // else it answers, and only the tables are out of reach
		s.close()
		v.storeErr = v.versionErr
		return
	}
	v.store = s
}

// isStore refuses a file that to open as a store would change: one whose journal is not that of a store.
func isStore(l *location) error {
	if l.sqlite == "" {
		return nil
	}
	path, _, _ := strings.Cut(strings.TrimPrefix(l.sqlite, "file:"), "?")
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // which is told when it is opened
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", l.name, err)
	}
	defer f.Close()
	head := make([]byte, 20) // bytes 18 and 19 are 2 where there is a write-ahead log
	if n, _ := f.Read(head); n < len(head) || head[18] != 2 || head[19] != 2 {
		return &pawl.Error{Op: "read " + l.name, Class: pawl.Misconfigured, Err: errors.New("it is not a store of Pawl yet"),
			Hint: "pawl migrate up --execute"}
	}
	return nil
}

// reach asks the cluster who it is. Any pipeline will do: only their groups differ.
func (v *visit) reach(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	origin, err := v.connect(v.pipelines[0]).Origin(ctx)
	v.cluster, v.clusterErr = origin.Cluster, err
}

func (v *visit) connect(p *pipeline.Pipeline) *kafka.Source {
	cfg := v.set.Kafka.Source(p)
	cfg.Logger = slog.New(slog.DiscardHandler)
	return kafka.New(cfg)
}

// meet asks the cluster about the topics of a pipeline.
func (v *visit) meet(ctx context.Context, p *pipeline.Pipeline, records int) {
	v.p, v.source, v.topics, v.logs, v.sample = p, v.connect(p), nil, nil, &sampling{}
	if v.cluster == "" {
		return
	}
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var err error
	if v.topics, err = v.source.Describe(asking, p.Topic); err != nil {
		v.topics = nil
		for _, name := range p.Topic {
			v.topics = append(v.topics, kafka.Topic{Name: name, Err: err})
		}
	}
	if !v.readable() {
		return
	}
	if v.logs, err = v.source.Look(asking, p.Topic); err != nil {
		v.sample.err = err
		return
	}
	reading, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	v.sample.read(reading, v, records)
}

// readable reports whether a topic of the pipeline can be looked at.
func (v *visit) readable() bool {
	for _, t := range v.topics {
		if t.Err == nil {
			return true
		}
	}
	return false
}

// textColumn is where the texts of checks begin.
const textColumn = 27

// beneath sets the further lines of a text under its first.
func beneath(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(printable(text)), "\n", "\n"+strings.Repeat(" ", textColumn))
}

func (a *app) printChecks(found []checkView) error {
	if a.format != formatTable {
		return printList(a, listing[checkView]{kind: "Check", items: found, columns: []column[checkView]{
			{name: "number", of: func(c checkView) string { return fmt.Sprint(c.Number) }},
			{name: "check", of: func(c checkView) string { return c.Check }},
			{name: "pipeline", of: func(c checkView) string { return c.Pipeline }},
			{name: "status", of: func(c checkView) string { return c.Status }},
			{name: "text", of: func(c checkView) string { return c.Text }},
			{name: "fix", of: func(c checkView) string { return c.Fix }},
		}})
	}
	colors := map[string]string{checkFailure: red, checkWarning: yellow, checkOK: green}
	var b bytes.Buffer
	for i, c := range found {
		if c.Pipeline != "" && found[i-1].Pipeline != c.Pipeline {
			fmt.Fprintf(&b, "%s:\n", printable(c.Pipeline))
		}
		status := fmt.Sprintf("%-7s", c.Status)
		if color := colors[c.Status]; color != "" && a.colored() {
			status = "\x1b[" + color + "m" + status + "\x1b[0m"
		}
		fmt.Fprintf(&b, "%3d  %s  %-12s %s\n", c.Number, status, c.Check, beneath(c.Text))
		if c.Fix != "" {
			fmt.Fprintf(&b, "%*s %s\n", textColumn-1, "fix:", beneath(c.Fix))
		}
	}
	_, err := a.out.Write(b.Bytes())
	return err
}

// verdict is how the run ends.
func (v *visit) verdict(a *app, found []checkView, strict bool) error {
	count := map[string]int{}
	for _, c := range found {
		count[c.Status]++
	}
	text := fmt.Sprintf("%s: %s, %s", plural(len(found), "check"), plural(count[checkFailure], "failure"), plural(count[checkWarning], "warning"))
	if n := count[checkSkipped]; n > 0 {
		text += fmt.Sprintf(", %d skipped", n)
	}
	a.note("%s", text)
	switch {
	case v.storeErr != nil || v.clusterErr != nil:
		return &exitError{exitFailed, nil}
	case count[checkFailure] > 0, strict && count[checkWarning] > 0:
		return &exitError{exitFindings, nil}
	}
	return nil
}
