package rehearsal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/pipeline"
)

// line is a record of a file of records: one on each line, as JSON.
type line struct {
	Topic   string            `json:"topic"`
	Key     *string           `json:"key"`
	Value   json.RawMessage   `json:"value"` // a text is sent as it is, null is a tombstone, anything else is sent as JSON
	Headers map[string]string `json:"headers"`
}

const (
	mostLine   = 8 << 20
	mostFaults = 10
)

// ReadLines reads templates from lines such as {"key": "k1", "value": {…}, "headers": {…}, "topic": "orders"}, of which only the value
// is needed. Records that share a stream or a key are one template, in the order of the lines.
func ReadLines(in io.Reader, set *pipeline.Set) ([]pipeline.Template, error) {
	topics := topicsOf(set)
	var all []pawl.Record
	var faults []error
	scan := bufio.NewScanner(in)
	scan.Buffer(nil, mostLine)
	for n := 1; scan.Scan() && len(faults) < mostFaults; n++ {
		if len(bytes.TrimSpace(scan.Bytes())) == 0 {
			continue
		}
		r, err := readLine(scan.Bytes(), topics)
		if err != nil {
			faults = append(faults, fmt.Errorf("line %d: %w", n, err))
			continue
		}
		r.Offset = int64(len(all))
		all = append(all, r)
	}
	if err := scan.Err(); err != nil {
		faults = append(faults, err)
	}
	if len(faults) == 0 && len(all) == 0 {
		faults = append(faults, errors.New("there are no records in it"))
	}
	return byStream(all, set), errors.Join(faults...)
}

func readLine(text []byte, topics []string) (r pawl.Record, err error) {
	var l line
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return r, fmt.Errorf(`%w: a line is {"value": …}, and may have key, headers and topic`, err)
	}
	switch {
	case l.Value == nil:
		return r, errors.New("there is no value; null is a tombstone")
	case l.Topic == "" && len(topics) > 1:
		return r, fmt.Errorf("there is no topic: the pipelines read %s", strings.Join(topics, ", "))
	case l.Topic == "":
		l.Topic = topics[0]
	case !slices.Contains(topics, l.Topic):
		return r, fmt.Errorf("no pipeline reads the topic %q: they read %s", l.Topic, strings.Join(topics, ", "))
	}
	r.Partition.Topic = l.Topic
	copy(r.Partition.TopicID[:], l.Topic)
	if l.Key != nil {
		r.Key = []byte(*l.Key)
	}
	var plain string
	switch {
	case string(l.Value) == "null":
	case l.Value[0] == '"' && json.Unmarshal(l.Value, &plain) == nil:
		r.Value = []byte(plain)
	default:
		r.Value = l.Value
	}
	for name, v := range l.Headers {
		r.Headers = append(r.Headers, pawl.Header{Key: name, Value: []byte(v)})
	}
	slices.SortFunc(r.Headers, func(a, b pawl.Header) int { return strings.Compare(a.Key, b.Key) })
	return r, nil
}

// byStream puts records together that have to do with each other.
func byStream(all []pawl.Record, set *pipeline.Set) (out []pipeline.Template) {
	group := make([]int, len(all)) // the first record of each one's group
	by := map[string]int{}
	for i := range all {
		group[i] = i
		for _, p := range readers(set, all[i].Partition.Topic) {
			id, err := p.Identify(&all[i])
			if err != nil {
				continue
			}
			for _, mark := range []string{"key/" + id.Key, "key/" + id.Supersedes, "stream/" + id.Stream} {
				if _, name, _ := strings.Cut(mark, "/"); name == "" {
					continue
				}
				other, known := by[p.Name+"/"+mark]
				if !known {
					by[p.Name+"/"+mark] = i
					continue
				}
				a, b := group[other], group[i]
				for j := range group[:i+1] {
					if group[j] == max(a, b) {
						group[j] = min(a, b)
					}
				}
			}
		}
	}
	at := map[int]int{}
	for i, r := range all {
		n, ok := at[group[i]]
		if !ok {
			n = len(out)
			at[group[i]] = n
			out = append(out, pipeline.Template{Case: fmt.Sprintf("line %d", i+1)})
		}
		out[n].Records = append(out[n].Records, r)
	}
	return out
}

// topicsOf are all topics that are read.
func topicsOf(set *pipeline.Set) (all []string) {
	for _, p := range set.Pipelines {
		for _, t := range p.Topic {
			if !slices.Contains(all, t) {
				all = append(all, t)
			}
		}
	}
	return all
}

// readers are the pipelines that read a topic.
func readers(set *pipeline.Set, topic string) (all []*pipeline.Pipeline) {
	for _, p := range set.Pipelines {
		if slices.Contains(p.Topic, topic) {
			all = append(all, p)
		}
	}
	return all
}
