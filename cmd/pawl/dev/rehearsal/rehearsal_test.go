package rehearsal

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// What the quiet run makes of a topic must be what any run makes of it: else the check would blame Pawl for how records fall into
// transactions.
func TestTheResultDoesNotDependOnHowRecordsFallIntoTransactions(t *testing.T) {
	t.Parallel()
	one := func(files fs.FS, name string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed, batch := range []int{1, 4, 2000} {
				pl := newPlay(t, files, name, uint64(seed), 100)
				f := pl.check(t, pl.attacked(t, batch))
				if !f.OK() || f.Events == 0 || f.Rows == 0 {
					t.Errorf("batches of %d: %+v", batch, f)
				}
				for _, e := range f.Effects {
					sum := 0
					for _, n := range e.Outcomes {
						sum += n
					}
					if sum != e.Deliveries || sum != len(pl.topic) {
						t.Errorf("%s: %d outcomes for %d deliveries of %d", e.Effect, sum, e.Deliveries, len(pl.topic))
					}
				}
			}
		})
	}
	for _, name := range plays {
		one(hard, name)
	}
	examples, names := examples(t)
	for _, name := range names {
		one(examples, name)
	}
}

func TestTheCheckFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	examples, _ := examples(t)
	for _, c := range []struct {
		name, example string
		without       string // a protection, before the run
		breaks        string // after it
		found         func(*Finding) bool
	}{
		{name: "nothing", example: "sla-counters", found: (*Finding).OK},
		{
			name: "claims are not kept", example: "computed.yaml",
			without: `create trigger forget after insert on pawl_decision begin delete from pawl_decision where key_id = new.key_id; end`,
			found:   func(f *Finding) bool { return f.Different > 0 && f.Lost == 2 && f.Unexplained > 0 },
		},
		{name: "an effect twice", example: "sla-counters", breaks: `update sla_hour set closed = closed + 1 where team = 'red'`, found: func(f *Finding) bool { return f.Different == 2 }},
		{name: "a row missing", example: "account-ledger", breaks: `delete from ledger_entry where rowid = 3`, found: func(f *Finding) bool { return f.Different == 1 }},
		{name: "a row too many", example: "case-lifecycle", breaks: `insert into case_audit (event_key) values ('nobody')`, found: func(f *Finding) bool { return f.Different == 1 }},
		{name: "no reason", example: "case-lifecycle", breaks: `delete from pawl_redelivery where outcome = 2 and progress_id = 1 and position_offset = (select min(position_offset) from pawl_redelivery where outcome = 2 and progress_id = 1 and scope_id = 1) and scope_id = 1`, found: func(f *Finding) bool { return f.Unexplained == 1 }},
		{name: "held, and not kept", example: "case-lifecycle", breaks: `delete from pawl_early where id = (select min(id) from pawl_early)`, found: func(f *Finding) bool { return f.Unexplained == 1 }},
		{name: "garbage that is gone", example: "order-projection", breaks: `delete from pawl_quarantine where id = (select min(id) from pawl_quarantine where cause = 'poison')`, found: func(f *Finding) bool { return f.Unexplained == 1 && f.Gone == 1 }},
		{name: "an event lost", example: "case-lifecycle", breaks: `update pawl_decision set outcome = 4 where scope_id = 1 and key_id = (select key_id from pawl_decision where outcome = 1 and scope_id = 1 limit 1)`, found: func(f *Finding) bool { return f.Lost == 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			from := examples
			if strings.HasSuffix(c.example, ".yaml") {
				from = hard
			}
			pl := newPlay(t, from, c.example, 3, 120)
			var prepared []string
			if c.without != "" {
				prepared = append(prepared, c.without)
			}
			db := pl.attacked(t, 1, prepared...)
			if c.breaks != "" {
				if _, err := db.Exec(c.breaks); err != nil {
					t.Fatal(err)
				}
			}
			if f := pl.check(t, db); !c.found(f) || f.OK() != (c.without+c.breaks == "") {
				t.Errorf("%+v", f)
			}
		})
	}
}

func TestEachTurnIsAboutNewStreams(t *testing.T) {
	t.Parallel()
	examples, names := examples(t)
	for _, name := range names {
		pl := newPlay(t, examples, name, 7, 400)
		p := pl.set.Pipelines[0]
		keys, streams := map[string]int32{}, map[string]int32{}
		for _, m := range pl.topic {
			r := recordOf(m, pl.ids)
			id, err := p.Identify(&r)
			if err != nil {
				continue
			}
			if at, known := streams[id.Stream]; known && at != m.Partition && id.Stream != "" {
				t.Fatalf("%s: stream %s is on two partitions", name, id.Stream)
			}
			if at, known := keys[id.Key]; known && at != m.Partition {
				t.Fatalf("%s: key %s is on two partitions", name, id.Key)
			}
			streams[id.Stream], keys[id.Key] = m.Partition, m.Partition
		}
		if len(streams) < 20 || len(keys) < 50 || pl.traffic.Once != "" {
			t.Errorf("%s: %d streams, %d keys: %s", name, len(streams), len(keys), pl.traffic.Once)
		}
	}
}

func TestTheSameSeedMakesTheSameStream(t *testing.T) {
	t.Parallel()
	examples, _ := examples(t)
	a, b, other := newPlay(t, examples, "case-lifecycle", 7, 200), newPlay(t, examples, "case-lifecycle", 7, 200), newPlay(t, examples, "case-lifecycle", 8, 200)
	text := func(pl *play) string {
		var out strings.Builder
		for _, m := range pl.topic {
			fmt.Fprintf(&out, "%d %s\n", m.Partition, m.Value)
		}
		return out.String()
	}
	if text(a) != text(b) || text(a) == text(other) {
		t.Error("the stream does not follow from the seed")
	}
	for _, what := range []string{"sent twice", "sent again later", "respelt", "overtaken", "garbage"} {
		if a.traffic.Hostilities[what] == 0 {
			t.Errorf("nothing was %s: %v", what, a.traffic.Hostilities)
		}
	}
}

func TestWhatCannotBeRenamedIsPlayedOnce(t *testing.T) {
	t.Parallel()
	pl := newPlay(t, hard, "computed.yaml", 1, 100)
	if !strings.Contains(pl.traffic.Once, `once_per: "k-" + $.b`) || pl.traffic.Partitions != 1 {
		t.Errorf("once: %q, %d partitions", pl.traffic.Once, pl.traffic.Partitions)
	}
	seen := map[string]bool{}
	for _, m := range pl.topic {
		r := recordOf(m, pl.ids)
		if id, err := pl.set.Pipelines[0].Identify(&r); err == nil {
			seen[id.Key] = true
		}
	}
	if len(seen) != 2 || len(pl.topic) < 20 {
		t.Errorf("%v in %d deliveries", seen, len(pl.topic))
	}
}

// Two pipelines that mean the same place give it one new name, and a record's key goes with its stream.
func TestAPlaceIsRenamedOnce(t *testing.T) {
	set, err := pipeline.Load([]string{"asked.yaml"}, pipeline.Env{Files: hard, Offline: true})
	if err != nil {
		t.Fatal(err)
	}
	places := append(set.Get("asked").Places(), set.Get("beside").Places()...)
	got := names{7, 12}.rename(pawl.Record{Key: []byte("s"), Value: []byte(`{"id":"a","s":"s","other":"o","kind":"a"}`)}, places)
	if string(got.Value) != `{"id":"a-7-00012","s":"s-7-00012","other":"o-7-00012","kind":"a"}` || string(got.Key) != "s-7-00012" {
		t.Errorf("%s %s", got.Key, got.Value)
	}
}

// Copies are found without asking Pawl: by key and content, however it is spelt.
func TestCopiesAreFoundByKeyAndContent(t *testing.T) {
	set, err := pipeline.Load([]string{"asked.yaml"}, pipeline.Env{Files: hard, Offline: true})
	if err != nil {
		t.Fatal(err)
	}
	record := func(value string, headers ...pawl.Header) pawl.Record {
		return pawl.Record{Value: []byte(value), Headers: headers}
	}
	got := firsts(set.Get("beside"), []pawl.Record{
		record(`{"id": "a", "other": "x", "n": 1.0}`),
		record(`{"id": "b", "other": "x"}`),
		record("{\n\"other\":\"x\", \"n\":1.0, \"id\":\"a\"}"), // spelt otherwise
		record(`{"id": "a", "other": "x", "n": 2}`),            // says something else
		record(`garbage`), record(`garbage`), // nobody's
		record(`{"id": "b", "other": "x"}`),
	})
	if want := []int{0, 1, 0, 3, 4, 5, 1}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestWhereStreamsMeetThereIsOneOrder(t *testing.T) {
	if n := newPlay(t, hard, "funds.yaml", 1, 20).traffic.Partitions; n != 1 {
		t.Errorf("%d partitions", n)
	}
	if n := newPlay(t, hard, "asked.yaml", 1, 20).traffic.Partitions; n < 2 {
		t.Errorf("%d partitions", n)
	}
}

func TestNamesKeepTheirLook(t *testing.T) {
	n := names{7, 12}
	for _, c := range []struct {
		old    string
		number bool
		looks  string
	}{
		{"c1", false, "c1-7-00012"}, {"1001", false, "100100700012"}, {"42", true, "4200700012"},
	} {
		if got := n.of(c.old, c.number); got != c.looks {
			t.Errorf("%s is now %s, want %s", c.old, got, c.looks)
		}
	}
	for _, old := range []string{"6ba7b810-9dad-41d1-80b4-00c04fd430c8", "00000000-0000-4000-8000-000000000001", "01ARZ3NDEKTSV4RRFFQ69G5FAV"} {
		was, is := pawl.NewKeyID(old), pawl.NewKeyID(n.of(old, false))
		if was.Form != is.Form || was.Form == pawl.KeyHashed || was == is || is == pawl.NewKeyID(names{7, 13}.of(old, false)) {
			t.Errorf("%s is now %s", old, n.of(old, false))
		}
	}
	for _, old := range []string{"0", "-5", "123456789012"} {
		if got := n.of(old, true); !digits.MatchString(got) || got == old || len(got) > 16 {
			t.Errorf("%s is now %s", old, got)
		}
	}
}

func TestRecordsAreReadFromLines(t *testing.T) {
	set, err := pipeline.Load([]string{"asked.yaml"}, pipeline.Env{Files: hard, Offline: true})
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadLines(strings.NewReader(`{"key": "k", "value": {"id": "e1", "s": "a", "v": 1, "other": "x"}, "headers": {"h": "1"}}

{"value": {"id": "e2", "s": "b", "v": 1, "other": "y"}}
{"value": "{\"id\": \"e3\", \"s\": \"a\", \"v\": 2, \"other\": \"z\"}", "topic": "t"}
{"key": "k", "value": null}
`), set)
	if err != nil || len(got) != 3 || len(got[0].Records) != 2 || string(got[0].Records[1].Value) != `{"id": "e3", "s": "a", "v": 2, "other": "z"}` ||
		string(got[0].Records[0].Key) != "k" || string(got[0].Records[0].Headers[0].Value) != "1" || got[2].Records[0].Value != nil {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = ReadLines(strings.NewReader("{\"value\": 1, \"topic\": \"u\"}\n{\"vlaue\": 1}\n{\"key\": \"k\"}\n["), set)
	for _, want := range []string{`line 1: no pipeline reads the topic "u": they read t`, `line 2: json: unknown field "vlaue"`, "line 3: there is no value", "line 4: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	if _, err := ReadLines(strings.NewReader("\n"), set); err == nil {
		t.Error("no records are records")
	}
}

func TestTheNaiveConsumerIsJudgedByTheQuietRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "naive")
	lines := `{"pipeline":"p","key":"a"}` + "\n" + `{"pipeline":"p","key":"a"}` + "\n" + `{"pipeline":"p","key":"ignored"}` + "\n" + `{"pipeline":"p","key":"ignored"}` + "\n" + `{"pipeline":"p","ke`
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &Finding{took: map[string]bool{"p/a": true, "p/b": true}, unnamed: 3}
	if got, err := f.Judge(path); err != nil || *got != (Mistakes{Effects: 2, Doubled: 1, Lost: 1, Dropped: 3}) {
		t.Errorf("%+v, %v", got, err)
	}
}
