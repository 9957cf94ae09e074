package main

import (
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

The latest events of each route are listed, oldest first: --limit says how many, --all lists up to ` + fmt.Sprint(mostExplained) + `. The
answer does not depend on it: where none of them had an effect, it is looked for among the latest ` + fmt.Sprint(lookedAt) + `. Copies are
listed with their event.`,
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
	v := &explanationView{
		Asked: q.asked, By: []string{}, AsOf: a.stamp(q.asOf), Whole: true, Why: []string{}, Events: []eventView{}, Acts: []actView{}, limit: q.limit,
	}
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
