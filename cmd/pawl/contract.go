package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/pipeline"
)

type contractView struct {
	Pipeline string       `json:"pipeline"`
	Terms    []termView   `json:"terms"`
	Answers  []answerView `json:"answers"`
	Open     int          `json:"open"` // answers that someone has to give
}

type termView struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

type answerView struct {
	Section  string `json:"section"`
	Question string `json:"question"`
	Answer   string `json:"answer"`
	Open     bool   `json:"open"` // the file does not say: a person has to
}

func (a *app) contractCommand() *cobra.Command {
	return &cobra.Command{
		Use: "contract [FILE|FOLDER…]", Short: "What each pipeline promises, and the answers to a design review, from its file",
		Long: `What each pipeline promises, in Markdown or with -o json: names, keys, order, what becomes of duplicates, of what comes early, of
poison; and the answers to the questions of a design review. What the file cannot answer is marked as open: a person has to.`,
		Example: "  pawl contract orders.yaml > CONTRACT.md",
		RunE: func(_ *cobra.Command, args []string) error {
			set, err := pipeline.Load(a.paths(args), a.environment(true))
			if err != nil {
				return &exitError{exitUsage, err}
			}
			var all []contractView
			for _, p := range set.Pipelines {
				all = append(all, contractOf(p))
			}
			if a.format != formatTable {
				return printList(a, listing[contractView]{kind: "ConsumerContract", items: all, columns: []column[contractView]{
					{name: "pipeline", of: func(c contractView) string { return c.Pipeline }},
					{name: "open", of: func(c contractView) string { return fmt.Sprint(c.Open) }},
				}})
			}
			for _, c := range all {
				if err := c.write(a.out); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func (c *contractView) write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Consumer contract: %s\n\n| | |\n|---|---|\n", c.Pipeline)
	for _, t := range c.Terms {
		fmt.Fprintf(&b, "| %s | %s |\n", t.Name, markdown(t.Text))
	}
	section := ""
	for _, q := range c.Answers {
		if q.Section != section {
			section = q.Section
			fmt.Fprintf(&b, "\n## %s\n\n", section)
		}
		mark := "x"
		if q.Open {
			mark = " "
		}
		fmt.Fprintf(&b, "- [%s] **%s** %s\n", mark, q.Question, markdown(q.Answer))
	}
	fmt.Fprintf(&b, "\n%s open.\n\n", plural(c.Open, "answer"))
	_, err := io.WriteString(w, b.String())
	return err
}

// markdown keeps what a file says from being markup.
func markdown(s string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;", "*", "\\*").Replace(s)
}

// terms of one pipeline, as its file has them.
type terms struct {
	*pipeline.Pipeline
	tables string
	stream string // "": events have none
	early  string
	stale  string
	atomic string
}

const openAnswer = "OPEN: "

func contractOf(p *pipeline.Pipeline) contractView {
	t := &terms{Pipeline: p, stream: p.Event.Stream.Text}
	var tables []string
	for _, table := range p.Tables() {
		tables = append(tables, table.Name)
	}
	t.tables = strings.Join(tables, ", ")
	if t.stream == "" && p.Format == "cloudevents" {
		t.stream = "subject"
	}
	t.early, t.stale = t.outOfOrder()
	t.atomic = "claim, effect, evidence and position commit in one transaction of the store; Kafka's offset is committed after it"
	c := contractView{Pipeline: p.Name}
	for _, term := range []termView{
		{"Name", p.ConsumerName()},
		{"Purpose", p.Description},
		{"Owner", cmp.Or(p.Owner, openAnswer+"the file names no owner")},
		{"Input topic", strings.Join(p.Topic, ", ")},
		{"Group id", p.GroupName()},
		{"Partition key assumption", t.keyAssumption()},
		{"Delivery target", "at least once from Kafka, each effect once per " + p.OncePer.Text},
		{"Side effect", fmt.Sprintf("%s: %s", p.Kind(), t.tables)},
		{"Idempotency key", p.OncePer.Text + ", within the consumer " + p.ConsumerName()},
		{"Commit point", t.atomic},
		{"Duplicate", "the key is decided: nothing is changed; with other content it is a conflict, and quarantined"},
		{"Out of order", t.early + "; " + t.stale},
		{"Illegal transition", t.illegal()},
		{"Poison", t.poison()},
		{"Replay", t.replay()},
		{"Retention", t.retention()},
	} {
		if term.Text != "" {
			c.Terms = append(c.Terms, term)
		}
	}
	for _, q := range questions {
		text := q.answer(t)
		open := strings.HasPrefix(text, openAnswer)
		if open {
			c.Open++
		}
		c.Answers = append(c.Answers, answerView{q.section, q.question, text, open})
	}
	return c
}

func (t *terms) sequenced() bool {
	return t.Projection != nil && cmp.Or(t.Projection.Rule, "next") == "next" || t.Workflow != nil && cmp.Or(t.Workflow.Rule, "next") == "next"
}

func (t *terms) keyAssumption() string {
	if t.stream == "" {
		return "none: events have no streams"
	}
	return "all events of one " + t.stream + " are on one partition"
}

// outOfOrder is what becomes of an event that comes early, and of one that comes late.
func (t *terms) outOfOrder() (early, stale string) {
	switch {
	case t.sequenced() && t.On.Early.Act != "":
		early = "an event whose predecessor is missing: " + t.On.Early.Act
	case t.sequenced() && t.On.Early.Hold > 0:
		early = fmt.Sprintf("an event whose predecessor is missing is held for %s, then: %s", t.On.Early.Hold, cmp.Or(t.On.Early.Then, "quarantine"))
	case t.sequenced():
		early = "an event whose predecessor is missing is held for 10m, then: quarantine"
	default:
		early = "no event is early: versions need not follow on each other"
	}
	switch {
	case t.Projection != nil || t.Workflow != nil:
		stale = "an event below the row's version is decided as stale, and changes nothing"
	case t.State != nil && !t.Event.Version.IsZero():
		stale = "an older version is decided as stale, and changes nothing"
	case t.State != nil:
		stale = "the last to come in the order of the partition wins"
	default:
		stale = "order does not matter to the effect"
	}
	return early, stale
}

func (t *terms) illegal() string {
	if t.Workflow == nil {
		return ""
	}
	return "quarantined, with the state and the transition that was tried"
}

func (t *terms) poison() string {
	behind := "its stream goes on"
	if t.Quarantine == "stream" || t.Quarantine == "" && t.sequenced() {
		behind = "its stream waits behind it, in order"
	}
	if t.On.Poison == "stop" {
		return "the consumer stops in front of it until someone has answered"
	}
	return "quarantined whole, with its bytes, headers, position and cause; " + behind
}

func (t *terms) replay() string {
	return "safe from any offset: what took effect is a duplicate. Effects are rows in the store; nothing is sent outward"
}

func (t *terms) retention() string {
	if t.Retention.Topic == 0 {
		return openAnswer + "the file does not say how long the topic keeps records; keys are kept for ever"
	}
	keys := "for ever"
	if t.Retention.Keys > 0 {
		keys = "for at least " + t.Retention.Keys.String()
	}
	return fmt.Sprintf("the topic keeps records for %s, decided keys are kept %s", t.Retention.Topic, keys)
}

// always answers what holds for every pipeline.
func always(text string) func(*terms) string { return func(*terms) string { return text } }

// undecided is what only a person knows.
func undecided(text string) func(*terms) string { return always(openAnswer + text) }

type question struct {
	section, question string
	answer            func(*terms) string
}

// questions are those of a design review, in its words.
var questions = []question{
	{"Before shipping", "Auto-commit is off.", always("It is, and cannot be switched on.")},
	{"Before shipping", "The offset is committed after the durable effect.", func(t *terms) string { return "Yes: " + t.atomic + "." }},
	{"Before shipping", "Duplicate processing is safe.", always("Yes: a key that is decided changes nothing.")},
	{"Before shipping", "The idempotency key is stable and domain-correct.", func(t *terms) string {
		return openAnswer + "it is " + t.OncePer.Text + ": does every copy of a fact have the same, and every other fact another?"
	}},
	{"Before shipping", "Effect and dedupe marker are in one local transaction.", always("Yes.")},
	{"Before shipping", "The partition key preserves the required order.", func(t *terms) string {
		if t.stream == "" {
			return "No order is required."
		}
		return openAnswer + "producers must key by " + t.stream + "; pawl doctor samples whether they do."
	}},
	{"Before shipping", "A batch that fails does not commit past the failed record.", always("Yes: exactly the bad record is isolated.")},
	{"Before shipping", "A rebalance commits completed offsets only.", always("Yes; and a fence keeps an earlier owner from writing.")},
	{"Before shipping", "The client is used by one thread.", always("Yes: only the source uses it.")},
	{"Before shipping", "Batch size and processing time are bounded.", func(t *terms) string {
		return fmt.Sprintf("Yes: %s records a transaction, %s a try.", orDefault(t.Limits.Batch, "2000"), durationOr(t.Limits.Timeout, "30s"))
	}},
	{"Before shipping", "A policy for poison exists.", func(t *terms) string { return "It is " + t.poison() + "." }},
	{"Before shipping", "Quarantine preserves the original.", always("Yes: bytes, headers, position, time and cause; an edit is a revision beside it.")},
	{"Before shipping", "Replay from retained history was tested.", undecided("run it once on a copy: every record must be a duplicate.")},
	{"Before shipping", "Lag is monitored per partition.", always("pawl_consumer_lag_records and pawl_consumer_lag_seconds tell it.")},
	{"Before shipping", "Duplicates, no-ops and stale events can be counted.", always("pawl_outcomes_total has every decision.")},
	{"Before shipping", "Shutdown drains or safely cancels.", always("It drains; what is cut off is done again by the next owner.")},

	{"Ordering", "What is the required ordering boundary?", func(t *terms) string {
		switch {
		case t.stream == "" || t.Order == "none":
			return "None."
		case t.sequenced():
			return t.stream + ", by version: one after the other."
		}
		return t.stream + "."
	}},
	{"Ordering", "Is the Kafka key aligned with that boundary?", func(t *terms) string {
		if t.stream == "" {
			return "It need not be."
		}
		return openAnswer + "ask the producers; pawl doctor samples it."
	}},
	{"Ordering", "Are all events of one aggregate keyed consistently?", func(t *terms) string {
		if t.stream == "" {
			return "There are no aggregates."
		}
		if t.sequenced() {
			return "Where they are not, versions tell: what comes early waits, what comes late is stale."
		}
		return openAnswer + "ask the producers; pawl doctor samples it."
	}},
	{"Ordering", "Are repartition operations understood?", always("Partitions that are added are found and read from their beginning; a key that moves may come early or late, which versions tell.")},
	{"Ordering", "Are cross-topic ordering assumptions avoided?", func(t *terms) string {
		if len(t.Topic) > 1 && t.sequenced() {
			return openAnswer + "it reads " + strings.Join(t.Topic, ", ") + ", and events of one stream may be on several of them."
		}
		return "Yes: nothing is assumed across topics."
	}},
	{"Ordering", "Are hot keys identified and accepted or mitigated?", undecided("a stream is served by one worker at a time; pawl doctor samples which are hot.")},

	{"Consistency", "Where is strong consistency required?", always("Within the transaction: effect, claim and position. Tables outside the store are not part of it.")},
	{"Consistency", "Where is eventual consistency acceptable?", undecided("readers of the tables see events as late as the lag: who must not?")},
	{"Consistency", "What is the source of truth?", func(t *terms) string {
		switch {
		case t.Projection != nil && t.Projection.Requery != nil:
			return "What answers at " + t.Projection.Requery.URL + "; it is asked where events are missing."
		case t.Workflow != nil && t.Workflow.Requery != nil:
			return "What answers at " + t.Workflow.Requery.URL + "; it is asked where events are missing."
		}
		return "The topic " + strings.Join(t.Topic, ", ") + "."
	}},
	{"Consistency", "Can the tables be rebuilt deterministically?", func(t *terms) string {
		return "From the topic, as long as it keeps its records, under another consumer name and into other tables. Time of reading is no input."
	}},
	{"Consistency", "Are stale reads acceptable in the user journey?", undecided("the tables are as old as the lag.")},
	{"Consistency", "Is reconciliation available?", func(t *terms) string {
		if t.Projection != nil && t.Projection.Requery != nil || t.Workflow != nil && t.Workflow.Requery != nil {
			return "Yes: a stream with a gap is read from the source of truth."
		}
		return openAnswer + "no source of truth is declared that could be asked."
	}},

	{"Idempotency", "What key suppresses duplicates?", func(t *terms) string { return t.OncePer.Text + "." }},
	{"Idempotency", "Is dedupe durable and shared across instances?", always("Yes: it is in the store.")},
	{"Idempotency", "Are unique constraints used?", always("Yes: one row per key claims it.")},
	{"Idempotency", "Are outward effects idempotent?", always("There are none: the effect is rows in the store.")},
	{"Idempotency", "Are command idempotency and event dedupe separated?", func(t *terms) string {
		if t.Commands != nil {
			return "The key of a command is " + t.OncePer.Text + "; copies of the record share it."
		}
		return "It takes events, not commands."
	}},
	{"Idempotency", "Are quarantine and replay safe?", always("Yes: a replay goes the way of any record, in the order of its stream.")},

	{"Auditability", "Can we explain why an event was ignored?", always("Yes: pawl explain.")},
	{"Auditability", "Can we explain why a transition was rejected?", always("Yes: the reason is kept with the record.")},
	{"Auditability", "Can we reconstruct state from history?", func(t *terms) string {
		if t.Projection != nil && t.Projection.States || t.Workflow != nil && t.Workflow.States {
			return "Yes: the row before and after each event is kept."
		}
		return "From the topic; the row before and after each event is kept with states: true."
	}},
	{"Auditability", "Are corrections modelled explicitly?", func(t *terms) string {
		if t.Event.Supersedes.IsZero() {
			return openAnswer + "events do not say what they correct (event.supersedes)."
		}
		return "Yes: " + t.Event.Supersedes.Text + " names what an event corrects."
	}},
	{"Auditability", "Are operator actions logged?", always("Yes: who, why and when, for each record, in the store.")},

	{"Design review", "What happens if events arrive out of order?", func(t *terms) string { return t.early + "; " + t.stale + "." }},
	{"Design review", "What happens if the same event is processed twice?", always("The second time changes nothing.")},
	{"Design review", "What happens after a crash between the database write and the offset commit?", always("The record comes again, and is a duplicate from its own position.")},
	{"Design review", "What happens after a crash between an external call and the offset commit?", always("There is no external call.")},
	{"Design review", "Can the topic be replayed without side effects?", always("Yes: everything that took effect is a duplicate.")},
	{"Design review", "Can the tables be rebuilt from scratch?", always("Under another consumer name, into other tables.")},
	{"Design review", "Are stale events ignored, held or quarantined?", func(t *terms) string { return t.stale + "." }},
	{"Design review", "Are invalid transitions visible to operators?", func(t *terms) string {
		if t.Workflow == nil {
			return "There are no transitions."
		}
		return "Yes: pawl quarantine list --cause transition, and a metric."
	}},
	{"Design review", "Does the design require global order?", func(t *terms) string {
		if t.Order == "partition" || t.Order == "" {
			return "No: the order of a partition is enough."
		}
		return "No."
	}},
	{"Design review", "Can auditors understand why the final state was reached?", always("Yes: pawl explain, also as of a moment in the past.")},

	{"Effects", "What is the stable event id?", func(t *terms) string {
		switch {
		case !t.Event.ID.IsZero():
			return t.Event.ID.Text + "."
		case t.Format == "cloudevents":
			return "The CloudEvent's id."
		}
		return openAnswer + "the file names none (event.id)."
	}},
	{"Effects", "Where is the consumer's effect state stored, and is it committed atomically with the effect?", func(t *terms) string {
		return "In the same database as " + t.tables + ", in the same transaction."
	}},
	{"Effects", "What happens if an event is replayed after 30 days?", func(t *terms) string {
		if k := t.Retention.Keys; k > 0 {
			return "Its key is kept for at least " + k.String() + "; until then it is a duplicate."
		}
		return "It is a duplicate: keys are kept for ever."
	}},
	{"Effects", "What happens if two workers receive the same event?", always("One commits; the other is refused by the claim, or by the fence, and finds a duplicate.")},
	{"Effects", "What happens if a producer emits a duplicate with a new message id?", func(t *terms) string {
		return "It is a duplicate as long as " + t.OncePer.Text + " is the same."
	}},
	{"Effects", "What happens if processing fails 100 times?", func(t *terms) string {
		return fmt.Sprintf("For an unknown reason: quarantined after %s tries. While a dependency is down: tried for as long as it takes, and nothing is skipped.", orDefault(t.Limits.Tries, "5"))
	}},
	{"Effects", "What is the quarantine workflow?", always("docs/operations.md: list, show, replay, edit, skip or archive; plan first, reason recorded.")},
	{"Effects", "How long is dedupe state retained?", func(t *terms) string { return t.retention() + "." }},
	{"Effects", "How does a backfill avoid outward effects?", always("There are none.")},
	{"Effects", "What metrics tell broker lag from work in hand?", always("pawl_consumer_lag_records, and pawl_unapplied_records.")},
	{"Effects", "Can an operator explain why a row exists?", always("Yes: pawl explain.")},
}

func orDefault(n int, def string) string {
	if n == 0 {
		return def
	}
	return fmt.Sprint(n)
}

func durationOr(d pipeline.Duration, def string) string {
	if d == 0 {
		return def
	}
	return d.String()
}
