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
	Since        *time.Time `json:"since"`
	OldestHeldAt *time.Time `json:"oldestHeldAt,omitempty"`
}

func (a *app) holdsCommand() *cobra.Command {
	var name string
	var limit int
	cmd := &cobra.Command{
		Use: "holds", Short: "Streams that wait, and what waits in them, the longest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usage("--limit is %d: it is at least 1", limit)
			}
			return a.withStore(cmd.Context(), func(ctx context.Context, s *storage) error {
				of, err := consumers(ctx, s, name)
				if err != nil {
					return err
				}
				l := listing[holdView]{kind: "BlockedStream", columns: a.holdColumns(), empty: "no stream waits"}
				for _, c := range of {
					found, err := s.admin.BlockedStreams(ctx, c.Name, limit)
					if err != nil {
						return err
					}
					for _, b := range found {
						l.items = append(l.items, holdView{c.Name, b.Route, b.Stream, b.Held, b.Quarantine, a.stamp(b.Since), a.stamp(b.OldestHeldAt)})
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
			if h.BlockedBy == 0 {
				return "its turn: it is being released"
			}
			return fmt.Sprintf("record %d in quarantine", h.BlockedBy)
		}},
		{name: "since", of: func(h holdView) string { return a.at(*h.Since) }},
	}
}
