package rehearsal

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/kafka/embedded"
	"github.com/pawlhq/pawl/pipeline"
	"github.com/pawlhq/pawl/sqlite"
)

// play is pipelines with what their fixtures are made into.
type play struct {
	set     *pipeline.Set
	traffic *Traffic
	topic   []embedded.Message // with offsets
	ids     map[string]pawl.TopicID
}

func newPlay(t testing.TB, files fs.FS, name string, seed uint64, records int) *play {
	t.Helper()
	env := pipeline.Env{Files: files, Offline: true}
	set, err := pipeline.Load([]string{name}, env)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range set.Pipelines {
		p.Rehearse()
	}
	templates, err := pipeline.Templates(set, env)
	if err != nil {
		t.Fatal(err)
	}
	pl := &play{set: set, ids: map[string]pawl.TopicID{}}
	if pl.traffic, err = NewTraffic(seed, set, templates); err != nil {
		t.Fatal(err)
	}
	for _, topic := range pl.traffic.Topics() {
		var id pawl.TopicID
		copy(id[:], topic.Name)
		pl.ids[topic.Name] = id
	}
	next := map[string]int64{}
	for range 4 {
		for _, m := range pl.traffic.Next(records / 4) {
			at := fmt.Sprint(m.Topic, m.Partition)
			m.Offset = next[at]
			next[at]++
			pl.topic = append(pl.topic, m)
		}
	}
	return pl
}

// attacked runs the pipelines over everything that is in the topic, in transactions of at most so many records. The prepared
// statements are executed first.
func (pl *play) attacked(t testing.TB, batch int, prepared ...string) *sql.DB {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	store, err := sqlite.Open(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	if err := store.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	for _, p := range pl.set.Pipelines {
		if err := pipeline.CreateTables(ctx, path, p.Tables()); err != nil {
			t.Fatal(err)
		}
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for _, q := range prepared {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range pl.set.Pipelines {
		var log []pawl.Record
		for _, m := range pl.topic {
			if slices.Contains(p.Topic, m.Topic) {
				log = append(log, recordOf(m, pl.ids))
			}
		}
		was := p.Limits.Batch
		if was == 0 {
			p.Limits.Batch = batch
		}
		_, err := pipeline.Quiet(ctx, p, store, log)
		if p.Limits.Batch = was; err != nil {
			t.Fatal(err)
		}
	}
	return db
}

func (pl *play) check(t testing.TB, db *sql.DB) *Finding {
	t.Helper()
	f, err := Check(context.Background(), pl.set, db, pl.topic, pl.ids, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

const head = "version: 1\npipelines:\n"

// hard are pipelines with a case each way that is hard.
var hard = fstest.MapFS{
	"given-up.yaml": {Data: []byte(head + `  given-up:
    topic: t
    owner: o
    event: {id: $.id, stream: $.s, version: $.v, type: $.t}
    once_per: event.id
    workflow:
      table: machine
      columns: {s: stream, state: state, v: version, last: id}
      state: event.type
      initial: [A]
      transitions: {A: [B], B: [C], C: [D]}
    on: {early: quarantine}
`)},
	"given-up_test.yaml": {Data: []byte(`version: 1
cases:
  - name: out of order, with a gap and an illegal step
    records:
      - json: {id: 6ba7b810-9dad-41d1-80b4-00c04fd430c8, s: 1, v: 1, t: A}
      - json: {id: 6ba7b811-9dad-41d1-80b4-00c04fd430c8, s: 1, v: 3, t: C}
      - json: {id: 6ba7b812-9dad-41d1-80b4-00c04fd430c8, s: 1, v: 2, t: B}
      - json: {id: 6ba7b813-9dad-41d1-80b4-00c04fd430c8, s: 2, v: 1, t: A}
      - json: {id: 6ba7b814-9dad-41d1-80b4-00c04fd430c8, s: 2, v: 3, t: C}
      - json: {id: 6ba7b815-9dad-41d1-80b4-00c04fd430c8, s: 3, v: 1, t: B}
      - json: {id: 6ba7b816-9dad-41d1-80b4-00c04fd430c8, s: 3, v: 1, t: A}
  - name: one more
    records:
      - json: {id: 6ba7b810-9dad-41d1-80b4-00c04fd430c8, s: 1, v: 1, t: A}
`)},
	"let-pass.yaml": {Data: []byte(head + `  let-pass:
    topic: t
    owner: o
    event: {id: $.id, stream: $.s, version: $.v, type: $.t}
    once_per: event.id
    workflow:
      table: machine
      columns: {s: stream, state: state, v: version, last: id}
      state: event.type
      initial: [A]
      transitions: {A: [B], B: [C]}
    quarantine: record
`)},
	"let-pass_test.yaml": {Data: []byte(`version: 1
cases:
  - name: what was illegal is stale when it comes again
    records:
      - json: {id: a, s: x, v: 1, t: A}
      - {json: {id: b, s: x, v: 2, t: C}, outcome: quarantined}
      - json: {id: c, s: x, v: 2, t: B}
      - json: {id: d, s: x, v: 3, t: C}
      - {again: 2}
      - {again: 2}
`)},
	"ignored.yaml": {Data: []byte(head + `  ignored:
    topic: t
    owner: o
    event: {id: $.id, stream: headers.stream, version: $.v}
    once_per: event.id
    projection:
      table: rows
      columns: {s: stream, v: version, x: int($.x)}
    on: {early: ignore}
    quarantine: record
`)},
	"ignored_test.yaml": {Data: []byte(`version: 1
cases:
  - name: out of order, with a gap
    records:
      - {headers: {stream: a}, json: {id: 1, v: 2, x: 2}}
      - {headers: {stream: a}, json: {id: 2, v: 1, x: 1}}
      - {headers: {stream: a}, json: {id: 3, v: 5, x: 5}}
`)},
	"funds.yaml": {Data: []byte(head + `  funds:
    topic: t
    owner: o
    event: {id: $.id, stream: $.id}
    once_per: event.id
    order: stream
    ledger:
      table: entry
      columns: {id: key, account: account, amount: amount}
      account: $.account
      amount: decimal($.amount)
      balances: {table: balance, negative: quarantine}
`)},
	"funds_test.yaml": {Data: []byte(`version: 1
cases:
  - name: who comes first decides, and what was refused may be tried again
    records:
      - {json: {id: out, account: kim, amount: -2}, outcome: quarantined}
      - {json: {id: in, account: kim, amount: 3}}
      - {again: 1}
      - {json: {id: more, account: kim, amount: -2}, outcome: quarantined}
`)},
	"asked.yaml": {Data: []byte(head + `  asked:
    topic: t
    owner: o
    event: {id: $.id, stream: $.s, version: $.v}
    once_per: event.id
    projection:
      table: rows
      columns: {s: stream, v: version}
      requery: {url: "http://127.0.0.1:1/{stream}"}
    on: {early: requery, poison: stop}
  beside:
    topic: t
    owner: o
    event: {id: $.id, stream: $.other}
    once_per: event.id
    counter:
      table: counts
      group: {kind: $.kind}
      add: {n: 1}
`)},
	"asked_test.yaml": {Data: []byte(`version: 1
pipeline: asked
cases:
  - name: two pipelines on one topic, and a gap
    records:
      - json: {id: e1, s: a, v: 1, other: x, kind: k}
      - json: {id: e3, s: a, v: 3, other: x, kind: k}
      - json: {id: e2, s: a, v: 2, other: y, kind: l}
      - json: {id: e9, s: b, v: 2, other: y, kind: l}
`)},
	"computed.yaml": {Data: []byte(head + `  computed:
    topic: t
    owner: o
    event: {id: '$.a + "/" + $.b', stream: $.a}
    once_per: '"k-" + $.b'
    counter:
      table: counts
      group: {kind: $.kind}
      add: {n: 1}
`)},
	"computed_test.yaml": {Data: []byte(`version: 1
cases:
  - name: the key is made of what is no name
    records:
      - json: {a: x, b: one, kind: k}
      - json: {a: x, b: two, kind: k}
`)},
}

var plays = []string{"given-up.yaml", "let-pass.yaml", "ignored.yaml", "funds.yaml", "asked.yaml", "computed.yaml"}

func examples(t testing.TB) (fs.FS, []string) {
	t.Helper()
	return os.DirFS("../../../../examples"), []string{"account-ledger", "case-lifecycle", "customer-state", "order-projection", "sla-counters"}
}
