package pipeline

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// drafter finds the words of a contract. Each method answers one question, however often it is asked.
type drafter struct {
	*Pipeline
	covered Coverage
}

// answer is an answer that several questions may share.
type answer struct {
	text  string
	basis Basis
	todo  string
}

func always(format string, args ...any) answer {
	return answer{fmt.Sprintf(format, args...), ByPawl, ""}
}

func declared(format string, args ...any) answer {
	return answer{fmt.Sprintf(format, args...), ByFile, ""}
}

func open(todo, format string, args ...any) answer {
	return answer{fmt.Sprintf(format, args...), Open, todo}
}

func (a answer) to(question string) Point { return Point{question, a.text, a.basis, a.todo} }

func (d *drafter) terms() []Term {
	owner := cmp.Or(d.Owner, "nobody is named")
	return []Term{
		{"Name", d.ConsumerName()},
		{"Input topic", strings.Join(d.Topic, ", ")},
		{"Group ID", d.GroupName()},
		{"Partition key assumption", d.recordKey().text},
		{"Delivery target", "at-least-once delivery, every event takes effect once per key"},
		{"Side effect", d.sideEffect().text},
		{"Idempotency key", d.key().text},
		{"Commit point", "after the transaction with the effect has committed in the store"},
		{"Duplicate behavior", d.duplicate().text},
		{"Conflict behavior", "the same key with other content is quarantined and counted, and changes nothing"},
		{"Out-of-order behavior", d.outOfOrder().text},
		{"Poison behavior", d.poison().text},
		{"Quarantine behavior", d.behind()},
		{"Replay behavior", d.replay().text},
		{"Retention", d.keysKept().text},
		{"Owner", owner},
	}
}

// rule is which events apply to a row: next, newer, newer_time, last, or "" where rows do not depend on order.
func (d *drafter) rule() string {
	switch {
	case d.Projection != nil:
		return cmp.Or(d.Projection.Rule, "next")
	case d.Workflow != nil:
		return cmp.Or(d.Workflow.Rule, "next")
	case d.State != nil && slices.ContainsFunc(d.State.Columns, func(c Column) bool { return isVersion(c.Value.Text) }):
		return "newer"
	case d.State != nil:
		return "last"
	}
	return ""
}

func isVersion(text string) bool { return text == "version" || text == "event.version" }

// spelled is an expression with what it stands for.
func (d *drafter) spelled(e Expr) string {
	text := code(e.Text)
	for name, part := range map[string]Expr{
		"event.id": d.Event.ID, "event.stream": d.Event.Stream, "event.type": d.Event.Type, "event.version": d.Event.Version,
	} {
		if e.Text == name && !part.IsZero() {
			text += " (" + code(part.Text) + ")"
		}
	}
	return text
}

// brief is a duration without units that are zero.
func brief(d Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

func code(text string) string { return "`" + text + "`" }

func (d *drafter) positional() bool {
	return d.decoder.positions && d.decoder.key.uses["meta.position"]
}

func (d *drafter) key() answer {
	switch {
	case d.positional() && d.State != nil:
		return declared("%s, the place in the log: records replace each other, so that reading one again is harmless", code(d.OncePer.Text))
	case d.positional():
		return open("use an id of the event as once_per, if it has one",
			"%s, the place in the log: an event that is sent again takes effect again", code(d.OncePer.Text))
	}
	return declared("%s, counted under the consumer %s and the effect", d.spelled(d.OncePer), d.ConsumerName())
}

func (d *drafter) eventID() answer {
	switch {
	case !d.Event.ID.IsZero():
		return declared("%s", code(d.Event.ID.Text))
	case d.positional():
		return d.key()
	}
	return declared("none is declared; copies are told by %s", d.spelled(d.OncePer))
}

func (d *drafter) recordKey() answer {
	stream := d.spelled(d.Event.Stream)
	switch {
	case d.Contract.RecordKey != "":
		return declared("the producer keys records by %s", d.Contract.RecordKey)
	case strings.TrimPrefix(d.Event.Stream.Text, "?") == "meta.key":
		return declared("the record key is the stream")
	case d.refusesOverdraft():
		return open("say what the producer keys records by: contract: {record_key: …}",
			"which of two events would leave an account below zero depends on the order in which they are read; the file does not say what records are keyed by")
	case d.rule() == "":
		return declared("none: what is written does not depend on the order of events")
	}
	return open("say what the producer keys records by: contract: {record_key: …}",
		"records of a stream (%s) are taken to share a partition; the file does not say what they are keyed by", stream)
}

func (d *drafter) sideEffect() answer {
	var all []string
	for _, r := range d.routes {
		var names []string
		for _, t := range r.tables {
			names = append(names, code(t.Name))
		}
		all = append(all, fmt.Sprintf("%s in %s: %s", r.name, strings.Join(names, ", "), keeps[r.name]))
	}
	return declared("%s", strings.Join(all, "; beside it, deciding for itself, "))
}

// keeps is what each kind of effect keeps.
var keeps = map[string]string{
	"projection": "one row for each stream",
	"workflow":   "one row for each stream, in a declared state",
	"ledger":     "entries that are never changed",
	"counter":    "sums over groups",
	"audit":      "one row for each event, never changed",
	"state":      "the latest value for each key",
	"commands":   "rows that are to exist, inserted if they are absent",
}

func (d *drafter) duplicate() answer {
	switch {
	case d.positional() && d.State != nil:
		return declared("a record that is delivered again changes nothing; one that is sent again puts the same value in place of itself")
	case d.positional():
		return open(d.key().todo, "a record that is delivered again changes nothing; an event that is sent again takes effect again")
	}
	return always("the claim on the key is committed with the effect: a copy changes nothing, and is counted as a duplicate")
}

func (d *drafter) boundary() answer {
	var what string
	switch d.rule() {
	case "next":
		what = fmt.Sprintf("each stream (%s), by version: an event applies when it is the next", d.spelled(d.Event.Stream))
	case "newer":
		what = fmt.Sprintf("each stream (%s), by version: only a higher one applies", d.spelled(d.Event.Stream))
	case "newer_time":
		what = fmt.Sprintf("each stream (%s), by the events' own times: clocks that differ may lose one", d.spelled(d.Event.Stream))
	case "last":
		what = fmt.Sprintf("each stream (%s), by its place in the partition: the last one wins", d.spelled(d.Event.Stream))
	default:
		what = "none: rows come out the same in any order"
		if d.refusesOverdraft() {
			what = "none for the entries; which of two events would leave an account below zero depends on the order in which they come"
		}
	}
	if d.Order == "none" {
		return declared("%s; records are worked on in any order", what)
	}
	return declared("%s; records are worked on in the order of the %s", what, cmp.Or(d.Order, "partition"))
}

func (d *drafter) outOfOrder() answer {
	switch d.rule() {
	case "next":
		return declared("an older version is stale: ignored and counted; %s", d.early())
	case "newer":
		return declared("an older version is stale: ignored and counted; versions may be left out")
	case "newer_time":
		return declared("an event with an earlier time is stale: ignored and counted")
	case "last":
		return declared("nothing is compared: the last to come wins, so records of a stream must share a partition")
	}
	if d.Kind() == "counter" && !d.Event.Supersedes.IsZero() {
		return declared("sums do not depend on order; a correction that comes before its original is kept, and the original then counts nothing")
	}
	if d.refusesOverdraft() {
		return declared("entries do not depend on order, but which event is refused does: one that would leave an account below zero is " +
			"quarantined, though what covers it may come later; it is replayed then")
	}
	return declared("rows do not depend on the order in which events come")
}

// refusesOverdraft reports whether an event may be set aside because of what came before it.
func (d *drafter) refusesOverdraft() bool {
	return d.Ledger != nil && d.Ledger.Balances != nil && d.Ledger.Balances.Negative == "quarantine"
}

// early is what becomes of an event that comes before its turn.
func (d *drafter) early() string {
	e := d.On.Early
	if e == (Early{}) {
		e = Early{Hold: Duration(10 * time.Minute), Then: "quarantine"}
	}
	then := map[string]string{
		"": "quarantined", "quarantine": "quarantined", "ignore": "ignored", "requery": "replaced by what the source of truth says",
	}[cmp.Or(e.Act, e.Then)]
	if e.Hold == 0 {
		return "a version that comes early is " + then
	}
	return fmt.Sprintf("a version that comes early is held for %s, at most %d of a stream, and then %s", brief(e.Hold), cmp.Or(e.Most, 1000), then)
}

func (d *drafter) poison() answer {
	if d.On.Poison == "stop" {
		return declared("the consumer stops in front of a record that can never take effect, and waits for an answer")
	}
	return declared("quarantined whole, with bytes, key, headers, position and cause; the offset goes on. "+
		"More than %d in %s, or %d of a hundred, stop the consumer",
		cmp.Or(d.Budget.Records, 1000), brief(cmp.Or(d.Budget.Window, Duration(time.Minute))), cmp.Or(d.Budget.Percent, 50))
}

// behind is what waits behind a record in quarantine.
func (d *drafter) behind() string {
	sequenced := (d.Projection != nil || d.Workflow != nil) && d.Order != "none"
	if d.Quarantine == "stream" || d.Quarantine == "" && sequenced {
		return "later records of its stream are held behind it, and released in order when it is settled; others go on"
	}
	return "nothing waits behind a quarantined record"
}

func (d *drafter) keysKept() answer {
	topic := "the topic's is not declared"
	if d.Retention.Topic > 0 {
		topic = "the topic keeps records for " + brief(d.Retention.Topic)
	}
	if d.Retention.Keys > 0 {
		return declared("keys are kept for at least %s; %s", brief(d.Retention.Keys), topic)
	}
	return declared("keys are kept for ever; %s", topic)
}

func (d *drafter) replay() answer {
	again := "reading again changes nothing: every key is decided"
	if d.positional() {
		again = "reading again changes nothing: every place in the log is decided"
	}
	return declared("%s. To fill a new table, use another consumer name and start: earliest", again)
}

func (d *drafter) rebuild() answer {
	switch {
	case d.State != nil:
		return declared("yes, under another consumer name: a compacted topic keeps the last value of each key")
	case d.Retention.Topic == 0:
		return open("say how far back the topic goes: retention: {topic: …}",
			"rows follow from the records alone; how many of them the topic still has is not declared")
	}
	return declared("from the last %s, which the topic keeps, under another consumer name; what is older must come from elsewhere", brief(d.Retention.Topic))
}

// address is a URL without what may be secret in it.
func address(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "an address"
	}
	return u.Scheme + "://" + u.Host + u.Path
}

func (d *drafter) truth() answer {
	requery := ""
	if d.Projection != nil && d.Projection.Requery != nil {
		requery = d.Projection.Requery.URL
	} else if d.Workflow != nil && d.Workflow.Requery != nil {
		requery = d.Workflow.Requery.URL
	}
	switch {
	case d.Contract.Truth != "":
		return declared("%s", d.Contract.Truth)
	case requery != "":
		return declared("%s, which is asked about streams that events are missing of", code(address(requery)))
	case d.State != nil:
		return declared("the topic: it has the latest value of each key")
	}
	return open("say it: contract: {truth: …}", "the file does not say what is right where the table and its source differ")
}

func (d *drafter) staleReads() answer {
	if d.Contract.StaleReads != "" {
		return declared("%s", d.Contract.StaleReads)
	}
	return open("say who reads the table and how old what they see may be: contract: {stale_reads: …}",
		"the table follows the topic by the lag; whether readers can live with that is not said")
}

func (d *drafter) reconciliation() answer {
	if d.Contract.Reconciliation != "" {
		return declared("%s", d.Contract.Reconciliation)
	}
	return open("say how a difference is found: contract: {reconciliation: …}", "none is declared")
}

func (d *drafter) corrections() answer {
	switch {
	case !d.Event.Supersedes.IsZero():
		return declared("yes: %s names what an event corrects, whichever comes first", code(d.Event.Supersedes.Text))
	case d.Counter != nil:
		return open("add event: {supersedes: …} and counter: {contributions: …}", "a correction would count beside what it corrects")
	case d.Ledger != nil:
		return declared("entries are never changed: a correction posts the difference, as an event with a key of its own")
	case d.rule() != "":
		return declared("a correction is a later event of its stream")
	}
	return declared("rows are never changed: a correction is a row of its own")
}

func (d *drafter) external() answer {
	if d.On.Early.Act == "requery" || d.On.Early.Then == "requery" {
		return always("the only call that leaves the store asks the source of truth, and changes nothing there")
	}
	return always("there are none: the effect is rows in the store, in the transaction of the claim")
}

func (d *drafter) ownedBy() answer {
	if d.Owner == "" {
		return open("add owner: the team that is asked at night", "nobody is named")
	}
	return declared("%s", d.Owner)
}

func (d *drafter) tested() answer {
	switch {
	case d.covered.Cases == 0:
		return open("write fixtures beside the file, with a record that comes again: see pawl test", "there are no fixtures")
	case d.covered.Again == 0:
		return open("add a record that comes again, as again: 1 or as the same event with outcome: duplicate",
			"%d cases in fixtures, in none of which a record comes a second time", d.covered.Cases)
	}
	return declared("%d cases in fixtures, in %d of which a record comes a second time: pawl test", d.covered.Cases, d.covered.Again)
}

func (d *drafter) crossTopics() answer {
	switch {
	case len(d.Topic) == 1:
		return declared("yes: one topic is read")
	case d.rule() == "":
		return declared("yes: what is written does not depend on the order of events")
	case d.rule() == "last":
		return open("add event: {version: …} and a column for it, or read one topic",
			"%d topics are read, between which there is no order: the last to come wins", len(d.Topic))
	}
	return declared("yes: %d topics are read, and versions decide, not the order between topics", len(d.Topic))
}
