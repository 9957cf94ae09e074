package pipeline

import (
	"context"
	"slices"
	"strings"

	"github.com/pawlhq/pawl"
)

// script is a log in memory: all records of a case are delivered at once.
type script []pawl.Record

// Origin is part of pawl.Source.
func (s script) Origin(context.Context) (pawl.Origin, error) {
	return pawl.Origin{Cluster: "fixture", Group: "fixture"}, nil
}

// Commit is part of pawl.Source.
func (s script) Commit(context.Context, []pawl.Commit) error { return nil }

// Run is part of pawl.Source.
func (s script) Run(ctx context.Context, _ []string, in pawl.Intake) error {
	by := map[pawl.Partition][]pawl.Record{}
	var parts []pawl.Partition
	for _, r := range s {
		if _, ok := by[r.Partition]; !ok {
			parts = append(parts, r.Partition)
		}
		by[r.Partition] = append(by[r.Partition], r)
	}
	slices.SortFunc(parts, func(a, b pawl.Partition) int {
		if a.Topic != b.Topic {
			return strings.Compare(a.Topic, b.Topic)
		}
		return int(a.Index - b.Index)
	})
	var as []*pawl.Assignment
	for _, p := range parts {
		as = append(as, &pawl.Assignment{Partition: p, End: int64(len(by[p])), Committed: -1, Flow: steady{}})
	}
	starts, err := in.Assign(ctx, as)
	if err != nil {
		in.Lose(parts)
		return err
	}
	for i, p := range parts {
		if starts[i] == 0 {
			in.Take(p, by[p])
		}
	}
	<-ctx.Done()
	in.Revoke(ctx, parts)
	return ctx.Err()
}

// steady is a flow that never stops. A case that makes a lane start over is ended by its timeout.
type steady struct{}

func (steady) Pause()               {}
func (steady) Resume()              {}
func (steady) Rewind(int64, func()) {}
