package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/apd/v3"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/kafkatest"
	"github.com/pawlhq/pawl/internal/pgtest"
	"github.com/pawlhq/pawl/pipeline"
)

// house is a broker and a store to run a file with.
type house struct {
	name    string
	brokers []string
	store   string // as the file says it
	driver  string
	dsn     string
}

// What runs on the embedded broker and SQLite gives the same rows, and the same evidence, on Kafka with PostgreSQL: each case of
// each example, by the commands that people use.
func TestTheExamplesGiveTheSameRowsOnEitherHouse(t *testing.T) {
	examples, err := filepath.Glob("../../examples/*/pipeline.yaml")
	if err != nil || len(examples) < 5 {
		t.Fatalf("%d examples, error %v", len(examples), err)
	}
	embedded, real := kafkatest.Embedded(t), kafkatest.Real(t)
	pgtest.URL(t) // skips where there is no server
	for _, file := range examples {
		example := filepath.Base(filepath.Dir(file))
		fixtures := readFixtures(t, strings.TrimSuffix(file, ".yaml")+"_test.yaml")
		for i, c := range fixtures.Cases {
			t.Run(fmt.Sprintf("%s/%d", example, i+1), func(t *testing.T) {
				t.Parallel()
				// One name for both: it is part of the evidence.
				topic := kafkatest.Topic(t, real, 1)
				cl := kafkatest.Client(t, embedded)
				if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(t.TempDir(), "pawl.db")
				url := pgtest.URL(t)
				here := &house{"embedded broker and SQLite", embedded, fmt.Sprintf("{sqlite: %q}", path), "sqlite", path}
				there := &house{"Kafka and PostgreSQL", real, fmt.Sprintf("{postgres: %q}", url), "pgx", url}
				records := fixtures.sent(t, i, topic)
				one, other := here.live(t, file, topic, records), there.live(t, file, topic, records)
				if len(one) < len(records) { // each record leaves a decision or a delivery at least
					t.Errorf("%s: only %d rows were compared: %q", c.Name, len(one), one)
				}
				for _, row := range surplus(one, other) {
					t.Errorf("%s: only %s has %s", c.Name, here.name, row)
				}
				for _, row := range surplus(other, one) {
					t.Errorf("%s: only %s has %s", c.Name, there.name, row)
				}
			})
		}
	}
}

// surplus is what is in all, less what is in others, each as often as it is there.
func surplus(all, others []string) (left []string) {
	there := map[string]int{}
	for _, row := range others {
		there[row]++
	}
	for _, row := range all {
		if there[row]--; there[row] < 0 {
			left = append(left, row)
		}
	}
	return left
}

var (
	storeLine = regexp.MustCompile(`(?m)^store: .*$`)
	kafkaLine = regexp.MustCompile(`(?m)^kafka: .*$`)
	topicLine = regexp.MustCompile(`(?m)^(    )topic: .*$`)
)

// live sends records to a topic, runs an example until they are settled, and returns every row there is then.
func (h *house) live(t *testing.T, example, topic string, records []*kgo.Record) []string {
	t.Helper()
	content, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []struct {
		line *regexp.Regexp
		to   string
	}{
		{storeLine, "store: " + h.store}, {kafkaLine, fmt.Sprintf("kafka: {brokers: [%q]}", h.brokers[0])},
		{topicLine, fmt.Sprintf("    topic: %s\n    group: %s", topic, topic)},
	} {
		if n := len(change.line.FindAll(content, -1)); n != 1 {
			t.Fatalf("%s has %d lines %s", example, n, change.line)
		}
		content = change.line.ReplaceAllLiteral(content, []byte(change.to))
	}
	file := filepath.Join(t.TempDir(), "pipeline.yaml")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}

	if _, code := runLine(t, "migrate", "up", "--execute", "-f", file); code != exitDone {
		t.Fatalf("migrate: %d", code)
	}
	ddl, code := runLine(t, "init", "--ddl", file)
	if code != exitDone {
		t.Fatalf("init --ddl: %d", code)
	}
	db, err := sql.Open(h.driver, h.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), ddl); err != nil {
		t.Fatal(err)
	}

	cl := kafkatest.Client(t, h.brokers)
	for _, r := range records {
		sent := *r // the client writes into it
		if err := cl.ProduceSync(t.Context(), &sent).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	p := startRun(t, file)
	p.settles(len(records))
	p.stop()

	set, err := pipeline.Load([]string{file}, pipeline.Env{Files: disk{}})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, table := range append(set.Pipelines[0].Tables(), evidenceTables...) {
		all = append(all, rowsOf(t, db, table)...)
	}
	slices.Sort(all)
	return all
}

// evidenceTables are what Pawl has noted, but for when it did, and but for numbers that follow from the order of other names.
var evidenceTables = []*pawl.Table{
	{Name: "pawl_decision", Columns: columnsOf("fingerprint bytes", "position_offset int", "version int", "version_before int", "schema_version int",
		"outcome int", "mode int", "key text", "stream text", "reason text", "event_id text", "message_id text", "correlation_id text",
		"causation_id text", "row_affected text", "state_before json", "state_after json")},
	{Name: "pawl_redelivery", Columns: columnsOf("position_offset int", "outcome int", "fingerprint bytes", "mode int", "reason text")},
	{Name: "pawl_quarantine", Columns: columnsOf("position_offset int", "status int", "cause text", "reason text", "tries int", "key text",
		"stream text", "record_key text", "value text")},
	{Name: "pawl_early", Columns: columnsOf("version int")},
}

func columnsOf(all ...string) (columns []pawl.Column) {
	kinds := map[string]pawl.Kind{"int": pawl.KindInt, "text": pawl.KindText, "json": pawl.KindJSON, "bytes": pawl.KindBytes}
	for _, c := range all {
		name, kind, _ := strings.Cut(c, " ")
		columns = append(columns, pawl.Column{Name: name, Kind: kinds[kind]})
	}
	return columns
}

// rowsOf is every row of a table as text: what two stores spell in two ways is spelled in one.
func rowsOf(t *testing.T, db *sql.DB, table *pawl.Table) (all []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var names []string
	for _, c := range table.Columns {
		names = append(names, `"`+c.Name+`"`)
	}
	rows, err := db.QueryContext(ctx, `select `+strings.Join(names, ", ")+` from "`+table.Name+`"`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		row, to := make([]any, len(names)), make([]any, len(names))
		for i := range row {
			to[i] = &row[i]
		}
		if err := rows.Scan(to...); err != nil {
			t.Fatal(err)
		}
		text := table.Name + ":"
		for i, c := range table.Columns {
			text += fmt.Sprintf(" %s=%s", c.Name, spelled(t, c.Kind, row[i]))
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func spelled(t *testing.T, kind pawl.Kind, v any) string {
	t.Helper()
	if v == nil {
		return "null"
	}
	text := fmt.Sprint(v)
	if b, ok := v.([]byte); ok {
		text = string(b)
	}
	switch kind {
	case pawl.KindBool:
		return fmt.Sprint(text == "1" || text == "true")
	case pawl.KindDecimal:
		d, _, err := apd.NewFromString(text)
		if err != nil {
			t.Fatal(err)
		}
		d.Reduce(d)
		return d.Text('f')
	case pawl.KindTime:
		at, ok := v.(time.Time)
		if !ok {
			var err error
			if at, err = time.Parse(time.RFC3339Nano, text); err != nil {
				t.Fatal(err)
			}
		}
		return at.UTC().Format(time.RFC3339Nano)
	case pawl.KindJSON:
		dec := json.NewDecoder(bytes.NewReader([]byte(text)))
		dec.UseNumber()
		var doc any
		if err := dec.Decode(&doc); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(doc)
	case pawl.KindBytes:
		if _, isText := v.(string); isText { // a UUID, as PostgreSQL has it
			return strings.ReplaceAll(text, "-", "")
		}
		return fmt.Sprintf("%x", text)
	}
	return topicInKey.ReplaceAllString(fmt.Sprintf("%q", text), `"position/…/`)
}

// topicInKey is what a key made of a position says of its topic: an id that each cluster gives.
var topicInKey = regexp.MustCompile(`^"position/[0-9a-f]{32}/`)
