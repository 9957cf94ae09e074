package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/cmd/pawl/dev/rehearsal"
	"github.com/pawlhq/pawl/kafka/embedded"
	"github.com/pawlhq/pawl/pipeline"
)

// chunkRecords are sent at a time; fewer, where each has a transaction of its own.
const (
	chunkRecords    = 100
	chunkFewRecords = 25
)

// ownPiece is pipelines of the user's own.
type ownPiece struct {
	names   []string
	set     *pipeline.Set
	files   [][]byte
	traffic *rehearsal.Traffic
	changes []string // what is another than the files say
	from    string   // where the records are from
	records string   // --records
}

// ownPiece reads files as pawl test does: they need neither variables nor a cluster.
func (a *app) ownPiece(paths []string, records string, seed uint64) (*ownPiece, error) {
	env := a.environment(true)
	seen := &reader{FS: env.Files}
	env.Files = seen
	set, err := pipeline.Load(paths, env)
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	o := &ownPiece{names: paths, set: set, records: records}
	for _, f := range seen.files {
		if !slices.Contains(set.Fixtures, f.name) && len(f.content) > 0 {
			o.files = append(o.files, f.content)
		}
	}
	for _, p := range set.Pipelines {
		o.changes = append(o.changes, p.Rehearse()...)
	}
	templates, err := o.templates(env)
	if err != nil {
		return nil, err
	}
	if o.traffic, err = rehearsal.NewTraffic(seed, set, templates); err != nil {
		return nil, &exitError{exitUsage, err}
	}
	return o, nil
}

func (o *ownPiece) templates(env pipeline.Env) ([]pipeline.Template, error) {
	if o.records != "" {
		f, err := os.Open(o.records)
		if err != nil {
			return nil, &exitError{exitUsage, fmt.Errorf("--records: %w", err)}
		}
		defer f.Close()
		templates, err := rehearsal.ReadLines(f, o.set)
		if err != nil {
			return nil, &exitError{exitUsage, fmt.Errorf("--records %s: %w", o.records, err)}
		}
		o.from = o.records
		return templates, nil
	}
	if len(o.set.Fixtures) == 0 {
		return nil, usage("there are no records to make traffic of: the cases of orders.yaml are in orders_test.yaml beside it (pawl init " +
			"writes an example), or name a file of records with --records")
	}
	templates, err := pipeline.Templates(o.set, env)
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	o.from = plural(len(templates), "case") + " of " + path.Base(o.set.Fixtures[0])
	if n := len(o.set.Fixtures); n > 1 {
		o.from = plural(len(templates), "case") + " of " + plural(n, "file") + " of fixtures"
	}
	return templates, nil
}

func (o *ownPiece) pipelines() *pipeline.Set    { return o.set }
func (o *ownPiece) content() [][]byte           { return o.files }
func (o *ownPiece) topics() []embedded.Topic    { return o.traffic.Topics() }
func (o *ownPiece) own() bool                   { return true }
func (o *ownPiece) naiveKey(line []byte) string { return rehearsal.NaiveKey(line) }
func (o *ownPiece) sent() (int, map[string]int) { return o.traffic.Deliveries, o.traffic.Hostilities }

func (o *ownPiece) next() []embedded.Message {
	for _, p := range o.set.Pipelines {
		if p.Limits.Batch == 1 {
			return o.traffic.Next(chunkFewRecords)
		}
	}
	return o.traffic.Next(chunkRecords)
}

func (o *ownPiece) intro() []string {
	lines := []string{fmt.Sprintf("%s, on traffic made of %s", plural(len(o.set.Pipelines), "pipeline"), o.from)}
	for _, change := range o.changes {
		lines = append(lines, "not as the file says: "+change)
	}
	if o.traffic.Once != "" {
		lines = append(lines, "the records are played once, and after that only copies of them: "+o.traffic.Once)
	}
	return lines
}

func (o *ownPiece) judge(ctx context.Context, d *devRun, topic []embedded.Message) (*devVerdict, error) {
	ids, err := topicIDs(ctx, d.broker.Addrs(), o.set)
	if err != nil {
		return nil, err
	}
	c, err := rehearsal.Check(ctx, o.set, d.store.DB(), topic, ids, filepath.Join(d.dir, "quiet"))
	if err != nil {
		return nil, err
	}
	naive, err := c.Judge(d.naiveFile())
	if err != nil {
		return nil, err
	}
	v := &devVerdict{
		reference: "tables against a quiet run of the same pipelines over the same topic, with nothing killed and copies left out",
		check:     c, naive: naive, events: c.Events, deliveries: c.Deliveries, details: c.Details, ok: c.OK(),
	}
	for _, e := range c.Effects {
		v.outcomes = append(v.outcomes, devOutcomes{effect: e.Pipeline + "/" + e.Effect, deliveries: e.Deliveries, by: e.Outcomes})
	}
	v.lines = []devLine{
		{"events lost", fmt.Sprint(c.Lost), fmt.Sprint(naive.Lost)},
		{"effects too many", fmt.Sprint(c.Surplus), fmt.Sprint(naive.Doubled)},
		{fmt.Sprintf("rows that are wrong, of %d", c.Rows), fmt.Sprint(c.Different), "has none"},
		{"deliveries without their reason", fmt.Sprint(c.Unexplained), "all"},
		{"unreadable records that are gone", fmt.Sprint(c.Gone), fmt.Sprint(naive.Dropped)},
	}
	return v, nil
}

func (o *ownPiece) tryNext(store, again string) []string {
	if o.records != "" {
		again += " --records " + shellWord(o.records)
	}
	var words []string
	for _, name := range o.names {
		words = append(words, shellWord(name))
	}
	next := []string{
		"pawl status --store " + store,
		"pawl quarantine list --groups --store " + store,
		fmt.Sprintf("pawl dev %s   # the same stream again", strings.Join(append(slices.Clone(words), again), " ")),
		fmt.Sprintf("pawl contract %s   # what it promises, for the review", words[0]),
	}
	if o.traffic.First != "" {
		next = append([]string{fmt.Sprintf("pawl explain %s --store %s", shellWord(o.traffic.First), store)}, next...)
	}
	return next
}

// reader remembers the files that were read through it, in order.
type reader struct {
	fs.FS
	files []*fileRead
}

type fileRead struct {
	fs.File
	name    string
	content []byte
}

func (r *reader) Open(name string) (fs.File, error) {
	f, err := r.FS.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || info.IsDir() {
		return f, errors.Join(err)
	}
	seen := &fileRead{File: f, name: name}
	r.files = append(r.files, seen)
	return seen, nil
}

func (f *fileRead) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.content = append(f.content, p[:n]...)
	return n, err
}
