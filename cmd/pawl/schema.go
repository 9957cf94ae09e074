package main

import (
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/pipeline"
)

func (a *app) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of pipeline files, for editors", Args: cobra.NoArgs,
		Long: `Print the JSON Schema of pipeline files, for editors. A file names it in its first line:

  # yaml-language-server: $schema=pawl.schema.json`,
		Example: "  pawl schema > pawl.schema.json",
		RunE: func(*cobra.Command, []string) error {
			_, err := a.out.Write(pipeline.Schema())
			return err
		},
	}
}
