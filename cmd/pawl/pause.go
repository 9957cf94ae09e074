package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl"
)

type consumerView struct {
	Name    string     `json:"name"`
	Group   string     `json:"group"`
	Cluster string     `json:"cluster"`
	Routes  []string   `json:"routes"`
	Paused  *pauseView `json:"paused"`
}

type pauseView struct {
	By  string     `json:"by"`
	Why string     `json:"why"`
	At  *time.Time `json:"at"`
}

func (a *app) pauseView(p *pawl.Pause) *pauseView {
	if p == nil {
		return nil
	}
	return &pauseView{p.By, p.Why, a.stamp(p.At)}
}

func (a *app) pauseCommand() *cobra.Command {
	return a.setPauseCommand(&cobra.Command{
		Use: "pause CONSUMER", Short: "Have a consumer settle nothing until it is resumed",
		Long: `Have a consumer settle nothing until it is resumed. Its processes keep running and keep their partitions; what they have
read waits. It lasts over restarts. Without --execute, nothing is changed.`,
	}, func(ctx context.Context, s *storage, c *pawl.BoundConsumer, by act) error {
		if p := c.Paused; p != nil {
			return &exitError{exitRefused, fmt.Errorf("%s is paused already, since %s by %s: %s", c.Name, a.at(p.At), p.By, p.Why)}
		}
		return s.admin.Pause(ctx, c.Name, pawl.Pause{By: by.actor, Why: by.reason, At: a.now()})
	})
}

func (a *app) resumeCommand() *cobra.Command {
	return a.setPauseCommand(&cobra.Command{
		Use: "resume CONSUMER", Short: "End a pause", Long: "End a pause. Without --execute, nothing is changed.",
	}, func(ctx context.Context, s *storage, c *pawl.BoundConsumer, by act) error {
		if c.Paused == nil {
			return &exitError{exitRefused, fmt.Errorf("%s is not paused", c.Name)}
		}
		return s.admin.Resume(ctx, c.Name, by.actor, by.reason, a.now())
	})
}

func (a *app) setPauseCommand(cmd *cobra.Command, set func(context.Context, *storage, *pawl.BoundConsumer, act) error) *cobra.Command {
	var by act
	cmd.Args, cmd.ValidArgsFunction = cobra.ExactArgs(1), a.completeConsumers
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := by.check(); err != nil {
			return err
		}
		return a.withStore(cmd.Context(), func(ctx context.Context, s *storage) error {
			c, err := consumer(ctx, s, args[0])
			if err != nil {
				return err
			}
			if by.execute {
				if err := set(ctx, s, c, by); err != nil {
					return err
				}
				if c, err = consumer(ctx, s, args[0]); err != nil {
					return err
				}
			}
			v := consumerView{c.Name, c.Group, c.Cluster, c.Routes, a.pauseView(c.Paused)}
			err = a.printObject("Consumer", v, func(w io.Writer) {
				if v.Paused == nil {
					fmt.Fprintf(w, "%s is not paused\n", v.Name)
					return
				}
				fmt.Fprintf(w, "%s is paused since %s by %s: %s\n", v.Name, a.at(*v.Paused.At), printable(v.Paused.By), printable(v.Paused.Why))
			})
			if err == nil && !by.execute {
				a.planned(cmd.Name() + " " + c.Name)
			}
			return err
		})
	}
	by.flags(cmd)
	return cmd
}
