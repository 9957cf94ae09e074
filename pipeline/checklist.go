package pipeline

import (
	"cmp"
	"time"
)

// production is the list that a consumer goes through before it is shipped.
func (d *drafter) production() Checklist {
	batch, timeout := cmp.Or(d.Limits.Batch, 2000), "30s"
	if d.Limits.Timeout > 0 {
		timeout = brief(d.Limits.Timeout)
	}
	return Checklist{"Production", []Point{
		always("yes, and it cannot be turned on").to("Is auto-commit off?"),
		always("yes: up to the smallest record that is not settled, and never beyond").to("Is the offset committed after the durable effect?"),
		d.duplicate().to("Is duplicate processing safe?"),
		d.key().to("Is the idempotency key stable, and the domain's own?"),
		always("yes: claim, effect, evidence and position").to("Are effect and dedupe marker in one local transaction?"),
		d.recordKey().to("Does the partition key preserve the order that is needed?"),
		always("no: a failing batch is split until exactly the bad record is set aside").to("Can a failed batch commit past the failed record?"),
		always("yes: what is in flight commits or is undone before the partition is given back; a later owner's epoch fences off the rest").
			to("Does a rebalance commit completed offsets only?"),
		always("no: workers never see the client").to("Is the Kafka client called from worker threads?"),
		declared("at most %d records a transaction and %s a try; fetches are bounded, and polling goes on while effects are applied", batch, timeout).
			to("Are batch and processing time bounded?"),
		d.poison().to("Is there a policy for poison?"),
		always("yes: bytes, key, headers, position, cause and reason, in the store").to("Does quarantine preserve the original?"),
		d.tested().to("Has replay from retained history been tested?"),
		always("it is told per partition: `pawl_consumer_lag_records`, `pawl_consumer_lag_seconds`, `pawl status`").to("Is lag monitored per partition?"),
		always("yes: `pawl_outcomes_total` by outcome").to("Are duplicates, no-ops and stale events counted?"),
		always("yes: the batch in flight commits, or is undone and left to the next owner").to("Does shutdown drain or cancel safely?"),
		d.ownedBy().to("Who owns the consumer?"),
	}}
}

// correctness is the list about order, consistency, idempotency and audit.
func (d *drafter) correctness() Checklist {
	return Checklist{"Order, consistency, idempotency, audit", []Point{
		d.boundary().to("Order: what is the boundary that is needed?"),
		d.recordKey().to("Order: is the Kafka key aligned with it?"),
		d.sampled("whether a stream is spread over partitions").to("Order: are all events of an aggregate keyed consistently?"),
		always("partitions that are added are read from their beginning; keys that move with them are what `pawl doctor` samples").
			to("Order: is repartitioning understood?"),
		d.crossTopics().to("Order: are assumptions across topics avoided?"),
		d.sampled("how much of the traffic the busiest stream has").to("Order: are hot keys known?"),

		always("within a transaction of the store: claim, effect, evidence and position are seen together or not at all").
			to("Consistency: where is it strong?"),
		d.staleReads().to("Consistency: where may it be eventual?"),
		d.truth().to("Consistency: what is the source of truth?"),
		d.rebuild().to("Consistency: can rows be rebuilt deterministically?"),
		d.staleReads().to("Consistency: are stale reads acceptable to those who read?"),
		d.reconciliation().to("Consistency: is there reconciliation?"),

		d.key().to("Idempotency: what key suppresses duplicates?"),
		always("yes: in the store, under the consumer's name, for all its processes").to("Idempotency: is dedupe durable and shared?"),
		always("yes: one decision for each scope and key; the effect's tables need a unique key, which is checked at the start").
			to("Idempotency: are unique constraints used?"),
		d.external().to("Idempotency: are external effects idempotent?"),
		d.commandKey().to("Idempotency: are the identity of commands and that of events separate?"),
		always("yes: a replay goes through the same claim, in the order of its stream").to("Idempotency: are quarantine and replay safe?"),

		always("yes: `pawl explain` gives the outcome and the reason of every event").to("Audit: can it be told why an event was ignored?"),
		d.transitions("yes: the reason names the state it was in and the one it asked for").to("Audit: can it be told why a transition was rejected?"),
		d.history().to("Audit: can state be reconstructed from history?"),
		d.corrections().to("Audit: are corrections modelled?"),
		always("yes: who, why and when, with every act").to("Audit: are operators' acts logged?"),
	}}
}

// review is what a design review asks.
func (d *drafter) review() Checklist {
	return Checklist{"Design review", []Point{
		d.boundary().to("1. What is the exact ordering requirement?"),
		d.recordKey().to("2. What Kafka key implements it?"),
		d.outOfOrder().to("3. What if events arrive out of order?"),
		d.duplicate().to("4. What if the same event is processed twice?"),
		d.crashed().to("5. What if it crashes after the write and before the offset?"),
		d.external().to("6. What if it crashes after an external call and before the offset?"),
		d.replay().to("7. Can the topic be replayed without side effects?"),
		d.rebuild().to("8. Can rows be rebuilt from scratch?"),
		d.outOfOrder().to("9. Are stale events ignored, held or quarantined?"),
		d.transitions("yes: quarantined with the cause `transition`: `pawl quarantine list`, `pawl_quarantined_total`").
			to("10. Are invalid transitions visible to operators?"),
		declared("no; what is needed: %s", d.boundary().text).to("11. Does the design need a global order?"),
		always("yes: `pawl explain` shows every event, decision and act, as of any moment").to("12. Can auditors understand the final state?"),
	}}
}

// approval is what is asked before a pipeline is approved.
func (d *drafter) approval() Checklist {
	return Checklist{"Approval", []Point{
		d.eventID().to("What is the stable event id?"),
		d.key().to("What is the idempotency key of the effect?"),
		always("in the store, beside the effect: `pawl_decision`").to("Where is the state of effects kept?"),
		always("yes: one transaction").to("Is it committed atomically with the effect?"),
		d.crashed().to("What if it crashes after the commit and before the offset?"),
		d.afterDays().to("What if an event is replayed after 30 days?"),
		always("one claims the key; the other meets the claim and changes nothing. Who has lost the partition cannot commit").
			to("What if two workers receive the same event?"),
		d.outOfOrder().to("What if events of an aggregate arrive out of order?"),
		d.newMessage().to("What if the producer sends a duplicate with a new message id?"),
		declared("what fails for an unknown reason is quarantined after %d tries; what fails because something is down waits, and nothing is committed past it",
			cmp.Or(d.Limits.Tries, 5)).to("What if processing fails 100 times?"),
		always("`pawl quarantine list`, `show`, `replay`, `edit`, `skip`, `archive`: a plan first, with who and why; %s", d.behind()).
			to("What is the quarantine workflow?"),
		d.keysKept().to("How long is dedupe state kept?"),
		d.external().to("How does a backfill avoid external effects?"),
		always("`pawl_consumer_lag_records` is the broker's; what was received and not settled is `pawl_unapplied_records`; what is set aside, " +
			"`pawl_quarantine_entries`").to("Which metrics tell the broker's lag from our own?"),
		always("yes: `pawl explain` with the stream, the event or the key").to("Can an operator explain why a row exists?"),
	}}
}

func (d *drafter) crashed() answer {
	return always("the record is delivered again, meets its claim and changes nothing")
}

// sampled is what only the cluster knows.
func (d *drafter) sampled(what string) answer {
	if d.Event.Stream.IsZero() {
		return declared("the events have no streams")
	}
	return answer{"the file cannot show it: `pawl doctor` samples " + what, ByDoctor, ""}
}

func (d *drafter) transitions(text string) answer {
	if d.Workflow == nil {
		return declared("there are no transitions: it is a %s", d.Kind())
	}
	return declared("%s", text)
}

func (d *drafter) commandKey() answer {
	if d.Commands != nil {
		return declared("yes: a command is identified by %s, an event by %s", code(d.Commands.Command.Text), d.spelled(d.OncePer))
	}
	return declared("there are no commands: events are identified by %s", d.spelled(d.OncePer))
}

func (d *drafter) history() answer {
	switch {
	case d.keepsStates():
		return declared("yes: the row before and after each event is kept as evidence")
	case d.Ledger != nil:
		return declared("yes: from the entries in %s, which are never changed", code(d.Ledger.Table))
	}
	for _, r := range d.routes {
		if r.name == "audit" {
			return declared("yes: from the rows of %s, which are never changed", code(r.tables[0].Name))
		}
	}
	return d.rebuild()
}

func (d *drafter) keepsStates() bool {
	switch {
	case d.Projection != nil:
		return d.Projection.States
	case d.Workflow != nil:
		return d.Workflow.States
	case d.Ledger != nil:
		return d.Ledger.States
	case d.Counter != nil:
		return d.Counter.States
	case d.State != nil:
		return d.State.States
	}
	return false
}

func (d *drafter) afterDays() answer {
	const month = Duration(30 * 24 * time.Hour)
	switch {
	case d.Retention.Keys == 0:
		return declared("nothing changes: keys are kept for ever")
	case d.Retention.Keys >= month:
		return declared("nothing changes: keys are kept for at least %s", brief(d.Retention.Keys))
	}
	return open("keep keys for at least 30d, or see that nobody replays so late", "keys are kept for %s only", brief(d.Retention.Keys))
}

func (d *drafter) newMessage() answer {
	if d.positional() {
		return d.key()
	}
	return declared("the same %s is a duplicate where the content is the same%s; other content under it is a conflict",
		d.spelled(d.OncePer), d.apart())
}

// apart is what does not count as content.
func (d *drafter) apart() string {
	if len(d.Content.Except) == 0 {
		return ""
	}
	text := ", apart from"
	for i, name := range d.Content.Except {
		if i > 0 {
			text += ","
		}
		text += " " + code(name)
	}
	return text
}
