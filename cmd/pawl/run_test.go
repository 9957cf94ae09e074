package main

import (
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl/internal/kafkatest"
)

const audited = `version: 1
store: {sqlite: %q}
kafka: {brokers: [%q]}
pipelines:
  orders:
    topic: %s
    event: {id: $.id}
    once_per: event.id
    audit: {table: order_audit}
`

// A process says that it is ready once it reads, tells how far it is, and gives everything back when it is told to stop.
func TestRunServesHealthAndStopsInGoodOrder(t *testing.T) {
	brokers := kafkatest.Embedded(t)
	topic := kafkatest.Topic(t, brokers, 1)
	cl := kafkatest.Client(t, brokers)
	for _, v := range []string{`{"id":"a"}`, `{"id":"a"}`, `{"id":"b"}`} {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte(v)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	db, file := filepath.Join(dir, "pawl.db"), filepath.Join(dir, "pawl.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, audited, db, brokers[0], topic), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, code := runLine(t, "migrate", "up", "--execute", "-f", file); code != exitDone {
		t.Fatalf("migrate: %d", code)
	}
	ddl, _ := runLine(t, "init", "--ddl", file)
	raw, err := sql.Open("sqlite", db)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := raw.Exec(ddl); err != nil {
		t.Fatal(err)
	}

	p := startRun(t, file)
	get := func(path string) (int, string) {
		resp, err := http.Get(p.base + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	await(t, p.stderr, "ready", func() bool { code, _ := get("/readyz"); return code == 200 })
	p.settles(3)
	if code, _ := get("/healthz"); code != 200 {
		t.Errorf("healthz: %d", code)
	}
	_, metrics := get("/metrics")
	for _, want := range []string{`pawl_effects_applied_total{consumer="orders",route="audit"} 2`, `pawl_duplicates_total{consumer="orders",kind="same_key",route="audit"} 1`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	p.stop()
	if !strings.Contains(p.stderr.String(), "stopped in good order") {
		t.Errorf("it stopped: %s", p.stderr)
	}
	if out, code := runLine(t, "status", "-f", file, "-o", "csv"); code != exitDone || !strings.Contains(out, ",stopped,") {
		t.Errorf("status: %d, %s", code, out)
	}
	if out, code := runLine(t, "explain", "a", "-f", file); code != exitDone || !strings.Contains(out, `event "a" is as it is because "a" of `+topic) {
		t.Errorf("explain: %d, %s", code, out)
	}
}

func TestReadyMeansThatEveryPipelineReadsAndNoneStops(t *testing.T) {
	for _, c := range []struct {
		begun    int
		stopping bool
		want     int
	}{{0, false, 503}, {1, false, 503}, {2, false, 200}, {2, true, 503}} {
		d := &daemon{workers: make([]worker, 2), begun: c.begun, stopping: c.stopping}
		w := httptest.NewRecorder()
		d.ready(w, nil)
		if w.Code != c.want {
			t.Errorf("%+v: %d, %s", c, w.Code, w.Body)
		}
	}
}
