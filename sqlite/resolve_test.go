package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/pawlhq/pawl"
)

// The answer to COMMIT is lost: the progress row knows it.
func TestALostAnswerToCommitIsFoundInTheProgressRow(t *testing.T) {
	ctx := t.Context()
	store, err := Open(ctx, filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(ctx, pawl.Binding{Consumer: "c", Cluster: "k", Group: "g", Version: "v"})
	if err != nil {
		t.Fatal(err)
	}
	p := pawl.Partition{Topic: "t"}
	o, err := s.Acquire(ctx, p, 0)
	if err != nil {
		t.Fatal(err)
	}
	lost := errors.New("lost")
	if err := store.resolve(ctx, o, o.Seq+1, lost); !errors.Is(err, lost) {
		t.Errorf("before any commit: got %v, want the error of COMMIT", err)
	}
	w := &pawl.Work[pawl.SQLTx]{Next: 1}
	w.Run = func(_ context.Context, _ pawl.Session[pawl.SQLTx]) error { return nil }
	if err := s.Apply(ctx, o, w); err != nil {
		t.Fatal(err)
	}
	if err := store.resolve(ctx, o, o.Seq, lost); err != nil {
		t.Errorf("after the commit: got %v, want that it happened", err)
	}
	if err := store.resolve(ctx, o, o.Seq+1, lost); !errors.Is(err, lost) {
		t.Errorf("for the commit after it: got %v, want the error of COMMIT", err)
	}
	if _, err := s.Acquire(ctx, p, 0); err != nil {
		t.Fatal(err)
	}
	if err := store.resolve(ctx, o, o.Seq+1, lost); !errors.Is(err, pawl.ErrFenced) {
		t.Errorf("after another has taken over: got %v, want %v", err, pawl.ErrFenced)
	}
}
