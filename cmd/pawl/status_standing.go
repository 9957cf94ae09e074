package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/kafka"
)

// standing is a partition as the store and the cluster have it; either may not know it.
type standing struct {
	pawl.Partition
	stored *pawl.PartitionProgress
	log    *kafka.Log
	oldest time.Time // when the first record that is not settled was written; zero: not known
}

// lag is how many offsets are not settled.
func (p *standing) lag() (n int64, known bool) {
	switch {
	case p.log == nil:
		return 0, false
	case p.stored == nil:
		return p.log.End - p.log.Start, true
	}
	return max(p.log.End-p.stored.Next, 0), true
}

// clusterView is what the cluster says; the zero one was not asked.
type clusterView struct {
	logs   []kafka.Log
	stamps []kafka.Stamp
}

func lookAt(ctx context.Context, from *cluster, group string, progress []pawl.PartitionProgress) (*clusterView, error) {
	var topics []string
	for _, p := range progress {
		if !slices.Contains(topics, p.Partition.Topic) {
			topics = append(topics, p.Partition.Topic)
		}
	}
	src := from.source(group)
	look, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	v := &clusterView{}
	var err error
	if v.logs, err = src.Look(look, topics); err != nil {
		return nil, err
	}
	for _, p := range v.join(progress) {
		if lag, known := p.lag(); known && lag > 0 && p.stored != nil && p.stored.Next >= p.log.Start {
			v.stamps = append(v.stamps, kafka.Stamp{Partition: p.Partition, Offset: p.stored.Next})
		}
	}
	ages, cancel := context.WithTimeout(ctx, ageTimeout)
	defer cancel()
	return v, src.Stamp(ages, v.stamps)
}

// join puts what the store and the cluster know side by side, by topic and index. A topic that was made again is in the
// list twice: as the store knew it, and as it is.
func (v *clusterView) join(progress []pawl.PartitionProgress) []standing {
	var all []standing
	at := map[pawl.Partition]int{}
	for i := range progress {
		at[progress[i].Partition] = len(all)
		all = append(all, standing{Partition: progress[i].Partition, stored: &progress[i]})
	}
	for i := range v.logs {
		n, ok := at[v.logs[i].Partition]
		if !ok {
			n = len(all)
			at[v.logs[i].Partition] = n
			all = append(all, standing{Partition: v.logs[i].Partition})
		}
		all[n].log = &v.logs[i]
	}
	for _, s := range v.stamps {
		all[at[s.Partition]].oldest = s.At
	}
	slices.SortStableFunc(all, func(a, b standing) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Index, b.Index))
	})
	return all
}

// judge is the word for a partition, and why.
func judge(of *pawl.BoundConsumer, open []pawl.OpenCondition, p *standing, now time.Time) (word, why string) {
	for _, c := range open {
		if c.State.Halts() && c.Partition.Topic == "" {
			return stateLatched, told(&c)
		}
	}
	for _, c := range open {
		if c.State.Halts() && (c.Partition == p.Partition || c.Partition.Topic == p.Topic && c.Partition.Index == pawl.AllPartitions) {
			return stateHalted, told(&c)
		}
	}
	if of.Paused != nil {
		return statePaused, fmt.Sprintf("by %s: %s", of.Paused.By, of.Paused.Why)
	}
	lag, known := p.lag()
	switch {
	case p.stored == nil:
		return stateStopped, "no process has read it yet"
	case p.log != nil && p.log.Owner == "":
		if p.stored.Owned {
			return stateStopped, "the group has no member for it, and its last owner did not give it back"
		}
		return stateStopped, "the group has no member for it"
	case !p.stored.Owned:
		return stateStopped, "no process has it"
	case known && lag > 0 && now.Sub(latest(p.stored.AdvancedAt, p.stored.AcquiredAt)) > stallAfter && now.Sub(p.oldest) > stallAfter:
		return stateStalled, "nothing was settled since " + latest(p.stored.AdvancedAt, p.stored.AcquiredAt).UTC().Format(time.RFC3339) + alsoOpen(open, p)
	case known && lag > 0 && !p.oldest.IsZero() && now.Sub(p.oldest) > behindAfter:
		return stateCatchingUp, "the oldest record waits for " + now.Sub(p.oldest).Round(time.Second).String() + alsoOpen(open, p)
	}
	return stateRunning, strings.TrimPrefix(alsoOpen(open, p), "; ")
}

func told(c *pawl.OpenCondition) string {
	text := fmt.Sprintf("%s (condition %d): %s", c.State, c.ID, c.Reason)
	if c.Resolution != nil {
		text += "; answered by " + c.Resolution.By + ", not yet carried out"
	}
	return text
}

// alsoOpen are conditions that halt nothing.
func alsoOpen(open []pawl.OpenCondition, p *standing) string {
	text := ""
	for _, c := range open {
		if c.State != pawl.StatePaused && (c.Partition.Topic == "" || c.Partition.Topic == p.Topic &&
			(c.Partition.Index == p.Index || c.Partition.Index == pawl.AllPartitions)) {
			text += "; " + told(&c)
		}
	}
	return text
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
