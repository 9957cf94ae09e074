package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/pawlhq/pawl"
)

// watch looks, every so often, for what a running client does not tell: topics that are gone or were made again, logs that
// a transaction holds up, and logs that were cut off below what was read.
type watch struct {
	r       *run
	topics  []string
	missing map[string]bool
	logs    map[*assignment]*watched
}

// watched is what the last looks at a log have shown.
type watched struct {
	stable int64
	held   int  // looks in a row at which stable had not moved, with records behind it
	frozen bool // and so it was told
	above  int  // looks in a row at which the position was above the log
}

const (
	// frozenAfter is how many looks in a row must find the same before a log is called frozen: a transaction is open for a
	// while in the course of things.
	frozenAfter = 6
	// aboveAfter: a new leader may not know for a moment how far the log goes.
	aboveAfter = 2
)

func (r *run) watch(ctx context.Context, topics []string) {
	w := &watch{r: r, topics: topics, missing: map[string]bool{}, logs: map[*assignment]*watched{}}
	for _, topic := range topics { // what an earlier process may have told
		r.in.Clear(wholeTopic(topic), pawl.StateTopicMissing)
	}
	tick := time.NewTicker(r.cfg.Watch)
	defer tick.Stop()
	for {
		if err := w.look(ctx); err != nil {
			r.fail(err)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func wholeTopic(topic string) pawl.Partition {
	return pawl.Partition{Topic: topic, Index: pawl.AllPartitions}
}

// look returns an error that ends this membership.
func (w *watch) look(ctx context.Context) error {
	for _, topic := range w.topics {
		if err := w.lookAtTopic(ctx, topic); err != nil {
			return err
		}
	}
	w.lookAtLogs(ctx)
	return nil
}

func (w *watch) lookAtTopic(ctx context.Context, topic string) error {
	bounded, cancel := context.WithTimeout(ctx, boundsTimeout)
	defer cancel()
	ids, err := topicIDs(bounded, w.r.cl, offsets{topic: nil})
	gone := errors.Is(err, kerr.UnknownTopicOrPartition)
	switch {
	case gone && !w.missing[topic]:
		w.missing[topic] = true
		w.r.in.Raise(pawl.Condition{
			Partition: wholeTopic(topic), State: pawl.StateTopicMissing, Next: pawl.NoStart,
			Reason: fmt.Sprintf("the topic %s does not exist", topic), Hint: "it will be read once it does",
		})
		return nil
	case err != nil: // cannot say
		return nil
	case w.missing[topic]:
		delete(w.missing, topic)
		w.r.in.Clear(wholeTopic(topic), pawl.StateTopicMissing)
	}
	return w.r.know(ids)
}

func (w *watch) lookAtLogs(ctx context.Context) {
	var as []*assignment
	var nexts []int64 // before the logs are looked at: they only grow, if all is well
	for _, a := range w.r.all() {
		if next, open := a.position(); open { // the store may take its time to say where to begin
			as, nexts = append(as, a), append(nexts, next)
		}
	}
	for a := range w.logs {
		if w.r.find(a.Partition.Topic, a.Partition.Index) != a {
			delete(w.logs, a)
		}
	}
	if len(as) == 0 {
		return
	}
	all, err := w.r.bounds(ctx, names(as)...)
	if err != nil {
		return // cannot say
	}
	for i, a := range as {
		if nexts[i] > all[i].end && w.r.stillThere(ctx, a) != nil {
			continue // another log than that of the position: the next look at the topic tells
		}
		w.r.in.Seen(a.Partition, all[i].stable)
		w.lookAtLog(a, nexts[i], all[i])
	}
}

func (w *watch) lookAtLog(a *assignment, next int64, b bounds) {
	was := w.logs[a]
	if was == nil {
		was = &watched{stable: -1}
		w.logs[a] = was
	}
	if next <= b.end {
		was.above = 0
	} else if was.above++; was.above >= aboveAfter {
		w.r.raise(a, outsideLog(a.Partition, next, b.start, b.end))
		return
	}

	held := b.stable < b.end && b.stable == was.stable && next >= b.stable
	was.stable = b.stable
	if !held {
		if was.frozen {
			w.r.in.Clear(a.Partition, pawl.StateLogFrozen)
		}
		was.held, was.frozen = 0, false
		return
	}
	if was.held++; was.held >= frozenAfter && !was.frozen {
		was.frozen = true
		w.r.in.Raise(pawl.Condition{
			Partition: a.Partition, State: pawl.StateLogFrozen, Next: next, Start: b.start, End: b.end,
			Reason: fmt.Sprintf("a transaction has been open since offset %d: %d records behind it cannot be read", b.stable, b.end-b.stable),
			Hint:   "kafka-transactions.sh find-hanging names its producer, and abort ends it; reading goes on by itself",
		})
	}
}
