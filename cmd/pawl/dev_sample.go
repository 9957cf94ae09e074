package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/pawl/dev"
	"github.com/pawlhq/pawl/kafka/embedded"
	"github.com/pawlhq/pawl/pipeline"
)

// chunkCases are sent at a time.
const chunkCases = 25

// samplePiece is the sample, with a model of its own.
type samplePiece struct {
	set     *pipeline.Set
	traffic *dev.Traffic
}

func newSamplePiece(a *app, seed uint64) (*samplePiece, error) {
	env := a.environment(true)
	env.Files = oneFile{"pipelines.yaml", dev.Pipelines}
	set, err := pipeline.Load([]string{"pipelines.yaml"}, env)
	if err != nil {
		return nil, err
	}
	return &samplePiece{set, dev.NewTraffic(seed)}, nil
}

func (s *samplePiece) pipelines() *pipeline.Set { return s.set }
func (s *samplePiece) content() [][]byte        { return [][]byte{dev.Pipelines} }
func (s *samplePiece) own() bool                { return false }
func (s *samplePiece) topics() []embedded.Topic {
	return []embedded.Topic{{Name: dev.Topic, Partitions: dev.Partitions}}
}
func (s *samplePiece) next() []embedded.Message { return s.traffic.Next(chunkCases) }
func (s *samplePiece) sent() (int, map[string]int) {
	return s.traffic.Deliveries, s.traffic.Hostilities
}

func (s *samplePiece) intro() []string {
	return []string{"the sample: cases move along declared transitions (case-lifecycle), and their events are counted by type (case-counts)"}
}

func (s *samplePiece) naiveKey(line []byte) string {
	var e dev.Event
	if json.Unmarshal(line, &e) != nil {
		return ""
	}
	return e.EventID
}

func (s *samplePiece) judge(ctx context.Context, d *devRun, topic []embedded.Message) (*devVerdict, error) {
	c, err := dev.Check(ctx, d.store.DB(), topic)
	if err != nil {
		return nil, err
	}
	naive, err := dev.Judge(d.naiveFile(), topic)
	if err != nil {
		return nil, err
	}
	v := &devVerdict{
		reference: "tables against a model of the sample that shares no code with Pawl", check: c, naive: naive, events: c.Events,
		deliveries: c.Deliveries, details: c.Details, ok: c.OK(),
		outcomes: []devOutcomes{{effect: "case-lifecycle", deliveries: c.Deliveries, by: c.Outcomes, order: dev.Outcomes}},
	}
	v.lines = []devLine{
		{"events lost", fmt.Sprint(c.Lost), fmt.Sprint(naive.Lost)},
		{"effects doubled", fmt.Sprint(c.Doubled), fmt.Sprint(naive.Doubled)},
		{fmt.Sprintf("rows that are wrong, of %d", c.Rows), fmt.Sprint(c.Different), fmt.Sprint(naive.Different)},
		{"deliveries without their reason", fmt.Sprint(c.Unexplained), "all"},
		{"unreadable records that are gone", fmt.Sprint(naive.Dropped - c.Outcomes[dev.Undecodable]), fmt.Sprint(naive.Dropped)},
	}
	return v, nil
}

func (s *samplePiece) tryNext(store, again string) []string {
	return []string{
		fmt.Sprintf("pawl explain %s --store %s", s.traffic.FirstCase(), store),
		"pawl quarantine list --groups --consumer case-lifecycle --store " + store,
		"pawl status --store " + store,
		"pawl dev " + again + "   # the same stream again",
		"pawl dev examples/account-ledger --for 20s --dir .pawl-ledger   # a pipeline file, under the same attack",
		"pawl init   # a pipeline file of your own",
	}
}

// oneFile is a file system with one file, beside nothing.
type oneFile struct {
	name    string
	content []byte
}

func (f oneFile) Open(name string) (fs.File, error) {
	if name != f.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &openFile{strings.NewReader(string(f.content)), f}, nil
}

type openFile struct {
	*strings.Reader
	of oneFile
}

func (f *openFile) Close() error               { return nil }
func (f *openFile) Stat() (fs.FileInfo, error) { return f, nil }
func (f *openFile) Name() string               { return f.of.name }
func (f *openFile) Mode() fs.FileMode          { return 0o444 }
func (f *openFile) ModTime() time.Time         { return time.Time{} }
func (f *openFile) IsDir() bool                { return false }
func (f *openFile) Sys() any                   { return nil }
