package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlhq/pawl"
)

// descs describe what is made at each scrape.
type descs struct {
	outcomes, received, applied, duplicates, conflicts, stale, quarantined, effect *prometheus.Desc
	retries, restarts, fenced, assignments, commits                                *prometheus.Desc
	lag, lagSeconds, offset, unapplied, buffered, halted, condition, state, build  *prometheus.Desc
	entries, entriesAge, gaps, gapsAge, storeErrors                                *prometheus.Desc
}

func newDescs(consumer string) descs {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, prometheus.Labels{"consumer": consumer})
	}
	return descs{
		outcomes: desc("pawl_outcomes_total",
			"Decisions, one for each settled record on each route. from is log, or kept for a record that the store had held or quarantined; cause is set for outcome quarantined.",
			"route", "outcome", "cause", "mode", "from"),
		received: desc("pawl_records_received_total",
			"Records received from the log, each once per ownership of its partition.", "topic"),
		applied: desc("pawl_effects_applied_total",
			"Decisions whose handler's writes are committed: outcome applied.", "route"),
		duplicates: desc("pawl_duplicates_total",
			"Copies that took no effect, because their key was decided before: outcome duplicate. kind is same_position where the very log entry was delivered again, else same_key.",
			"route", "kind"),
		conflicts: desc("pawl_conflicts_total",
			"Records whose key was decided before for other content: quarantined with cause conflict. Each is a fault of a producer, or of what the key is made of.", "route"),
		stale: desc("pawl_stale_total",
			"Events that the state was already past: outcome stale.", "route"),
		quarantined: desc("pawl_quarantined_total",
			"Records set aside whole: outcome quarantined.", "route", "cause"),
		effect: desc("pawl_event_to_effect_seconds",
			"Age of applied records, from their timestamp in the log to their commit in the store.", "route"),
		retries: desc("pawl_tx_retries_total",
			"Batches that did not commit and are tried again, by the class of the error.", "class"),
		restarts: desc("pawl_restarts_total",
			"Partitions taken anew because the store refused their owner.", "cause"),
		fenced: desc("pawl_fenced_total",
			"Partitions taken anew because another owner had taken them: restarts with cause fenced."),
		assignments: desc("pawl_assignments_total",
			"Partitions that this member was given (assigned) or has no more (ended). A storm of rebalances shows here.", "change"),
		commits: desc("pawl_offset_commits_total",
			"Offsets of partitions stored with the group, or not. Effects do not depend on them.", "result"),
		lag: desc("pawl_consumer_lag_records",
			"Offsets of the readable log that are not settled in the store. Not all of them need be records.", "topic", "partition"),
		lagSeconds: desc("pawl_consumer_lag_seconds",
			"Age of the oldest record that was received and is not settled; 0 where the log is settled to its end, absent where records are still to be received.",
			"topic", "partition"),
		offset: desc("pawl_partition_offset",
			"Where this member is: received (the offset after the last one), settled (the store's position), committed (the group's offset; absent before the first), end (of the readable log).",
			"topic", "partition", "kind"),
		unapplied: desc("pawl_unapplied_records", "Records received and not settled.", "topic", "partition"),
		buffered:  desc("pawl_buffered_bytes", "Size of the records received and not settled.", "topic", "partition"),
		halted: desc("pawl_partition_halted",
			"1 where the partition is not read until an operator has answered, else 0.", "topic", "partition"),
		condition: desc("pawl_condition",
			"1 for as long as a partition is in a named state. Without partition it is of the whole topic, without topic of the whole consumer.",
			"topic", "partition", "state"),
		state: desc("pawl_consumer_state",
			"1 for what this member is: latched (nothing is settled until an operator has answered), paused (so, because one wants it), halted (so for some of its partitions), running, idle (it has no partition).",
			"state"),
		entries: desc("pawl_quarantine_entries",
			"Records in quarantine that no operator has decided about. From the store: every member tells the same.", "route", "cause"),
		entriesAge: desc("pawl_quarantine_oldest_age_seconds",
			"How long the oldest of them has been there. From the store: every member tells the same.", "route", "cause"),
		gaps: desc("pawl_gaps_open",
			"Streams whose next event is missing, while later ones wait. From the store: every member tells the same.", "route"),
		gapsAge: desc("pawl_gap_oldest_age_seconds",
			"How long the oldest of them has been open. From the store: every member tells the same.", "route"),
		storeErrors: desc("pawl_store_scrape_errors_total",
			"How often the store could not be asked for its quarantine and gaps; what it would have said is absent then."),
		build: desc("pawl_build_info", "1, with the version of Pawl and of Go.", "version", "goversion"),
	}
}

func (d *descs) all() []*prometheus.Desc {
	return []*prometheus.Desc{
		d.outcomes, d.received, d.applied, d.duplicates, d.conflicts, d.stale, d.quarantined, d.effect,
		d.retries, d.restarts, d.fenced, d.assignments, d.commits,
		d.lag, d.lagSeconds, d.offset, d.unapplied, d.buffered, d.halted, d.condition, d.state, d.build,
		d.entries, d.entriesAge, d.gaps, d.gapsAge, d.storeErrors,
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	m.duration.Describe(ch)
	m.size.Describe(ch)
	for _, d := range m.descs.all() {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.duration.Collect(ch)
	m.size.Collect(ch)
	s := scrape{ch, &m.descs}
	c := m.copy()
	s.decisions(&c)
	s.events(&c)
	var all []pawl.LiveProgress
	if c.runner != nil {
		all = c.runner.Progress()
	}
	conditions, whole := m.conditions.list()
	for _, of := range conditions {
		s.gauge(m.descs.condition, 1, of.topic, of.partition, string(of.state))
	}
	s.state(all, whole)
	now := m.now()
	s.partitions(all, now.Sub)
	if said, failures, ok := m.store.read(now); ok {
		s.waiting(said, failures, now)
	}
	s.gauge(m.descs.build, 1, version(), goVersion)
}

type scrape struct {
	ch    chan<- prometheus.Metric
	descs *descs
}

func (s scrape) counter(d *prometheus.Desc, n uint64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

func (s scrape) gauge(d *prometheus.Desc, v float64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}
