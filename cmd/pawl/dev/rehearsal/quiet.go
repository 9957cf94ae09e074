package rehearsal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/kafka/embedded"
	"github.com/pawlhq/pawl/pipeline"
	"github.com/pawlhq/pawl/sqlite"
)

// recordOf is a message as pipelines take it. The ids are those of the topics.
func recordOf(m embedded.Message, ids map[string]pawl.TopicID) pawl.Record {
	r := pawl.Record{
		Partition: pawl.Partition{Topic: m.Topic, TopicID: ids[m.Topic], Index: m.Partition}, Offset: m.Offset, Timestamp: m.Time, Key: m.Key,
		Value: m.Value,
	}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, pawl.Header(h))
	}
	return r
}

// mostPasses bounds how often a quiet run is begun again: each time, it takes copies of what the one before has set aside.
const mostPasses = 30

// quiet runs a pipeline over the records of its topics, copies left out, and leaves the database at path.
//
// A copy is another delivery of the same key with the same content. It is left out here, so that the result does not rest on Pawl's
// own claims. The exception are copies of a record that was set aside: that one has decided nothing, and a copy of it is a new
// attempt, which may end otherwise.
//
// It returns the keys of what was set aside.
func quiet(ctx context.Context, p *pipeline.Pipeline, records []pawl.Record, path string) (map[string]bool, error) {
	first := firsts(p, records)
	aside := map[int]bool{} // by first: it was set aside
	for range mostPasses {
		var log []pawl.Record
		var which []int
		for i, r := range records {
			if first[i] == i || aside[first[i]] {
				log, which = append(log, r), append(which, i)
			}
		}
		decided, err := onNew(ctx, p, log, path)
		if err != nil {
			return nil, err
		}
		more := false
		keys := map[string]bool{}
		for n, i := range which {
			if decided[n].Outcome != pawl.Quarantined {
				continue
			}
			keys[decided[n].Identity.Key] = true
			if !aside[first[i]] {
				aside[first[i]] = true
				more = more || slices.Contains(first[i+1:], first[i])
			}
		}
		if !more {
			return keys, nil
		}
	}
	return nil, fmt.Errorf("pipeline %s: the quiet run does not come to an end: what is set aside is another each time", p.Name)
}

// firsts are, for each record, the first one with its key and content.
func firsts(p *pipeline.Pipeline, records []pawl.Record) []int {
	first := make([]int, len(records))
	seen := map[string]int{}
	for i, r := range records {
		first[i] = i
		if id, err := p.Identify(&r); err == nil {
			what := id.Key + "\x00" + content(r)
			if before, ok := seen[what]; ok {
				first[i] = before
			} else {
				seen[what] = i
			}
		}
	}
	return first
}

// onNew runs a pipeline on a new database at path.
func onNew(ctx context.Context, p *pipeline.Pipeline, log []pawl.Record, path string) (_ []pawl.Decision, err error) {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.RemoveAll(path + suffix); err != nil {
			return nil, fmt.Errorf("quiet run: %w", err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("quiet run: %w", err)
	}
	store, err := sqlite.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := store.Migrate(ctx); err != nil {
		return nil, err
	}
	if err := pipeline.CreateTables(ctx, path, p.Tables()); err != nil {
		return nil, err
	}
	if len(log) == 0 {
		return nil, nil
	}
	return pipeline.Quiet(ctx, p, store, log)
}

// content is what a record says, however it is spelt: its document with sorted members, its key and its headers.
func content(r pawl.Record) string {
	value := r.Value
	var doc any
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.UseNumber()
	if dec.Decode(&doc) == nil && !dec.More() {
		if text, err := json.Marshal(doc); err == nil {
			value = text
		}
	}
	out := fmt.Appendf(nil, "%t/%d/%s%q", value == nil, len(value), value, r.Key)
	for _, h := range r.Headers {
		out = fmt.Appendf(out, "%q=%q", h.Key, h.Value)
	}
	return string(out)
}
