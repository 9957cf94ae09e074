package main

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl/internal/kafkatest"
)

const asking = `version: 1
store: {sqlite: %q}
kafka: {brokers: [%q]}
pipelines:
  cases:
    topic: %s
    owner: cases
    event: {id: $.id, stream: $.case, version: $.version}
    once_per: event.id
    projection:
      table: cases
      columns: {case_id: stream, version: version, status: $.status}
      requery:
        url: %s/cases/{stream}?key=${file:%s}
        headers: {Authorization: "Bearer ${file:%s}"}
    on: {early: requery}
    limits: {timeout: 300ms, tries: 3}
`

const token = "hunter2-is-no-password"

// truthTest is a pipeline that asks a source of truth, and the source.
type truthTest struct {
	t       *testing.T
	file    string
	db      *sql.DB
	server  *httptest.Server
	process *process
	send    func(values ...string)
	sent    int

	key   string       // the file of the secret
	wants atomic.Value // what must be sent
	asked atomic.Int32
	mu    sync.Mutex
	reply http.HandlerFunc
}

func newTruthTest(t *testing.T, brokers []string, reply http.HandlerFunc) *truthTest {
	t.Helper()
	q := &truthTest{t: t, reply: reply}
	q.wants.Store("Bearer " + token)
	q.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q.asked.Add(1)
		if got := r.Header.Get("Authorization"); got != q.wants.Load() {
			t.Errorf("%s was asked with Authorization %q", r.URL, got)
		}
		q.mu.Lock()
		reply := q.reply
		q.mu.Unlock()
		reply(w, r)
	}))
	t.Cleanup(q.server.Close)
	topic := kafkatest.Topic(t, brokers, 1)
	cl := kafkatest.Client(t, brokers)
	q.send = func(values ...string) {
		for _, v := range values {
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte(v)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
			q.sent++
		}
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "pawl.db")
	q.file, q.key = filepath.Join(dir, "pawl.yaml"), filepath.Join(dir, "token")
	content := fmt.Sprintf(asking, path, brokers[0], topic, q.server.URL, q.key, q.key)
	for name, content := range map[string]string{q.key: token + "\n", q.file: content} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, code := runLine(t, "migrate", "up", "--execute", "-f", q.file); code != exitDone {
		t.Fatalf("migrate: %d", code)
	}
	ddl, _ := runLine(t, "init", "--ddl", q.file)
	var err error
	if q.db, err = sql.Open("sqlite", path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.db.Close() })
	if _, err := q.db.Exec(ddl); err != nil {
		t.Fatal(err)
	}
	q.process = startRun(t, q.file, "--log-level", "debug")
	return q
}

func (q *truthTest) answer(reply http.HandlerFunc) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.reply = reply
}

// rows is what the table holds, a row a line.
func (q *truthTest) rows() (all []string) {
	q.t.Helper()
	rows, err := q.db.Query(`select case_id, version, status from cases order by 1`)
	if err != nil {
		q.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, status string
		var version int
		if err := rows.Scan(&id, &version, &status); err != nil {
			q.t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s is %s at %d", id, status, version))
	}
	if err := rows.Err(); err != nil {
		q.t.Fatal(err)
	}
	return all
}

func (q *truthTest) wantRows(want ...string) {
	q.t.Helper()
	if got := q.rows(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		q.t.Errorf("the rows are %q, want %q: %s", got, want, q.process.stderr)
	}
}

// quarantined is what was set aside, as the command lists it.
func (q *truthTest) quarantined() string {
	q.t.Helper()
	out, code := runLine(q.t, "quarantine", "list", "-f", q.file, "-o", "csv")
	if code != exitDone {
		q.t.Errorf("quarantine list: %d", code)
	}
	_, rest, _ := strings.Cut(out, "\n")
	return rest
}

// end stops it, and looks for the secret where it must not be.
func (q *truthTest) end() {
	q.t.Helper()
	q.process.stop()
	if strings.Contains(q.process.stderr.String(), token) {
		q.t.Errorf("the secret is in the log: %s", q.process.stderr)
	}
	for _, line := range [][]string{{"config", "print", q.file}, {"contract", q.file}, {"explain", "c1", "-f", q.file}, {"quarantine", "list", "-f", q.file}} {
		if out, _ := runLine(q.t, line...); strings.Contains(out, token) {
			q.t.Errorf("the secret is in the output of %v: %s", line, out)
		}
	}
}

func caseEvent(id, stream string, version int, status string) string {
	return fmt.Sprintf(`{"id":%q,"case":%q,"version":%d,"status":%q}`, id, stream, version, status)
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", code) }
}

// A pipeline of a file asks the source of truth that the file names; whatever that does, nothing is lost.
func TestAFileAsksItsSourceOfTruth(t *testing.T) {
	brokers := kafkatest.Embedded(t)
	truth := says(`{"version": 5, "values": {"status": "CLOSED"}}`)

	t.Run("a gap is closed from the answer", func(t *testing.T) {
		t.Parallel()
		q := newTruthTest(t, brokers, truth)
		q.send(caseEvent("e1", "c1", 1, "OPEN"), caseEvent("e3", "c1", 3, "SENT"), caseEvent("e6", "c1", 6, "PAID"))
		q.process.settles(q.sent)
		q.wantRows("c1 is PAID at 6")
		q.end()
		if out, code := runLine(t, "explain", "c1", "-f", q.file); code != exitDone || !strings.Contains(out, "moved the row from version 1 to 5") {
			t.Errorf("explain: %d, %s", code, out)
		}
	})

	t.Run("a stream that it does not know is set aside", func(t *testing.T) {
		t.Parallel()
		q := newTruthTest(t, brokers, status(http.StatusNotFound))
		q.send(caseEvent("e1", "c1", 1, "OPEN"), caseEvent("e3", "c1", 3, "SENT"))
		q.process.settles(q.sent)
		q.send(caseEvent("e2", "c1", 2, "SEEN")) // too late for that one, which is replayed by hand
		q.process.settles(q.sent)
		q.wantRows("c1 is SEEN at 2")
		if out := q.quarantined(); !strings.Contains(out, ",gap,") || !strings.Contains(out, "does not know the stream") || strings.Count(out, "\n") != 1 {
			t.Errorf("quarantine: %s", out)
		}
		q.end()
	})

	for name, reply := range map[string]http.HandlerFunc{
		"which is no JSON":         says(`<html>`),
		"which is no object":       says(`[]`),
		"without a version":        says(`{"values": {"status": "CLOSED"}}`),
		"with a version that is 0": says(`{"version": 0, "values": {"status": "CLOSED"}}`),
		"with a version too large": says(`{"version": 1e999999999, "values": {"status": "CLOSED"}}`),
		"that does not fit":        says(`{"version": 5, "values": {"status": {"a": 1}}}`),
		"that never ends": func(w http.ResponseWriter, r *http.Request) {
			for part := strings.Repeat("[", 64<<10); r.Context().Err() == nil; {
				if _, err := w.Write([]byte(part)); err != nil {
					return
				}
			}
		},
	} {
		t.Run("an answer "+name+" sets the record aside", func(t *testing.T) {
			t.Parallel()
			q := newTruthTest(t, brokers, reply)
			q.send(caseEvent("e1", "c1", 1, "OPEN"), caseEvent("e3", "c1", 3, "SENT"), caseEvent("f1", "c2", 1, "OPEN"))
			q.process.settles(q.sent)
			q.wantRows("c1 is OPEN at 1", "c2 is OPEN at 1")
			if out := q.quarantined(); !strings.Contains(out, ",validation,") || strings.Count(out, "\n") != 1 {
				t.Errorf("quarantine: %s", out)
			}
			q.end()
		})
	}

	for name, reply := range map[string]http.HandlerFunc{
		"fails":         status(http.StatusInternalServerError),
		"is overloaded": status(http.StatusServiceUnavailable),
		"is slow":       func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"hangs up":      func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"hangs up within its answer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"version"`)
		},
	} {
		t.Run("while it "+name+" nothing is set aside or lost", func(t *testing.T) {
			t.Parallel()
			q := newTruthTest(t, brokers, reply)
			q.send(caseEvent("e1", "c1", 1, "OPEN"), caseEvent("e3", "c1", 3, "SENT"))
			await(t, q.process.stderr, "being asked again", func() bool { return q.asked.Load() > 4 }) // more than tries
			if out := q.quarantined(); out != "" {
				t.Errorf("it was set aside: %s", out)
			}
			q.answer(truth)
			q.process.settles(q.sent)
			q.wantRows("c1 is CLOSED at 5")
			q.end()
		})
	}

	for name, reply := range map[string]http.HandlerFunc{
		"refuses the login": status(http.StatusUnauthorized),
		"sends elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, strings.Replace("http://"+r.Host, "127.0.0.1", "localhost", 1)+"/elsewhere", http.StatusFound)
		},
		"says nothing about a column": says(`{"version": 5, "values": {}}`),
	} {
		t.Run("one that "+name+" stops the consumer, and an operator lets it go on", func(t *testing.T) {
			t.Parallel()
			q := newTruthTest(t, brokers, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/cases/c1" {
					t.Errorf("%s was asked", r.URL)
				}
				reply(w, r)
			})
			q.send(caseEvent("e1", "c1", 1, "OPEN"), caseEvent("e3", "c1", 3, "SENT"))
			var said string
			await(t, q.process.stderr, "the consumer to stop", func() bool {
				said, _ = runLine(t, "status", "-f", q.file, "--brokers", brokers[0])
				return strings.Contains(said, "latched")
			})
			if out := q.quarantined(); out != "" {
				t.Errorf("it was set aside: %s", out)
			}
			q.answer(truth)
			if _, code := runLine(t, "resolve", "1", "--execute", "--reason", "mended", "--actor", "ada", "-f", q.file); code != exitDone {
				t.Errorf("resolve: %d", code)
			}
			q.process.settles(q.sent)
			q.wantRows("c1 is CLOSED at 5")
			q.end()
		})
	}

	t.Run("a secret that was rotated is sent without a restart", func(t *testing.T) {
		t.Parallel()
		q := newTruthTest(t, brokers, truth)
		q.send(caseEvent("e1", "c1", 1, "OPEN"), caseEvent("e3", "c1", 3, "SENT"))
		q.process.settles(q.sent)
		q.wants.Store("Bearer another")
		if err := os.WriteFile(q.key, []byte("another"), 0o600); err != nil {
			t.Fatal(err)
		}
		q.answer(says(`{"version": 9, "values": {"status": "GONE"}}`))
		q.send(caseEvent("e8", "c1", 8, "SENT"))
		q.process.settles(q.sent)
		q.wantRows("c1 is GONE at 9")
		q.end()
	})
}
