package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlhq/pawl"
)

// noticing cancels when it is written to: the command has begun to wait.
type noticing struct {
	bytes.Buffer
	cancel context.CancelFunc
}

func (n *noticing) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "0 of 1 done") {
		defer n.cancel()
	}
	return n.Buffer.Write(p)
}

func TestCtrlCDetachesAndSaysHowToReattach(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "pawl.db")
	ctx, cancel := context.WithCancel(t.Context())
	err := onStore(ctx, url, &job{name: "billing", migrate: true, hooks: pawl.Hooks{Settled: func(s pawl.Settled) { cancel() }}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	errs := &noticing{cancel: cancel}
	a := newApp(strings.NewReader(""), &out, errs)
	code := a.run(ctx, []string{"quarantine", "replay", "1", "--execute", "--reason", "fixed", "--wait", "--store", url})
	if code != exitInterrupted || !strings.Contains(errs.String(), "pawl operations show 1 --wait") ||
		!strings.Contains(errs.String(), "no process works for billing") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	text, code := runLine(t, "operations", "show", "1", "--store", url)
	if code != exitDone || !strings.Contains(text, "running") {
		t.Errorf("it was given up with the command: %d, %s", code, text)
	}
}
