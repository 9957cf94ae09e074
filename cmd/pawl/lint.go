package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/pipeline"
)

func (a *app) lintCommand() *cobra.Command {
	var format string
	forms := []string{"text", "json", "sarif", "github"}
	cmd := &cobra.Command{
		Use: "lint [FILE|FOLDER…]", Short: "Find everything that is wrong with pipeline files, in one run",
		Long: `Find everything that is wrong with pipeline files, in one run and offline: what is no YAML, unknown keys, expressions that
do not compile, and combinations that would be unsafe. Variables that are not set are warnings.

Without a file it is pawl.yaml. Ends with exit code 3 if anything is wrong that keeps a file from running.`,
		Example: "  pawl lint\n  pawl lint pipelines/ --format sarif > lint.sarif",
		RunE: func(_ *cobra.Command, args []string) error {
			if !slices.Contains(forms, format) {
				return usage("--format %q is none: it is one of %s", format, strings.Join(forms, ", "))
			}
			set, refused := pipeline.Load(a.paths(args), a.environment(true))
			if err := a.printFindings(set.Findings, format); err != nil {
				return err
			}
			faults := countFaults(set.Findings)
			a.note("%s, %s in %s", plural(faults, "error"), plural(len(set.Findings)-faults, "warning"), plural(len(set.Pipelines), "pipeline"))
			if refused != nil {
				return &exitError{exitFindings, nil}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", strings.Join(forms, ", ")+"; -o json is a list like others")
	complete(cmd, "format", forms...)
	return cmd
}

func countFaults(all []pipeline.Finding) (n int) {
	for _, f := range all {
		if f.Severity == pipeline.Fault {
			n++
		}
	}
	return n
}

func (a *app) printFindings(found []pipeline.Finding, format string) error {
	if a.format != formatTable {
		return printList(a, listing[pipeline.Finding]{kind: "Finding", items: found, columns: findingColumns})
	}
	switch format {
	case "json":
		a.format = formatJSON
		return printList(a, listing[pipeline.Finding]{kind: "Finding", items: found})
	case "sarif":
		return a.printSARIF(found)
	case "github":
		for _, f := range found {
			_, err := fmt.Fprintf(a.out, "::%s file=%s,line=%d,col=%d,title=%s::%s\n", f.Severity, escape(f.File, true), max(f.Line, 1),
				max(f.Col, 1), f.Rule, escape(strings.TrimSpace(f.Message+"\n"+f.Hint), false))
			if err != nil {
				return err
			}
		}
		return nil
	}
	for _, f := range found {
		if _, err := fmt.Fprint(a.out, printable(f.Text())); err != nil {
			return err
		}
	}
	return nil
}

// escape writes a text as a command of GitHub's log takes it.
func escape(s string, property bool) string {
	pairs := []string{"%", "%25", "\r", "%0D", "\n", "%0A"}
	if property {
		pairs = append(pairs, ":", "%3A", ",", "%2C")
	}
	return strings.NewReplacer(pairs...).Replace(s)
}

var findingColumns = []column[pipeline.Finding]{
	{name: "file", of: func(f pipeline.Finding) string { return f.File }},
	{name: "line", of: func(f pipeline.Finding) string { return fmt.Sprint(f.Line) }},
	{name: "col", of: func(f pipeline.Finding) string { return fmt.Sprint(f.Col) }},
	{name: "severity", of: func(f pipeline.Finding) string { return string(f.Severity) }},
	{name: "rule", of: func(f pipeline.Finding) string { return f.Rule }},
	{name: "message", of: func(f pipeline.Finding) string { return f.Message }},
	{name: "hint", of: func(f pipeline.Finding) string { return f.Hint }},
}

// printSARIF writes the format that code hosts read.
func (a *app) printSARIF(found []pipeline.Finding) error {
	type object = map[string]any
	rules, results := []object{}, []object{}
	seen := map[string]bool{}
	for _, f := range found {
		if !seen[f.Rule] {
			seen[f.Rule] = true
			rules = append(rules, object{"id": f.Rule})
		}
		text := f.Message
		if f.Hint != "" {
			text += ": " + f.Hint
		}
		results = append(results, object{
			"ruleId": f.Rule, "level": string(f.Severity), "message": object{"text": text},
			"locations": []object{{"physicalLocation": object{
				"artifactLocation": object{"uri": f.File}, "region": object{"startLine": max(f.Line, 1), "startColumn": max(f.Col, 1)},
			}}},
		})
	}
	doc := object{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []object{{"tool": object{"driver": object{"name": "pawl", "rules": rules}}, "results": results}},
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	_, err = a.out.Write(append(text, '\n'))
	return err
}
