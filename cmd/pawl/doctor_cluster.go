package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/kafka"
)

// shortRetention is the retention below which an outage over a weekend loses records.
const shortRetention = 3 * 24 * time.Hour

func checkCluster(_ context.Context, v *visit) diagnosis {
	if v.clusterErr != nil {
		return failed(v.clusterErr)
	}
	return healthy("%s answers: cluster %s", strings.Join(v.set.Kafka.Brokers, ","), v.cluster)
}

func checkTopic(_ context.Context, v *visit) diagnosis {
	for _, t := range v.topics {
		switch {
		case errors.Is(t.Err, kafka.ErrNoTopic):
			return failure("create it, or correct topic: in the file", "there is no topic %s", t.Name)
		case t.Err != nil:
			text, hint := apart(t.Err)
			if hint == "" {
				hint = "give this login the right to read and describe the topic"
			}
			return failure(hint, "topic %s: %s", t.Name, text)
		}
	}
	return healthy("%s: there", strings.Join(v.p.Topic, ", "))
}

// each makes a diagnosis for each topic that can be looked at, and returns the worst; of equals the first.
func (v *visit) each(of func(t *kafka.Topic) diagnosis) diagnosis {
	order := []string{checkFailure, checkWarning, checkSkipped, checkOK}
	var worst *diagnosis
	for i := range v.topics {
		if v.topics[i].Err != nil {
			continue
		}
		d := of(&v.topics[i])
		if worst == nil || slices.Index(order, d.status) < slices.Index(order, worst.status) {
			worst = &d
		}
	}
	return *worst
}

// checkAccess compares what the login may with what reading takes. Without a login everybody may everything.
func checkAccess(ctx context.Context, v *visit) diagnosis {
	ofGroup, err := v.source.GroupRights(ctx)
	if err != nil {
		return failed(err)
	}
	if v.sample.err != nil {
		return failed(v.sample.err)
	}
	k := v.set.Kafka
	login := k.SASL != nil || k.TLS != nil && !k.TLS.Certificate.IsZero()
	return v.each(func(t *kafka.Topic) diagnosis { return access(t, v.p.GroupName(), ofGroup, login) })
}

// access judges what a login may do with a topic and a group. Brokers that do not say are believed to allow it.
func access(t *kafka.Topic, group string, ofGroup []string, login bool) diagnosis {
	var excess []string
	for _, right := range []string{"WRITE", "DELETE", "ALTER", "ALTER_CONFIGS"} {
		if slices.Contains(t.Rights, right) {
			excess = append(excess, right)
		}
	}
	switch {
	case ofGroup != nil && !slices.Contains(ofGroup, "READ"):
		return failure("allow READ on group "+group, "this login may not read as group %s", group)
	case t.Rights != nil && !slices.Contains(t.Rights, "READ"):
		return failure("allow READ on topic "+t.Name, "this login may not read topic %s", t.Name)
	case !login:
		return healthy("the cluster is read without a login")
	case t.Rights == nil:
		return healthy("the broker does not say what this login may")
	case len(excess) > 0:
		return warning("give the consumer a login of its own, with READ and DESCRIBE",
			"this login may %s topic %s, which reading does not need", strings.Join(excess, ", "), t.Name)
	}
	return healthy("this login may read, and no more")
}

func checkPartitions(_ context.Context, v *visit) diagnosis {
	total := 0
	for _, t := range v.topics {
		total += t.Partitions
	}
	workers := v.p.Limits.Workers
	switch {
	case v.processes > total:
		return warning("run fewer processes, or add partitions before the first record", "%d processes share %s: some have none", v.processes, plural(total, "partition"))
	case workers > 0 && (v.p.Order == "" || v.p.Order == "partition") && workers > total:
		return warning("lower limits.workers, or write order: stream", "%d workers share %s, each of which is worked on by one at a time", workers, plural(total, "partition"))
	}
	return healthy("%s", plural(total, "partition"))
}

// checkCleanup compares what the topic throws away with what the effect needs.
func checkCleanup(_ context.Context, v *visit) diagnosis {
	snapshots := v.p.State != nil || v.p.Projection != nil && v.p.Projection.Rule == "newer"
	return v.each(func(t *kafka.Topic) diagnosis {
		switch {
		case t.Settings != nil:
			return skipped("the settings of %s are not told: %v", t.Name, t.Settings)
		case t.Compacted && !snapshots:
			return failure("set cleanup.policy=delete on the topic; or, if each event replaces the one before, keep a state or a projection with rule: newer",
				"%s is compacted: events go as soon as a later one has their key, and a %s needs each of them", t.Name, v.p.Kind())
		case v.p.State != nil && !t.Compacted:
			return warning("set cleanup.policy=compact on the topic", "%s is not compacted: a key that is not written again goes from the topic, and stays in the table", t.Name)
		case t.Compacted:
			return healthy("%s is compacted", t.Name)
		}
		return healthy("%s is not compacted", t.Name)
	})
}

// checkRetention compares how long records stay with how long keys do, and with what the file says.
func checkRetention(_ context.Context, v *visit) diagnosis {
	keys, said := time.Duration(v.p.Retention.Keys), time.Duration(v.p.Retention.Topic)
	return v.each(func(t *kafka.Topic) diagnosis {
		forever := !t.Deleted || t.Retention < 0
		kept := "for ever"
		if !forever {
			kept = "for " + days(t.Retention)
		}
		switch {
		case t.Settings != nil:
			return skipped("the settings of %s are not told: %v", t.Name, t.Settings)
		case keys > 0 && (forever || t.Retention > keys):
			return failure("keep keys for longer: retention: {keys: …}, or for ever by leaving it out",
				"%s keeps records %s, and keys are kept for %s: a record that is read again after that takes effect again", t.Name, kept, days(keys))
		case said > 0 && !forever && t.Retention < said:
			return failure(fmt.Sprintf("set retention.ms=%d on the topic, or correct retention: {topic: …} in the file", said.Milliseconds()),
				"%s keeps records %s, and the file says %s", t.Name, kept, days(said))
		case !forever && t.Retention < shortRetention:
			return warning("raise retention.ms: what is deleted before it was read is lost",
				"%s keeps records %s: a consumer that stands still for longer loses some", t.Name, kept)
		case t.Deleted && t.RetainBytes >= 0:
			return warning("set retention.bytes=-1, or see that the time comes first",
				"%s keeps at most %d bytes of a partition: a burst deletes records before their time", t.Name, t.RetainBytes)
		}
		return healthy("%s keeps records %s, keys are kept %s", t.Name, kept, keysKept(keys))
	})
}

func keysKept(keys time.Duration) string {
	if keys == 0 {
		return "for ever"
	}
	return "for " + days(keys)
}

func days(d time.Duration) string {
	if day := 24 * time.Hour; d >= day && d%day == 0 {
		return plural(int(d/day), "day")
	}
	return strings.TrimSuffix(strings.TrimSuffix(d.String(), "0s"), "0m")
}
