package rehearsal

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/pipeline"
)

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
