package main

import (
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/pipeline"
)

func (a *app) configCommand() *cobra.Command {
	return group("config", "What pipeline files come to", a.configPrintCommand())
}

func (a *app) configPrintCommand() *cobra.Command {
	var origin bool
	cmd := &cobra.Command{
		Use: "print [FILE|FOLDER…]", Short: "Print every setting with its variables replaced; secrets are not shown",
		RunE: func(_ *cobra.Command, args []string) error {
			set, err := a.load(args)
			if err != nil {
				return err
			}
			l := listing[pipeline.Setting]{kind: "Setting", items: set.Settings, columns: []column[pipeline.Setting]{
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
	return cmd
}
