package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl"
)

func (a *app) quarantineCommand() *cobra.Command {
	return group("quarantine", "Records that were set aside",
		a.quarantineListCommand(), a.quarantineShowCommand(), a.quarantineReplayCommand(), a.quarantineEditCommand(),
		a.quarantineSkipCommand(), a.quarantineArchiveCommand())
}

// selection is which records are meant.
type selection struct {
	consumer string
	route    string
	cause    string
	stream   string
	contains string
	since    string
	until    string
}

func (s *selection) flags(a *app, cmd *cobra.Command) {
	a.consumerFlag(cmd, &s.consumer, oneConsumer)
	f := cmd.Flags()
	f.StringVar(&s.route, "route", "", "only of this route")
	f.StringVar(&s.cause, "cause", "", "only with this cause: "+strings.Join(causes, ", "))
	f.StringVar(&s.stream, "stream", "", "only of this stream")
	f.StringVar(&s.contains, "contains", "", "only where the reason contains this text")
	f.StringVar(&s.since, "since", "", "only what was set aside since: 2h, 7d, or 2006-01-02T15:04:05Z")
	f.StringVar(&s.until, "until", "", "only what was set aside before")
	complete(cmd, "cause", causes...)
}

var causes = []string{
	pawl.CausePoison, pawl.CauseConflict, pawl.CauseValidation, pawl.CauseCorruption, pawl.CauseFailure, pawl.CauseCrash,
	pawl.CauseGap, pawl.CauseTransition,
}

// filter is what the store is asked for; ids may be none.
func (s *selection) filter(a *app, ids []string) (f pawl.QuarantineFilter, err error) {
	f = pawl.QuarantineFilter{Route: s.route, Cause: s.cause, Stream: s.stream, Reason: s.contains}
	if s.cause != "" && !slices.Contains(causes, s.cause) {
		return f, usage("--cause %q is none: it is one of %s", s.cause, strings.Join(causes, ", "))
	}
	if f.Since, err = a.moment("since", s.since); err != nil {
		return f, err
	}
	if f.Until, err = a.moment("until", s.until); err != nil {
		return f, err
	}
	for _, text := range ids {
		id, err := parseID(text)
		if err != nil {
			return f, err
		}
		f.IDs = append(f.IDs, id)
	}
	return f, nil
}

func parseID(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return 0, usage("%q is no id: ids are numbers, as the lists show them", text)
	}
	return id, nil
}

type quarantineView struct {
	ID        int64      `json:"id"`
	Consumer  string     `json:"consumer"`
	Route     string     `json:"route"`
	Status    string     `json:"status"`
	Cause     string     `json:"cause"`
	Reason    string     `json:"reason"`
	Topic     string     `json:"topic"`
	Partition int32      `json:"partition"`
	Offset    int64      `json:"offset"`
	Key       string     `json:"key,omitempty"`
	Stream    string     `json:"stream,omitempty"`
	Blocks    int        `json:"blocks"`
	Tries     int        `json:"tries"`
	Replays   int        `json:"replays"`
	At        *time.Time `json:"at"`

	Record    *recordView    `json:"record,omitempty"`
	Revisions []revisionView `json:"revisions,omitempty"`
	Acts      []actView      `json:"acts,omitempty"`
}

func (a *app) quarantineView(consumer string, q *pawl.QuarantineItem) quarantineView {
	return quarantineView{
		ID: q.ID, Consumer: consumer, Route: q.Route, Status: q.Status, Cause: q.Cause, Reason: q.Reason, Topic: q.Partition.Topic,
		Partition: q.Partition.Index, Offset: q.Offset, Key: q.Key, Stream: q.Stream, Blocks: q.Blocks, Tries: q.Tries,
		Replays: q.Replays, At: a.stamp(q.At),
	}
}

func (q quarantineView) position() string { return position(q.Topic, q.Partition, q.Offset) }

func position(topic string, partition int32, offset int64) string {
	return fmt.Sprintf("%s/%d@%d", topic, partition, offset)
}

// recordView is a record as it came. A value that is not text is base64.
type recordView struct {
	Timestamp *time.Time   `json:"timestamp,omitempty"`
	Key       *bytesView   `json:"key"`
	Value     *bytesView   `json:"value"`
	Headers   []headerView `json:"headers,omitempty"`
}

type headerView struct {
	Key   string     `json:"key"`
	Value *bytesView `json:"value"`
}

// bytesView is bytes: as text where they are some, else in base64. Null is none.
type bytesView struct {
	Text   string `json:"text,omitempty"`
	Base64 string `json:"base64,omitempty"`
}

func viewBytes(b []byte) *bytesView {
	switch {
	case b == nil:
		return nil
	case utf8.Valid(b):
		return &bytesView{Text: string(b)}
	}
	return &bytesView{Base64: base64.StdEncoding.EncodeToString(b)}
}

func (b *bytesView) String() string {
	switch {
	case b == nil:
		return "(none)"
	case b.Base64 != "":
		return "base64:" + b.Base64
	}
	return printable(b.Text)
}

type revisionView struct {
	Number int        `json:"number"`
	Value  *bytesView `json:"value"`
	By     string     `json:"by"`
	Why    string     `json:"why"`
	At     *time.Time `json:"at"`
}

func (a *app) quarantineListCommand() *cobra.Command {
	var sel selection
	var status string
	var limit int
	var groups bool
	statuses := []string{pawl.QuarantineOpen, pawl.QuarantineReplayed, pawl.QuarantineSkipped, pawl.QuarantineArchived, pawl.QuarantineAny}
	cmd := &cobra.Command{
		Use: "list", Short: "List records that were set aside, oldest first", Args: cobra.NoArgs,
		Example: "  pawl quarantine list --groups\n  pawl quarantine list --cause validation --since 2h",
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := sel.filter(a, nil)
			if err != nil {
				return err
			}
			f.Status = status
			if _, err := f.StatusNumber(); err != nil {
				return &exitError{exitUsage, err}
			}
			if limit < 1 {
				return usage("--limit is %d: it is at least 1", limit)
			}
			return a.withStore(cmd.Context(), func(ctx context.Context, s *storage) error {
				c, err := consumer(ctx, s, sel.consumer)
				if err != nil {
					return err
				}
				if groups {
					return a.listGroups(ctx, s, c.Name)
				}
				found, err := s.admin.Quarantine(ctx, c.Name, f, limit+1, 0)
				if err != nil {
					return err
				}
				l := listing[quarantineView]{kind: "QuarantinedRecord", columns: a.quarantineColumns(), empty: "no record matches"}
				for i := range found[:min(limit, len(found))] {
					l.items = append(l.items, a.quarantineView(c.Name, &found[i]))
				}
				if len(found) > limit {
					a.note("there are more than %d: raise --limit, or narrow it down", limit)
				}
				return printList(a, l)
			})
		},
	}
	sel.flags(a, cmd)
	cmd.Flags().StringVar(&status, "status", pawl.QuarantineOpen, strings.Join(statuses, ", "))
	cmd.Flags().IntVar(&limit, "limit", 100, "at most so many")
	cmd.Flags().BoolVar(&groups, "groups", false, "count what is open by route and cause; other filters do not apply")
	complete(cmd, "status", statuses...)
	return cmd
}

func (a *app) quarantineColumns() []column[quarantineView] {
	return []column[quarantineView]{
		{name: "id", of: func(q quarantineView) string { return fmt.Sprint(q.ID) }},
		{name: "route", of: func(q quarantineView) string { return q.Route }},
		{name: "status", of: func(q quarantineView) string { return q.Status }},
		{name: "cause", of: func(q quarantineView) string { return q.Cause }},
		{name: "position", of: quarantineView.position},
		{name: "stream", of: func(q quarantineView) string { return q.Stream }},
		{name: "key", of: func(q quarantineView) string { return q.Key }},
		{name: "blocks", of: func(q quarantineView) string { return fmt.Sprint(q.Blocks) }},
		{name: "replays", of: func(q quarantineView) string { return fmt.Sprint(q.Replays) }},
		{name: "at", of: func(q quarantineView) string { return a.at(*q.At) }},
		{name: "reason", of: func(q quarantineView) string { return q.Reason }},
	}
}

type groupView struct {
	Consumer string     `json:"consumer"`
	Route    string     `json:"route"`
	Cause    string     `json:"cause"`
	Count    int        `json:"count"`
	Streams  int        `json:"streams"`
	Oldest   *time.Time `json:"oldest"`
	Newest   *time.Time `json:"newest"`
	Reason   string     `json:"reason"` // of the oldest
}

func (a *app) listGroups(ctx context.Context, s *storage, consumer string) error {
	found, err := s.admin.QuarantineGroups(ctx, consumer)
	if err != nil {
		return err
	}
	l := listing[groupView]{kind: "QuarantineGroup", empty: "nothing is open", columns: []column[groupView]{
		{name: "count", of: func(g groupView) string { return fmt.Sprint(g.Count) }},
		{name: "route", of: func(g groupView) string { return g.Route }},
		{name: "cause", of: func(g groupView) string { return g.Cause }},
		{name: "streams", of: func(g groupView) string { return fmt.Sprint(g.Streams) }},
		{name: "oldest", of: func(g groupView) string { return a.at(*g.Oldest) }},
		{name: "newest", of: func(g groupView) string { return a.at(*g.Newest) }},
		{name: "reason", of: func(g groupView) string { return g.Reason }},
	}}
	for _, g := range found {
		l.items = append(l.items, groupView{consumer, g.Route, g.Cause, g.Count, g.Streams, a.stamp(g.Oldest), a.stamp(g.Newest), g.Reason})
	}
	return printList(a, l)
}

func (a *app) quarantineShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show one record whole: its bytes, why it is there, what was done about it", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseID(args[0])
			if err != nil {
				return err
			}
			return a.withStore(cmd.Context(), func(ctx context.Context, s *storage) error {
				v, err := a.showRecord(ctx, s, id)
				if err != nil {
					return err
				}
				return a.printObject("QuarantinedRecord", v, func(w io.Writer) { a.writeRecord(w, v) })
			})
		},
	}
}

func (a *app) showRecord(ctx context.Context, s *storage, id int64) (*quarantineView, error) {
	q, err := s.admin.QuarantineItem(ctx, id)
	if err != nil {
		return nil, err
	}
	of, err := consumerOf(ctx, s, id)
	if err != nil {
		return nil, err
	}
	v := a.quarantineView(of, q)
	v.Record = &recordView{Timestamp: a.stamp(q.Record.Timestamp), Key: viewBytes(q.Record.Key), Value: viewBytes(q.Record.Value)}
	for _, h := range q.Record.Headers {
		v.Record.Headers = append(v.Record.Headers, headerView{h.Key, viewBytes(h.Value)})
	}
	for _, r := range q.Revisions {
		v.Revisions = append(v.Revisions, revisionView{r.Number, viewBytes(r.Value), r.By, r.Why, a.stamp(r.At)})
	}
	// One that did not decode has no key: then the latest acts of its consumer are looked through.
	acts, err := s.admin.Audit(ctx, of, pawl.AuditQuery{Key: q.Key})
	if err != nil {
		return nil, err
	}
	for i := range acts {
		if acts[i].Quarantine == id {
			v.Acts = append(v.Acts, a.actView(&acts[i]))
		}
	}
	return &v, nil
}

// consumerOf is whose record it is.
func consumerOf(ctx context.Context, s *storage, id int64) (string, error) {
	all, err := s.admin.Consumers(ctx)
	if err != nil {
		return "", err
	}
	for _, c := range all {
		f := pawl.QuarantineFilter{IDs: []int64{id}, Status: pawl.QuarantineAny}
		if found, err := s.admin.Quarantine(ctx, c.Name, f, 1, 0); err != nil || len(found) > 0 {
			return c.Name, err
		}
	}
	return "", pawl.NoSuch("record in quarantine", id)
}

func (a *app) writeRecord(w io.Writer, v *quarantineView) {
	fields := [][2]string{
		{"id", fmt.Sprint(v.ID)}, {"consumer", v.Consumer}, {"route", v.Route}, {"status", v.Status}, {"cause", v.Cause},
		{"reason", v.Reason}, {"position", v.position()}, {"key", v.Key}, {"stream", v.Stream},
		{"blocked behind it", fmt.Sprint(v.Blocks)}, {"tries", fmt.Sprint(v.Tries)}, {"replays", fmt.Sprint(v.Replays)},
		{"set aside", a.at(*v.At)}, {"record key", v.Record.Key.String()},
	}
	if v.Record.Timestamp != nil {
		fields = append(fields, [2]string{"written", a.at(*v.Record.Timestamp)})
	}
	for _, h := range v.Record.Headers {
		fields = append(fields, [2]string{"header " + printable(h.Key), h.Value.String()})
	}
	writeFields(w, fields)
	fmt.Fprintf(w, "\nvalue as it came:\n%s\n", v.Record.Value)
	for _, r := range v.Revisions {
		fmt.Fprintf(w, "\nrevision %d, by %s at %s: %s\n%s\n", r.Number, printable(r.By), a.at(*r.At), printable(r.Why), r.Value)
	}
	for _, act := range v.Acts {
		fmt.Fprintf(w, "\n%s\n", a.actLine(&act))
	}
}

// writeFields writes names and values below each other; what is empty is left out.
func writeFields(w io.Writer, fields [][2]string) {
	width := 0
	for _, f := range fields {
		if f[1] != "" {
			width = max(width, utf8.RuneCountInString(f[0]))
		}
	}
	for _, f := range fields {
		if f[1] != "" {
			fmt.Fprintf(w, "%-*s  %s\n", width, f[0], strings.ReplaceAll(printable(f[1]), "\n", "\n"+strings.Repeat(" ", width+2)))
		}
	}
}
