package pipeline

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

func testFixture(t *testing.T, pipeline, fixture string) ([]Result, error) {
	t.Helper()
	env := Env{Files: fstest.MapFS{"p.yaml": {Data: []byte(pipeline)}, "p_test.yaml": {Data: []byte(fixture)}}}
	set, err := Load([]string{"p.yaml"}, env)
	if err != nil {
		t.Fatal(err)
	}
	return Test(t.Context(), set, env, t.TempDir())
}

var fixturePipeline = body(events, once, "projection: {table: rows, columns: {a: stream, v: version, n: decimal($.n), ok: bool($.ok), at: at, j: json($.j), x: $.?x}, rule: newer}")

const fixtureRecord = `{id: e1, s: s1, v: 1, t: A, at: "2026-07-01T09:00:00Z", n: 1.50, ok: true, j: {a: [1, 2]}}`

// A fixture that is wrong in any way fails: one that could not would test nothing.
func TestAFixtureFailsWhereItIsWrong(t *testing.T) {
	rows := "    rows: {rows: [{a: s1, v: 1, n: 1.5, ok: true, at: '2026-07-01T11:00:00+02:00', j: {a: [1, 2]}, x: null}]}\n"
	head := "version: 1\ncases:\n  - name: c\n    records:\n"
	good := head + "      - json: " + fixtureRecord + "\n" + rows
	for _, c := range []struct{ old, new, want string }{
		{"", "", ""},
		{"v: 1, t: A", "v: 1, t: A", ""},
		{"a: s1, v: 1", "a: s1, v: 2", "rows has no row"},
		{"a: s1, v: 1", "a: s2, v: 1", "rows has no row"},
		{"n: 1.5,", "n: 1.51,", "rows has no row"},
		{"ok: true, at", "ok: false, at", "rows has no row"},
		{"ok: true, j", "ok: false, j", "a row that is not expected: {a: s1, v: 1, n: 1.50, ok: false, at: 2026-07-01T09:00:00.000000Z, j: {\"a\":[1,2]}, x: null}"},
		{"ok: true, j: {a: [1, 2]}}\n    rows: {rows: [{a: s1, v: 1, n: 1.5, ok: true", "ok: false, j: {a: [1, 2]}}\n    rows: {rows: [{a: s1, v: 1, n: 1.5, ok: 1", "rows has no row"},
		{"ok: true, j: {a: [1, 2]}}\n    rows: {rows: [{a: s1, v: 1, n: 1.5, ok: true", "ok: false, j: {a: [1, 2]}}\n    rows: {rows: [{a: s1, v: 1, n: 1.5, ok: yes", "rows has no row"},
		{"j: {a: [1, 2]}, x", "j: {a: [1, '2']}, x", "rows has no row"},
		{"j: {a: [1, 2]}, x", "j: {a: ['1 2']}, x", "rows has no row"},
		{"11:00:00+02:00", "11:00:00Z", "rows has no row"},
		{"j: {a: [1, 2]}, x", "j: {a: [2, 1]}, x", "rows has no row"},
		{"x: null", "x: y", "rows has no row"},
		{"x: null", "nothing: y", "rows has no row"},
		{"{rows: [", "{rows: [{a: s2}, ", "rows has no row"},
		{rows, "    rows: {rows: []}\n", "a row that is not expected: {a: s1, v: 1"},
		{rows, "    rows: {other: []}\n", `keeps no table "other"`},
		{"    rows:", "        outcome: duplicate\n    rows:", "record 1, line 5: it is applied, want duplicate"},
		{"id: e1, ", "", "it is quarantined (poison: $.id is missing), want applied"},
		{"id: e1, ", "id: '', ", "it is quarantined (poison: $.id is empty), want applied"},
		{"    rows:", "      - again: 1\n    rows:", "record 2, line 6: it is duplicate (already applied), want applied"},
		{rows, "      - text: x\n        outcome: quarantined\n        cause: gap\n", "the cause is poison"},
		{rows, "      - text: x\n        outcome: quarantined\n        reason: because\n", `want "because" in it`},
	} {
		results, err := testFixture(t, fixturePipeline, strings.Replace(good, c.old, c.new, 1))
		if err != nil || len(results) != 1 {
			t.Errorf("%s: %v, %v", c.new, results, err)
			continue
		}
		failures := strings.Join(results[0].Failures, "\n")
		if c.want == "" && failures != "" || !strings.Contains(failures, c.want) {
			t.Errorf("%s: %q; want %s", c.new, failures, c.want)
		}
	}
}

func TestAFixtureThatCannotBeReadIsRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"version: 1\n", "cases is missing"},
		{"version: 1\npipeline: q\ncases: []\n", `there is no pipeline "q"`},
		{"version: 1\ncases:\n  - name: c\n    records:\n      - {jsno: {}}\n", "did you mean json?"},
		{"version: 1\ncases:\n  - name: c\n    records:\n      - {json: {}, text: x}\n", "one of json, text"},
		{"version: 1\ncases:\n  - name: c\n    records:\n      - {}\n", "one of json, text"},
		{"version: 1\ncases:\n  - name: c\n    records:\n      - {again: 1}\n", "no earlier record"},
		{"version: 1\ncases:\n  - name: c\n    records:\n      - {base64: '!'}\n", "base64"},
		{"version: 1\ncases:\n  - name: c\n    records:\n      - {text: x, cause: gap}\n", "a cause is that of"},
		{"version: 1\ncases:\n  - name: c\n    records:\n      - {text: x, outcome: good}\n", "one of applied"},
		{"version: 1\ncases:\n  - name: c\n    records:\n      - {text: x, partition: 3abc}\n", "must be a whole number"},
	} {
		results, err := testFixture(t, fixturePipeline, c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "p_test.yaml:") || len(results) > 0 {
			t.Errorf("%s: %v, %v; want %s", c.text, results, err, c.want)
		}
	}
}

func TestACaseHasNoDatabaseInCommonWithOthers(t *testing.T) {
	one := "  - name: c\n    records:\n      - json: " + fixtureRecord + "\n    rows: {rows: [{a: s1}]}\n"
	results, err := testFixture(t, fixturePipeline, "version: 1\ncases:\n"+one+one)
	if err != nil || len(results) != 2 || len(results[0].Failures)+len(results[1].Failures) > 0 {
		t.Errorf("%v, %v", results, err)
	}
}

func TestAPipelineThatStopsAtPoisonFailsItsCase(t *testing.T) {
	p := strings.Replace(fixturePipeline, "topic: t", "topic: t\n    on: {poison: stop}", 1)
	results, err := testFixture(t, p, "version: 1\ncases:\n  - name: c\n    records:\n      - text: x\n        outcome: quarantined\n")
	if err != nil || len(results) != 1 || !strings.Contains(strings.Join(results[0].Failures, ""), "the pipeline stops: ") {
		t.Errorf("%v, %v", results, err)
	}
}

// A number is not taken for text: the column would hold one spelling of it.
func TestAColumnOfAPlainPathHoldsText(t *testing.T) {
	p := body(events, once, "audit: {table: log, columns: {k: key, x: $.x}}")
	results, err := testFixture(t, p, `version: 1
cases:
  - name: c
    records:
      - json: {id: e1, s: s1, v: 1, t: A, at: "2026-07-01T09:00:00Z", x: 5}
        outcome: quarantined
        cause: validation
        reason: "$.x is a number: say what the column holds, as in int($.x)"
      - json: {id: e2, s: s1, v: 1, t: A, at: "2026-07-01T09:00:00Z", x: "5"}
      - json: {id: e3, s: s1, v: 1, t: A, at: "2026-07-01T09:00:00Z", x: null}
    rows: {log: [{k: e2, x: "5"}, {k: e3, x: null}]}
`)
	if err != nil || len(results) != 1 || len(results[0].Failures) > 0 {
		t.Errorf("%v, %v", results, err)
	}
}

// A condition that cannot be told is neither true nor false.
func TestACaseOfConditionsThatFail(t *testing.T) {
	results, err := testFixture(t, body("event: {id: $.id, stream: $.s}", once, "when: $.live", strings.Replace(state, "state: {", "state: {deleted: $.op == 'd', ", 1)), `version: 1
cases:
  - name: c
    records:
      - json: {id: e1, s: s1, live: true, op: u, x: a}
      - json: {id: e2, s: s2, live: true, op: u, x: b}
      - json: {id: e3, s: s1, op: d}
        outcome: quarantined
        cause: validation
        reason: "when: $.live is missing"
      - json: {id: e4, s: s1, live: "yes", op: d}
        outcome: quarantined
        cause: validation
        reason: a text is no bool
      - json: {id: e5, s: s1, live: true, x: a}
        outcome: quarantined
        cause: validation
        reason: "deleted: no such key: op"
      - json: {id: e6, s: s1, live: false, op: d}
        outcome: ignored
      - json: {id: e7, s: s2, live: true, op: d}
    rows: {st: [{a: s1, x: a}]}
`)
	if err != nil || len(results) != 1 || len(results[0].Failures) > 0 {
		t.Errorf("%v, %v", results, err)
	}
}

func TestACaseOfCommands(t *testing.T) {
	commands := "commands: {table: todo, command: '\"escalate:\" + event.stream', columns: {id: command, who: $.who, cause: {value: event.id, note: true}}}"
	results, err := testFixture(t, body(events, once, commands), `version: 1
cases:
  - name: c
    records:
      - json: {id: e1, s: s1, v: 1, t: A, at: "2026-07-01T09:00:00Z", who: kim}
      - json: {id: e2, s: s1, v: 2, t: A, at: "2026-07-01T09:00:00Z", who: kim}
        outcome: ignored
      - json: {id: e3, s: s1, v: 3, t: A, at: "2026-07-01T09:00:00Z", who: lou}
        outcome: quarantined
        cause: conflict
    rows: {todo: [{id: "escalate:s1", who: kim, cause: e1}]}
`)
	if err != nil || len(results) != 1 || len(results[0].Failures) > 0 {
		t.Errorf("%v, %v", results, err)
	}
}

// Fixtures may hold far more values than pipelines may. Those that pawl test took were too large for pawl dev and pawl contract.
func TestFixturesAreReadAlikeByAll(t *testing.T) {
	var large strings.Builder
	large.WriteString("version: 1\ncases:\n  - name: many\n    records:\n")
	for i := range maxNodes / 2 {
		fmt.Fprintf(&large, "      - json: {id: %d, s: s%d, v: 1}\n", i, i)
	}
	env := Env{Files: fstest.MapFS{"a.yaml": {Data: []byte(goodFile)}, "a_test.yaml": {Data: []byte(large.String())}}, Offline: true}
	set, err := Load([]string{"a.yaml"}, env)
	if err != nil {
		t.Fatal(err)
	}
	templates, err := Templates(set, env)
	if err != nil || len(templates) != 1 || len(templates[0].Records) != maxNodes/2 {
		t.Errorf("as traffic: %d templates, %v", len(templates), err)
	}
	if got := set.Coverage(env)["p"]; got.Cases != 1 {
		t.Errorf("coverage: %+v", got)
	}
}
