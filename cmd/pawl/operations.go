package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl"
)

func (a *app) operationsCommand() *cobra.Command {
	return group("operations", "What operators asked for, and how far it is",
		a.operationsListCommand(), a.operationsShowCommand(),
		a.operationsSetCommand("pause", "Stop an operation after the record it is at", pawl.OperationPaused),
		a.operationsSetCommand("resume", "Let an operation go on: after a pause, or after its canary", pawl.OperationRunning),
		a.operationsSetCommand("cancel", "End an operation; what it has done stays done", pawl.OperationCanceled))
}

type operationView struct {
	ID       int64      `json:"id"`
	Consumer string     `json:"consumer"`
	Kind     string     `json:"operation"`
	State    string     `json:"state"`
	Total    int        `json:"total"`
	Done     int        `json:"done"`
	Failed   int        `json:"failed"`
	Rate     float64    `json:"rate,omitempty"`
	Canary   int        `json:"canary,omitempty"`
	By       string     `json:"by"`
	Why      string     `json:"why"`
	At       *time.Time `json:"at"`
	EndedAt  *time.Time `json:"endedAt,omitempty"`
	Acts     []actView  `json:"acts,omitempty"`
}

func (a *app) operationView(o *pawl.Operation) operationView {
	return operationView{
		ID: o.ID, Consumer: o.Consumer, Kind: string(o.Kind), State: string(o.State), Total: o.Total, Done: o.Done, Failed: o.Failed,
		Rate: o.Rate, Canary: o.Canary, By: o.By, Why: o.Why, At: a.stamp(o.At), EndedAt: a.stamp(o.EndedAt),
	}
}

func (a *app) operationsListCommand() *cobra.Command {
	var name string
	var limit int
	cmd := &cobra.Command{
		Use: "list", Short: "List operations, the latest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usage("--limit is %d: it is at least 1", limit)
			}
			return a.withStore(cmd.Context(), func(ctx context.Context, s *storage) error {
				of, err := consumers(ctx, s, name)
				if err != nil {
					return err
				}
				l := listing[operationView]{kind: "Operation", columns: a.operationColumns(), empty: "there are none"}
				for _, c := range of {
					found, err := s.admin.Operations(ctx, c.Name, limit)
					if err != nil {
						return err
					}
					for i := range found {
						l.items = append(l.items, a.operationView(&found[i]))
					}
				}
				return printList(a, l)
			})
		},
	}
	a.consumerFlag(cmd, &name, anyConsumer)
	cmd.Flags().IntVar(&limit, "limit", 50, "at most so many of each consumer")
	return cmd
}

func (a *app) operationColumns() []column[operationView] {
	return []column[operationView]{
		{name: "id", of: func(o operationView) string { return fmt.Sprint(o.ID) }},
		{name: "consumer", of: func(o operationView) string { return o.Consumer }},
		{name: "operation", of: func(o operationView) string { return o.Kind }},
		{name: "state", of: func(o operationView) string { return o.State }},
		{name: "done", of: func(o operationView) string { return fmt.Sprintf("%d/%d", o.Done, o.Total) }},
		{name: "failed", of: func(o operationView) string { return fmt.Sprint(o.Failed) }, color: func(o operationView) string {
			if o.Failed > 0 {
				return red
			}
			return ""
		}},
		{name: "by", of: func(o operationView) string { return o.By }},
		{name: "at", of: func(o operationView) string { return a.at(*o.At) }},
		{name: "why", of: func(o operationView) string { return o.Why }},
	}
}

func (a *app) operationsShowCommand() *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show an operation, and what it did to each record", Args: cobra.ExactArgs(1),
		Long: "Show an operation, and what it did to each record. With --wait, follow it until it is over.",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseID(args[0])
			if err != nil {
				return err
			}
			return a.withStore(cmd.Context(), func(ctx context.Context, s *storage) error {
				op, err := s.admin.Operation(ctx, id)
				if err != nil {
					return err
				}
				if wait {
					return a.follow(ctx, s, op, true)
				}
				return a.showOperation(ctx, s, op)
			})
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "follow it until it is over")
	return cmd
}

func (a *app) showOperation(ctx context.Context, s *storage, op *pawl.Operation) error {
	acts, err := s.admin.Audit(ctx, op.Consumer, pawl.AuditQuery{Operation: op.ID})
	if err != nil {
		return err
	}
	v := a.operationView(op)
	for i := range acts {
		v.Acts = append(v.Acts, a.actView(&acts[i]))
	}
	return a.printObject("Operation", v, func(w io.Writer) { a.writeOperation(w, &v) })
}

func (a *app) writeOperation(w io.Writer, v *operationView) {
	fields := [][2]string{
		{"operation", fmt.Sprintf("%d, %s of %s", v.ID, v.Kind, plural(v.Total, "record"))}, {"consumer", v.Consumer}, {"state", v.State},
		{"done", fmt.Sprintf("%d of %d, %d set aside again", v.Done, v.Total, v.Failed)},
		{"by", v.By}, {"why", v.Why}, {"at", a.at(*v.At)},
	}
	if v.EndedAt != nil {
		fields = append(fields, [2]string{"ended", a.at(*v.EndedAt)})
	}
	writeFields(w, fields)
	for i, act := range v.Acts {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, a.actLine(&act))
	}
}

func (a *app) operationsSetCommand(verb, short string, to pawl.OperationState) *cobra.Command {
	var by act
	var wait bool
	cmd := &cobra.Command{
		Use: verb + " ID", Short: short, Args: cobra.ExactArgs(1), Long: short + ".\n\nWithout --execute, its state is shown.",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseID(args[0])
			if err != nil {
				return err
			}
			if err := by.check(); err != nil {
				return err
			}
			return a.withStore(cmd.Context(), func(ctx context.Context, s *storage) error {
				op, err := s.admin.Operation(ctx, id)
				if err != nil {
					return err
				}
				if !op.State.CanBecome(to) {
					return &exitError{exitRefused, pawl.NoSuchChange(id, op.State, to)}
				}
				if !by.execute {
					v := a.operationView(op)
					if err := a.printObject("Operation", v, func(w io.Writer) { a.writeOperation(w, &v) }); err != nil {
						return err
					}
					a.planned(fmt.Sprintf("%s operation %d", verb, id))
					return nil
				}
				if err := s.admin.SetOperation(ctx, id, to, by.actor, by.reason, a.now()); err != nil {
					return refusedBy(err)
				}
				if op, err = s.admin.Operation(ctx, id); err != nil {
					return err
				}
				return a.follow(ctx, s, op, wait)
			})
		},
	}
	by.flags(cmd)
	if to == pawl.OperationRunning {
		cmd.Flags().BoolVar(&wait, "wait", false, "follow it until it is over")
	}
	return cmd
}

// follow shows an operation: at once, or when it is over or waits for someone.
func (a *app) follow(ctx context.Context, s *storage, op *pawl.Operation, wait bool) error {
	last := ""
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for wait && op.State == pawl.OperationRunning {
		if line := a.progressLine(op); line != last {
			if last == "" {
				a.warnIfNobodyWorks(ctx, s, op.Consumer)
			}
			a.note("%s", line)
			last = line
		}
		select {
		case <-ctx.Done():
			a.note("operation %d goes on without this command; to follow it again: pawl operations show %d --wait", op.ID, op.ID)
			return &exitError{exitInterrupted, nil}
		case <-tick.C:
		}
		now, err := s.admin.Operation(ctx, op.ID)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err == nil {
			op = now
		}
	}
	v := a.operationView(op)
	if err := a.printObject("Operation", v, func(w io.Writer) { a.writeOperation(w, &v) }); err != nil {
		return err
	}
	switch {
	case op.State == pawl.OperationRunning:
		a.note("to follow it: pawl operations show %d --wait", op.ID)
	case op.State == pawl.OperationCanary:
		a.note("its first records are done, %d set aside again: pawl operations resume %d, or cancel", op.Failed, op.ID)
		return &exitError{exitPartly, nil}
	case wait && op.State == pawl.OperationPaused:
		a.note("it is paused: pawl operations resume %d, or cancel", op.ID)
		return &exitError{exitPartly, nil}
	case wait && (op.Failed > 0 || op.Done < op.Total):
		a.note("%s set aside again, %d not carried out", plural(op.Failed, "record"), op.Total-op.Done)
		return &exitError{exitPartly, nil}
	}
	return nil
}

func (a *app) progressLine(op *pawl.Operation) string {
	return fmt.Sprintf("operation %d, %s: %d of %d done, %d set aside again", op.ID, op.Kind, op.Done, op.Total, op.Failed)
}

// warnIfNobodyWorks saves a person from waiting for a consumer that is not running.
func (a *app) warnIfNobodyWorks(ctx context.Context, s *storage, consumer string) {
	progress, err := s.admin.Progress(ctx, consumer)
	if err != nil {
		return // whatever it is, the next question to the store tells
	}
	for _, p := range progress {
		if p.Owned {
			return
		}
	}
	a.note("no process works for %s at the moment: it is carried out when one does", consumer)
}

// actView is what an operator did, or an operation to one record.
type actView struct {
	At         *time.Time `json:"at"`
	What       string     `json:"what"`
	By         string     `json:"by"`
	Why        string     `json:"why"`
	Operation  int64      `json:"operation,omitempty"`
	Quarantine int64      `json:"quarantine,omitempty"`
	Position   string     `json:"position,omitempty"`
	Outcome    string     `json:"outcome,omitempty"`
	Reason     string     `json:"reason,omitempty"`
}

func (a *app) actView(e *pawl.AuditEntry) actView {
	v := actView{At: a.stamp(e.At), What: e.What, By: e.By, Why: e.Why, Operation: e.Operation, Quarantine: e.Quarantine, Reason: e.Reason}
	if e.Quarantine != 0 {
		v.Position = position(e.Partition.Topic, e.Partition.Index, e.Offset)
	}
	if e.Outcome != 0 {
		v.Outcome = e.Outcome.String()
	}
	return v
}

func (a *app) actLine(v *actView) string {
	line := fmt.Sprintf("%s  %s by %s: %s", a.at(*v.At), v.What, v.By, v.Why)
	if v.Quarantine != 0 {
		line += fmt.Sprintf("; record %d at %s", v.Quarantine, v.Position)
	}
	if v.Outcome != "" {
		line += "; " + v.Outcome
	}
	if v.Reason != "" {
		line += " (" + firstLine(v.Reason) + ")"
	}
	return printable(line)
}
