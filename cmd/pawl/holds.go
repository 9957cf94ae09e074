package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

type holdView struct {
	Consumer     string     `json:"consumer"`
	Route        string     `json:"route"`
	Stream       string     `json:"stream"`
	Held         int        `json:"held"`
	BlockedBy    int64      `json:"blockedBy,omitempty"` // the record in quarantine
	Missing      int64      `json:"missing,omitempty"`   // the version that did not come
	Since        *time.Time `json:"since"`
	Until        *time.Time `json:"until,omitempty"` // of a gap: when the first has waited long enough
	OldestHeldAt *time.Time `json:"oldestHeldAt,omitempty"`
}

func (a *app) holdsCommand() *cobra.Command {
	var name string
	var limit int
	cmd := &cobra.Command{
		Use: "holds", Short: "Streams that wait, and for what, the longest first", Args: cobra.NoArgs,
		Long: `Streams that wait, and for what: behind a record in quarantine, until that is replayed, edited, skipped or archived; or for a
version that has not come, until it does or the time to wait is over.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usage("--limit is %d: it is at least 1", limit)
			}
			return a.withStore(cmd.Context(), func(ctx context.Context, s *storage) error {
				of, err := consumers(ctx, s, name)
				if err != nil {
					return err
				}
				l := listing[holdView]{kind: "WaitingStream", columns: a.holdColumns(), empty: "no stream waits"}
				for _, c := range of {
					found, err := s.admin.BlockedStreams(ctx, c.Name, limit)
					if err != nil {
						return err
					}
					for _, b := range found {
						l.items = append(l.items, holdView{
							Consumer: c.Name, Route: b.Route, Stream: b.Stream, Held: b.Held, BlockedBy: b.Quarantine, Since: a.stamp(b.Since),
							OldestHeldAt: a.stamp(b.OldestHeldAt),
						})
					}
					gaps, err := s.admin.Gaps(ctx, c.Name, limit)
					if err != nil {
						return err
					}
					for _, g := range gaps {
						l.items = append(l.items, holdView{
							Consumer: c.Name, Route: g.Route, Stream: g.Stream, Held: g.Waiting, Missing: g.Expected, Since: a.stamp(g.Since),
							Until: a.stamp(g.Until),
						})
					}
				}
				return printList(a, l)
			})
		},
	}
	a.consumerFlag(cmd, &name, anyConsumer)
	cmd.Flags().IntVar(&limit, "limit", 100, "at most so many of each kind and consumer")
	return cmd
}

func (a *app) holdColumns() []column[holdView] {
	return []column[holdView]{
		{name: "consumer", of: func(h holdView) string { return h.Consumer }},
		{name: "route", of: func(h holdView) string { return h.Route }},
		{name: "stream", of: func(h holdView) string { return h.Stream }},
		{name: "held", of: func(h holdView) string { return fmt.Sprint(h.Held) }},
		{name: "waits for", of: func(h holdView) string {
			switch {
			case h.Missing > 0 && h.Until == nil:
				return fmt.Sprintf("version %d", h.Missing)
			case h.Missing > 0:
				return fmt.Sprintf("version %d, until %s", h.Missing, a.at(*h.Until))
			case h.BlockedBy == 0:
				return "its turn: it is being released"
			}
			return fmt.Sprintf("record %d in quarantine", h.BlockedBy)
		}},
		{name: "since", of: func(h holdView) string { return a.at(*h.Since) }},
	}
}
