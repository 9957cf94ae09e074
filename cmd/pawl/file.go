package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pawlhq/pawl/pipeline"
)

// defaultFile is the file that is meant where none is named, if it is there.
const defaultFile = "pawl.yaml"

// disk is the file system by the names that people use.
type disk struct{}

func (disk) Open(name string) (fs.File, error) { return os.Open(name) }

// paths are the files and folders that are meant: arguments, then --file, then PAWL_FILE, then pawl.yaml. A comma is part of a
// path: --file is repeated, and PAWL_FILE is a list as PATH is.
func (a *app) paths(args []string) []string {
	switch {
	case len(args) > 0:
		return args
	case len(a.files) > 0:
		return a.files
	case a.env("PAWL_FILE") != "":
		return filepath.SplitList(a.env("PAWL_FILE"))
	}
	return []string{defaultFile}
}

// named reports whether a file is meant at all.
func (a *app) named() bool {
	if len(a.files) > 0 || a.env("PAWL_FILE") != "" {
		return true
	}
	_, err := os.Stat(defaultFile)
	return err == nil
}

// environment is what files may see. Offline, a variable that is not set is a warning.
func (a *app) environment(offline bool) pipeline.Env {
	return pipeline.Env{Files: disk{}, Offline: offline, Set: a.set, Lookup: func(name string) (string, bool) {
		v := a.env(name)
		return v, v != ""
	}}
}

// load reads files that are to run: what is wrong with them is invalid configuration.
func (a *app) load(args []string) (*pipeline.Set, error) {
	set, err := pipeline.Load(a.paths(args), a.environment(false))
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	for _, f := range set.Findings {
		a.note("%s", strings.TrimRight(printable(f.Text()), "\n"))
	}
	a.overrule(set)
	return set, nil
}

// overrule puts what the environment says before what the files say. Which store is meant is decided by locate.
func (a *app) overrule(set *pipeline.Set) {
	brokers := a.env("PAWL_BROKERS")
	if brokers == "" {
		return
	}
	k := pipeline.Kafka{}
	if set.Kafka != nil {
		k = *set.Kafka // its logins go with it
	}
	k.Brokers = strings.Split(brokers, ",")
	set.Kafka = &k
}
