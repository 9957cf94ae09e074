package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl"
)

type editPlanView struct {
	Before *bytesView `json:"before"`
	After  *bytesView `json:"after"`

	Changes []change `json:"changes,omitempty"` // where both are JSON
}

// mostValue bounds what is read as a new value: no broker takes a larger record.
const mostValue = 64 << 20

func (a *app) quarantineEditCommand() *cobra.Command {
	var by act
	var value, from string
	var wait bool
	cmd := &cobra.Command{
		Use: "edit ID --value TEXT | --from FILE", Short: "Give a record other content, as a new revision, and run it again",
		Long: `Give a record other content, as a new revision, and run it again. The bytes as they came are kept, and a later copy of
them is a duplicate of the edited one. The key must stay: content with another key is set aside again.

Without --execute, the content as it is and as it would be is shown, and where they differ.`,
		Example: `  pawl quarantine show 17 -o json | jq -r .record.value.text > fixed.json
  pawl quarantine edit 17 --from fixed.json --execute --reason "ticket 4711" --wait`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseID(args[0])
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("value") == cmd.Flags().Changed("from") {
				return usage("give the new content with --value or --from, one of them")
			}
			if err := by.check(); err != nil {
				return err
			}
			if cmd.Flags().Changed("value") && value == "" {
				return usage("--value is empty: an empty record is given as --from /dev/null")
			}
			content := []byte(value)
			if cmd.Flags().Changed("from") {
				if content, err = a.readValue(from); err != nil {
					return err
				}
			}
			return a.withStore(cmd.Context(), func(ctx context.Context, s *storage) error {
				of, err := consumerOf(ctx, s, id)
				if err != nil {
					return err
				}
				r := pawl.OperationRequest{Consumer: of, Kind: pawl.OperationEdit, Filter: pawl.QuarantineFilter{IDs: []int64{id}}, Value: content}
				if by.execute {
					return a.carryOut(ctx, s, by, wait, r)
				}
				return a.planEdit(ctx, s, id, r)
			})
		},
	}
	by.flags(cmd)
	cmd.Flags().StringVar(&value, "value", "", "the new content")
	cmd.Flags().StringVar(&from, "from", "", "the file with the new content; - is stdin")
	cmd.Flags().BoolVar(&wait, "wait", false, "follow it until it is over")
	return cmd
}

func (a *app) planEdit(ctx context.Context, s *storage, id int64, r pawl.OperationRequest) error {
	r.At = a.now()
	plan, err := a.plan(ctx, s, r)
	if err != nil {
		return err
	}
	q, err := s.admin.QuarantineItem(ctx, id)
	if err != nil {
		return err
	}
	now := q.Record.Value
	if n := len(q.Revisions); n > 0 {
		now = q.Revisions[n-1].Value
	}
	plan.Edit = &editPlanView{Before: viewBytes(now), After: viewBytes(r.Value)}
	plan.Edit.Changes, _ = differences(now, r.Value)
	if err := a.printObject("OperationPlan", plan, func(w io.Writer) { writePlan(w, plan) }); err != nil {
		return err
	}
	if plan.Count == 0 {
		a.note("it is %s, or in another operation: it cannot be edited now", q.Status)
		return &exitError{exitRefused, nil}
	}
	if bytes.Equal(now, r.Value) {
		a.note("the content is what it is already: to run it again as it is, use pawl quarantine replay %d", id)
	}
	a.planned("edit it")
	return nil
}

func (a *app) readValue(from string) ([]byte, error) {
	in := a.in
	if from != "-" {
		f, err := os.Open(from)
		if err != nil {
			return nil, &exitError{exitUsage, fmt.Errorf("read the new content: %w", err)}
		}
		defer f.Close()
		in = f
	}
	content, err := io.ReadAll(io.LimitReader(in, mostValue+1))
	if err == nil && len(content) > mostValue {
		err = errors.New("it is larger than any record")
	}
	if err != nil {
		return nil, fmt.Errorf("read the new content: %w", err)
	}
	return content, nil
}
