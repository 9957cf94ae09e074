package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl"
)

// Exit codes. Scripts rely on them.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitFindings    = 3
	exitPartly      = 4
	exitRefused     = 5
	exitInterrupted = 130
)

var exitCodes = []struct {
	code    int
	meaning string
}{
	{exitDone, "done; of a plan: it was shown, and nothing was changed"},
	{exitFailed, "failed"},
	{exitUsage, "wrong usage, or invalid configuration"},
	{exitFindings, "finished, with findings"},
	{exitPartly, "partly done: items are left, or were set aside again"},
	{exitRefused, "refused by a guard: nothing matches, a state that forbids it, something else has it"},
	{exitInterrupted, "interrupted; what was asked for goes on without this command"},
}

// exitError ends the command with a code. A nil err says nothing more: it has been said.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// codeOf is the exit code of an error. Whatever fails before a command has begun is usage.
func codeOf(ctx context.Context, err error, begun bool) int {
	var exit *exitError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &exit):
		return exit.code
	case ctx.Err() != nil:
		return exitInterrupted
	case !begun:
		return exitUsage
	}
	return exitFailed
}

// report says what went wrong, and below it what to do.
func report(w io.Writer, err error) {
	var exit *exitError
	if errors.As(err, &exit) && exit.err == nil {
		return
	}
	text, hint := apart(err)
	fmt.Fprintf(w, "pawl: %s\n", printable(text))
	if hint != "" {
		fmt.Fprintf(w, "hint: %s\n", printable(hint))
	}
}

// apart takes an error apart: what went wrong, and what to do.
func apart(err error) (text, hint string) {
	text = err.Error()
	if known, ok := errors.AsType[*pawl.Error](err); ok && known.Hint != "" {
		hint = known.Hint
		text = strings.Replace(text, " ("+hint+")", "", 1)
	}
	if hint == "" {
		hint = hintOf(err)
	}
	return text, hint
}

func exitCodesTopic() *cobra.Command {
	var long strings.Builder
	long.WriteString("The exit codes of every command:\n\n")
	for _, c := range exitCodes {
		fmt.Fprintf(&long, "  %3d  %s\n", c.code, c.meaning)
	}
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: strings.TrimRight(long.String(), "\n")}
}
