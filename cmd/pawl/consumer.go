package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl"
)

// consumerFlag adds --consumer, with names from the store for the shell.
func (a *app) consumerFlag(cmd *cobra.Command, into *string, usage string) {
	cmd.Flags().StringVar(into, "consumer", "", usage)
	err := cmd.RegisterFlagCompletionFunc("consumer", a.completeConsumers)
	if err != nil {
		panic(err) // the flag was just made
	}
}

func (a *app) completeConsumers(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	var found []string
	a.withStore(cmd.Context(), func(ctx context.Context, s *storage) error { // a shell can do nothing with an error
		all, err := s.admin.Consumers(ctx)
		for _, c := range all {
			found = append(found, c.Name)
		}
		return err
	})
	return found, cobra.ShellCompDirectiveNoFileComp
}

const (
	oneConsumer = "the consumer; where the store has only one, it is that"
	anyConsumer = "only this consumer"
)

// consumers are those that are asked for by name, or all.
func consumers(ctx context.Context, s *storage, name string) ([]pawl.BoundConsumer, error) {
	all, err := s.admin.Consumers(ctx)
	if err != nil || name == "" {
		return all, err
	}
	for _, c := range all {
		if c.Name == name {
			return []pawl.BoundConsumer{c}, nil
		}
	}
	return nil, noConsumer(name, all)
}

// consumer is the one that is asked for, or the only one.
func consumer(ctx context.Context, s *storage, name string) (*pawl.BoundConsumer, error) {
	found, err := consumers(ctx, s, name)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, &pawl.Error{Op: "find a consumer in " + s.name, Class: pawl.Validation, Err: errNone,
			Hint: "a consumer is known once it has run with this store"}
	case len(found) > 1:
		return nil, usage("the store has several consumers: choose one with --consumer: %s", strings.Join(consumerNames(found), ", "))
	}
	return &found[0], nil
}

func noConsumer(name string, all []pawl.BoundConsumer) error {
	hint := "a consumer is known once it has run with this store"
	if len(all) > 0 {
		hint = "there are: " + strings.Join(consumerNames(all), ", ")
	}
	return &pawl.Error{Op: "find consumer " + name, Class: pawl.Validation, Err: errNone, Hint: hint}
}

func consumerNames(all []pawl.BoundConsumer) []string {
	var names []string
	for _, c := range all {
		names = append(names, c.Name)
	}
	return names
}
