package main

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/pawltest"
	"github.com/pawlhq/pawl/pipeline"
	"github.com/pawlhq/pawl/sqlite"
)

const versioned = `version: 1
store: {sqlite: %q}
kafka: {brokers: ["127.0.0.1:1"]}
pipelines:
  orders:
    topic: orders
    event: {id: $.id, stream: $.order, version: $.v}
    once_per: event.id
    projection:
      table: orders
      columns: {id: stream, version: version}
    on: {early: {hold: 10m, then: quarantine}}
`

func TestHoldsTellWhichVersionIsMissing(t *testing.T) {
	dir := t.TempDir()
	db, file := filepath.Join(dir, "pawl.db"), filepath.Join(dir, "pawl.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, versioned, db), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := pipeline.Load([]string{file}, newApp(nil, nil, nil).environment(true))
	if err != nil {
		t.Fatal(err)
	}
	store, err := sqlite.Open(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	raw, err := sql.Open("sqlite", db)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := raw.Exec(sqlite.DDL(set.Pipelines[0].Tables()[0])); err != nil {
		t.Fatal(err)
	}
	var log []pawl.Record
	for i, v := range []int{1, 3, 4} {
		log = append(log, pawl.Record{
			Partition: pawl.Partition{Topic: "orders", TopicID: pawl.TopicID{3}}, Offset: int64(i), Timestamp: time.Now(),
			Value: fmt.Appendf(nil, `{"id":"e%d","order":"o-1","v":%d}`, v, v),
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	left := len(log)
	cfg := set.Pipelines[0].Config()
	cfg.Logger = slog.New(slog.DiscardHandler)
	cfg.Hooks = pawl.Hooks{Settled: func(s pawl.Settled) {
		if left -= len(s.Decisions); left <= 0 {
			cancel()
		}
	}}
	r := pawl.NewRunner(store, pawltest.NewLog(log), cfg)
	pipeline.Register(r, set.Pipelines[0])
	if err := r.Run(ctx); err != nil {
		t.Fatal(err)
	}
	out, code := runLine(t, "holds", "-f", file)
	if code != exitDone || !strings.Contains(out, "o-1") || !strings.Contains(out, "version 2, until 20") || !strings.Contains(out, "  2  ") {
		t.Errorf("exit code %d: %s", code, out)
	}
}
