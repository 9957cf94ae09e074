package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// app is one run of the command: what it reads and writes, and the flags that all commands share.
type app struct {
	in       io.Reader
	out, err io.Writer
	env      func(string) string
	now      func() time.Time
	begun    bool // a command has begun: what fails now is not usage

	format string
	color  string
	utc    bool
	store  string
	files  []string
}

func newApp(in io.Reader, out, err io.Writer) *app {
	return &app{in: in, out: out, err: err, env: os.Getenv, now: time.Now}
}

// run executes a command line and returns its exit code.
func (a *app) run(ctx context.Context, args []string) int {
	out := &minding{Writer: a.out}
	a.out = out
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	if exit := (*exitError)(nil); out.err != nil && (err == nil || errors.As(err, &exit) && exit.err == nil) {
		err = &exitError{exitFailed, out.err} // nobody has heard what it came to
	}
	if err != nil {
		report(a.err, err)
	}
	code := codeOf(ctx, err, a.begun)
	if code == exitUsage && !a.begun {
		io.WriteString(a.err, "hint: pawl help, or any command with --help\n")
	}
	return code
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "pawl",
		Short: "Every event takes effect once, and why each row is what it is",
		Long: `Pawl makes a Kafka consumer correct: every event takes effect once per business key.

Commands that ask read the store alone, whether or not anything is running. Commands that change something show a plan,
and act with --execute; who and why is recorded. Data goes to stdout, everything else to stderr.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.check(); err != nil {
				return err
			}
			a.begun = true
			return nil
		},
	}
	flags := root.PersistentFlags()
	flags.StringVarP(&a.format, "output", "o", formatTable, "how data is written: "+strings.Join(formats, ", "))
	flags.StringVar(&a.color, "color", "auto", "auto, always or never; NO_COLOR means never")
	flags.BoolVar(&a.utc, "utc", false, "write times in UTC; otherwise in the zone of this machine")
	flags.StringVar(&a.store, "store", "", "the store: postgres://…, sqlite:path, ${env:NAME} or ${file:/path} that holds one; "+
		"otherwise PAWL_STORE, otherwise that of the pipeline file")
	flags.StringSliceVarP(&a.files, "file", "f", nil, "pipeline files or folders; otherwise PAWL_FILE, otherwise "+defaultFile+" if it is there")
	complete(root, "output", formats...)
	complete(root, "color", "auto", "always", "never")

	root.AddCommand(
		a.devCommand(), a.devConsumerCommand(), a.devNaiveCommand(), a.runCommand(), a.lintCommand(), a.testCommand(), a.contractCommand(),
		a.doctorCommand(), a.schemaCommand(), a.configCommand(), a.initCommand(),
		a.statusCommand(), a.explainCommand(), a.quarantineCommand(), a.holdsCommand(), a.operationsCommand(), a.auditCommand(), a.resolveCommand(),
		a.pauseCommand(), a.resumeCommand(), a.migrateCommand(), a.versionCommand(), exitCodesTopic(),
	)
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	return root
}

func (a *app) check() error {
	if !slices.Contains(formats, a.format) {
		return usage("--output %q is none: it is one of %s", a.format, strings.Join(formats, ", "))
	}
	if !slices.Contains([]string{"auto", "always", "never"}, a.color) {
		return usage("--color %q is none: it is auto, always or never", a.color)
	}
	return nil
}

// complete offers the values of a flag to the shell.
func complete(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag does not exist
	}
}

// group is a command that only has others.
func group(use, short string, sub ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, args []string) error {
		return usage("%s: one of its commands is needed: %s", cmd.CommandPath(), strings.Join(names(cmd.Commands()), ", "))
	}}
	cmd.AddCommand(sub...)
	return cmd
}

func names(cmds []*cobra.Command) []string {
	var all []string
	for _, c := range cmds {
		if c.IsAvailableCommand() {
			all = append(all, c.Name())
		}
	}
	return all
}

// userName is who is asking, as far as the machine knows.
func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}
