package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/postgres"
	"github.com/pawlhq/pawl/sqlite"
)

type migrationView struct {
	Version int    `json:"version"`
	Name    string `json:"name"`
	Applied bool   `json:"applied"`
}

func (a *app) migrateCommand() *cobra.Command {
	return group("migrate", "Bring Pawl's tables to the version that this program needs",
		a.migrateUpCommand(), a.migrateStatusCommand(), a.migratePrintCommand())
}

func (a *app) migrateUpCommand() *cobra.Command {
	var execute bool
	cmd := &cobra.Command{
		Use: "up", Short: "Apply the migrations that are missing",
		Long: `Apply the migrations that are missing, each in a transaction of its own. Without --execute, they are listed.

It needs the right to create tables, which running consumers do not. Several processes may migrate at once.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			s, err := a.openStore(ctx, execute)
			if err != nil {
				return err
			}
			defer s.close()
			before, err := s.have(ctx)
			if err != nil {
				return err
			}
			if before > s.needs() {
				return s.ahead(before)
			}
			missing := s.views(before)[before:]
			if len(missing) > 0 && execute {
				if err := s.migrate(ctx); err != nil {
					return err
				}
				for i := range missing {
					missing[i].Applied = true
				}
			}
			err = printList(a, listing[migrationView]{
				kind: "Migration", items: missing, columns: migrationColumns, empty: "the schema is up to date: version " + fmt.Sprint(before),
			})
			if len(missing) > 0 && !execute {
				a.note("nothing was changed: add --execute to apply %s to %s", plural(len(missing), "migration"), s.name)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&execute, "execute", false, "apply them, rather than list them")
	return cmd
}

func (a *app) migrateStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Which migrations the store has, and which are missing",
		Long: "Which migrations the store has, and which are missing. Ends with exit code 3 where some are.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.openStore(cmd.Context(), false)
			if err != nil {
				return err
			}
			defer s.close()
			have, err := s.have(cmd.Context())
			if err != nil {
				return err
			}
			if err := printList(a, listing[migrationView]{kind: "Migration", items: s.views(have), columns: migrationColumns}); err != nil {
				return err
			}
			switch {
			case have < s.needs():
				a.note("version %d, and this program needs %d: pawl migrate up --execute", have, s.needs())
				return &exitError{exitFindings, nil}
			case have > s.needs():
				a.note("version %d, and this program knows %d: use a newer pawl", have, s.needs())
				return &exitError{exitFindings, nil}
			}
			return nil
		},
	}
}

func (a *app) migratePrintCommand() *cobra.Command {
	var from int
	var schema string
	cmd := &cobra.Command{
		Use: "print postgres|sqlite", Short: "Print the migrations as SQL, for a migration tool of your own",
		Long: `Print the migrations as SQL, for a migration tool of your own. Each records itself in pawl_schema. No store is asked.`,
		Args: cobra.ExactArgs(1), ValidArgs: []string{"postgres", "sqlite"},
		RunE: func(_ *cobra.Command, args []string) error {
			if from < 0 {
				return usage("--from %d: versions begin with 1, and 0 is before all of them", from)
			}
			var steps []migration
			switch args[0] {
			case "postgres":
				for _, m := range postgres.Migrations(postgres.InSchema(schema)) {
					steps = append(steps, migration(m))
				}
			case "sqlite":
				if schema != "" {
					return usage("--schema %q: SQLite has no schemas", schema)
				}
				for _, m := range sqlite.Migrations() {
					steps = append(steps, migration(m))
				}
			default:
				return usage("migrate print %q: it is postgres or sqlite", args[0])
			}
			if last := steps[len(steps)-1].Version; from >= last {
				a.note("nothing comes after version %d: the last is %d", from, last)
			}
			for _, m := range steps {
				if m.Version > from {
					if _, err := io.WriteString(a.out, fmt.Sprintf("\n-- migration %03d %s\n%s\n", m.Version, m.Name, m.SQL)); err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&from, "from", 0, "only what comes after this version")
	cmd.Flags().StringVar(&schema, "schema", "", "the PostgreSQL schema that Pawl's tables are in, as store.schema of the file says; "+
		"otherwise that of the connection")
	return cmd
}

var migrationColumns = []column[migrationView]{
	{name: "version", of: func(m migrationView) string { return fmt.Sprintf("%03d", m.Version) }},
	{name: "name", of: func(m migrationView) string { return m.Name }},
	{name: "applied", of: func(m migrationView) string { return map[bool]string{true: "yes", false: "no"}[m.Applied] }},
}

// views are all steps, of which those up to have are applied.
func (s *storage) views(have int) []migrationView {
	var all []migrationView
	for _, m := range s.steps {
		all = append(all, migrationView{m.Version, m.Name, m.Version <= have})
	}
	return all
}
