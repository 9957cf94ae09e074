package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/kafka"
	"github.com/pawlhq/pawl/pipeline"
	"github.com/pawlhq/pawl/postgres"
)

type checkView struct {
	Check  string `json:"check"`
	Of     string `json:"of,omitempty"` // a pipeline or a topic
	Result string `json:"result"`
	Found  string `json:"found"`
	Fix    string `json:"fix,omitempty"`
}

// What a check comes to.
const (
	checkOK     = "ok"
	checkWarns  = "warning"
	checkFails  = "failed"
	checkPassed = "not known" // it could not be made
)

func (a *app) doctorCommand() *cobra.Command {
	var processes int
	var sample int64
	cmd := &cobra.Command{
		Use: "doctor [FILE|FOLDER…]", Short: "Check the live cluster and store against pipeline files; each finding with a fix",
		Long: `Check the live cluster and store against pipeline files, and tell for each check what was found and what to do: the file, the
store (reachable, migrations, settings under which a commit may be lost, rights missing and in excess, connections, clock,
tables), the topics (there, replication, cleanup policy and retention against how long keys are kept), and a sample of
records (do they decode, is a stream on one partition, which streams are hot). It changes nothing.

Ends with exit code 3 if a check has failed; a warning alone does not.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if processes < 1 || sample < 0 {
				return usage("--processes is at least 1, --sample at least 0")
			}
			set, err := a.load(args)
			if err != nil {
				return err
			}
			d := &doctor{app: a, set: set, processes: processes, sample: sample}
			d.examineStore(cmd.Context())
			d.examineCluster(cmd.Context())
			if cmd.Context().Err() != nil {
				return cmd.Context().Err()
			}
			return d.tell()
		},
	}
	cmd.Flags().IntVar(&processes, "processes", 1, "how many processes will run, for the connections they need")
	cmd.Flags().Int64Var(&sample, "sample", 200, "records to look at of each partition; 0: none")
	return cmd
}

type doctor struct {
	*app
	set       *pipeline.Set
	processes int
	sample    int64
	checks    []checkView
}

func (d *doctor) add(check, of, result, found, fix string) {
	if result == checkOK {
		fix = ""
	}
	d.checks = append(d.checks, checkView{check, of, result, found, fix})
}

// judged adds a check that is ok or not.
func (d *doctor) judged(ok bool, otherwise, check, of, found, fix string) {
	if ok {
		otherwise = checkOK
	}
	d.add(check, of, otherwise, found, fix)
}

// failed adds a check that could not be passed because of an error.
func (d *doctor) failed(check, of string, err error) {
	text, fix := err.Error(), ""
	if known, ok := errors.AsType[*pawl.Error](err); ok && known.Hint != "" {
		fix = known.Hint
		text = strings.Replace(text, " ("+fix+")", "", 1)
	}
	d.add(check, of, checkFails, text, fix)
}

// checkTimeout bounds each part of an examination.
const checkTimeout = 15 * time.Second

func (d *doctor) examineStore(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	l, err := d.locateFor(ctx, d.set)
	if err != nil {
		d.failed("store", "", err)
		return
	}
	s, err := l.open(ctx, false)
	if err != nil {
		d.failed("store", "", err)
		return
	}
	defer s.close()
	have, err := s.have(ctx)
	if err != nil {
		d.failed("store", "", err)
		return
	}
	d.add("store", "", checkOK, s.name, "")
	d.judged(have == s.needs(), checkFails, "migrations", "", fmt.Sprintf("version %d, and this program needs %d", have, s.needs()), "pawl migrate up --execute")
	if s.inspect != nil {
		i, err := s.inspect(ctx)
		if err != nil {
			d.failed("settings", "", err)
			return
		}
		d.server(i)
	}
	for _, p := range d.set.Pipelines {
		if err := s.tables(ctx, p.Tables()); err != nil {
			d.failed("tables", p.Name, err)
			continue
		}
		d.add("tables", p.Name, checkOK, plural(len(p.Tables()), "table"), "")
	}
}

// server judges PostgreSQL.
func (d *doctor) server(i *postgres.Inspection) {
	var wrong []string
	for _, c := range []struct {
		bad  bool
		what string
	}{
		{i.Standby, "the server is a standby"}, {i.ReadOnly, "transactions are read-only"}, {!i.Fsync, "fsync is off"},
		{!i.FullPageWrites, "full_page_writes is off"}, {i.SynchronousCommit == "off", "synchronous_commit is off"},
	} {
		if c.bad {
			wrong = append(wrong, c.what)
		}
	}
	found := "PostgreSQL " + i.Version + ", synchronous_commit " + i.SynchronousCommit
	if len(wrong) > 0 {
		found = strings.Join(wrong, "; ")
	}
	d.judged(len(wrong) == 0, checkFails, "settings", "", found, "a commit may be lost, or none be made: use the primary, and switch these on")
	found = "every table of Pawl can be read and added to"
	if len(i.Lacking) > 0 {
		found = "no right to read or add to " + strings.Join(i.Lacking, ", ")
	}
	d.judged(len(i.Lacking) == 0, checkFails, "rights", "", found, "grant select, insert, update, delete on them")
	switch {
	case i.Superuser:
		d.add("rights in excess", "", checkWarns, "the role is a superuser", "run with a role of its own that owns nothing; migrate with another")
	case i.Creates:
		d.add("rights in excess", "", checkWarns, "the role may create tables", "only pawl migrate up needs that: revoke create on the schema")
	default:
		d.add("rights in excess", "", checkOK, "none", "")
	}
	need := 0
	for _, p := range d.set.Pipelines {
		workers := p.Limits.Workers
		if workers == 0 {
			workers = min(2*runtime.GOMAXPROCS(0), 16)
		}
		need += workers + 2 // orders and conditions go beside the workers
	}
	need *= d.processes
	d.judged(need+i.Connections <= i.MaxConnections*9/10, checkWarns, "connections", "",
		fmt.Sprintf("up to %d wanted by %s, %d in use, %d allowed", need, plural(d.processes, "process"), i.Connections, i.MaxConnections),
		"fewer workers (limits.workers), a smaller pool (pool_max_conns in the address), a pooling proxy, or more max_connections")
	off := d.now().Sub(i.Now).Abs()
	d.judged(off < 5*time.Second, checkWarns, "clock", "", "the server's differs by "+off.Round(time.Millisecond).String(),
		"synchronise the clocks: ages and holds are told by them")
}

func (d *doctor) examineCluster(ctx context.Context) {
	if d.set.Kafka == nil {
		d.add("cluster", "", checkFails, "the files name none", "add kafka: {brokers: […]}")
		return
	}
	c := &cluster{kafka: d.set.Kafka}
	for i, p := range d.set.Pipelines {
		src := c.source(p.GroupName())
		if i == 0 {
			ask, cancel := context.WithTimeout(ctx, checkTimeout)
			origin, err := src.Origin(ask)
			cancel()
			if err != nil {
				d.failed("cluster", "", err)
				return
			}
			d.add("cluster", "", checkOK, "id "+origin.Cluster, "")
		}
		d.examineTopics(ctx, src, p)
	}
}

func (d *doctor) examineTopics(ctx context.Context, src *kafka.Source, p *pipeline.Pipeline) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	topics, err := src.Topics(ctx, p.Topic)
	if err != nil {
		d.failed("topic", p.Name, err)
		return
	}
	for _, t := range topics {
		of := p.Name + ": " + t.Name
		d.judged(t.Exists, checkFails, "topic", of, map[bool]string{true: plural(t.Partitions, "partition"), false: "it does not exist"}[t.Exists],
			"create it, or correct its name")
		if !t.Exists {
			continue
		}
		if p.Limits.Workers > t.Partitions && (p.Order == "" || p.Order == "partition") {
			d.add("workers", of, checkWarns, fmt.Sprintf("%d workers for %s", p.Limits.Workers, plural(t.Partitions, "partition")),
				"in the order of partitions one worker serves each: fewer workers, more partitions, or order: stream")
		}
		d.judged(t.Replicas >= 3 && t.InSync >= 2, checkWarns, "replication", of, fmt.Sprintf("%d replicas, min.insync.replicas %d", t.Replicas, t.InSync),
			"three replicas and min.insync.replicas=2: otherwise a broker that dies may take records along")
		d.cleanup(of, p, t)
		d.retention(of, p, t)
		d.records(ctx, src, of, p, t.Name)
	}
}

func (d *doctor) cleanup(of string, p *pipeline.Pipeline, t kafka.TopicInfo) {
	compacts := strings.Contains(t.Cleanup, "compact")
	switch {
	case t.Cleanup == "":
		d.add("cleanup policy", of, checkPassed, "it may not be asked", "grant describe configs on the topic")
	case compacts && p.State == nil:
		d.add("cleanup policy", of, checkFails, t.Cleanup, "compaction removes events before they are read: use cleanup.policy=delete, or a state effect")
	case !compacts && p.State != nil:
		d.add("cleanup policy", of, checkWarns, t.Cleanup, "keys that do not change for longer than the retention cannot be rebuilt: use cleanup.policy=compact")
	default:
		d.add("cleanup policy", of, checkOK, t.Cleanup, "")
	}
}

// retention holds how long the topic keeps records against how long keys are kept, and against what the file says.
func (d *doctor) retention(of string, p *pipeline.Pipeline, t kafka.TopicInfo) {
	keeps := t.Retention.String()
	if t.Retention == kafka.KeptForEver || strings.Contains(t.Cleanup, "compact") && !strings.Contains(t.Cleanup, "delete") {
		t.Retention, keeps = kafka.KeptForEver, "for ever"
	}
	keys, says := time.Duration(p.Retention.Keys), time.Duration(p.Retention.Topic)
	switch {
	case t.Retention == 0:
		d.add("retention", of, checkPassed, "it may not be asked", "grant describe configs on the topic")
	case keys > 0 && (t.Retention == kafka.KeptForEver || t.Retention > keys):
		d.add("retention", of, checkFails, fmt.Sprintf("records are kept %s, keys for %s", keeps, keys), "a record that outlives its key takes effect again: keep keys longer")
	case says > 0 && (t.Retention == kafka.KeptForEver || t.Retention > says):
		d.add("retention", of, checkWarns, fmt.Sprintf("records are kept %s, and the file says %s", keeps, says), "correct retention.topic in the file")
	default:
		d.add("retention", of, checkOK, "records are kept "+keeps, "")
	}
}

const (
	fewRecords = 100 // below so many in a sample, a share says nothing
	hotPercent = 20
)

// records judges a sample: it decodes, its streams are each on one partition, none is hot.
func (d *doctor) records(ctx context.Context, src *kafka.Source, of string, p *pipeline.Pipeline, topic string) {
	if d.sample == 0 {
		return
	}
	sampled, err := src.Sample(ctx, topic, d.sample)
	if err != nil {
		d.failed("records", of, err)
		return
	}
	if len(sampled) == 0 {
		d.add("records", of, checkPassed, "the topic is empty", "run it again when there are some")
		return
	}
	bad, first := 0, ""
	partitions, counts := map[string][]int32{}, map[string]int{}
	for i := range sampled {
		r := &sampled[i]
		id, err := p.Identify(r)
		if err != nil {
			if bad++; bad == 1 {
				first = fmt.Sprintf("%s: %v", position(topic, r.Partition.Index, r.Offset), err)
			}
			continue
		}
		if id.Stream != "" {
			counts[id.Stream]++
			if !slices.Contains(partitions[id.Stream], r.Partition.Index) {
				partitions[id.Stream] = append(partitions[id.Stream], r.Partition.Index)
			}
		}
	}
	d.judged(bad == 0, checkWarns, "records decode", of, strings.TrimSuffix(fmt.Sprintf("%d of %d do not; %s", bad, len(sampled), first), "; "),
		"they would be quarantined: correct the event section, or the producer")
	if len(counts) == 0 {
		return
	}
	scattered, hot := "", ""
	for stream, on := range partitions {
		if len(on) > 1 && (scattered == "" || stream < scattered) {
			scattered = stream
		}
		if counts[stream]*100 >= hotPercent*len(sampled) && len(sampled) >= fewRecords && (hot == "" || counts[stream] > counts[hot]) {
			hot = stream
		}
	}
	found := fmt.Sprintf("%s, each on one partition", plural(len(counts), "stream"))
	if scattered != "" {
		found = fmt.Sprintf("stream %q is on partitions %v", scattered, partitions[scattered])
	}
	d.judged(scattered == "", checkFails, "key alignment", of, found, "producers must use the stream as the record's key, and one partitioner")
	found = fmt.Sprintf("none has %d%% of the sample", hotPercent)
	if hot != "" {
		found = fmt.Sprintf("stream %q has %d of %d records", hot, counts[hot], len(sampled))
	}
	d.judged(hot == "", checkWarns, "hot streams", of, found, "one worker serves a stream at a time: split it, or accept the lag")
}

func (d *doctor) tell() error {
	failed, warned := 0, 0
	for _, c := range d.checks {
		switch c.Result {
		case checkFails:
			failed++
		case checkWarns:
			warned++
		}
	}
	l := listing[checkView]{kind: "Check", items: d.checks, columns: []column[checkView]{
		{name: "result", of: func(c checkView) string { return c.Result }, color: func(c checkView) string {
			return map[string]string{checkOK: green, checkFails: red}[c.Result] + map[string]string{checkWarns: yellow, checkPassed: yellow}[c.Result]
		}},
		{name: "check", of: func(c checkView) string { return c.Check }},
		{name: "of", of: func(c checkView) string { return c.Of }},
		{name: "found", of: func(c checkView) string { return c.Found }},
		{name: "fix", of: func(c checkView) string { return c.Fix }},
	}}
	if err := printList(d.app, l); err != nil {
		return err
	}
	d.note("%s, %d failed, %s", plural(len(d.checks), "check"), failed, plural(warned, "warning"))
	if failed > 0 {
		return &exitError{exitFindings, nil}
	}
	return nil
}
