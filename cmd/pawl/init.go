package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/pipeline"
	"github.com/pawlhq/pawl/postgres"
	"github.com/pawlhq/pawl/sqlite"
)

//go:embed sample
var sample embed.FS

func (a *app) initCommand() *cobra.Command {
	var ddl bool
	var dialect string
	cmd := &cobra.Command{
		Use: "init [FOLDER] | init --ddl [FILE…]", Short: "Begin a pipeline file with a test; or print the tables that a file needs",
		Long: `Begin: writes pawl.yaml, its fixtures and the schema for editors into a folder. Files that are there are left alone.

With --ddl: prints the statements that create the tables of the pipelines in a file. Pawl never creates tables of yours.`,
		Example: "  pawl init\n  pawl init --ddl orders.yaml | psql",
		RunE: func(_ *cobra.Command, args []string) error {
			if ddl {
				return a.printDDL(args, dialect)
			}
			if len(args) > 1 {
				return usage("init takes one folder")
			}
			folder := "."
			if len(args) == 1 {
				folder = args[0]
			}
			return a.begin(folder)
		},
	}
	cmd.Flags().BoolVar(&ddl, "ddl", false, "print the tables that the pipelines need")
	cmd.Flags().StringVar(&dialect, "for", "", "with --ddl: postgres or sqlite; otherwise that of the file's store")
	complete(cmd, "for", "postgres", "sqlite")
	return cmd
}

// begin writes the sample. All or nothing: a file that is there is somebody's.
func (a *app) begin(folder string) error {
	files := map[string][]byte{"pawl.schema.json": pipeline.Schema()}
	for _, name := range []string{defaultFile, "pawl_test.yaml"} {
		content, err := sample.ReadFile("sample/" + name)
		if err != nil {
			return err
		}
		files[name] = content
	}
	for name := range files {
		if _, err := os.Stat(filepath.Join(folder, name)); !errors.Is(err, fs.ErrNotExist) {
			return &exitError{exitRefused, fmt.Errorf("%s is there already: nothing was written", filepath.Join(folder, name))}
		}
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make the folder: %w", err)
	}
	var written []string
	for _, name := range []string{defaultFile, "pawl_test.yaml", "pawl.schema.json"} {
		path := filepath.Join(folder, name)
		written = append(written, path)
		if err := os.WriteFile(path, files[name], 0o644); err != nil {
			for _, path := range written {
				err = errors.Join(err, os.Remove(path))
			}
			return fmt.Errorf("write the sample: %w", err)
		}
	}
	if _, err := fmt.Fprintln(a.out, strings.Join(written, "\n")); err != nil {
		return err
	}
	a.note("next: pawl test %[1]s, then pawl dev %[1]s to see it under attack, and pawl init --ddl for its tables", filepath.Join(folder, defaultFile))
	return nil
}

func (a *app) printDDL(args []string, dialect string) error {
	set, err := pipeline.Load(a.paths(args), a.environment(true))
	if err != nil {
		return &exitError{exitUsage, err}
	}
	if dialect == "" && set.Store != nil {
		dialect = "postgres"
		if set.Store.SQLite != "" {
			dialect = "sqlite"
		}
	}
	var write func(*pawl.Table) string
	switch dialect {
	case "postgres":
		write = postgres.DDL
	case "sqlite":
		write = sqlite.DDL
	case "":
		return usage("the files name no store: say --for postgres or --for sqlite")
	default:
		return usage("--for %q: it is postgres or sqlite", dialect)
	}
	seen := map[string]bool{}
	for _, p := range set.Pipelines {
		for _, t := range p.Tables() {
			if seen[t.Name] {
				continue
			}
			seen[t.Name] = true
			if _, err := fmt.Fprintf(a.out, "-- of pipeline %s\n%s\n", p.Name, write(t)); err != nil {
				return err
			}
		}
	}
	return nil
}
