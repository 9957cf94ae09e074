package main

import (
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/pawl/dev"
)

// devConsumerCommand is the consumer of dev: `pawl run` of its file, with a window to be killed at.
func (a *app) devConsumerCommand() *cobra.Command {
	return &cobra.Command{
		Use: "dev-consumer", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			set, err := devPipelines(a.env)
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
			return dev.Naive(cmd.Context(), strings.Split(a.env("PAWL_DEV_KAFKA"), ","), a.env("PAWL_DEV_NAIVE"))
		},
	}
}

// devFiles has one file, the sample's.
var devFiles fs.FS = oneFile{"pipelines.yaml", dev.Pipelines}

// oneFile is a file system with one file, beside nothing.
type oneFile struct {
	name    string
	content []byte
}

func (f oneFile) Open(name string) (fs.File, error) {
	if name != f.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &openFile{strings.NewReader(string(f.content)), f}, nil
}

type openFile struct {
	*strings.Reader
	of oneFile
}

func (f *openFile) Close() error               { return nil }
func (f *openFile) Stat() (fs.FileInfo, error) { return f, nil }
func (f *openFile) Name() string               { return f.of.name }
func (f *openFile) Mode() fs.FileMode          { return 0o444 }
func (f *openFile) ModTime() time.Time         { return time.Time{} }
func (f *openFile) IsDir() bool                { return false }
func (f *openFile) Sys() any                   { return nil }
