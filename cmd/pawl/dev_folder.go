package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pawlhq/pawl"
)

// devMark is the file that makes a folder dev's own: nothing is thrown away in a folder without it.
const devMark = "pawl-dev.txt"

const devMarkText = "This folder belongs to pawl dev. It can be deleted at any time; pawl dev --fresh does it.\n"

// devLock is the file that is locked while dev plays in the folder. It stays there: who waits for it would hold one that is gone.
const devLock = "pawl-dev.lock"

// devParts is all that dev keeps in its folder.
var devParts = []string{"pawl.db", "pawl.db-wal", "pawl.db-shm", "kafka", "naive.jsonl", "played", "quiet", devMark}

// playedFolder has the pipeline files as they were when the folder was begun: the consumers read them there, whatever is edited
// meanwhile.
func (d *devRun) playedFolder() string { return filepath.Join(d.dir, "played") }

// claimFolder makes the folder, or sees that it is of the same pipelines. It is this process's until release, or until the process
// ends, however that happens.
func (d *devRun) claimFolder(fresh bool) (release func() error, err error) {
	if err := d.free(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of dev: %w", err)
	}
	lock, holder, err := lockFile(filepath.Join(d.dir, devLock))
	switch {
	case err != nil:
		return nil, fmt.Errorf("lock the folder of dev: %w", err)
	case lock == nil:
		return nil, d.notOurs(fmt.Sprintf("another pawl dev plays in it, process %d", holder), "let it end, or name another folder with --dir")
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	return lock.Close, d.begin(fresh)
}

// free refuses a folder that is someone else's.
func (d *devRun) free() error {
	entries, err := os.ReadDir(d.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("open the folder of dev: %w", err)
	}
	ours := len(entries) == 0
	for _, e := range entries {
		ours = ours || e.Name() == devMark || e.Name() == devLock
	}
	if !ours {
		return d.notOurs("it is not empty, and was not made by this pawl dev", "name another folder with --dir, or empty it")
	}
	return nil
}

// begin goes on with what is in the folder, or starts over.
func (d *devRun) begin(fresh bool) error {
	_, noMark := os.Stat(filepath.Join(d.dir, devMark))
	if fresh {
		for _, part := range devParts {
			if err := os.RemoveAll(filepath.Join(d.dir, part)); err != nil {
				return fmt.Errorf("start over: %w", err)
			}
		}
		noMark = fs.ErrNotExist
	}
	if noMark == nil {
		if !d.samePipelines() {
			return d.notOurs("it has other pipelines in it, or these as they were before they were edited",
				"--fresh starts over in it; --dir names another folder")
		}
		return nil
	}
	// The mark comes first: who is killed right after it finds a folder that --fresh may empty.
	if err := os.WriteFile(filepath.Join(d.dir, devMark), []byte(devMarkText), 0o644); err != nil {
		return fmt.Errorf("make the folder of dev: %w", err)
	}
	if err := os.MkdirAll(d.playedFolder(), 0o755); err != nil {
		return fmt.Errorf("make the folder of dev: %w", err)
	}
	for i, content := range d.content() {
		if err := os.WriteFile(d.played(i), content, 0o644); err != nil {
			return fmt.Errorf("keep the pipelines: %w", err)
		}
	}
	return nil
}

func (d *devRun) notOurs(why, hint string) error {
	return &exitError{exitRefused, &pawl.Error{Op: "play in " + d.dir, Class: pawl.Misconfigured, Err: errors.New(why), Hint: hint}}
}

func (d *devRun) played(i int) string {
	return filepath.Join(d.playedFolder(), fmt.Sprintf("%02d.yaml", i+1))
}

// samePipelines reports whether the folder was begun with the pipelines that are to be played now.
func (d *devRun) samePipelines() bool {
	now := d.content()
	if entries, err := os.ReadDir(d.playedFolder()); err != nil || len(entries) != len(now) {
		return false
	}
	for i, content := range now {
		kept, err := os.ReadFile(d.played(i))
		if err != nil || !bytes.Equal(kept, content) {
			return false
		}
	}
	return true
}
