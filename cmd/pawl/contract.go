package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/pipeline"
)

type contractView struct {
	*pipeline.Contract
	Open int `json:"open"` // how many points are
}

func (a *app) contractCommand() *cobra.Command {
	var strict bool
	var only []string
	cmd := &cobra.Command{
		Use: "contract [FILE|FOLDER…]", Short: "What each pipeline promises, and what nobody has said yet",
		Long: `What each pipeline promises, derived from its file: the terms of a consumer contract, and the points that are gone through
before a consumer is approved. Each answer says what it rests on:
  pawl    it holds for every pipeline
  file    it follows from this pipeline's declaration
  doctor  only the cluster knows: pawl doctor looks
  open    nobody has said; beside it is what closes it

Markdown, or -o json. Nothing but the files is read. With --strict, it ends with exit code 3 while a point is open.`,
		Example: "  pawl contract > CONTRACT.md\n  pawl contract orders.yaml --strict -o json",
		RunE: func(_ *cobra.Command, args []string) error {
			if a.format == formatCSV {
				return usage("csv is for lists: use -o json for a contract")
			}
			env := a.environment(true)
			set, err := pipeline.Load(a.paths(args), env)
			if err != nil {
				return &exitError{exitUsage, err}
			}
			chosen, err := choose(set, only)
			if err != nil {
				return err
			}
			covered := set.Coverage(env)
			l := listing[contractView]{kind: "Contract"}
			open := 0
			for _, p := range chosen {
				c := pipeline.NewContract(p, covered[p.Name])
				l.items = append(l.items, contractView{c, len(c.Open())})
				open += len(c.Open())
			}
			if err := a.printContracts(l); err != nil {
				return err
			}
			if open > 0 {
				a.note("%s of %s open", plural(open, "point"), plural(len(l.items), "contract"))
			}
			if strict && open > 0 {
				return &exitError{exitFindings, nil}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "end with exit code 3 while a point is open")
	cmd.Flags().StringSliceVar(&only, "only", nil, "only these pipelines, by name")
	return cmd
}

func (a *app) printContracts(l listing[contractView]) error {
	if a.format != formatTable {
		return printList(a, l)
	}
	var b bytes.Buffer
	for i, c := range l.items {
		if i > 0 {
			b.WriteString("\n")
		}
		writeContract(&b, c.Contract)
	}
	_, err := a.out.Write(b.Bytes())
	return err
}

// writeContract writes a contract in Markdown.
func writeContract(b *bytes.Buffer, c *pipeline.Contract) {
	fmt.Fprintf(b, "# Consumer contract: %s\n", cell(c.Pipeline))
	if c.Description != "" {
		fmt.Fprintf(b, "\n%s\n", cell(c.Description))
	}
	b.WriteString("\n| term | |\n|---|---|\n")
	for _, t := range c.Terms {
		fmt.Fprintf(b, "| %s | %s |\n", t.Name, cell(t.Text))
	}
	if open := c.Open(); len(open) > 0 {
		b.WriteString("\n## Open\n\n")
		seen := map[string]bool{}
		for _, p := range open {
			if !seen[p.Todo] {
				fmt.Fprintf(b, "- [ ] %s %s. **To do:** %s\n", p.Question, cell(p.Answer), cell(p.Todo))
			}
			seen[p.Todo] = true
		}
	}
	for _, l := range c.Checklists {
		fmt.Fprintf(b, "\n## %s\n\n| point | answer | rests on |\n|---|---|---|\n", l.Title)
		for _, p := range l.Points {
			basis := string(p.Basis)
			if p.Basis == pipeline.Open {
				basis = "**open**"
			}
			fmt.Fprintf(b, "| %s | %s | %s |\n", p.Question, cell(p.Answer), basis)
		}
	}
}

// cell keeps a text within its cell.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(printable(s))
}
