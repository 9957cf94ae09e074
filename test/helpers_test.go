package test

import (
	"context"
	"errors"
	"flag"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(deadlyVariable); spec != "" {
		os.Exit(runDeadly(spec))
	}
	if spec := os.Getenv(shareVariable); spec != "" {
		os.Exit(runShare(spec))
	}
	flag.Parse()
	if n := flag.Lookup("test.parallel"); n.Value.String() == n.DefValue { // most of them wait for a server, or for time to pass
		n.Value.Set("4")
	}
	goleak.VerifyTestMain(m)
}

// running runs f until stop is called, at the latest when the test ends.
func running(t testing.TB, f func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	var once bool
	stop = func() error {
		if once {
			return nil
		}
		once = true
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(30 * time.Second):
			return errors.New("did not return")
		}
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return stop
}

// storyTime is when the records of scripted logs were written.
var storyTime = time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)
