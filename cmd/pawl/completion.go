package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/pipeline"
)

// Shells ask for names while a person types: an answer that takes longer than this is none.
const completionTimeout = 2 * time.Second

// completeNames offers what exists at the moment: records, operations, conditions, pipelines, routes. A store or a file that
// cannot be read offers nothing.
func (a *app) completeNames(root *cobra.Command) {
	for verb, of := range map[string]func(context.Context, *storage, string) ([]string, error){
		"quarantine show": a.recordIDs, "quarantine edit": a.recordIDs, "quarantine replay": a.recordIDs,
		"quarantine skip": a.recordIDs, "quarantine archive": a.recordIDs,
		"operations show": a.operationIDs, "operations cancel": a.operationIDs, "operations pause": a.operationIDs,
		"operations resume": a.operationIDs, "resolve": a.conditionIDs,
	} {
		cmd := must(root, verb)
		several := verb == "quarantine replay" || verb == "quarantine skip" || verb == "quarantine archive"
		cmd.ValidArgsFunction = func(cmd *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(given) > 0 && !several {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return a.fromStore(cmd, of), cobra.ShellCompDirectiveNoFileComp
		}
	}
	for _, verb := range []string{"quarantine list", "quarantine replay", "quarantine skip", "quarantine archive"} {
		offer(must(root, verb), "route", func(cmd *cobra.Command, _ []string) []string { return a.fromStore(cmd, routeNames) })
	}
	for _, verb := range []string{"run", "contract", "doctor"} {
		offer(must(root, verb), "only", func(_ *cobra.Command, args []string) []string {
			set, _ := pipeline.Load(a.paths(args), a.environment(true)) // what could be read of it is in the set
			var names []string
			for _, p := range set.Pipelines {
				names = append(names, p.Name)
			}
			return names
		})
	}
}

func must(root *cobra.Command, verb string) *cobra.Command {
	cmd, rest, err := root.Find(strings.Fields(verb))
	if err != nil || len(rest) > 0 {
		panic("pawl: no command " + verb)
	}
	return cmd
}

func offer(cmd *cobra.Command, flag string, of func(*cobra.Command, []string) []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return of(cmd, args), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // the flag does not exist
	}
}

// fromStore asks the store of each consumer that is meant.
func (a *app) fromStore(cmd *cobra.Command, of func(context.Context, *storage, string) ([]string, error)) []string {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	name := ""
	if f := cmd.Flags().Lookup("consumer"); f != nil {
		name = f.Value.String()
	}
	var found []string
	a.withStore(ctx, func(ctx context.Context, s *storage) error { // a shell can do nothing with an error
		all, err := consumers(ctx, s, name)
		for _, c := range all {
			more, err := of(ctx, s, c.Name)
			if err != nil {
				return err
			}
			found = append(found, more...)
		}
		return err
	})
	return found
}

// described is a completion with what it stands for, as shells show it.
func described(id int64, format string, args ...any) string {
	return fmt.Sprintf("%d\t%s", id, shorten(printable(firstLine(fmt.Sprintf(format, args...))), mostCell))
}

func (a *app) recordIDs(ctx context.Context, s *storage, consumer string) (ids []string, err error) {
	found, err := s.admin.Quarantine(ctx, consumer, pawl.QuarantineFilter{Status: pawl.QuarantineOpen}, 50, 0)
	for _, q := range found {
		ids = append(ids, described(q.ID, "%s %s %s", q.Cause, q.Stream, q.Reason))
	}
	return ids, err
}

func (a *app) operationIDs(ctx context.Context, s *storage, consumer string) (ids []string, err error) {
	found, err := s.admin.Operations(ctx, consumer, 50)
	for _, o := range found {
		ids = append(ids, described(o.ID, "%s %s: %s", o.Kind, o.State, o.Why))
	}
	return ids, err
}

func (a *app) conditionIDs(ctx context.Context, s *storage, consumer string) (ids []string, err error) {
	found, err := s.admin.Conditions(ctx, consumer)
	for _, c := range found {
		ids = append(ids, described(c.ID, "%s %s: %s", c.Partition, c.State, c.Reason))
	}
	return ids, err
}

func routeNames(ctx context.Context, s *storage, consumer string) ([]string, error) {
	all, err := consumers(ctx, s, consumer)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[0].Routes, nil
}
