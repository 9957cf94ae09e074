package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/kafkatest"
	"github.com/pawlhq/pawl/internal/pgtest"
	"github.com/pawlhq/pawl/kafka"
	"github.com/pawlhq/pawl/postgres"
	"github.com/pawlhq/pawl/sqlite"
)

// surgery is a cluster and a store that a doctor is called to.
type surgery struct {
	brokers []string
	store   string // as --store takes it
	exec    func(t *testing.T, sql string)
	ddl     func(*pawl.Table) string
}

// eachSurgery runs body on the embedded broker with SQLite, and on Kafka with PostgreSQL. The store is migrated.
func eachSurgery(t *testing.T, body func(t *testing.T, s *surgery)) {
	t.Run("embedded", func(t *testing.T) { body(t, embeddedSurgery(t)) })
	t.Run("real", func(t *testing.T) { body(t, realSurgery(t)) })
}

func embeddedSurgery(t *testing.T) *surgery {
	path := filepath.Join(t.TempDir(), "store.db")
	store, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &surgery{kafkatest.Embedded(t), "sqlite:" + path, func(t *testing.T, sql string) {
		t.Helper()
		db := openSQLiteFile(t, path)
		if _, err := db.Exec(sql); err != nil {
			t.Fatal(err)
		}
	}, sqlite.DDL}
}

func realSurgery(t *testing.T) *surgery {
	address := pgtest.URL(t)
	pool := pgtest.Open(t, address)
	if err := postgres.New(pool).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &surgery{kafkatest.Real(t), address, func(t *testing.T, sql string) {
		t.Helper()
		if _, err := pool.Exec(context.WithoutCancel(t.Context()), sql); err != nil {
			t.Fatal(err)
		}
	}, postgres.DDL}
}

// file is a pipeline on a topic, with more of it.
func (s *surgery) file(t *testing.T, topic, more string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "pawl.yaml")
	text := fmt.Sprintf(`version: 1
kafka: {brokers: [%q]}
pipelines:
  cases:
    topic: %s
    owner: cases
    consumer: %s
    event: {id: $.id, stream: $.case, version: $.version, type: $.type}
    once_per: event.id
    projection: {table: cases, columns: {case_id: stream, version: version, type: type}}
%s`, strings.Join(s.brokers, ","), topic, kafkatest.Group(t), more)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// table makes the table of the pipeline.
func (s *surgery) table(t *testing.T) {
	t.Helper()
	s.exec(t, s.ddl(&pawl.Table{Name: "cases", Key: 1, Columns: []pawl.Column{
		{Name: "case_id", Kind: pawl.KindText, NotNull: true}, {Name: "version", Kind: pawl.KindInt, NotNull: true}, {Name: "type", Kind: pawl.KindText},
	}}))
}

type kafkaRecord struct {
	partition  int32
	key, value string
	at         time.Time
}

func (s *surgery) produce(t *testing.T, topic string, records ...kafkaRecord) {
	t.Helper()
	cl := kafkatest.Client(t, s.brokers)
	var all []*kgo.Record
	for _, r := range records {
		all = append(all, &kgo.Record{Topic: topic, Partition: r.partition, Key: []byte(r.key), Value: []byte(r.value), Timestamp: r.at})
	}
	if err := cl.ProduceSync(t.Context(), all...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func event(id int, stream string, version int) string {
	return fmt.Sprintf(`{"id":"e%d","case":%q,"version":%d,"type":"OPENED"}`, id, stream, version)
}

// doctor runs the command, and returns the checks by name.
func (s *surgery) doctor(t *testing.T, file string, args ...string) (code int, found map[string]checkView) {
	t.Helper()
	code, out, stderr := ask(t, append([]string{"doctor", file, "--store", s.store, "-o", "json"}, args...)...)
	var doc struct{ Items []checkView }
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatalf("exit code %d: %v: %s", code, err, stderr)
	}
	found = map[string]checkView{}
	for i, c := range doc.Items {
		if c.Number != i+1 || c.Text == "" || (c.Fix != "") != (c.Status == checkFailure || c.Status == checkWarning) {
			t.Errorf("%+v", c)
		}
		found[c.Check] = c
	}
	if t.Failed() || testing.Verbose() {
		t.Logf("%s", out)
	}
	return code, found
}

func want(t *testing.T, found map[string]checkView, name, status, text string) {
	t.Helper()
	if c := found[name]; c.Status != status || !strings.Contains(c.Text, text) {
		t.Errorf("%s is %s: %q, want %s with %q", name, c.Status, c.Text, status, text)
	}
}

// week keeps a topic's records long enough for nobody to mind.
const week = "retention.ms=604800000"

func TestDoctorFindsNothingWhereAllIsWell(t *testing.T) {
	eachSurgery(t, func(t *testing.T, s *surgery) {
		topic := kafkatest.Topic(t, s.brokers, 2, week)
		s.table(t)
		var all []kafkaRecord
		for i := range 200 {
			stream := fmt.Sprintf("c%d", i%20)
			all = append(all, kafkaRecord{int32(i % 2), stream, event(i, stream, i/20+1), time.Time{}})
		}
		s.produce(t, topic, all...)
		code, found := s.doctor(t, s.file(t, topic, "    retention: {topic: 7d}\n"))
		if code != exitDone {
			t.Errorf("exit code %d", code)
		}
		for name, c := range found {
			if c.Status != checkOK && name != "rights" { // the tests are superuser
				t.Errorf("%s is %s: %s", name, c.Status, c.Text)
			}
		}
		want(t, found, "records", checkOK, "200 records")
		want(t, found, "keys", checkOK, "20 streams in the sample: each in one partition")
		want(t, found, "hot-streams", checkOK, "5 %")
		want(t, found, "tables", checkOK, "cases")
		want(t, found, "consumer", checkOK, "is new here")
		for _, c := range append(append([]check{}, checks...), pipelineChecks...) {
			if _, ok := found[c.name]; !ok && c.needs != needsServer {
				t.Errorf("%s was not made", c.name)
			}
		}
	})
}

func TestDoctorFindsWhatIsMissing(t *testing.T) {
	eachSurgery(t, func(t *testing.T, s *surgery) {
		missing := kafkatest.Group(t)
		for range 2 { // being looked for makes neither
			code, found := s.doctor(t, s.file(t, missing, ""))
			if code != exitFindings {
				t.Errorf("exit code %d", code)
			}
			want(t, found, "topic", checkFailure, "there is no topic "+missing)
			want(t, found, "tables", checkFailure, "there is none")
			want(t, found, "keys", checkSkipped, "no topic")
			if fix := found["tables"].Fix; !strings.Contains(fix, "create table") || !strings.Contains(fix, "case_id") {
				t.Errorf("the fix has no statement: %s", fix)
			}
		}
	})
}

func TestDoctorComparesRetentionWithKeysAndWithTheFile(t *testing.T) {
	eachSurgery(t, func(t *testing.T, s *surgery) {
		s.table(t)
		for _, c := range []struct{ name, topic, file, status, text string }{
			{"keys are forgotten before records", week, "    retention: {keys: 1d}\n", checkFailure, "takes effect again"},
			{"keys are forgotten and records never", "retention.ms=-1", "    retention: {keys: 400d}\n", checkFailure, "keeps records for ever"},
			{"shorter than the file says", "retention.ms=3600000", "    retention: {topic: 7d}\n", checkFailure, "for 1h, and the file says 7 days"},
			{"short", "retention.ms=3600000", "", checkWarning, "stands still for longer"},
			{"keys outlive records", week, "    retention: {keys: 8d, topic: 7d}\n", checkOK, "keys are kept for 8 days"},
		} {
			t.Run(c.name, func(t *testing.T) {
				code, found := s.doctor(t, s.file(t, kafkatest.Topic(t, s.brokers, 1, c.topic), c.file))
				if (code == exitFindings) != (c.status == checkFailure) {
					t.Errorf("exit code %d", code)
				}
				want(t, found, "retention", c.status, c.text)
			})
		}
		t.Run("strict", func(t *testing.T) {
			code, _ := s.doctor(t, s.file(t, kafkatest.Topic(t, s.brokers, 1, "retention.ms=3600000"), ""), "--strict")
			if code != exitFindings {
				t.Errorf("exit code %d", code)
			}
		})
		t.Run("compacted", func(t *testing.T) {
			code, found := s.doctor(t, s.file(t, kafkatest.Topic(t, s.brokers, 1, "cleanup.policy=compact"), ""))
			want(t, found, "cleanup", checkFailure, "is compacted")
			if code != exitFindings {
				t.Errorf("exit code %d", code)
			}
		})
	})
}

func TestDoctorSamplesKeysStreamsAndTimes(t *testing.T) {
	eachSurgery(t, func(t *testing.T, s *surgery) {
		s.table(t)
		topic := kafkatest.Topic(t, s.brokers, 3, week)
		var all []kafkaRecord
		for i := range 120 { // keyed by event: every stream is everywhere
			stream := fmt.Sprintf("c%d", i%10)
			if i%3 == 0 {
				stream = "hot"
			}
			all = append(all, kafkaRecord{int32(i % 3), fmt.Sprint(i), event(i, stream, i+1), time.Time{}})
		}
		all = append(all, kafkaRecord{1, "x", "no json", time.Time{}}, kafkaRecord{1, "x", event(999, "c1", 99), time.Now().Add(time.Hour)})
		s.produce(t, topic, all...)
		code, found := s.doctor(t, s.file(t, topic, ""))
		if code != exitFindings {
			t.Errorf("exit code %d", code)
		}
		want(t, found, "keys", checkFailure, "are in several partitions, such as")
		want(t, found, "hot-streams", checkWarning, `of stream "hot"`)
		want(t, found, "records", checkWarning, "1 of 122 records")
		want(t, found, "timestamps", checkWarning, "from the future")

		// Within one partition, and yet not keyed by stream.
		lucky := kafkatest.Topic(t, s.brokers, 1, week)
		s.produce(t, lucky, kafkaRecord{0, "k1", event(1, "c", 1), time.Time{}}, kafkaRecord{0, "k2", event(2, "c", 2), time.Time{}})
		_, found = s.doctor(t, s.file(t, lucky, ""))
		want(t, found, "keys", checkWarning, "by chance")
		_, found = s.doctor(t, s.file(t, lucky, ""), "--sample", "0")
		want(t, found, "keys", checkSkipped, "no sample was asked for")
	})
}

func TestDoctorLooksAtWhoeverSharesTheName(t *testing.T) {
	eachSurgery(t, func(t *testing.T, s *surgery) {
		s.table(t)
		file := s.file(t, kafkatest.Topic(t, s.brokers, 1, week), "    limits: {workers: 4}\n")
		_, found := s.doctor(t, file, "--processes", "2")
		want(t, found, "partitions", checkWarning, "2 processes share 1 partition")
		_, found = s.doctor(t, file)
		want(t, found, "partitions", checkWarning, "4 workers share 1 partition")
		want(t, found, "consumer", checkOK, "is new here")

		name := strings.TrimSuffix(strings.Fields(found["consumer"].Text)[0], ":")
		insert := "insert into pawl_consumer (name, cluster, group_name, created_at) values ('%s', 'other', 'other', %s)"
		at := "0"
		if strings.HasPrefix(s.store, "postgres") {
			at = "now()"
		}
		s.exec(t, fmt.Sprintf(insert, name, at))
		code, found := s.doctor(t, file)
		want(t, found, "consumer", checkFailure, "belongs to group other of cluster other")
		if code != exitFindings {
			t.Errorf("exit code %d", code)
		}
	})
}

func TestDoctorComparesWhatALoginMayWithWhatReadingTakes(t *testing.T) {
	reader, all := []string{"READ", "DESCRIBE"}, []string{"READ", "WRITE", "DELETE", "DESCRIBE", "ALTER_CONFIGS"}
	for _, c := range []struct {
		topic, group []string
		login        bool
		status, text string
	}{
		{reader, reader, true, checkOK, "and no more"},
		{all, reader, true, checkWarning, "WRITE, DELETE, ALTER_CONFIGS"},
		{all, all, false, checkOK, "without a login"},
		{[]string{"DESCRIBE"}, reader, true, checkFailure, "may not read topic t"},
		{reader, []string{"DESCRIBE"}, true, checkFailure, "may not read as group g"},
		{nil, nil, true, checkOK, "does not say"},
	} {
		d := access(&kafka.Topic{Name: "t", Rights: c.topic}, "g", c.group, c.login)
		if d.status != c.status || !strings.Contains(d.text, c.text) {
			t.Errorf("%v %v %v: %+v", c.topic, c.group, c.login, d)
		}
	}
}

func TestDoctorSaysWhatItCannotReach(t *testing.T) {
	s := embeddedSurgery(t)
	s.table(t)
	topic := kafkatest.Topic(t, s.brokers, 1, week)
	file := s.file(t, topic, "")

	away := &surgery{[]string{"127.0.0.1:1"}, s.store, s.exec, s.ddl}
	code, found := away.doctor(t, away.file(t, topic, ""))
	if code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	want(t, found, "cluster", checkFailure, "127.0.0.1:1")
	want(t, found, "topic", checkSkipped, "the cluster was not reached")
	want(t, found, "tables", checkOK, "cases") // what can be looked at is

	plain := filepath.Join(t.TempDir(), "plain.db") // a database of somebody's, which is not to be changed
	db := openSQLiteFile(t, plain)
	if _, err := db.Exec("create table t (a)"); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	for store, text := range map[string]string{
		"sqlite:" + filepath.Join(t.TempDir(), "none.db"): "no such file", "sqlite:" + plain: "not a store of Pawl yet",
		"postgres://u:geheim@127.0.0.1:1/db?connect_timeout=2": "127.0.0.1:1",
	} {
		s.store = store
		code, found := s.doctor(t, file)
		if code != exitFailed {
			t.Errorf("exit code %d", code)
		}
		want(t, found, "store", checkFailure, text)
		want(t, found, "tables", checkSkipped, "the store was not reached")
		want(t, found, "topic", checkOK, topic)
		if strings.Contains(fmt.Sprint(found), "geheim") {
			t.Error("the password is shown")
		}
	}
	if after, err := os.ReadFile(plain); err != nil || !bytes.Equal(before, after) {
		t.Errorf("%v: the file was changed", err)
	}
}

func TestDoctorLooksAPostgresOver(t *testing.T) {
	s := realSurgery(t)
	s.table(t)
	file := s.file(t, kafkatest.Topic(t, s.brokers, 1, week), "")
	u, err := url.Parse(s.store)
	if err != nil {
		t.Fatal(err)
	}
	database := strings.TrimPrefix(u.Path, "/")
	role := strings.Replace(database, "pawl_t_", "pawl_d_", 1)
	s.exec(t, "create role "+role+" login password 'x' connection limit 6")
	t.Cleanup(func() { s.exec(t, "drop owned by "+role); s.exec(t, "drop role "+role) })

	_, found := s.doctor(t, file)
	want(t, found, "rights", checkWarning, "is a superuser")
	want(t, found, "proxy", checkOK, "no proxy")
	want(t, found, "clock", checkOK, "apart")

	owner := s.store
	u.User = url.UserPassword(role, "x")
	s.store = u.String()
	code, found := s.doctor(t, file)
	want(t, found, "rights", checkFailure, "\npawl_schema: select")
	want(t, found, "tables", checkFailure, "no right to insert")
	if code != exitFindings {
		t.Errorf("exit code %d", code)
	}
	s.exec(t, found["rights"].Fix)
	_, found = s.doctor(t, file)
	want(t, found, "rights", checkOK, "and no more")

	s.exec(t, "grant select, insert, update, delete on all tables in schema public to "+role)
	_, found = s.doctor(t, file)
	want(t, found, "rights", checkOK, "and no more")
	want(t, found, "tables", checkOK, "cases")
	s.exec(t, "grant create on schema public to "+role)
	_, found = s.doctor(t, file)
	want(t, found, "rights", checkWarning, "create tables in schema public")

	query := u.Query()
	query.Set("pool_max_conns", "4")
	u.RawQuery = query.Encode()
	s.store = u.String()
	_, found = s.doctor(t, file, "--processes", "1")
	want(t, found, "connections", checkOK, "the server gives 6")
	code, found = s.doctor(t, file, "--processes", "2")
	want(t, found, "connections", checkFailure, "2 × 4 connections are more than the server gives: 6")
	if code != exitFindings {
		t.Errorf("exit code %d", code)
	}
	query.Set("pool_max_conns", "1")
	u.RawQuery = query.Encode()
	s.store = u.String()
	_, found = s.doctor(t, file)
	want(t, found, "connections", checkWarning, "share 1 connection in each process")

	s.store = owner
	s.exec(t, "alter database "+database+" set synchronous_commit = off")
	s.exec(t, "update pawl_schema set version = version + 100 where version = (select max(version) from pawl_schema)")
	code, found = s.doctor(t, file)
	want(t, found, "settings", checkFailure, "synchronous_commit is off")
	want(t, found, "migrations", checkFailure, "this program knows")
	if code != exitFindings {
		t.Errorf("exit code %d", code)
	}
	s.exec(t, "alter database "+database+" reset synchronous_commit")
	s.exec(t, "delete from pawl_schema")
	_, found = s.doctor(t, file)
	want(t, found, "migrations", checkFailure, "are not there")
	if found["migrations"].Fix != "pawl migrate up --execute" {
		t.Errorf("fix %q", found["migrations"].Fix)
	}
}

func TestDoctorNoticesAProxyAndIsContent(t *testing.T) {
	s := realSurgery(t)
	s.table(t)
	s.store = pgtest.Bouncer(t, s.store)
	_, found := s.doctor(t, s.file(t, kafkatest.Topic(t, s.brokers, 1, week), ""))
	want(t, found, "proxy", checkOK, "a proxy shares the connections")
	want(t, found, "settings", checkOK, "")
	want(t, found, "tables", checkOK, "")
}

// A database that refuses to write is looked over like any other.
func TestDoctorWritesNothing(t *testing.T) {
	s := realSurgery(t)
	s.table(t)
	topic := kafkatest.Topic(t, s.brokers, 1, week)
	s.produce(t, topic, kafkaRecord{0, "c", event(1, "c", 1), time.Time{}})
	file := s.file(t, topic, "")
	u, err := url.Parse(s.store)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("default_transaction_read_only", "on")
	u.RawQuery = query.Encode()
	s.store = u.String()
	_, found := s.doctor(t, file)
	want(t, found, "settings", checkFailure, "read-only")
	for name, c := range found {
		if c.Status == checkFailure && name != "settings" {
			t.Errorf("%s: %s", name, c.Text)
		}
	}
}

func openSQLiteFile(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}
