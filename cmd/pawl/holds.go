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
	Expected     int64      `json:"expected,omitempty"`  // the version that is missing
	Lowest       int64      `json:"lowest,omitempty"`    // of those that wait for it
	Highest      int64      `json:"highest,omitempty"`
	Until        *time.Time `json:"until,omitempty"` // when the first of them has waited long enough
	Since        *time.Time `json:"since"`
	OldestHeldAt *time.Time `json:"oldestHeldAt,omitempty"`
}

func (a *app) holdsCommand() *cobra.Command {
	var name string
	var limit int
	cmd := &cobra.Command{
		Use: "holds", Short: "Streams that wait for a record in quarantine or for an event that is missing, the longest first", Args: cobra.NoArgs,
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
							Consumer: c.Name, Route: b.Route, Stream: b.Stream, Held: b.Held, BlockedBy: b.Quarantine,
							Since: a.stamp(b.Since), OldestHeldAt: a.stamp(b.OldestHeldAt),
						})
					}
					gaps, err := s.admin.Gaps(ctx, c.Name, limit)
					if err != nil {
						return err
					}
					for _, g := range gaps {
						l.items = append(l.items, holdView{
							Consumer: c.Name, Route: g.Route, Stream: g.Stream, Held: g.Waiting, Expected: g.Expected, Lowest: g.Lowest,
							Highest: g.Highest, Since: a.stamp(g.Since), OldestHeldAt: a.stamp(g.Since), Until: a.stamp(g.Until),
						})
					}
				}
				return printList(a, l)
			})
		},
	}
	a.consumerFlag(cmd, &name, anyConsumer)
	cmd.Flags().IntVar(&limit, "limit", 100, "at most so many of each consumer")
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
			case h.Expected != 0:
				return fmt.Sprintf("version %d, which is missing; it has versions from %d to %d", h.Expected, h.Lowest, h.Highest)
			case h.BlockedBy == 0:
				return "its turn: it is being released"
			}
			return fmt.Sprintf("record %d in quarantine", h.BlockedBy)
		}},
		{name: "since", of: func(h holdView) string { return a.at(*h.Since) }},
	}
}
