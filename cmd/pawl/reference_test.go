package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write docs/cli.md anew")

const reference = "../../docs/cli.md"

// The reference is made from the commands: go test ./cmd/pawl -run TestReference -update.
func TestReferenceIsCurrent(t *testing.T) {
	root := newApp(nil, nil, nil).root()
	var b bytes.Buffer
	b.WriteString("# Commands\n\nMade from the commands themselves: `go test ./cmd/pawl -run TestReference -update`. How to use them at work: " +
		"[operations.md](operations.md).\n\n## pawl\n\n" + root.Long + "\n\nFlags of every command:\n\n" + flags(root.PersistentFlags()))
	describe(&b, root)
	b.WriteString("\n## Exit codes\n\n| code | means |\n|---|---|\n")
	for _, c := range exitCodes {
		fmt.Fprintf(&b, "| %d | %s |\n", c.code, c.meaning)
	}
	if *update {
		if err := os.WriteFile(reference, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(reference)
	if err != nil || !bytes.Equal(have, b.Bytes()) {
		t.Errorf("docs/cli.md is not current (%v): go test ./cmd/pawl -run TestReference -update", err)
	}
}

func describe(b *bytes.Buffer, cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		switch {
		case !c.IsAvailableCommand() || c.Name() == "help":
			continue
		case c.Name() == "completion":
			b.WriteString("\n## pawl completion bash|zsh|fish|powershell\n\nPrint a script that completes commands in a shell. Each says with --help how to load it.\n")
			continue
		case c.HasAvailableSubCommands():
			describe(b, c)
			continue
		}
		text := c.Long
		if text == "" {
			text = c.Short + "."
		}
		fmt.Fprintf(b, "\n## %s\n\n%s\n", strings.Replace(c.UseLine(), " [flags]", "", 1), indentLists(text))
		if c.Example != "" {
			b.WriteString("\n```sh\n")
			for line := range strings.SplitSeq(c.Example, "\n") {
				b.WriteString(strings.TrimPrefix(line, "  ") + "\n")
			}
			b.WriteString("```\n")
		}
		if f := flags(c.LocalNonPersistentFlags()); f != "" {
			b.WriteString("\n" + f)
		}
	}
}

// indentLists makes lines that are set in for the terminal a block.
func indentLists(text string) string {
	var out []string
	block := false
	for line := range strings.SplitSeq(text, "\n") {
		if in := strings.HasPrefix(line, "  "); in != block {
			block = in
			if in {
				out = append(out, "", "```")
			} else {
				out = append(out, "```", "")
			}
		}
		out = append(out, line)
	}
	if block {
		out = append(out, "```")
	}
	return strings.Join(out, "\n")
}

func flags(of *pflag.FlagSet) string {
	var b strings.Builder
	of.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || f.Hidden {
			return
		}
		if b.Len() == 0 {
			b.WriteString("| flag | default | |\n|---|---|---|\n")
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		def := f.DefValue
		if f.Value.Type() == "bool" && def == "false" || def == "[]" {
			def = ""
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, def, strings.ReplaceAll(f.Usage, "|", "\\|"))
	})
	return b.String()
}

// Every command that acts can be asked for a plan, and records who and why.
func TestCommandsThatActPlanFirst(t *testing.T) {
	acting := 0
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		execute, actor, reason := c.Flags().Lookup("execute"), c.Flags().Lookup("actor"), c.Flags().Lookup("reason")
		if execute == nil {
			return
		}
		acting++
		if execute.DefValue != "false" {
			t.Errorf("%s acts without being told", c.CommandPath())
		}
		if c.Parent().Name() != "migrate" && (actor == nil || reason == nil) {
			t.Errorf("%s does not ask who and why", c.CommandPath())
		}
	}
	walk(newApp(nil, nil, nil).root())
	if acting < 10 {
		t.Errorf("%d commands act: the test looks in the wrong place", acting)
	}
}
