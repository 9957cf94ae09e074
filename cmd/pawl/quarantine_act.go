package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl"
)

// batchAct is a replay, skip or archive of the records that are meant.
type batchAct struct {
	act
	selection
	all    bool
	limit  int
	rate   float64
	canary int
	wait   bool
}

func (a *app) quarantineReplayCommand() *cobra.Command {
	return a.batchCommand(pawl.OperationReplay, &cobra.Command{
		Use: "replay [ID…]", Short: "Run records again, as they came or as they were last edited",
		Long: `Run records again, as they came or as they were last edited. What fails again is set aside again; a stream goes on
behind its record once that has taken effect.

The consumer that runs carries it out, in the order of each stream. Without --execute, a plan is shown.`,
		Example: `  pawl quarantine replay --cause failure --canary 1 --rate 50 --execute --reason "the tax service is back" --wait
  pawl quarantine replay 17 18 --execute --reason "deploy 4711 fixes it"`,
	})
}

func (a *app) quarantineSkipCommand() *cobra.Command {
	return a.batchCommand(pawl.OperationSkip, &cobra.Command{
		Use: "skip [ID…]", Short: "Decide that records take no effect, so that their streams go on",
		Long: `Decide that records take no effect: their keys are settled as skipped, later copies are duplicates, and their streams
go on. It cannot be taken back. Without --execute, a plan is shown.`,
	})
}

func (a *app) quarantineArchiveCommand() *cobra.Command {
	return a.batchCommand(pawl.OperationArchive, &cobra.Command{
		Use: "archive [ID…]", Short: "Take records out of sight; nothing is decided, and their keys stay free",
		Long: `Take records out of sight. Nothing is decided about them: their keys stay free, and a later copy is tried as if it were
the first. Their streams go on. It is done at once. Without --execute, a plan is shown.`,
	})
}

func (a *app) batchCommand(kind pawl.OperationKind, cmd *cobra.Command) *cobra.Command {
	var b batchAct
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f, err := b.filter(a, args)
		switch {
		case err != nil:
			return err
		case f.IDs == nil && !b.all && b.route+b.cause+b.stream+b.contains+b.since+b.until == "":
			return usage("which records? Give ids, a filter such as --cause, or --all")
		case f.IDs != nil && b.all:
			return usage("--all and ids say different things")
		case b.limit < 0 || !(b.rate >= 0) || math.IsInf(b.rate, 0) || b.canary < 0:
			return usage("--limit, --rate and --canary are at least 0")
		}
		if err := b.check(); err != nil {
			return err
		}
		return a.withStore(cmd.Context(), func(ctx context.Context, s *storage) error {
			name, err := b.whose(ctx, s, f)
			if err != nil {
				return err
			}
			return a.carryOut(ctx, s, b.act, b.wait, pawl.OperationRequest{
				Consumer: name, Kind: kind, Filter: f, Limit: b.limit, Rate: b.rate, Canary: b.canary,
			})
		})
	}
	b.act.flags(cmd)
	b.selection.flags(a, cmd)
	cmd.Flags().BoolVar(&b.all, "all", false, "every open record of the consumer")
	cmd.Flags().IntVar(&b.limit, "limit", 0, "at most so many, oldest first; 0: all that match")
	if kind != pawl.OperationArchive {
		cmd.Flags().Float64Var(&b.rate, "rate", 0, "records a second; 0: as fast as it goes")
		cmd.Flags().IntVar(&b.canary, "canary", 0, "after so many records wait for: pawl operations resume; 0: do not")
		cmd.Flags().BoolVar(&b.wait, "wait", false, "follow it until it is over")
	}
	return cmd
}

// whose is the consumer that is meant: by name, or the one that has the first of the ids.
func (b *batchAct) whose(ctx context.Context, s *storage, f pawl.QuarantineFilter) (string, error) {
	if b.consumer == "" && len(f.IDs) > 0 {
		return consumerOf(ctx, s, f.IDs[0])
	}
	c, err := consumer(ctx, s, b.consumer)
	if err != nil {
		return "", err
	}
	return c.Name, nil
}

type planView struct {
	Operation string        `json:"operation"`
	Consumer  string        `json:"consumer"`
	Count     int           `json:"count"` // that would be in it now
	Rate      float64       `json:"rate,omitempty"`
	Canary    int           `json:"canary,omitempty"`
	Sample    []sampleView  `json:"sample"`         // the first of them
	Left      []leftView    `json:"left,omitempty"` // named, and not in it
	Edit      *editPlanView `json:"edit,omitempty"`
}

type sampleView struct {
	ID       int64  `json:"id"`
	Route    string `json:"route"`
	Cause    string `json:"cause"`
	Position string `json:"position"`
	Stream   string `json:"stream,omitempty"`
	Key      string `json:"key,omitempty"`
	Reason   string `json:"reason"`
}

const mostSampled = 5

// carryOut shows the plan of an operation, or starts it.
func (a *app) carryOut(ctx context.Context, s *storage, by act, wait bool, r pawl.OperationRequest) error {
	r.By, r.Why, r.At = by.actor, by.reason, a.now()
	if by.execute {
		left, err := a.left(ctx, s, r)
		if err != nil {
			return err
		}
		a.noteLeft(left)
		op, err := s.admin.Start(ctx, r)
		if err != nil {
			return refusedBy(err)
		}
		return a.follow(ctx, s, op, wait)
	}
	plan, err := a.plan(ctx, s, r)
	if err != nil {
		return err
	}
	if err := a.printObject("OperationPlan", plan, func(w io.Writer) { writePlan(w, plan) }); err != nil {
		return err
	}
	a.noteLeft(plan.Left)
	if plan.Count == 0 {
		a.note("nothing matches that is open and in no other operation")
		return &exitError{exitRefused, nil}
	}
	a.planned(fmt.Sprintf("%s %s", r.Kind, plural(plan.Count, "record")))
	return nil
}

func (a *app) plan(ctx context.Context, s *storage, r pawl.OperationRequest) (*planView, error) {
	r.By, r.Why = "plan", "plan" // a plan is of nobody, and recorded nowhere
	count, err := s.admin.Plan(ctx, r)
	if err != nil {
		return nil, err
	}
	plan := &planView{Operation: string(r.Kind), Consumer: r.Consumer, Count: count, Rate: r.Rate, Canary: r.Canary}
	if plan.Sample, err = a.sample(ctx, s, r, count); err != nil {
		return nil, err
	}
	plan.Left, err = a.left(ctx, s, r)
	return plan, err
}

func writePlan(w io.Writer, p *planView) {
	fmt.Fprintf(w, "plan: %s %s of %s", p.Operation, plural(p.Count, "record"), p.Consumer)
	if p.Rate > 0 {
		fmt.Fprintf(w, ", %g a second", p.Rate)
	}
	if p.Canary > 0 && p.Canary < p.Count {
		fmt.Fprintf(w, ", waiting after the first %d", p.Canary)
	}
	fmt.Fprintln(w)
	for _, q := range p.Sample {
		fmt.Fprintf(w, "  %d  %s  %s  %s  %s\n", q.ID, q.Cause, q.Position, shorten(printable(q.Stream), mostCell), shorten(printable(firstLine(q.Reason)), mostCell))
	}
	if p.Count > len(p.Sample) && len(p.Sample) > 0 {
		fmt.Fprintf(w, "  … and %d more\n", p.Count-len(p.Sample))
	}
	if e := p.Edit; e != nil {
		fmt.Fprintf(w, "\nvalue now:\n%s\n\nvalue then:\n%s\n", e.Before, e.After)
		for i, c := range e.Changes {
			if i == 0 {
				fmt.Fprintln(w, "\nthe difference:")
			}
			fmt.Fprintf(w, "  %s\n", c)
		}
	}
}

// refusedBy tells what a store refuses to do from what fails.
func refusedBy(err error) error {
	if known, ok := errors.AsType[*pawl.Error](err); ok && known.Class == pawl.Validation {
		return &exitError{exitRefused, err}
	}
	return err
}
