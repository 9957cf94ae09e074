//go:build !unix

package main

import (
	"context"
	"errors"
	"os"
)

var errNoKills = errors.New("pawl dev kills processes by signals, which this system does not have")

func withFaults(ctx context.Context, _ string) (context.Context, error) { return ctx, nil }

type child struct{ ended chan struct{} }

func (d *devRun) start(string, ...string) (*child, error) { return nil, errNoKills }
func (c *child) kill()                                    {}
func (c *child) stop() error                              { return errNoKills }
func (c *child) killed() bool                             { return false }
func (c *child) said() string                             { return "" }

func lockFile(string) (*os.File, int, error) { return nil, 0, errNoKills }
