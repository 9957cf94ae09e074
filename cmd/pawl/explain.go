package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl"
)

// mostExplained bounds what is read of one stream. Beyond it the answer says that it is not whole.
const mostExplained = 100_000

type explanationView struct {
	Asked  string      `json:"asked"`
	By     []string    `json:"by"` // what it is: stream, event, key
	AsOf   *time.Time  `json:"asOf,omitempty"`
	Whole  bool        `json:"whole"` // false: there is more than was read
	Why    []string    `json:"why"`   // one sentence for each consumer and route
	Events []eventView `json:"events"`
	Acts   []actView   `json:"acts"` // of operators
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
	Topic         string          `json:"topic"`
	Partition     int32           `json:"partition"`
	Offset        int64           `json:"offset"`
	Mode          string          `json:"mode"`
	Code          string          `json:"code,omitempty"`
	OccurredAt    *time.Time      `json:"occurredAt,omitempty"`
	IngestedAt    *time.Time      `json:"ingestedAt,omitempty"`
}

func (a *app) explainCommand() *cobra.Command {
	var name, as, by string
	kinds := []string{"stream", "event", "key"}
	cmd := &cobra.Command{
		Use: "explain STREAM|EVENT|KEY", Short: "Why a row is what it is: every event seen, what was decided, and why",
		Long: `Why a row is what it is: every event seen, what was decided and why, the state before and after where the effect keeps it,
and what operators did. The first line is the answer.

What is given is looked for as a stream, as the id of an event and as a key; --by says which it is. With --as-of the answer
is that of a moment in the past.`,
		Example: "  pawl explain case-4711\n  pawl explain case-4711 --as-of 2h -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			asOf, err := a.moment("as-of", as)
			if err != nil {
				return err
			}
			if by != "" && !slices.Contains(kinds, by) {
				return usage("--by %q: it is one of %s", by, strings.Join(kinds, ", "))
			}
			if args[0] == "" {
				return usage("what is to be explained is empty")
			}
			return a.withStore(cmd.Context(), func(ctx context.Context, s *storage) error {
				of, err := consumers(ctx, s, name)
				if err != nil {
					return err
				}
				v, err := a.explain(ctx, s, of, args[0], by, asOf)
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
	cmd.Flags().StringVar(&by, "by", "", "what it is: "+strings.Join(kinds, ", ")+"; otherwise all are tried")
	complete(cmd, "by", kinds...)
	return cmd
}

func (a *app) explain(ctx context.Context, s *storage, of []pawl.BoundConsumer, asked, by string, asOf time.Time) (*explanationView, error) {
	v := &explanationView{Asked: asked, By: []string{}, AsOf: a.stamp(asOf), Whole: true, Why: []string{}, Events: []eventView{}, Acts: []actView{}}
	for _, c := range of {
		evidence, kinds, whole, err := evidenceOf(ctx, s, c.Name, asked, by)
		if err != nil {
			return nil, err
		}
		v.Whole = v.Whole && whole
		acts, err := actsOn(ctx, s, c.Name, asked, kinds, evidence)
		if err != nil {
			return nil, err
		}
		if !asOf.IsZero() {
			evidence = slices.DeleteFunc(evidence, func(e pawl.Evidence) bool { return e.ProcessedAt.After(asOf) })
			acts = slices.DeleteFunc(acts, func(e pawl.AuditEntry) bool { return e.At.After(asOf) })
		}
		for _, kind := range kinds {
			if !slices.Contains(v.By, kind) {
				v.By = append(v.By, kind)
			}
		}
		for i := range evidence {
			v.Events = append(v.Events, a.eventView(c.Name, &evidence[i]))
		}
		for i := range acts {
			v.Acts = append(v.Acts, a.actView(&acts[i]))
		}
		v.Why = append(v.Why, a.sentences(c.Name, asked, kinds, evidence, acts)...)
	}
	return v, nil
}

// evidenceOf looks for what is asked in every sense, or in one. What a stream has is the whole answer; an event and a key are
// looked at only where there is no such stream, or where they are asked for.
func evidenceOf(ctx context.Context, s *storage, consumer, asked, by string) (all []pawl.Evidence, kinds []string, whole bool, err error) {
	seen := map[string]bool{}
	whole = true
	for _, kind := range []string{"stream", "event", "key"} {
		if by != "" && by != kind {
			continue
		}
		q := pawl.EvidenceQuery{Limit: mostExplained}
		switch kind {
		case "stream":
			q.Stream = asked
		case "event":
			q.EventID = asked
		case "key":
			q.Key = asked
		}
		found, err := s.admin.Evidence(ctx, consumer, q)
		if err != nil {
			return nil, nil, false, err
		}
		whole = whole && len(found) < mostExplained
		fresh := false
		for _, e := range found {
			id := fmt.Sprint(e.Route, e.Partition, e.Partition.TopicID, e.Offset, e.Claim)
			if !seen[id] {
				seen[id], fresh = true, true
				all = append(all, e)
			}
		}
		if fresh {
			kinds = append(kinds, kind)
		}
	}
	slices.SortStableFunc(all, func(a, b pawl.Evidence) int {
		// A record is kept before it is decided, also where both happened in one instant.
		return cmp.Or(a.ProcessedAt.Compare(b.ProcessedAt), strings.Compare(a.Route, b.Route), strings.Compare(a.Partition.Topic, b.Partition.Topic),
			cmp.Compare(a.Partition.Index, b.Partition.Index), cmp.Compare(a.Offset, b.Offset), cmp.Compare(rank(&a), rank(&b)))
	})
	return all, kinds, whole, nil
}

func rank(e *pawl.Evidence) int {
	if e.Claim {
		return 1
	}
	return 0
}

// actsOn are the acts of operators on the records in question.
func actsOn(ctx context.Context, s *storage, consumer, asked string, kinds []string, evidence []pawl.Evidence) ([]pawl.AuditEntry, error) {
	if slices.Contains(kinds, "stream") {
		return s.admin.Audit(ctx, consumer, pawl.AuditQuery{Stream: asked, Limit: mostExplained})
	}
	var all []pawl.AuditEntry
	seen := map[string]bool{}
	for _, e := range evidence {
		if e.Identity.Key == "" || seen[e.Identity.Key] {
			continue
		}
		seen[e.Identity.Key] = true
		found, err := s.admin.Audit(ctx, consumer, pawl.AuditQuery{Key: e.Identity.Key})
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, func(a, b pawl.AuditEntry) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
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
		Topic: e.Partition.Topic, Partition: e.Partition.Index, Offset: e.Offset, Mode: e.Mode.String(), Code: e.Code,
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

// sentences answer "why is this row what it is", one for each route.
func (a *app) sentences(consumer, asked string, kinds []string, evidence []pawl.Evidence, acts []pawl.AuditEntry) []string {
	var routes []string
	byRoute := map[string][]pawl.Evidence{}
	for _, e := range evidence {
		if byRoute[e.Route] == nil {
			routes = append(routes, e.Route)
		}
		byRoute[e.Route] = append(byRoute[e.Route], e)
	}
	slices.Sort(routes)
	subject := "key"
	if len(kinds) > 0 {
		subject = kinds[0]
	}
	var all []string
	for _, route := range routes {
		all = append(all, a.sentence(fmt.Sprintf("%s/%s: %s %q", consumer, route, subject, asked), byRoute[route], acts))
	}
	return all
}

func (a *app) sentence(subject string, events []pawl.Evidence, acts []pawl.AuditEntry) string {
	var last, latest *pawl.Evidence
	decided := map[string]bool{}
	for i := range events {
		e := &events[i]
		latest = e
		if e.Claim {
			decided[e.Identity.Key] = true
		}
		if e.Claim && e.Outcome == pawl.Applied {
			last = e
		}
	}
	var b strings.Builder
	b.WriteString(subject)
	if last == nil {
		fmt.Fprintf(&b, " has had no effect: its latest record, %s, was %s at %s", place(latest), latest.Outcome, a.at(latest.ProcessedAt))
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
	}
	b.WriteString(without(events, acts, decided))
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
	idle, waiting := map[pawl.Outcome]int{}, map[pawl.Outcome]int{}
	for i := range events {
		e := &events[i]
		switch {
		case e.Outcome == pawl.Quarantined && !settled(e, events, acts), e.Outcome == pawl.Held && !released(e, events, decided):
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

// settled reports whether a record that was set aside is there no more: it was decided, or an operator has skipped or archived
// it. A conflict stays there although its key is decided.
func settled(e *pawl.Evidence, events []pawl.Evidence, acts []pawl.AuditEntry) bool {
	for i := range events {
		if events[i].Claim && samePlace(e, events[i].Partition, events[i].Offset) {
			return true
		}
	}
	for _, act := range acts {
		if samePlace(e, act.Partition, act.Offset) && act.Quarantine != 0 && act.Outcome != pawl.Quarantined && act.Outcome != pawl.Held {
			return true
		}
	}
	return false
}

// released reports whether a record that was held has had its turn.
func released(e *pawl.Evidence, events []pawl.Evidence, decided map[string]bool) bool {
	return decided[e.Identity.Key] || slices.ContainsFunc(events, func(o pawl.Evidence) bool {
		return o.Outcome != pawl.Held && samePlace(e, o.Partition, o.Offset)
	})
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
	a.writeActs(a.out, v.Acts)
	if !v.Whole {
		a.note("only the first %d records were read: this is not the whole history", mostExplained)
	}
	return nil
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
