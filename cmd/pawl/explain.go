package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl"
)

const (
	// explained is how many events of a route are listed, where nobody asks for another number. As many are read at least.
	explained = 100
	// lookedAt is how many are read where none of those has had an effect: what made the row is further back.
	lookedAt = 1000
	// mostExplained bounds what --all reads of one route. Beyond it the answer says that it is not whole.
	mostExplained = 100_000
	// mostAsked bounds --limit: whoever asks for more than --all gives has room for it, but no store counts beyond this.
	mostAsked = 1_000_000_000
)

type explanationView struct {
	Asked  string      `json:"asked"`
	By     []string    `json:"by"` // what it is: stream, event, key
	AsOf   *time.Time  `json:"asOf,omitempty"`
	Whole  bool        `json:"whole"` // everything that there is is listed
	Why    []string    `json:"why"`   // one sentence for each consumer and route, and each of By
	Events []eventView `json:"events"`
	Acts   []actView   `json:"acts"` // of operators

	limit   int
	earlier int  // events that were read and are not listed
	more    bool // and there are more, which were not read
}

// question is what is asked.
type question struct {
	asked, by string
	asOf      time.Time
	limit     int // events of each route that are listed
}

type eventView struct {
	Consumer      string          `json:"consumer"`
	Route         string          `json:"route"`
	At            *time.Time      `json:"at"` // when it was decided
	Outcome       string          `json:"outcome"`
	Reason        string          `json:"reason,omitempty"`
	Claim         bool            `json:"claim"` // this decides the key; else it is a later copy, or was kept
	Type          string          `json:"type,omitempty"`
	Key           string          `json:"key"`
	EventID       string          `json:"eventId,omitempty"`
	Stream        string          `json:"stream,omitempty"`
	Version       int64           `json:"version,omitempty"`
	VersionBefore int64           `json:"versionBefore,omitempty"`
	RowAffected   string          `json:"rowAffected,omitempty"`
	StateBefore   json.RawMessage `json:"stateBefore,omitempty"`
	StateAfter    json.RawMessage `json:"stateAfter,omitempty"`
	SupersededBy  string          `json:"supersededBy,omitempty"` // the key of the event that corrects it
	Topic         string          `json:"topic"`
	Partition     int32           `json:"partition"`
	Offset        int64           `json:"offset"`
	Mode          string          `json:"mode"`
	Code          string          `json:"code,omitempty"`
	OccurredAt    *time.Time      `json:"occurredAt,omitempty"`
	IngestedAt    *time.Time      `json:"ingestedAt,omitempty"`
}

func (a *app) explainCommand() *cobra.Command {
	var name, as string
	var all bool
	q := question{}
	kinds := []string{"stream", "event", "key"}
	cmd := &cobra.Command{
		Use: "explain STREAM|EVENT|KEY", Short: "Why a row is what it is: every event seen, what was decided, and why",
		Long: `Why a row is what it is: every event seen, what was decided and why, the state before and after where the effect keeps it,
and what operators did. The first line is the answer.

What is given is looked for as a stream, as the id of an event and as a key; --by says which it is. With --as-of the answer
is that of a moment in the past; a time to the second is the end of that second, as times are shown.

The latest events of each route are listed, oldest first: --limit says how many, --all lists up to ` + fmt.Sprint(mostExplained) + `. The answer does
not depend on it: where none of them had an effect, it is looked for among the latest ` + fmt.Sprint(lookedAt) + `. Copies are listed with
their event.`,
		Example: "  pawl explain case-4711\n  pawl explain case-4711 --as-of 2h -o json\n  pawl explain case-4711 --all",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if q.asOf, err = a.moment("as-of", as); err != nil {
				return err
			}
			if strings.Contains(as, ":") && !strings.ContainsAny(as, ".,") {
				q.asOf = q.asOf.Add(time.Second - time.Microsecond) // times are shown to the second: what is shown with it is in it
			}
			if q.by != "" && !slices.Contains(kinds, q.by) {
				return usage("--by %q: it is one of %s", q.by, strings.Join(kinds, ", "))
			}
			if q.asked = args[0]; q.asked == "" {
				return usage("what is to be explained is empty")
			}
			if all {
				if cmd.Flags().Changed("limit") {
					return usage("--all and --limit %d: choose one of them", q.limit)
				}
				q.limit = mostExplained
			}
			if q.limit < 1 {
				return usage("--limit %d: it is at least 1", q.limit)
			}
			if q.limit > mostAsked {
				return usage("--limit %d: it is at most %d", q.limit, mostAsked)
			}
			return a.withStore(cmd.Context(), func(ctx context.Context, s *storage) error {
				of, err := consumers(ctx, s, name)
				if err != nil {
					return err
				}
				v, err := a.explain(ctx, s, of, &q)
				if err != nil {
					return err
				}
				if len(v.Events)+len(v.Acts) == 0 {
					return &pawl.Error{Op: "explain " + args[0], Class: pawl.Validation, Err: errNone,
						Hint: "it is no stream, event id or key that was decided; what did not decode is found with pawl quarantine list"}
				}
				return a.printExplanation(v)
			})
		},
	}
	a.consumerFlag(cmd, &name, anyConsumer)
	cmd.Flags().StringVar(&as, "as-of", "", "as of a moment: 2h ago, or 2006-01-02T15:04:05Z")
	cmd.Flags().IntVar(&q.limit, "limit", explained, "list so many events of each route, the latest")
	cmd.Flags().BoolVar(&all, "all", false, "list all events")
	cmd.Flags().StringVar(&q.by, "by", "", "what it is: "+strings.Join(kinds, ", ")+"; otherwise all are tried")
	complete(cmd, "by", kinds...)
	return cmd
}

func (a *app) explain(ctx context.Context, s *storage, of []pawl.BoundConsumer, q *question) (*explanationView, error) {
	v := &explanationView{limit: q.limit, Asked: q.asked, By: []string{}, AsOf: a.stamp(q.asOf), Whole: true, Why: []string{}, Events: []eventView{}, Acts: []actView{}}
	for _, c := range of {
		h, err := historyOf(ctx, s, c.Name, q, max(q.limit, explained))
		if err == nil && q.limit < lookedAt && h.isOpen() {
			h, err = historyOf(ctx, s, c.Name, q, lookedAt)
		}
		if err != nil {
			return nil, err
		}
		for _, kind := range h.kinds {
			if !slices.Contains(v.By, kind) {
				v.By = append(v.By, kind)
			}
		}
		v.more = v.more || len(h.cut) > 0
		shown := latestOf(h.events, q.limit)
		v.earlier += len(h.events) - len(shown)
		for i := range shown {
			v.Events = append(v.Events, a.eventView(c.Name, &shown[i]))
		}
		acts := h.acts[max(len(h.acts)-q.limit, 0):]
		v.Whole = v.Whole && !v.more && v.earlier == 0 && len(acts) == len(h.acts)
		for i := range acts {
			v.Acts = append(v.Acts, a.actView(&acts[i]))
		}
		v.Why = append(v.Why, a.sentences(c.Name, q.asked, h)...)
	}
	return v, nil
}

// history is what one consumer has to do with what is asked: as much as was read. One text may be a stream, and the id of an event
// of another one: each sense has an answer of its own.
type history struct {
	kinds  []string // what it is there
	events []pawl.Evidence
	by     map[spot]sense // as what each of them was found
	cut    map[sense]bool // of which there is more
	acts   []pawl.AuditEntry
}

// sense is what is asked for on one route: stream, event or key.
type sense struct{ route, kind string }

// spot is one piece of evidence.
type spot struct {
	route  string
	at     pawl.Partition
	offset int64
	claim  bool
}

func spotOf(e *pawl.Evidence) spot { return spot{e.Route, e.Partition, e.Offset, e.Claim} }

// isOpen reports whether there is a route on which nothing of what was read has had an effect, and something earlier may have.
func (h *history) isOpen() bool {
	for of := range h.cut {
		if !slices.ContainsFunc(h.events, func(e pawl.Evidence) bool {
			return h.by[spotOf(&e)] == of && e.Claim && e.Outcome == pawl.Applied
		}) {
			return true
		}
	}
	return false
}

// historyOf looks for what is asked in every sense, or in one. It reads so many events of each route, the latest.
func historyOf(ctx context.Context, s *storage, consumer string, q *question, read int) (*history, error) {
	h := &history{by: map[spot]sense{}, cut: map[sense]bool{}}
	for _, kind := range []string{"stream", "event", "key"} {
		if q.by != "" && q.by != kind {
			continue
		}
		ask := pawl.EvidenceQuery{AsOf: q.asOf, Limit: read + 1} // one more tells whether there is more
		switch kind {
		case "stream":
			ask.Stream = q.asked
		case "event":
			ask.EventID = q.asked
		case "key":
			ask.Key = q.asked
		}
		found, err := s.admin.Evidence(ctx, consumer, ask)
		if err != nil {
			return nil, err
		}
		of := map[string]int{}
		for _, e := range found {
			of[e.Route]++
		}
		fresh := false
		for i := range found {
			e := &found[i]
			if of[e.Route] > read {
				of[e.Route]--
				h.cut[sense{e.Route, kind}] = true
				continue
			}
			if _, seen := h.by[spotOf(e)]; !seen {
				h.by[spotOf(e)], fresh = sense{e.Route, kind}, true
				h.events = append(h.events, *e)
			}
		}
		if fresh {
			h.kinds = append(h.kinds, kind)
		}
	}
	inOrder(h.events)
	if err := asCorrected(ctx, s, consumer, q, h.events); err != nil {
		return nil, err
	}
	var err error
	h.acts, err = actsOn(ctx, s, consumer, q, h, read)
	return h, err
}

// asCorrected leaves out the corrections that were decided after the moment in question: an event is marked when they are.
func asCorrected(ctx context.Context, s *storage, consumer string, q *question, events []pawl.Evidence) error {
	for i := range events {
		e := &events[i]
		if e.SupersededBy == "" || q.asOf.IsZero() {
			continue
		}
		found, err := s.admin.Evidence(ctx, consumer, pawl.EvidenceQuery{Key: e.SupersededBy, AsOf: q.asOf})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(found, func(by pawl.Evidence) bool { return by.Route == e.Route && by.Claim }) {
			e.SupersededBy = ""
		}
	}
	return nil
}

// inOrder sorts by what happened first. The events of a batch have one time: of those, the log tells, except that what came early is
// decided after what it waited for. A record is kept before it is decided.
func inOrder(events []pawl.Evidence) {
	type batch struct {
		route, stream string
		at            int64
		partition     pawl.Partition
	}
	claims := map[batch][]*pawl.Evidence{}
	for i := range events {
		if e := &events[i]; e.Claim {
			of := batch{e.Route, e.Identity.Stream, e.ProcessedAt.UnixMicro(), e.Partition}
			claims[of] = append(claims[of], e)
		}
	}
	after := map[spot]int64{} // the last offset that a claim had to wait for
	for _, all := range claims {
		slices.SortFunc(all, func(a, b *pawl.Evidence) int {
			return cmp.Or(cmp.Compare(a.Identity.Version, b.Identity.Version), cmp.Compare(a.Offset, b.Offset))
		})
		last := int64(0)
		for _, e := range all {
			last = max(last, e.Offset)
			after[spotOf(e)] = last
		}
	}
	turn := func(e *pawl.Evidence) int64 { return max(e.Offset, after[spotOf(e)]) }
	slices.SortStableFunc(events, func(a, b pawl.Evidence) int {
		return cmp.Or(a.ProcessedAt.Compare(b.ProcessedAt), strings.Compare(a.Route, b.Route), strings.Compare(a.Partition.Topic, b.Partition.Topic),
			cmp.Compare(a.Partition.Index, b.Partition.Index), cmp.Compare(turn(&a), turn(&b)), cmp.Compare(a.Identity.Version, b.Identity.Version),
			cmp.Compare(a.Offset, b.Offset), cmp.Compare(rank(&a), rank(&b)))
	})
}

// latestOf are the last n of each route.
func latestOf(events []pawl.Evidence, n int) []pawl.Evidence {
	left := map[string]int{}
	for i := range events {
		left[events[i].Route]++
	}
	return slices.DeleteFunc(slices.Clone(events), func(e pawl.Evidence) bool {
		left[e.Route]--
		return left[e.Route] >= n
	})
}

func rank(e *pawl.Evidence) int {
	if e.Claim {
		return 1
	}
	return 0
}

// actsOn are the acts of operators on the records in question.
func actsOn(ctx context.Context, s *storage, consumer string, q *question, h *history, read int) ([]pawl.AuditEntry, error) {
	var all []pawl.AuditEntry
	ask := func(by pawl.AuditQuery) error {
		by.AsOf, by.Limit = q.asOf, read+1
		found, err := s.admin.Audit(ctx, consumer, by)
		all = append(all, found...)
		return err
	}
	if slices.Contains(h.kinds, "stream") {
		if err := ask(pawl.AuditQuery{Stream: q.asked}); err != nil {
			return nil, err
		}
	}
	seen := map[string]bool{}
	for i := range h.events {
		key := h.events[i].Identity.Key
		if key == "" || seen[key] || h.by[spotOf(&h.events[i])].kind == "stream" {
			continue
		}
		seen[key] = true
		if err := ask(pawl.AuditQuery{Key: key}); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b pawl.AuditEntry) int { return cmp.Compare(a.ID, b.ID) })
	return slices.CompactFunc(all, func(a, b pawl.AuditEntry) bool { return a.ID == b.ID }), nil
}

func (a *app) eventView(consumer string, e *pawl.Evidence) eventView {
	event := e.Identity.EventID
	if event == e.Identity.Key {
		event = "" // some stores keep it once, and the answer is the same for all
	}
	return eventView{
		Consumer: consumer, Route: e.Route, At: a.stamp(e.ProcessedAt), Outcome: e.Outcome.String(), Reason: e.Reason, Claim: e.Claim,
		Type: e.Identity.Type, Key: e.Identity.Key, EventID: event, Stream: e.Identity.Stream, Version: e.Identity.Version,
		VersionBefore: e.VersionBefore, RowAffected: e.RowAffected, StateBefore: raw(e.StateBefore), StateAfter: raw(e.StateAfter),
		SupersededBy: e.SupersededBy,
		Topic:        e.Partition.Topic, Partition: e.Partition.Index, Offset: e.Offset, Mode: e.Mode.String(), Code: e.Code,
		OccurredAt: a.stamp(e.Identity.OccurredAt), IngestedAt: a.stamp(e.IngestedAt),
	}
}

// raw is a state as JSON; one that is not JSON is a JSON text.
func raw(state string) json.RawMessage {
	switch {
	case state == "":
		return nil
	case json.Valid([]byte(state)):
		return json.RawMessage(state)
	}
	text, err := json.Marshal(state)
	if err != nil {
		panic(err) // a string always marshals
	}
	return text
}

// sentences answer "why is this row what it is", one for each route and each sense of what is asked.
func (a *app) sentences(consumer, asked string, h *history) []string {
	of := map[sense][]pawl.Evidence{}
	for i := range h.events {
		is := h.by[spotOf(&h.events[i])]
		of[is] = append(of[is], h.events[i])
	}
	var all []string
	for _, is := range slices.SortedFunc(maps.Keys(of), func(x, y sense) int {
		return cmp.Or(strings.Compare(x.route, y.route), cmp.Compare(slices.Index(h.kinds, x.kind), slices.Index(h.kinds, y.kind)))
	}) {
		all = append(all, a.sentence(fmt.Sprintf("%s/%s: %s %q", consumer, is.route, is.kind, asked), of[is], h.acts, h.cut[is]))
	}
	return all
}

// sentence is about the events of one route; cut says that there were earlier ones.
func (a *app) sentence(subject string, events []pawl.Evidence, acts []pawl.AuditEntry, cut bool) string {
	var last, latest *pawl.Evidence
	decided := map[string]bool{}
	for i := range events {
		e := &events[i]
		latest = e
		if e.Claim {
			decided[e.Identity.Key] = true
		}
		if e.Claim && e.Outcome == pawl.Applied && (last == nil || e.ProcessedAt.After(last.ProcessedAt) || e.Identity.Version >= last.Identity.Version) {
			last = e // of one batch, whatever came early is behind what it waited for
		}
	}
	var b strings.Builder
	b.WriteString(subject)
	if last == nil {
		b.WriteString(" has had no effect")
		if cut {
			fmt.Fprintf(&b, " in its latest %d records (--all looks further)", len(events))
		}
		fmt.Fprintf(&b, ": its latest record, %s, was %s at %s", place(latest), latest.Outcome, a.at(latest.ProcessedAt))
		if latest.Reason != "" {
			b.WriteString(" (" + firstLine(latest.Reason) + ")")
		}
	} else {
		b.WriteString(" is as it is")
		if last.Identity.Version > 0 {
			fmt.Fprintf(&b, ", at version %d,", last.Identity.Version)
		}
		b.WriteString(" because ")
		if last.Identity.Type != "" {
			b.WriteString(last.Identity.Type + " ")
		}
		fmt.Fprintf(&b, "%q of %s was applied at %s", cmp.Or(last.Identity.EventID, last.Identity.Key), place(last), a.at(last.ProcessedAt))
		if last.VersionBefore > 0 {
			fmt.Fprintf(&b, " over version %d", last.VersionBefore)
		}
		if last.StateAfter != "" {
			fmt.Fprintf(&b, " and made it %s", last.StateAfter)
		}
		if act := actOn(acts, last); act != nil {
			fmt.Fprintf(&b, ", by %s's %s (%s)", act.By, act.What, act.Why)
		}
		if last.SupersededBy != "" {
			fmt.Fprintf(&b, ", and was corrected by %q since", last.SupersededBy)
		}
	}
	if text := without(events, acts, decided); text != "" {
		if cut {
			text = fmt.Sprintf("; of its latest %d records: %s", len(events), strings.TrimPrefix(text, "; "))
		}
		b.WriteString(text)
	}
	return printable(b.String()) + "."
}

// actOn is the act by which a record took effect, where it was kept before.
func actOn(acts []pawl.AuditEntry, e *pawl.Evidence) *pawl.AuditEntry {
	for i := range acts {
		if samePlace(e, acts[i].Partition, acts[i].Offset) && acts[i].Quarantine != 0 && acts[i].Outcome == e.Outcome {
			return &acts[i]
		}
	}
	return nil
}

// without counts what changed nothing, and what still waits.
func without(events []pawl.Evidence, acts []pawl.AuditEntry, decided map[string]bool) string {
	// A record that was set aside is there no more where it was decided, or where an operator has skipped or archived it. A
	// conflict stays there although its key is decided. One that was held has had its turn where its key is decided, or where
	// it is anything but held.
	settled, released := map[spot]bool{}, map[spot]bool{}
	for i := range events {
		e := &events[i]
		at := spot{at: e.Partition, offset: e.Offset}
		settled[at] = settled[at] || e.Claim
		released[at] = released[at] || e.Outcome != pawl.Held
	}
	for i := range acts {
		act := &acts[i]
		if act.Quarantine != 0 && act.Outcome != pawl.Quarantined && act.Outcome != pawl.Held {
			settled[spot{at: act.Partition, offset: act.Offset}] = true
		}
	}
	idle, waiting := map[pawl.Outcome]int{}, map[pawl.Outcome]int{}
	for i := range events {
		e := &events[i]
		at := spot{at: e.Partition, offset: e.Offset}
		switch {
		case e.Outcome == pawl.Quarantined && !settled[at], e.Outcome == pawl.Held && !decided[e.Identity.Key] && !released[at]:
			waiting[e.Outcome]++
		case e.Outcome != pawl.Applied && e.Outcome != pawl.Held && e.Outcome != pawl.Quarantined:
			idle[e.Outcome]++
		}
	}
	text := ""
	if s := counts(idle); s != "" {
		text += "; without effect: " + s
	}
	if s := counts(waiting); s != "" {
		text += "; not decided: " + s
	}
	return text
}

func samePlace(e *pawl.Evidence, p pawl.Partition, offset int64) bool {
	return e.Partition == p && e.Offset == offset
}

func counts(of map[pawl.Outcome]int) string {
	var all []string
	for o := pawl.Applied; o <= pawl.Skipped; o++ {
		if of[o] > 0 {
			all = append(all, fmt.Sprintf("%d %s", of[o], o))
		}
	}
	return strings.Join(all, ", ")
}

func place(e *pawl.Evidence) string { return position(e.Partition.Topic, e.Partition.Index, e.Offset) }

func (a *app) printExplanation(v *explanationView) error {
	switch a.format {
	case formatJSON, formatYAML:
		return a.printDocument("Explanation", v)
	case formatTable:
		for _, why := range v.Why {
			fmt.Fprintf(a.out, "%s\n", why)
		}
		fmt.Fprintln(a.out)
	}
	err := printList(a, listing[eventView]{kind: "ExplainedEvent", items: v.Events, columns: a.eventColumns()})
	if err != nil || a.format != formatTable {
		return err
	}
	if v.earlier > 0 || v.more {
		further := "--all"
		if v.limit >= mostExplained {
			further = "--limit, which is " + fmt.Sprint(v.limit)
		}
		fmt.Fprintf(a.out, "… and %s: %s\n", earlier(v.earlier, v.more), further)
	}
	a.writeActs(a.out, v.Acts)
	return nil
}

func earlier(n int, more bool) string {
	switch {
	case n == 0:
		return "earlier ones"
	case more:
		return fmt.Sprintf("more than %d earlier", n)
	}
	return fmt.Sprintf("%d earlier", n)
}

func (a *app) writeActs(w io.Writer, acts []actView) {
	for i := range acts {
		if i == 0 {
			fmt.Fprintln(w, "\nwhat operators did:")
		}
		fmt.Fprintln(w, a.actLine(&acts[i]))
	}
}

func (a *app) eventColumns() []column[eventView] {
	number := func(n int64) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprint(n)
	}
	return []column[eventView]{
		{name: "at", of: func(e eventView) string { return a.at(*e.At) }},
		{name: "route", of: func(e eventView) string { return e.Consumer + "/" + e.Route }},
		{name: "outcome", of: func(e eventView) string { return e.Outcome }, color: func(e eventView) string {
			switch e.Outcome {
			case pawl.Applied.String():
				return green
			case pawl.Quarantined.String():
				return red
			case pawl.Held.String():
				return yellow
			}
			return ""
		}},
		{name: "type", of: func(e eventView) string { return e.Type }},
		{name: "version", of: func(e eventView) string { return number(e.Version) }},
		{name: "key", of: func(e eventView) string { return e.Key }},
		{name: "event", of: func(e eventView) string { return e.EventID }},
		{name: "position", of: func(e eventView) string { return position(e.Topic, e.Partition, e.Offset) }},
		{name: "mode", of: func(e eventView) string { return e.Mode }},
		{name: "before", of: func(e eventView) string { return state(e.StateBefore, e.VersionBefore) }},
		{name: "after", of: func(e eventView) string { return string(e.StateAfter) }},
		{name: "reason", of: func(e eventView) string { return e.Reason }},
	}
}

func state(text json.RawMessage, version int64) string {
	switch {
	case len(text) > 0:
		return string(text)
	case version > 0:
		return fmt.Sprintf("version %d", version)
	}
	return ""
}
