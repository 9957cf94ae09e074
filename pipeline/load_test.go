package pipeline

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

const goodFile = `version: 1
store: {sqlite: x.db}
kafka: {brokers: ["localhost:9092"]}
pipelines:
  p:
    topic: t
    owner: o
    event: {id: $.id, stream: $.s, version: $.v, type: $.t, at: $.at}
    once_per: event.id
    projection:
      table: rows
      columns: {a: stream, v: version}
    on: {early: {hold: 10m}}
    order: partition
    limits: {batch: 10}
`

// load loads files by name and content, two arguments each.
func load(t testing.TB, env map[string]string, files ...string) (*Set, error) {
	t.Helper()
	fsys := fstest.MapFS{}
	var names []string
	for i := 0; i < len(files); i += 2 {
		fsys[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
		names = append(names, files[i])
	}
	return Load(names, Env{Files: fsys, Lookup: func(n string) (string, bool) { v, ok := env[n]; return v, ok }})
}

func TestAFileWithoutFaultsLoads(t *testing.T) {
	set, err := load(t, nil, "a.yaml", goodFile)
	if err != nil || len(set.Findings) > 0 {
		t.Fatalf("%v, %v", err, set.Findings)
	}
	p := set.Get("p")
	if p == nil || p.Kind() != "projection" || p.ConsumerName() != "p" || p.Config().MaxBatch != 10 || len(p.Tables()) != 1 {
		t.Errorf("%+v", p)
	}
}

// All faults of a file are found in one run, each with its place.
func TestAllFaultsOfAFileAreFoundAtOnce(t *testing.T) {
	set, err := load(t, nil, "a.yaml", `version: 1
store: {sqlite: x.db}
kafka:
  broker: [a]
pipelines:
  one:
    topic: t
    owner: o
    event: {id: $.id, stream: $.s, versoin: $.v}
    projection:
      table: "x; drop table y"
      columns:
        a: stream
        b: $.x +
        c: {value: event.tpye, absnt: keep}
      rule: newest
    order: [partition]
    limits: {batch: -5}
  two:
    topic: t
    owner: o
    once_per: evnt.id
    audit: {table: log}
    on: {early: {hold: tomorrow}}
    retention: {topic: 7d, keys: 12h}
`)
	refused := (*Refused)(nil)
	if !errors.As(err, &refused) {
		t.Fatalf("%v", err)
	}
	var got []string
	for _, f := range set.Findings {
		got = append(got, fmt.Sprintf("%d:%d %s", f.Line, f.Col, f.Rule))
	}
	for _, w := range []string{
		"3:1 required", "4:3 unknown-key", "6:3 once-per", "9:36 unknown-key", "10:5 event", "11:14 identifier", "14:17 expression", "15:20 expression",
		"15:32 unknown-key", "16:13 value", "17:12 type", "18:21 type", "22:15 expression", "24:24 type", "24:10 no-effect", "25:34 retention",
	} {
		found := false
		for _, g := range got {
			found = found || g == w
		}
		if !found {
			t.Errorf("%s was not found", w)
		}
	}
	if t.Failed() {
		t.Log("\n" + refused.Error())
		t.Log(strings.Join(got, "\n"))
	}
}

func TestAFindingShowsThePlaceAndWhatToDo(t *testing.T) {
	_, err := load(t, nil, "folder/a.yaml", strings.Replace(goodFile, "once_per", "once_pre", 1))
	want := `folder/a.yaml:9:5: error: "once_pre" is no key of p [unknown-key]
     9 |     once_pre: event.id
       |     ^
         did you mean once_per?`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v", err)
	}
}

func TestWhatIsNotYAMLIsSaidWithItsPlace(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "empty"},
		{"a: [1", "a.yaml:1:"},
		{"a: 1\n b: 2\n", "a.yaml:"},
		{"\tversion: 1\n", "a.yaml:1:"},
		{"version: 1\nversion: 1\n", "a.yaml:2:1: error: \"version\" is there already, in line 1 [twice]"},
		{"version: &a 1\nstore: *a\n", "anchors, aliases"},
		{"version: !!int 1\n", "tags are not read"},
		{"version: 1\n---\nversion: 1\n", "one document"},
		{"[1]", "must be a mapping"},
		{"a: \"\xff\"", "not UTF-8"},
		{strings.Repeat("[", 5000), "brackets"},
		{strings.Repeat("- ", 6000) + "x", "lists within lists"},
		{strings.Repeat("x", 20000), "line has 20000 bytes"},
		{strings.Repeat("#\n", 600000), "at most 1048576"},
	} {
		if _, err := load(t, nil, "a.yaml", c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", clip(c.text, 40), err, c.want)
		}
	}
}

func TestVariablesAreReplacedWithinAScalar(t *testing.T) {
	secretFile := filepath.Join(t.TempDir(), "s")
	if err := os.WriteFile(secretFile, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"SET": "value", "EMPTY": "", "EVIL": "x}\n  evil: {topic: y"}
	for _, c := range []struct{ text, want string }{
		{"${SET}", "value"},
		{"a-${SET}-${SET}", "a-value-value"},
		{"${SET:-other}", "value"},
		{"${NONE:-other}", "other"},
		{"${EMPTY:-other}", "other"},
		{"x${NONE:-}y", "xy"},
		{"$${SET}", "${SET}"},
		{"$.a.b", "$.a.b"},
		{"${env:SET}", "value"},
		{"${file:" + secretFile + "}", "from-file"},
		{"${EVIL}", "x}\n  evil: {topic: y"},
	} {
		set, err := load(t, env, "a.yaml", strings.Replace(goodFile, "owner: o", "owner: '"+c.text+"'", 1))
		if err != nil || len(set.Pipelines) != 1 || set.Pipelines[0].Owner != c.want {
			t.Errorf("%s: %v, %v", c.text, err, set.Pipelines)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"${NONE}", "the variable NONE is not set"},
		{"${NONE:?ask the owner}", "the variable NONE is not set: ask the owner"},
		{"${EMPTY:?}", "the variable EMPTY is not set"},
		{"${SET", "not closed"},
		{"${SET:x}", "a variable is written"},
		{"${}", "the name of a variable"},
		{"${file:}", "${file:/path}"},
		{"${file:/nonexistent/pawl}", "no such file"},
		{"${EMPTY}", "owner is empty"},
	} {
		_, err := load(t, env, "a.yaml", strings.Replace(goodFile, "owner: o", "owner: '"+c.text+"'", 1))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "a.yaml:7:12") {
			t.Errorf("%s: %v; want %s", c.text, err, c.want)
		}
	}
}

func TestOfflineAVariableThatIsNotSetIsAWarning(t *testing.T) {
	file := strings.Replace(goodFile, "localhost:9092", "${KAFKA:?}", 1)
	fsys := fstest.MapFS{"a.yaml": {Data: []byte(file)}}
	set, err := Load([]string{"a.yaml"}, Env{Files: fsys, Offline: true})
	if err != nil || len(set.Findings) != 1 || set.Findings[0].Rule != "variable" || set.Findings[0].Severity != Warning {
		t.Errorf("%v, %v", err, set.Findings)
	}
	if _, err := Load([]string{"a.yaml"}, Env{Files: fsys}); err == nil {
		t.Error("without Offline it loads")
	}
}

const canary = "canary-9c41"

// Whatever is wrong, and however it is shown, a secret is not.
func TestSecretsAreNeverPrinted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(canary), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"PW": canary, "DSN": "postgres://u:" + canary + "@h/db"}
	for _, dsn := range []string{
		"${DSN}", "${file:" + path + "}", "postgres://u:${PW}@h/db", "${NONE:-" + canary + "x}", "postgres://u:${PW:-" + canary + "}@h/db",
	} {
		file := strings.Replace(goodFile, "store: {sqlite: x.db}", "store: {postgres: '"+dsn+"'}", 1)
		file = strings.Replace(file, "kafka: {", "kafka: {tls: {}, sasl: {mechanism: plain, user: u, password: '${PW}'}, ", 1)
		set, err := load(t, env, "a.yaml", file)
		if err != nil {
			t.Fatal(err)
		}
		all := fmt.Sprintf("%v %+v %#v %s %+v %+v %+v", set.Store, *set.Store, set.Store, set.Store.Postgres, set.Settings, set.Findings, *set.Kafka.SASL)
		if strings.Contains(all, canary) {
			t.Errorf("%s: %s", dsn, all)
		}
		value, err := set.Store.Postgres.Resolve(t.Context())
		if err != nil || !strings.Contains(value, canary) {
			t.Errorf("%s is %q, %v", dsn, value, err)
		}
	}
	// What is written down in the file is not shown with the line that it is in.
	for _, dsn := range []string{"postgres://u:" + canary + "@h/db", "postgres://u:" + canary + "@h/${DB:-x}", "${DSN", "${A:-" + canary + "} ${"} {
		file := strings.Replace(goodFile, "store: {sqlite: x.db}", "store: {postgres: '"+strings.Replace(dsn, "${DSN", canary+"${DSN", 1)+"', sqlite: y}", 1)
		set, err := load(t, env, "a.yaml", file)
		all := fmt.Sprintf("%v %+v %+v %+v", err, set.Findings, set.Store, set.Settings)
		if err == nil || strings.Contains(all, canary) {
			t.Errorf("%s: %s", dsn, all)
		}
	}
	// A file may hold a secret wherever it is named.
	set, err := load(t, env, "a.yaml", strings.Replace(goodFile, "owner: o", "owner: '${file:"+path+"}'", 1))
	if err != nil || strings.Contains(fmt.Sprint(set.Settings), canary) {
		t.Errorf("%v, %v", set.Settings, err)
	}
	// A value of the wrong kind is not repeated either, where it came from a variable.
	for _, f := range []struct{ old, new string }{
		{"order: partition", "order: '${PW}'"}, {"hold: 10m", "hold: '${file:" + path + "}'"}, {"batch: 10", "batch: '${PW}'"},
	} {
		set, err := load(t, env, "a.yaml", strings.Replace(goodFile, f.old, f.new, 1))
		if err == nil {
			t.Errorf("%s loads", f.new)
		}
		if strings.Contains(fmt.Sprintf("%v %+v", err, set.Findings), canary) {
			t.Errorf("%s: %v", f.new, err)
		}
	}
}

func TestFoldersAndSeveralFiles(t *testing.T) {
	other := strings.NewReplacer("  p:", "  q:", "table: rows", "table: others", "store: {sqlite: x.db}\n", "", "kafka: {brokers: [\"localhost:9092\"]}\n", "").Replace(goodFile)
	fsys := fstest.MapFS{
		"d/a.yaml": {Data: []byte(goodFile)}, "d/b.yml": {Data: []byte(other)}, "d/a_test.yaml": {Data: []byte("x")}, "d/notes.txt": {Data: []byte("x")},
		"empty/x.txt": {Data: []byte("x")},
	}
	set, err := Load([]string{"d"}, Env{Files: fsys})
	if err != nil || len(set.Pipelines) != 2 || len(set.Fixtures) != 1 || set.Store == nil {
		t.Errorf("%v, %+v", err, set)
	}
	set, err = Load([]string{"d/a.yaml", "d/b.yml", "d/a.yaml"}, Env{Files: fsys})
	if err != nil || len(set.Pipelines) != 2 || len(set.Fixtures) != 2 {
		t.Errorf("%v, %+v", err, set.Fixtures)
	}
	for _, paths := range [][]string{{"none.yaml"}, {"empty"}, {}} {
		if _, err := Load(paths, Env{Files: fsys}); err == nil || !strings.Contains(err.Error(), "[file]") {
			t.Errorf("%v: %v", paths, err)
		}
	}
}

func TestSettingsSayWhereEachValueComesFrom(t *testing.T) {
	set, err := load(t, map[string]string{"O": "team"}, "a.yaml", strings.Replace(goodFile, "owner: o", "owner: ${O}", 1))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []Setting{{"pipelines.p.owner", "team", "a.yaml:7 ${O}"}, {"pipelines.p.topic", "t", "a.yaml:6"}} {
		found := false
		for _, s := range set.Settings {
			found = found || s == want
		}
		if !found {
			t.Errorf("%v is not in %v", want, set.Settings)
		}
	}
}
