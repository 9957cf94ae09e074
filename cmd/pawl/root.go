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
	set    []string
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
and act with --execute; who and why is recorded. Data goes to stdout, everything else to stderr.

What is said twice is taken from the first of: a flag; the environment (PAWL_FILE, PAWL_STORE, PAWL_BROKERS, and PAWL_OUTPUT,
PAWL_COLOR, PAWL_UTC, PAWL_LISTEN, PAWL_LOG_LEVEL, PAWL_ACTOR for the flags of these names); --set; the files; defaults. pawl
config print --origin tells which it was.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.fromEnvironment(cmd); err != nil {
				return err
			}
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
	flags.StringArrayVarP(&a.files, "file", "f", nil, "a pipeline file or folder; may be repeated; otherwise those of PAWL_FILE, separated as in PATH, "+
		"otherwise "+defaultFile+" if it is there")
	flags.StringArrayVar(&a.set, "set", nil, "path=value: a value that comes before that of the files, such as pipelines.orders.limits.batch=100; may be repeated")
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
	refuseUnknownHelp(root)
	a.completeNames(root)
	return root
}

// refuseUnknownHelp makes help about what does not exist an error, as the command itself would be.
func refuseUnknownHelp(root *cobra.Command) {
	help := must(root, "help")
	show := help.Run
	help.Run = nil
	help.RunE = func(cmd *cobra.Command, args []string) error {
		if found, rest, err := root.Find(args); err != nil || found == nil || len(rest) > 0 {
			return usage("there is no help about %q: pawl help lists the commands", strings.Join(args, " "))
		}
		show(cmd, args)
		return nil
	}
}

// inEnvironment are the flags that the environment may set. Those that act, choose or confirm are not among them: what changes
// something is said where it is done.
var inEnvironment = []string{"output", "color", "utc", "listen", "log-level", "actor"}

func (a *app) fromEnvironment(cmd *cobra.Command) error {
	for _, name := range inEnvironment {
		variable := "PAWL_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		flag, value := cmd.Flags().Lookup(name), a.env(variable)
		if flag == nil || flag.Changed || value == "" {
			continue
		}
		if err := flag.Value.Set(value); err != nil {
			return usage("%s: %v", variable, err)
		}
	}
	return nil
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
