package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl/internal/kafkatest"
	"github.com/pawlhq/pawl/internal/pgtest"
)

const examined = `version: 1
store: {%s}
kafka: {brokers: [%q]}
pipelines:
  orders:
    topic: %s
    event: {id: $.id, stream: $.order}
    once_per: event.id
    audit: {table: order_audit}
    limits: {workers: 64}
    retention: {topic: 1h, keys: 2h}
`

// examine runs doctor and returns the checks by name.
func examine(t *testing.T, file string, want int) map[string]checkView {
	t.Helper()
	out, code := runLine(t, "doctor", file, "-o", "json")
	var list struct{ Items []checkView }
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != want {
		t.Fatalf("exit code %d, want %d, %v: %s", code, want, err, out)
	}
	all := map[string]checkView{}
	for _, c := range list.Items {
		all[c.Check] = c
		if c.Result == checkFails && c.Fix == "" || c.Found == "" {
			t.Errorf("a check without a finding or a fix: %+v", c)
		}
	}
	return all
}

func TestDoctorFindsWhatIsWrongAndSaysWhatToDo(t *testing.T) {
	brokers := kafkatest.Embedded(t)
	topic := kafkatest.Topic(t, brokers, 2, "cleanup.policy=compact,delete", "retention.ms=86400000")
	cl := kafkatest.Client(t, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range 120 {
		value := fmt.Sprintf(`{"id":"e%d","order":"o-%d"}`, i, i)
		switch {
		case i == 5 || i == 6:
			value = fmt.Sprintf(`{"id":"e%d","order":"astray"}`, i) // on both partitions
		case i == 7:
			value = "garbage"
		case i > 80:
			value = fmt.Sprintf(`{"id":"e%d","order":"hot"}`, i)
		}
		p := int32(i % 2)
		if i > 80 {
			p = 0
		}
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: p, Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	url := pgtest.URL(t)
	file := filepath.Join(t.TempDir(), "pawl.yaml")
	write := func(broker, topic string) {
		t.Helper()
		if err := os.WriteFile(file, fmt.Appendf(nil, examined, fmt.Sprintf("postgres: %q", url), broker, topic), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(brokers[0], topic)
	before := examine(t, file, exitFindings)
	if c := before["migrations"]; c.Result != checkFails || !strings.Contains(c.Fix, "migrate up") {
		t.Errorf("migrations: %+v", c)
	}
	if _, code := runLine(t, "migrate", "up", "--execute", "-f", file); code != exitDone {
		t.Fatalf("migrate: %d", code)
	}
	got := examine(t, file, exitFindings)
	for check, want := range map[string][2]string{
		"store": {checkOK, "postgres"}, "migrations": {checkOK, ""}, "settings": {checkOK, "PostgreSQL"}, "rights": {checkOK, ""},
		"rights in excess": {checkWarns, "superuser"}, "connections": {checkOK, "allowed"}, "clock": {checkOK, ""},
		"tables": {checkFails, "order_audit"}, "cluster": {checkOK, "id "}, "topic": {checkOK, "2 partitions"},
		"workers": {checkWarns, "64 workers for 2 partitions"}, "replication": {checkWarns, "1 replicas"},
		"cleanup policy": {checkFails, "compact"}, "retention": {checkFails, "kept 24h0m0s, keys for 2h0m0s"},
		"records decode": {checkWarns, "1 of 120 do not"}, "key alignment": {checkFails, `"astray" is on partitions`},
		"hot streams": {checkWarns, `"hot" has 39 of 120`},
	} {
		if c := got[check]; c.Result != want[0] || !strings.Contains(c.Found, want[1]) {
			t.Errorf("%s: %+v, want %q", check, c, want)
		}
	}
	write(brokers[0], "no-such-topic")
	if c := examine(t, file, exitFindings)["topic"]; c.Result != checkFails {
		t.Errorf("a topic that is not there: %+v", c)
	}
	write("127.0.0.1:1", topic)
	if c := examine(t, file, exitFindings)["cluster"]; c.Result != checkFails || !strings.Contains(c.Fix, "is the address right") {
		t.Errorf("a cluster that is not there: %+v", c)
	}
}

// A role of its own with just the rights it needs is told from one that lacks some.
func TestDoctorTellsRightsThatAreMissing(t *testing.T) {
	url := pgtest.URL(t)
	if _, code := runLine(t, "migrate", "up", "--execute", "--store", url); code != exitDone {
		t.Fatalf("migrate: %d", code)
	}
	pool := pgtest.Open(t, url)
	role := "pawl_doctor_" + strings.ToLower(filepath.Base(t.TempDir())) + fmt.Sprint(os.Getpid())
	for _, q := range []string{
		"create role " + role + " login", "grant usage on schema public to " + role, "revoke create on schema public from public",
		"grant select, insert, update, delete on all tables in schema public to " + role, "revoke insert on pawl_audit from " + role,
	} {
		if _, err := pool.Exec(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { // a role outlives its database
		if _, err := pool.Exec(context.Background(), "drop owned by "+role+"; drop role "+role); err != nil {
			t.Error(err)
		}
	})
	file := filepath.Join(t.TempDir(), "pawl.yaml")
	as := strings.Replace(url, "postgres@", role+"@", 1)
	if err := os.WriteFile(file, fmt.Appendf(nil, examined, fmt.Sprintf("postgres: %q", as), "127.0.0.1:1", "t"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := examine(t, file, exitFindings)
	if c := got["rights"]; c.Result != checkFails || !strings.Contains(c.Found, "pawl_audit") || strings.Contains(c.Found, "pawl_hold") {
		t.Errorf("rights: %+v", c)
	}
	if c := got["rights in excess"]; c.Result != checkOK {
		t.Errorf("rights in excess: %+v", c)
	}
}
