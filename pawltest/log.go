package pawltest

import (
	"context"
	"slices"
	"sync"

	"github.com/pawlhq/pawl"
)

// Log is a scripted log: a pawl.Source with one member that owns every partition and delivers what it is given.
type Log struct {
	mu        sync.Mutex
	records   map[pawl.Partition][]pawl.Record
	committed map[pawl.Partition]pawl.Commit
	started   func(p pawl.Partition, from int64) // called when a partition has been assigned
}

// NewLog returns a log that holds records; they must have their positions.
func NewLog(records []pawl.Record) *Log {
	l := &Log{records: map[pawl.Partition][]pawl.Record{}, committed: map[pawl.Partition]pawl.Commit{}}
	for _, r := range records {
		l.records[r.Partition] = append(l.records[r.Partition], r)
	}
	return l
}

// Committed returns the offset committed for p, or -1.
func (l *Log) Committed(p pawl.Partition) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c, ok := l.committed[p]; ok {
		return c.Next
	}
	return -1
}

// SetCommitted sets the offset committed for p, as a tool beside Pawl would.
func (l *Log) SetCommitted(p pawl.Partition, next int64, metadata string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.committed[p] = pawl.Commit{Next: next, Metadata: metadata}
}

func (l *Log) metadata(p pawl.Partition) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.committed[p].Metadata
}

// Origin is part of pawl.Source.
func (l *Log) Origin(context.Context) (pawl.Origin, error) {
	return pawl.Origin{Cluster: "pawltest", Group: "pawltest"}, nil
}

// Run is part of pawl.Source: it delivers everything from where the store says, and waits for the end of ctx.
func (l *Log) Run(ctx context.Context, _ []string, in pawl.Intake) error {
	var parts []pawl.Partition
	for p := range l.records {
		parts = append(parts, p)
	}
	slices.SortFunc(parts, func(a, b pawl.Partition) int { return int(a.Index - b.Index) })
	flows := make([]*flow, len(parts))
	as := make([]*pawl.Assignment, len(parts))
	for i, p := range parts {
		flows[i] = &flow{records: l.records[p], in: in, partition: p}
		as[i] = &pawl.Assignment{Partition: p, End: int64(len(l.records[p])), Committed: l.Committed(p), Flow: flows[i]}
		as[i].Metadata = l.metadata(p)
	}
	starts, err := in.Assign(ctx, as)
	if err != nil {
		in.Lose(parts)
		return err
	}
	for i, f := range flows {
		if l.started != nil {
			l.started(parts[i], starts[i])
		}
		if starts[i] != pawl.Halted {
			f.deliver(starts[i])
		}
	}
	<-ctx.Done()
	in.Revoke(ctx, parts)
	for _, f := range flows {
		f.end()
	}
	return ctx.Err()
}

// Commit is part of pawl.Source.
func (l *Log) Commit(_ context.Context, commits []pawl.Commit) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range commits {
		l.committed[c.Assignment.Partition] = c
	}
	return nil
}

// flow delivers one partition. Everything is handed over at once, so there is nothing to pause.
type flow struct {
	mu        sync.Mutex
	partition pawl.Partition
	records   []pawl.Record
	in        pawl.Intake
	ended     bool
}

func (f *flow) deliver(from int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deliverLocked(from)
}

func (f *flow) deliverLocked(from int64) {
	rest := f.records
	for len(rest) > 0 && rest[0].Offset < from {
		rest = rest[1:]
	}
	if len(rest) > 0 && !f.ended {
		f.in.Take(f.partition, rest)
	}
}

func (f *flow) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
}

func (f *flow) Pause()  {}
func (f *flow) Resume() {}

func (f *flow) Rewind(offset int64, then func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return
	}
	then()
	f.deliverLocked(offset)
}
