package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/pipeline"
)

type testView struct {
	File     string   `json:"file"`
	Line     int      `json:"line"`
	Pipeline string   `json:"pipeline"`
	Case     string   `json:"case"`
	Passed   bool     `json:"passed"`
	Failures []string `json:"failures,omitempty"`
	Millis   float64  `json:"millis"`
}

func (a *app) testCommand() *cobra.Command {
	return &cobra.Command{
		Use: "test [FILE|FOLDER…]", Short: "Run the fixtures beside pipeline files: records in, expected rows and outcomes out",
		Long: `Run the fixtures beside pipeline files (orders.yaml has orders_test.yaml): records in, expected rows, outcomes and quarantine
out. Each case has a database of its own; there is no network. What is in one folder is loaded together, as if it were to run;
folders have nothing to do with each other. Ends with exit code 1 if a case fails, and 2 if a file is wrong.`,
		Example: "  pawl test\n  pawl test examples/*/pipeline.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			results, err := a.test(cmd.Context(), a.paths(args))
			if err != nil {
				return &exitError{exitUsage, err}
			}
			return a.printResults(results)
		},
	}
}

// test runs the cases of each folder.
func (a *app) test(ctx context.Context, paths []string) ([]pipeline.Result, error) {
	env := a.environment(true)
	var sets []*pipeline.Set
	var refused []pipeline.Finding
	fixtures := 0
	for _, together := range byFolder(paths) {
		set, err := pipeline.Load(together, env)
		if err != nil {
			refused = append(refused, set.Findings...)
		}
		sets = append(sets, set)
		fixtures += len(set.Fixtures)
	}
	if len(refused) > 0 {
		return nil, &pipeline.Refused{Findings: refused}
	}
	if fixtures == 0 {
		return nil, errors.New("there are no fixtures: the cases of orders.yaml are in orders_test.yaml beside it")
	}
	dir, err := os.MkdirTemp("", "pawl-test-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the databases: %w", err)
	}
	defer os.RemoveAll(dir)
	var results []pipeline.Result
	for i, set := range sets {
		if len(set.Fixtures) == 0 {
			a.note("%s has no fixtures", set.Pipelines[0].Name)
			continue
		}
		own := filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(own, 0o700); err != nil {
			return nil, fmt.Errorf("make a folder for the databases: %w", err)
		}
		of, err := pipeline.Test(ctx, set, env, own)
		if err != nil {
			return nil, err
		}
		results = append(results, of...)
	}
	return results, nil
}

// byFolder parts paths by the folder that they are in, or are.
func byFolder(paths []string) [][]string {
	var folders [][]string
	at := map[string]int{}
	for _, path := range paths {
		folder := filepath.Clean(path)
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			folder = filepath.Dir(path)
		}
		i, known := at[folder]
		if !known {
			i = len(folders)
			at[folder] = i
			folders = append(folders, nil)
		}
		folders[i] = append(folders[i], path)
	}
	return folders
}

func (a *app) printResults(results []pipeline.Result) error {
	l := listing[testView]{kind: "TestResult", columns: []column[testView]{
		{name: "result", of: func(r testView) string { return map[bool]string{true: "ok", false: "FAILED"}[r.Passed] }, color: func(r testView) string {
			return map[bool]string{true: green, false: red}[r.Passed]
		}},
		{name: "pipeline", of: func(r testView) string { return r.Pipeline }},
		{name: "case", of: func(r testView) string { return r.Case }},
		{name: "ms", of: func(r testView) string { return fmt.Sprintf("%.0f", r.Millis) }},
		{name: "place", of: func(r testView) string { return fmt.Sprintf("%s:%d", r.File, r.Line) }},
		{name: "failures", of: func(r testView) string { return strings.Join(r.Failures, "; ") }},
	}}
	failed := 0
	var took time.Duration
	for _, r := range results {
		l.items = append(l.items, testView{r.File, r.Line, r.Pipeline, r.Case, len(r.Failures) == 0, r.Failures, float64(r.Took.Microseconds()) / 1000})
		took += r.Took
		if len(r.Failures) > 0 {
			failed++
		}
	}
	if a.format == formatTable {
		l.columns = l.columns[:5] // failures have lines of their own
	}
	if err := printList(a, l); err != nil {
		return err
	}
	for _, r := range l.items {
		for _, f := range r.Failures {
			a.note("%s:%d: %s: %s", r.File, r.Line, printable(r.Case), printable(f))
		}
	}
	a.note("%s, %d failed, in %s", plural(len(results), "case"), failed, took.Round(time.Millisecond))
	if failed > 0 {
		return &exitError{exitFailed, nil}
	}
	return nil
}
