package pawl_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
	"github.com/pawlhq/pawl/pawltest"
)

// A handler that never returns does not keep Run from returning, and is named.
func TestRunReturnsWithoutAHandlerThatDoesNot(t *testing.T) {
	store, _ := openStore(t)
	b := newBench(pawltest.JSON(payment{ID: "1"}))
	inside, release := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(release) })
	h := func(context.Context, pawl.SQLTx, pawl.Envelope[payment]) error {
		close(inside)
		<-release
		return errors.New("at last")
	}
	cfg := b.config()
	cfg.ShutdownTimeout = 20 * time.Millisecond
	r := pawl.NewRunner(store, b.log, cfg)
	pawl.Handle(r, pawl.Route{Name: "a", Topics: []string{pawltest.Topic}}, payments(), h)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	<-inside
	cancel()
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "does not return") {
			t.Errorf("got %v, want that the handler is named", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Run did not return")
	}
}

// t.FailNow in a handler ends its goroutine: the runner says so and stops.
func TestAHandlerThatEndsItsGoroutineStopsTheRunner(t *testing.T) {
	store, _ := openStore(t)
	b := newBench(pawltest.JSON(payment{ID: "1"}))
	h := func(context.Context, pawl.SQLTx, pawl.Envelope[payment]) error {
		(&testing.T{}).FailNow()
		return nil
	}
	r := pawl.NewRunner(store, b.log, b.config())
	pawl.Handle(r, pawl.Route{Name: "a", Topics: []string{pawltest.Topic}}, payments(), h)
	if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "Goexit") {
		t.Errorf("got %v, want that the goroutine was ended", err)
	}
}

// In a decoder the same left the partition without a worker for ever, and said nothing.
func TestADecoderThatEndsItsGoroutineStopsTheRunner(t *testing.T) {
	store, _ := openStore(t)
	b := newBench(pawltest.JSON(payment{ID: "1"}))
	dec := decode.JSON(func(pawl.Meta, payment) pawl.Identity {
		(&testing.T{}).FailNow()
		return pawl.Identity{}
	})
	r := pawl.NewRunner(store, b.log, b.config())
	pawl.Handle(r, pawl.Route{Name: "a", Topics: []string{pawltest.Topic}}, dec,
		func(context.Context, pawl.SQLTx, pawl.Envelope[payment]) error { return nil })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := r.Run(ctx); err == nil || !strings.Contains(err.Error(), "Goexit") {
		t.Errorf("got %v, want that the goroutine was ended", err)
	}
}

// What a handler changes in its copy of a record is gone when the batch is tried again.
func TestARetrySeesTheRecordAsItWas(t *testing.T) {
	store, db := openStore(t)
	tries := 0
	pawltest.RunBatch(t, store, payments(), func(ctx context.Context, tx pawl.SQLTx, b *pawl.Batch[payment]) error {
		for _, e := range b.All() {
			e.Body.Amount *= 100
			if err := apply(ctx, tx, e.Body); err != nil {
				return err
			}
		}
		if tries++; tries == 1 {
			return context.DeadlineExceeded // transient
		}
		return nil
	}, pawltest.JSON(payment{ID: "1", Amount: 1})).Want(pawl.Applied)
	if n := count(t, db, `select amount from effect`); n != 100 {
		t.Errorf("amount %d, want 100", n)
	}
}
