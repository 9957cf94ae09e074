package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/pipeline"
)

func (a *app) configCommand() *cobra.Command {
	return group("config", "What pipeline files come to", a.configPrintCommand())
}

func (a *app) configPrintCommand() *cobra.Command {
	var origin, defaults bool
	cmd := &cobra.Command{
		Use: "print [FILE|FOLDER…]", Short: "Print every setting with its variables replaced; secrets are not shown",
		Long: `Print every setting as it counts, with its variables replaced; secrets are not shown. With --origin, where each comes from: a
flag, a variable of the environment, --set, or a line of a file. With --defaults, what nobody has said too.`,
		Example: "  pawl config print --origin\n  pawl config print --origin --set pipelines.orders.limits.batch=100 -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := a.load(args)
			if err != nil {
				return err
			}
			settings, err := a.settings(cmd, set)
			if err != nil {
				return err
			}
			if defaults {
				settings = append(settings, set.Defaults...)
			}
			l := listing[pipeline.Setting]{kind: "Setting", items: settings, columns: []column[pipeline.Setting]{
				{name: "path", of: func(s pipeline.Setting) string { return s.Path }},
				{name: "value", of: func(s pipeline.Setting) string { return s.Value }},
			}}
			if origin {
				l.columns = append(l.columns, column[pipeline.Setting]{name: "origin", of: func(s pipeline.Setting) string { return s.Origin }})
			}
			return printList(a, l)
		},
	}
	cmd.Flags().BoolVar(&origin, "origin", false, "and where each value comes from")
	cmd.Flags().BoolVar(&defaults, "defaults", false, "and what is not said, with its default")
	return cmd
}

// settings are those of the files, with what comes before them in their place.
func (a *app) settings(cmd *cobra.Command, set *pipeline.Set) ([]pipeline.Setting, error) {
	all := slices.Clone(set.Settings)
	without := func(section string) {
		all = slices.DeleteFunc(all, func(s pipeline.Setting) bool { return strings.HasPrefix(s.Path, section) })
	}
	if a.store != "" || a.env("PAWL_STORE") != "" {
		l, err := a.locateFor(cmd.Context(), set)
		if err != nil {
			return nil, err
		}
		without("store.")
		origin := "--store"
		if a.store == "" {
			origin = "PAWL_STORE"
		}
		all = append(all, pipeline.Setting{Path: "store", Value: l.name, Origin: origin})
	}
	if brokers := a.env("PAWL_BROKERS"); brokers != "" {
		without("kafka.brokers")
		all = append(all, pipeline.Setting{Path: "kafka.brokers", Value: brokers, Origin: "PAWL_BROKERS"})
	}
	return all, nil
}
