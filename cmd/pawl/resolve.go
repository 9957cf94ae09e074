package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl"
)

type conditionView struct {
	ID        int64           `json:"id"`
	Consumer  string          `json:"consumer"`
	State     string          `json:"state"`
	Halts     bool            `json:"halts"`
	Topic     string          `json:"topic,omitempty"`
	Partition *int32          `json:"partition,omitempty"` // absent: the whole topic, or the whole consumer
	Reason    string          `json:"reason"`
	Hint      string          `json:"hint,omitempty"`
	Next      *int64          `json:"next,omitempty"` // where reading goes on, if it just goes on
	Start     int64           `json:"start"`
	End       int64           `json:"end"`
	Since     *time.Time      `json:"since"`
	Answer    *resolutionView `json:"answer,omitempty"` // given, and not yet carried out
}

type resolutionView struct {
	To  string     `json:"to"` // an offset, or "next"
	By  string     `json:"by"`
	Why string     `json:"why"`
	At  *time.Time `json:"at"`
}

func (a *app) conditionView(consumer string, c *pawl.OpenCondition) conditionView {
	v := conditionView{
		ID: c.ID, Consumer: consumer, State: string(c.State), Halts: c.State.Halts(), Topic: c.Partition.Topic, Reason: c.Reason,
		Hint: c.Hint, Start: c.Start, End: c.End, Since: a.stamp(c.Since),
	}
	if c.Partition.Index != pawl.AllPartitions {
		v.Partition = &c.Partition.Index
	}
	if c.Next != pawl.NoStart {
		v.Next = &c.Next
	}
	if r := c.Resolution; r != nil {
		v.Answer = &resolutionView{to(r.To), r.By, r.Why, a.stamp(r.At)}
	}
	return v
}

func to(offset int64) string {
	if offset == pawl.GoOn {
		return "next"
	}
	return strconv.FormatInt(offset, 10)
}

// where is what a condition is about.
func (v *conditionView) where() string {
	switch {
	case v.Topic == "":
		return v.Consumer
	case v.Partition == nil:
		return v.Topic
	}
	return fmt.Sprintf("%s/%d", v.Topic, *v.Partition)
}

func (a *app) resolveCommand() *cobra.Command {
	var by act
	var where string
	cmd := &cobra.Command{
		Use: "resolve ID", Short: "Answer a condition, so that a halted partition or a latched consumer goes on",
		Long: `Answer a condition, so that a halted partition or a latched consumer goes on. pawl status lists conditions with their ids.

With --to next reading goes on where the condition says; with an offset it goes on there: what lies between is read again,
or never. The owner of the partition carries it out, within seconds if it runs; an answer that was not yet carried out can
be replaced. Without --execute, the condition is shown.`,
		Example: `  pawl resolve 3
  pawl resolve 3 --to next --execute --reason "the records are in the backup topic"`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseID(args[0])
			if err != nil {
				return err
			}
			offset := pawl.GoOn
			if where != "next" {
				if offset, err = strconv.ParseInt(where, 10, 64); err != nil || offset < 0 {
					return usage("--to %q: it is next, or an offset", where)
				}
			}
			if err := by.check(); err != nil {
				return err
			}
			return a.withStore(cmd.Context(), func(ctx context.Context, s *storage) error {
				return a.resolve(ctx, s, id, offset, by)
			})
		},
	}
	by.flags(cmd)
	cmd.Flags().StringVar(&where, "to", "next", "next, or the offset to read on from")
	return cmd
}

func (a *app) resolve(ctx context.Context, s *storage, id, offset int64, by act) error {
	v, err := a.condition(ctx, s, id)
	if err != nil {
		return err
	}
	if !by.execute {
		if err := a.printObject("Condition", v, func(w io.Writer) { a.writeCondition(w, v) }); err != nil {
			return err
		}
		a.planned(fmt.Sprintf("go on with %s", to(offset)))
		return nil
	}
	if offset == pawl.GoOn && v.Next == nil && v.Halts && v.Partition != nil {
		return &exitError{exitRefused, &pawl.Error{Op: fmt.Sprintf("resolve condition %d", id), Class: pawl.Validation,
			Err: fmt.Errorf("%s has no place to just go on from", v.where()), Hint: "say where with --to OFFSET"}}
	}
	r := pawl.Resolution{To: offset, By: by.actor, Why: by.reason, At: a.now()}
	if err := s.admin.Resolve(ctx, id, r); err != nil {
		return err
	}
	v.Answer = &resolutionView{to(offset), r.By, r.Why, a.stamp(r.At)}
	if err := a.printObject("Condition", v, func(w io.Writer) { a.writeCondition(w, v) }); err != nil {
		return err
	}
	if v.Halts {
		a.note("the answer is kept; the owner carries it out. To see that it has: pawl status")
	}
	return nil
}

func (a *app) condition(ctx context.Context, s *storage, id int64) (*conditionView, error) {
	all, err := s.admin.Consumers(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		found, err := s.admin.Conditions(ctx, c.Name)
		if err != nil {
			return nil, err
		}
		for i := range found {
			if found[i].ID == id {
				v := a.conditionView(c.Name, &found[i])
				return &v, nil
			}
		}
	}
	return nil, pawl.NoSuchCondition(id)
}

func (a *app) writeCondition(w io.Writer, v *conditionView) {
	halts := "nothing"
	switch {
	case v.Halts && v.Topic == "":
		halts = "the consumer"
	case v.Halts:
		halts = v.where()
	}
	fields := [][2]string{
		{"condition", fmt.Sprint(v.ID)}, {"consumer", v.Consumer}, {"state", v.State}, {"of", v.where()}, {"halts", halts},
		{"reason", v.Reason}, {"what to do", v.Hint}, {"since", a.at(*v.Since)},
	}
	if v.Next != nil {
		fields = append(fields, [2]string{"goes on at", fmt.Sprint(*v.Next)})
	}
	if v.Topic != "" && v.End > 0 {
		fields = append(fields, [2]string{"the log has", fmt.Sprintf("%d to %d", v.Start, v.End)})
	}
	if r := v.Answer; r != nil {
		fields = append(fields, [2]string{"answer", fmt.Sprintf("go on at %s, by %s at %s: %s", r.To, r.By, a.at(*r.At), r.Why)})
	}
	writeFields(w, fields)
}
