// Package sqlitetest gives each test a SQLite database of its own with Pawl's tables in it.
package sqlitetest

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pawlhq/pawl/sqlite"
)

// Migrated returns the path of a fresh database with Pawl's tables, in a folder that goes when the test ends. It is a copy
// of one that was made once: making it takes longer than most tests.
func Migrated(t testing.TB) string {
	t.Helper()
	content, err := migrated()
	if err != nil {
		t.Fatalf("prepare the database of the test: %v", err)
	}
	path := filepath.Join(t.TempDir(), "pawl.db")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

var migrated = sync.OnceValues(func() (content []byte, err error) {
	dir, err := os.MkdirTemp("", "pawl-migrated-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path, ctx := filepath.Join(dir, "pawl.db"), context.Background()
	store, err := sqlite.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	err = store.Migrate(ctx)
	if closed := store.Close(); err == nil { // what is in the file's log moves to the file
		err = closed
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})
