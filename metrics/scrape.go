package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlhq/pawl"
)

// decisions tells the outcomes, and the single counts that are views of them.
func (s scrape) decisions(c *counts) {
	type of struct{ route, word string }
	applied, conflicts, stale := map[string]uint64{}, map[string]uint64{}, map[string]uint64{}
	duplicates, quarantined := map[of]uint64{}, map[of]uint64{}
	outcomes := map[[5]string]uint64{}
	for k, n := range c.outcomes {
		from := "log"
		if k.kept {
			from = "kept"
		}
		outcomes[[5]string{k.route, k.outcome.String(), k.cause, k.mode.String(), from}] += n
		// A route that has decided anything has all of its counts, so that the first conflict is a step from 0.
		applied[k.route] += 0
		conflicts[k.route] += 0
		stale[k.route] += 0
		for _, kind := range []string{samePosition, sameKey} {
			duplicates[of{k.route, kind}] += 0
		}
		for _, cause := range causes {
			quarantined[of{k.route, cause}] += 0
		}
		switch k.outcome {
		case pawl.Applied:
			applied[k.route] += n
		case pawl.WasStale:
			stale[k.route] += n
		case pawl.Duplicate:
			kind := sameKey
			if k.repeat {
				kind = samePosition
			}
			duplicates[of{k.route, kind}] += n
		case pawl.Quarantined:
			quarantined[of{k.route, k.cause}] += n
			if k.cause == pawl.CauseConflict {
				conflicts[k.route] += n
			}
		}
	}
	for l, n := range outcomes {
		s.counter(s.descs.outcomes, n, l[:]...)
	}
	for topic, n := range c.received {
		s.counter(s.descs.received, n, topic)
	}
	for route, n := range applied {
		s.counter(s.descs.applied, n, route)
		s.counter(s.descs.conflicts, conflicts[route], route)
		s.counter(s.descs.stale, stale[route], route)
	}
	for of, n := range duplicates {
		s.counter(s.descs.duplicates, n, of.route, of.word)
	}
	for of, n := range quarantined {
		s.counter(s.descs.quarantined, n, of.route, of.word)
	}
	for route, a := range c.effects {
		s.ch <- prometheus.MustNewConstHistogram(s.descs.effect, a.count, a.sum, a.cumulative(), route)
	}
}

const (
	samePosition = "same_position"
	sameKey      = "same_key"
)

// causes bound the label: a cause that is added to Pawl and not here is told as other.
var causes = []string{
	pawl.CausePoison, pawl.CauseConflict, pawl.CauseValidation, pawl.CauseCorruption, pawl.CauseFailure, pawl.CauseCrash, pawl.CauseGap, pawl.CauseTransition,
}

func knownCause(cause string) string {
	if cause == "" {
		return ""
	}
	for _, c := range causes {
		if c == cause {
			return c
		}
	}
	return "other"
}

// events tells what is counted beside decisions, from 0 on, so that the first is a step.
func (s scrape) events(c *counts) {
	for class := pawl.Unknown; class <= pawl.Corruption; class++ {
		s.counter(s.descs.retries, c.failures[class], class.String())
	}
	for _, cause := range []string{causeFenced, causeWentBack} {
		s.counter(s.descs.restarts, c.restarts[cause], cause)
	}
	if n := c.restarts["other"]; n > 0 {
		s.counter(s.descs.restarts, n, "other")
	}
	s.counter(s.descs.fenced, c.restarts[causeFenced])
	s.counter(s.descs.assignments, c.changes.assigned, "assigned")
	s.counter(s.descs.assignments, c.changes.ended, "ended")
	s.counter(s.descs.commits, c.commits.success, "success")
	s.counter(s.descs.commits, c.commits.failure, "failure")
}

func (s scrape) state(all []pawl.LiveProgress, whole string) {
	is := "running"
	for _, p := range all {
		if p.Halted {
			is = "halted"
		}
	}
	switch {
	case whole != "":
		is = whole
	case len(all) == 0:
		is = "idle"
	}
	for _, state := range []string{"idle", "running", "halted", statePaused, stateLatched} {
		v := 0.0
		if state == is {
			v = 1
		}
		s.gauge(s.descs.state, v, state)
	}
}

// partitionName is a partition as labels: without the id of its topic, which says nothing to people.
type partitionName struct{ topic, partition string }

func nameOf(p pawl.Partition) partitionName {
	if p.Index == pawl.AllPartitions {
		return partitionName{p.Topic, ""}
	}
	return partitionName{p.Topic, strconv.Itoa(int(p.Index))}
}

// partitions tells how far the runner is.
func (s scrape) partitions(all []pawl.LiveProgress, age func(time.Time) time.Duration) {
	seen := map[partitionName]bool{}
	for _, p := range all {
		n := nameOf(p.Partition)
		if seen[n] {
			continue // of a topic that was made again
		}
		seen[n] = true
		gauge := func(d *prometheus.Desc, v float64) { s.gauge(d, v, n.topic, n.partition) }
		offset := func(kind string, v int64) { s.gauge(s.descs.offset, float64(v), n.topic, n.partition, kind) }
		gauge(s.descs.unapplied, float64(p.Unsettled))
		gauge(s.descs.buffered, float64(p.Buffered))
		halted := 0.0
		if p.Halted {
			halted = 1
		}
		gauge(s.descs.halted, halted)
		offset("end", p.End)
		if p.Owned {
			gauge(s.descs.lag, float64(p.Lag()))
			offset("received", p.Received)
			offset("settled", p.Next)
		}
		if p.Committed >= 0 {
			offset("committed", p.Committed)
		}
		switch {
		case !p.Oldest.IsZero():
			gauge(s.descs.lagSeconds, max(age(p.Oldest), 0).Seconds())
		case p.Owned && p.Lag() == 0:
			gauge(s.descs.lagSeconds, 0)
		}
	}
}
