package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawlhq/pawl"
)

const (
	// fewRecords is how many of a sample are too few to tell a share by.
	fewRecords = 100
	// hotShare is the share of a sample from which a stream is called hot.
	hotShare = 0.25
	// fromPast is how old the youngest record may claim to be at most.
	fromPast = 20 * 365 * 24 * time.Hour
)

// sampling is what the last records of a pipeline's partitions show.
type sampling struct {
	err     error // why there is none
	off     bool  // nobody wanted one
	records int
	newest  time.Time // what they claim
	oldest  time.Time

	undecoded int
	example   string // of those, where one is and why
	unkeyed   int    // have a stream, and no record key
	streams   map[streamName]*trace
}

type streamName struct{ topic, kind, name string }

// trace is where a stream was seen.
type trace struct {
	records    int
	partitions map[int32]bool
	keys       map[string]bool
}

func (s *sampling) read(ctx context.Context, v *visit, most int) {
	s.streams = map[streamName]*trace{}
	if s.off = most == 0; s.off {
		return
	}
	records, err := v.source.Sample(ctx, v.logs, most)
	s.err = err
	for i := range records {
		s.add(v, &records[i])
	}
}

func (s *sampling) add(v *visit, r *pawl.Record) {
	s.records++
	if s.oldest.IsZero() || r.Timestamp.Before(s.oldest) {
		s.oldest = r.Timestamp
	}
	if r.Timestamp.After(s.newest) {
		s.newest = r.Timestamp
	}
	id, err := v.p.Identify(r)
	if err != nil {
		if s.undecoded++; s.example == "" {
			s.example = fmt.Sprintf("%s at %d: %v", r.Partition, r.Offset, err)
		}
		return
	}
	if id.Stream == "" {
		return
	}
	name := streamName{r.Partition.Topic, id.StreamType, id.Stream}
	t := s.streams[name]
	if t == nil {
		t = &trace{partitions: map[int32]bool{}, keys: map[string]bool{}}
		s.streams[name] = t
	}
	t.records++
	t.partitions[r.Partition.Index] = true
	if r.Key == nil {
		s.unkeyed++
	} else {
		t.keys[string(r.Key)] = true
	}
}

// none says why there is nothing to go by.
func (s *sampling) none() (diagnosis, bool) {
	switch {
	case s.off:
		return skipped("no sample was asked for"), true
	case s.err != nil:
		return skipped("no sample could be read: %s", firstLine(s.err.Error())), true
	case s.records == 0:
		return skipped("there are no records to sample"), true
	}
	return diagnosis{}, false
}

func checkRecords(_ context.Context, v *visit) diagnosis {
	s := v.sample
	if d, none := s.none(); none {
		return d
	}
	if s.undecoded > 0 {
		d := warning("correct the file, and show it with a fixture (pawl test); or expect them in quarantine",
			"%d of %s in the sample would be set aside; the first is %s", s.undecoded, plural(s.records, "record"), s.example)
		if s.undecoded == s.records {
			d.status = checkFailure
		}
		return d
	}
	return healthy("%s in the sample: all decode", plural(s.records, "record"))
}

// ordered reports whether rows depend on the order of a stream's events, and whether versions make up for a wrong one.
func (v *visit) ordered() (depends, guarded bool) {
	switch {
	case v.p.Projection != nil:
		return true, v.p.Projection.Rule != "newer_time"
	case v.p.Workflow != nil:
		return true, true
	case v.p.State != nil:
		return true, !v.p.Event.Version.IsZero()
	}
	return false, true
}

// checkKeys looks whether the record key agrees with the stream: whether all records of a stream are in one partition.
func checkKeys(_ context.Context, v *visit) diagnosis {
	s := v.sample
	if d, none := s.none(); none {
		return d
	}
	depends, guarded := v.ordered()
	var spread, mixed []streamName
	for name, t := range s.streams {
		if len(t.partitions) > 1 {
			spread = append(spread, name)
		} else if len(t.keys) > 1 {
			mixed = append(mixed, name)
		}
	}
	fix := fmt.Sprintf("have the producer use the stream (%s) as the record key, with one partitioner; if partitions were added lately, "+
		"this passes once the old records are settled", cmp.Or(v.p.Event.Stream.Text, "none is declared"))
	switch first := least(spread); {
	case len(s.streams) == 0:
		return healthy("the events have no streams")
	case !depends && len(spread) > 0:
		return healthy("%d of %s are in several partitions, on whose order nothing depends", len(spread), plural(len(s.streams), "stream"))
	case len(spread) > 0:
		why := "what overtakes is held or stale, and streams wait for each other"
		if !guarded {
			why = "there are no versions: an older event may win"
		}
		return failure(fix, "%d of %s in the sample are in several partitions, such as %q in %s: %s",
			len(spread), plural(len(s.streams), "stream"), shorten(first.name, 60), indexes(s.streams[first].partitions), why)
	case depends && len(mixed) > 0:
		return warning(fix, "%d of %s have records with several keys, such as %q: they share a partition by chance",
			len(mixed), plural(len(s.streams), "stream"), shorten(least(mixed).name, 60))
	case depends && s.unkeyed > 0:
		return warning(fix, "%d of %s have no key: any partition may get them", s.unkeyed, plural(s.records, "record"))
	}
	return healthy("%s in the sample: each in one partition", plural(len(s.streams), "stream"))
}

// least is the first by name, so that the same sample gives the same words.
func least(names []streamName) streamName {
	if len(names) == 0 {
		return streamName{}
	}
	return slices.MinFunc(names, compareStreams)
}

func compareStreams(a, b streamName) int {
	return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
}

func indexes(partitions map[int32]bool) string {
	text := "partitions"
	for i, p := range slices.Sorted(maps.Keys(partitions)) {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(" %d", p)
	}
	return text
}

// checkHotStreams looks for a stream that has so much of the traffic that it bounds the rest.
func checkHotStreams(_ context.Context, v *visit) diagnosis {
	s := v.sample
	if d, none := s.none(); none {
		return d
	}
	var hot streamName
	for name, t := range s.streams {
		if best := s.streams[hot]; best == nil || t.records > best.records || t.records == best.records && compareStreams(name, hot) < 0 {
			hot = name
		}
	}
	switch {
	case len(s.streams) == 0:
		return healthy("the events have no streams")
	case s.records < fewRecords:
		return skipped("%s are too few to tell", plural(s.records, "record"))
	}
	share := float64(s.streams[hot].records) / float64(s.records)
	if share >= hotShare {
		return warning("split the stream if its events need no common order; or accept that it goes as fast as one worker, and give it room with order: stream",
			"%.0f %% of the sample are of stream %q: its events take effect one after the other", share*100, shorten(hot.name, 60))
	}
	return healthy("the busiest of %s has %.0f %% of the sample", plural(len(s.streams), "stream"), share*100)
}

// checkTimestamps compares the records' times with this machine's clock. A broker does not tell its own.
func checkTimestamps(_ context.Context, v *visit) diagnosis {
	s := v.sample
	if d, none := s.none(); none {
		return d
	}
	by := "their producers"
	if len(v.topics) > 0 && v.topics[0].BrokerTime {
		by = "the brokers"
	}
	now := v.now()
	switch {
	case s.newest.After(now.Add(mostSkew)):
		return warning("keep the clocks of "+by+" and of this machine in step (NTP): retention and lag are told by these times",
			"a record is from the future, by %s: the clocks of %s or of this machine are wrong", s.newest.Sub(now).Round(time.Second), by)
	case s.newest.Before(now.Add(-fromPast)):
		return warning("have the producer set the record's time: retention counts from it", "the youngest record claims to be from %s", s.newest.UTC().Format(time.DateOnly))
	}
	return healthy("the records are from %s to %s", s.oldest.UTC().Format(time.RFC3339), s.newest.UTC().Format(time.RFC3339))
}
