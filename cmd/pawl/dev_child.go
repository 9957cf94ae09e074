package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/cmd/pawl/dev"
	"github.com/pawlhq/pawl/cmd/pawl/dev/naive"
	"github.com/pawlhq/pawl/cmd/pawl/dev/rehearsal"
	"github.com/pawlhq/pawl/kafka"
	"github.com/pawlhq/pawl/pipeline"
)

// playedPipelines reads the pipelines that dev has kept for its consumers, and points them at its broker and database.
func (a *app) playedPipelines() (*pipeline.Set, error) {
	set, err := pipeline.Load([]string{a.env("PAWL_DEV_FILES")}, a.environment(true))
	if err != nil {
		return nil, err
	}
	set.Store = &pipeline.Store{SQLite: a.env("PAWL_DEV_DB")}
	set.Kafka = &pipeline.Kafka{Brokers: strings.Split(a.env("PAWL_DEV_KAFKA"), ","), Instance: "dev"}
	for _, p := range set.Pipelines {
		p.Rehearse()
	}
	return set, nil
}

// endWithParent ends this process when dev has ended, however that happened: its end of stdin is closed then. There is no one left to
// work for, and nothing to give back: to be killed at any moment is what a consumer of dev is for.
func (a *app) endWithParent() {
	go func() {
		io.Copy(io.Discard, a.in)
		os.Exit(exitFailed)
	}()
}

// devConsumerCommand is the consumer of dev: `pawl run` of its files, with a window to be killed at.
func (a *app) devConsumerCommand() *cobra.Command {
	return &cobra.Command{
		Use: "dev-consumer", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.endWithParent()
			set, err := a.playedPipelines()
			if err != nil {
				return err
			}
			l, err := a.locateFor(cmd.Context(), set)
			if err != nil {
				return err
			}
			s, err := l.open(cmd.Context(), false)
			if err != nil {
				return err
			}
			defer s.close()
			ctx, err := withFaults(cmd.Context(), a.env("PAWL_FAULT"))
			if err != nil {
				return err
			}
			d := &daemon{
				app: a, store: s, kafka: set.Kafka, pipelines: set.Pipelines, killed: true,
				logger: slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelWarn})),
			}
			return d.run(ctx, "")
		},
	}
}

// devNaiveCommand is the consumer that dev compares with.
func (a *app) devNaiveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "dev-naive", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.endWithParent()
			brokers, to := strings.Split(a.env("PAWL_DEV_KAFKA"), ","), a.env("PAWL_DEV_NAIVE")
			if a.env("PAWL_DEV_OWN") != "true" {
				return dev.Naive(cmd.Context(), brokers, to)
			}
			set, err := a.playedPipelines()
			if err != nil {
				return err
			}
			ids, err := topicIDs(cmd.Context(), brokers, set)
			if err != nil {
				return err
			}
			return rehearsal.Naive(cmd.Context(), brokers, set, ids, to)
		},
	}
}

// topicIDs asks for the ids of the topics that pipelines read.
func topicIDs(ctx context.Context, brokers []string, set *pipeline.Set) (map[string]pawl.TopicID, error) {
	ids := map[string]pawl.TopicID{}
	for _, p := range set.Pipelines {
		src := kafka.New(kafka.Config{Brokers: brokers, Group: naive.Group, Logger: slog.New(slog.DiscardHandler)})
		logs, err := src.Look(ctx, p.Topic)
		if err != nil {
			return nil, err
		}
		for _, l := range logs {
			ids[l.Partition.Topic] = l.Partition.TopicID
		}
	}
	return ids, nil
}
