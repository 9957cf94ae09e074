package main

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

var errNone = errors.New("there is none")

// act is what every command that changes something asks for: it shows a plan first, and acts with --execute.
type act struct {
	execute bool
	actor   string
	reason  string
}

func (c *act) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.execute, "execute", false, "act, rather than show what would be done")
	cmd.Flags().StringVar(&c.actor, "actor", userName(), "who does this; it is recorded")
	cmd.Flags().StringVar(&c.reason, "reason", "", "why; it is recorded, and required with --execute")
	cmd.Flags().Lookup("actor").DefValue = "the user's name" // the reference must not depend on who prints it
}

// check refuses to act without a name and a reason: they are part of the history.
func (c *act) check() error {
	switch {
	case !c.execute:
		return nil
	case strings.TrimSpace(c.actor) == "":
		return usage("--actor is empty: who does this is recorded")
	case strings.TrimSpace(c.reason) == "":
		return usage("--reason is missing: why this is done is recorded")
	}
	return nil
}

// planned tells that nothing was changed.
func (a *app) planned(what string) {
	a.note("nothing was changed: add --execute and --reason to %s", what)
}

// pollEvery is how often a command that waits looks again.
const pollEvery = 250 * time.Millisecond
