package pipeline

import (
	"slices"
	"strings"
	"testing"
)

// body is a file with one pipeline p, of these lines.
func body(lines ...string) string {
	return "version: 1\npipelines:\n  p:\n    topic: t\n    owner: o\n    " + strings.Join(lines, "\n    ") + "\n"
}

const (
	events     = "event: {id: $.id, stream: $.s, version: $.v, type: $.t, at: $.at}"
	once       = "once_per: event.id"
	projection = "projection: {table: rows, columns: {a: stream, v: version}}"
	ledger     = "ledger: {table: entries, columns: {k: key, acc: account, amt: amount}, account: $.a, amount: decimal($.n)}"
	counter    = "counter: {table: sums, group: {g: $.g}, add: {n: 1}}"
	audit      = "audit: {table: log}"
	workflow   = "workflow: {table: w, columns: {a: stream, s: state, v: version}, state: event.type, initial: [A], transitions: {A: [B]}}"
	state      = "state: {table: st, columns: {a: stream, x: $.x}}"
)

// lintCases are what each rule finds, and where the same without the fault is accepted.
var lintCases = []struct {
	rule  string
	files []string
	want  string // part of the message or of the hint
}{
	{"syntax", []string{"a: ["}, ""},
	{"too-large", []string{strings.Repeat("x", 20000)}, "bytes"},
	{"twice", []string{body(events, once, once, audit)}, "is there already"},
	{"twice", []string{strings.Replace(body(events, once, audit), "topic: t", "topic: [t, t]", 1)}, "listed twice"},
	{"unknown-key", []string{body(events, once, audit, "ordre: none")}, "did you mean order?"},
	{"required", []string{body(events, once, "audit: {}")}, "table is missing"},
	{"required", []string{"version: 1\npipelines: {}\n"}, "no pipelines"},
	{"required", []string{body(events, once, "ledger: {table: entries, columns: {k: key, acc: account, amt: amount}, account: $.a}")}, "what an event posts"},
	{"required", []string{body(events, once, projection, "on: {early: {most: 5}}")}, "hold is missing"},
	{"once-per", []string{body(events, audit)}, "once_per is missing"},
	{"type", []string{body(events, once, audit, "limits: {batch: many}")}, "whole number"},
	{"type", []string{body(events, once, audit, "retention: {topic: -7d}")}, "no time"},
	{"value", []string{body(events, once, audit, "order: sideways")}, "one of partition, stream, none"},
	{"value", []string{body(events, once, audit, "budget: {percent: 101}")}, "from 1 to 100"},
	{"value", []string{body(events, once, audit, "content: {except: [sentAt, $.tracing]}")}, `"$.tracing" is the name of no member`},
	{"value", []string{body(events, once, audit, "limits: {record_bytes: 999999999}")}, "256 MiB"},
	{"value", []string{body(events, once, audit, "limits: {depth: 999999}")}, "10000"},
	{"variable", []string{body(events, once, audit, "group: ${NONE}")}, "NONE is not set"},
	{"auto-commit", []string{"version: 1\nkafka: {brokers: [a], enable.auto.commit: true}\n" + body(events, once, audit)[11:]}, "would be lost"},
	{"offset-reset", []string{"version: 1\nkafka: {brokers: [a], auto.offset.reset: latest}\n" + body(events, once, audit)[11:]}, "skipped"},
	{"offset-reset", []string{body(events, once, audit, "start: latest")}, "would skip"},
	{"async-commit", []string{"version: 1\nstore: {postgres: 'postgres://h/db?options=-c%20synchronous_commit%3Doff'}\n" + body(events, once, audit)[11:]}, "may lose"},
	{"async-commit", []string{"version: 1\nstore: {sqlite: x.db, synchronous_commit: off}\n" + body(events, once, audit)[11:]}, "leave synchronous_commit on"},
	{"sqlite-durability", []string{"version: 1\nstore: {sqlite: 'x.db?_pragma=synchronous(NORMAL)'}\n" + body(events, once, audit)[11:]}, "FULL"},
	{"insecure-tls", []string{"version: 1\nkafka: {brokers: [a], tls: {insecure_skip_verify: true}}\n" + body(events, once, audit)[11:]}, "protects from nobody"},
	{"plain-without-tls", []string{"version: 1\nkafka: {brokers: [a], sasl: {mechanism: plain, user: u, password: '${file:/x}'}}\n" + body(events, once, audit)[11:]}, "sent as it is"},
	{"value", []string{"version: 1\nkafka: {brokers: ['h:9092', 'h:kafka']}\n" + body(events, once, audit)[11:]}, "a port is a number"},
	{"inline-secret", []string{"version: 1\nkafka: {brokers: [a], tls: {}, sasl: {mechanism: plain, user: u, password: hunter2}}\n" + body(events, once, audit)[11:]}, "written down"},
	{"inline-secret", []string{"version: 1\nstore: {postgres: 'postgres://u:hunter2@h/db'}\n" + body(events, once, audit)[11:]}, "written down"},
	{"one-store", []string{"version: 1\nstore: {sqlite: x.db, postgres: '${file:/x}'}\n" + body(events, once, audit)[11:]}, "either"},
	{"one-store", []string{"version: 1\nstore: {}\n" + body(events, once, audit)[11:]}, "either"},
	{"one-cluster", []string{
		"version: 1\nkafka: {brokers: [a]}\n" + body(events, once, audit)[11:],
		"version: 1\nkafka: {brokers: [b]}\n" + strings.NewReplacer("  p:", "  q:", "log", "log2").Replace(body(events, once, audit)[11:]),
	}, "a cluster already"},
	{"name", []string{strings.Replace(body(events, once, audit), "  p:", "  'p q':", 1)}, "is no name"},
	{"identifier", []string{body(events, once, `audit: {table: 'x"; drop table y;--'}`)}, "no name of a table"},
	{"identifier", []string{body(events, once, `audit: {table: log, columns: {k: key, "a b": $.x}}`)}, "no name of a table"},
	{"identifier", []string{body(events, once, `audit: {table: `+strings.Repeat("x", 64)+`}`)}, "no name of a table"},
	{"identifier", []string{body(events, once, `audit: {table: "ｌog"}`)}, "no name of a table"},
	{"identifier", []string{body(events, once, `audit: {table: pawl_decision}`)}, "Pawl's own"},
	{"one-effect", []string{body(events, once)}, "has no effect"},
	{"one-effect", []string{body(events, once, projection, ledger)}, "a pipeline for each"},
	{"one-effect", []string{body(events, once, projection, audit)}, "also: [audit]"},
	{"also", []string{body(events, once, audit, "also: [audit]")}, "the only effect"},
	{"also-order", []string{body(events, once, projection, "also: [audit]", "order: stream")}, "order: partition"},
	{"no-effect", []string{body(events, once, ledger, "on: {early: {hold: 10m}}")}, "no event is early"},
	{"no-effect", []string{body(events, once, ledger, "on: {illegal: quarantine}")}, "only a workflow"},
	{"no-effect", []string{body(events, once, ledger, "on: {stale: ignore}")}, "no versions"},
	{"no-effect", []string{body(events, once, "projection: {table: rows, columns: {a: stream, v: version}, requery: {url: 'https://h/{stream}'}}")}, "never asked"},
	{"no-effect", []string{body(events, once, "audit: {table: log, columns: {k: key, x: {value: $.x, absent: keep}}}")}, "never absent"},
	{"no-effect", []string{body(events, once, "ledger: {table: entries, columns: {k: key, acc: account, amt: amount}, account: $.a, amount: 1, states: true}")}, "no balances"},
	{"expression", []string{body(events, "once_per: evnt.id", audit)}, "did you mean event"},
	{"expression", []string{body(events, "once_per: event.key", audit)}, "event.key is not known"},
	{"expression", []string{body("event: {id: event.stream, stream: $.s}", once, audit)}, "event.stream is not known"},
	{"expression", []string{body(events, once, audit, "when: event.type")}, "must be bool"},
	{"expression", []string{body(events, once, audit, "when: $.a > 1.5")}, "decimal("},
	{"expression", []string{body(events, once, "audit: {table: log, columns: {k: key, x: headers}}")}, "no value that a column holds"},
	{"event", []string{body("event: {id: $.id}", once, projection)}, "needs a stream"},
	{"event", []string{body("event: {id: $.id, stream: $.s}", once, projection)}, "needs a version"},
	{"event", []string{body("event: {id: $.id, stream: $.s}", once, "projection: {table: rows, columns: {a: stream, v: at}, rule: newer_time}")}, "needs a time"},
	{"event", []string{body("event: {id: $.id}", once, audit, "order: stream")}, "needs streams"},
	{"event", []string{body("event: {stream: $.s}", "once_per: meta.position", state)}, "a tombstone has no document"},
	{"event", []string{body("event: {id: $.id, stream: meta.key}", once, state)}, "a tombstone has no document"},
	{"columns", []string{body(events, once, "projection: {table: rows, columns: {a: $.a, v: version}}")}, "no column holds the stream"},
	{"columns", []string{body(events, once, "workflow: {table: w, columns: {a: stream, v: version}, state: event.type, initial: [A], transitions: {A: [B]}}")}, "no column holds the state"},
	{"columns", []string{body(events, once, "audit: {table: log, columns: {x: $.x}}")}, "no column holds the key"},
	{"columns", []string{body(events, once, "ledger: {table: entries, columns: {k: key, acc: account, amt: amount, amt2: amount}, account: $.a, amount: 1}")}, "already"},
	{"key-is-stream", []string{body(events, "once_per: event.stream", ledger)}, "no other"},
	{"key-is-stream", []string{body(events, "once_per: event.stream", counter)}, "no other"},
	{"key-is-stream", []string{body(events, "once_per: $.s", audit)}, "no other"},
	{"key-is-stream", []string{body(events, `once_per: meta.topic + "/" + event.stream`, audit)}, "no other"},
	{"key-is-stream", []string{body(events, "once_per: meta.key", audit)}, "no other"},
	{"key-is-constant", []string{body(events, "once_per: '\"x\"'", audit)}, "the same for all"},
	{"key-is-constant", []string{body(events, "once_per: event.type", audit)}, "the same for all"},
	{"key-is-time", []string{body(events, `once_per: event.stream + string(meta.timestamp)`, audit)}, "was written"},
	{"key-is-message", []string{body("event: {message_id: $.m}", `once_per: event.message_id`, audit)}, "each time"},
	{"position-key", []string{body(events, "once_per: meta.position", audit)}, "again"},
	{"position-key", []string{body("event: {id: meta.position}", once, audit)}, "again"},
	{"ledger-amount", []string{body(events, once, strings.Replace(ledger, "decimal($.n)", "$.n", 1))}, "decimal($.n)"},
	{"ledger-amount", []string{body(events, once, strings.Replace(counter, "n: 1", "n: $.n", 1))}, "int($.n)"},
	{"corrections", []string{body("event: {id: $.id, supersedes: $.?c}", once, counter)}, "taken back"},
	{"corrections", []string{body("event: {id: $.id, supersedes: $.?c}", once, ledger)}, "never be posted"},
	{"order-none", []string{body("event: {stream: meta.key}", "once_per: meta.position", state, "order: none")}, "would win"},
	{"quarantine-order", []string{body(events, once, projection, "quarantine: stream", "order: none")}, "needs an order"},
	{"quarantine-stream", []string{body("event: {id: $.id}", once, audit, "quarantine: stream")}, "needs streams"},
	{"filtered-versions", []string{body(events, once, projection, "when: event.type == 'A'")}, "a gap"},
	{"newer-time", []string{body(events, once, "projection: {table: rows, columns: {a: stream, v: at}, rule: newer_time}")}, "by their time alone"},
	{"inline-secret", []string{body(events, once, "projection: {table: rows, columns: {a: stream, v: version}, requery: {url: 'https://h/{stream}', headers: {Authorization: Bearer hunter2}}}", "on: {early: requery}")}, "written down"},
	{"requery", []string{body(events, once, projection, "on: {early: requery}")}, "no source of truth"},
	{"requery", []string{body(events, once, "projection: {table: rows, columns: {a: stream, v: version}, requery: {url: 'https://h/{stream}', headers: {'X Key': '${file:/k}'}}}", "on: {early: requery}")}, "no name of a header"},
	{"requery", []string{body(events, once, "projection: {table: rows, columns: {a: stream, v: version}, requery: {url: 'https://h/'}}", "on: {early: requery}")}, "the same answer"},
	{"transitions", []string{body(events, once, strings.Replace(workflow, "{A: [B]}", "{A: [B], BB: [A]}", 1))}, "no way leads"},
	{"retention", []string{body(events, once, audit, "retention: {topic: 7d, keys: 6d}")}, "take effect again"},
	{"same-consumer", []string{body(events, once, audit), strings.NewReplacer("  p:", "  q:", "log", "log2", "topic: t", "topic: t\n    consumer: p").Replace(body(events, once, audit))}, "already"},
	{"same-group", []string{body(events, once, audit), strings.NewReplacer("  p:", "  q:", "log", "log2", "topic: t", "topic: t\n    group: p").Replace(body(events, once, audit))}, "already"},
	{"same-table", []string{body(events, once, audit), strings.NewReplacer("  p:", "  q:").Replace(body(events, once, audit))}, "already"},
	{"same-table", []string{body(events, once, projection, "also: [audit]", "audit: {table: rows}")}, "already"},
	// What people who are new to it write.
	{"syntax", []string{"version: 1\npipelines:\n\tp: {}\n"}, "indent with spaces"},
	{"syntax", []string{"version: 1\npipelines:\n  p:\n    topic: t\n   owner: o\n"}, "as far to the right"},
	{"syntax", []string{body(events, once, audit, "description: 'abc")}, "close the quote"},
	{"syntax", []string{body(events, once, audit, "description: a: b: c")}, "in quotes"},
	{"syntax", []string{body("event: {id: @id}", once, audit)}, "put the value in quotes"},
	{"syntax", []string{body(events, once, audit, "description: \"\x1b[31m\"")}, "control character"},
	{"syntax", []string{body(events, once, audit, "description: caf\xe9")}, "save the file as UTF-8"},
	{"syntax", []string{"version: 1\x00"}, "save the file as UTF-8"},
	{"syntax", []string{""}, "pawl init"},
	{"syntax", []string{body(events, once, audit) + "---\n" + body(events, once, audit)}, "one document"},
	{"syntax", []string{"version: 1\npipelines:\n  p: &p {topic: t}\n"}, "anchors"},
	{"syntax", []string{"version: 1\npipelines:\n  p: {topic: t}\n  q:\n    <<: *p\n    topic: u\n"}, "anchors"},
	{"type", []string{"- a\n"}, "version: 1, and below it"},
	{"type", []string{"version: 1\npipelines: [p]\n"}, "write pipelines: {name"},
	{"type", []string{"version: 1\nstore: 'postgres://h/db'\n" + body(events, once, audit)[11:]}, "its keys are postgres"},
	{"type", []string{body(events, "once_per:", audit)}, "once_per is empty"},
	{"type", []string{body(events, "once_per: [event.id]", audit)}, "without brackets"},
	{"type", []string{body(events, once, audit, "when: {event.type: A}")}, "in quotes"},
	{"value", []string{strings.Replace(body(events, once, audit), "version: 1", "version: 2", 1)}, "only 1 is known"},
	{"value", []string{"version: 1\nkafka: {brokers: ['http://h:1']}\n" + body(events, once, audit)[11:]}, "no address"},
	{"value", []string{"version: 1\nkafka: {brokers: [h:99999]}\n" + body(events, once, audit)[11:]}, "a port"},
	{"value", []string{"version: 1\nkafka: {brokers: [h], tls: {ca: /etc/ca.pem}}\n" + body(events, once, audit)[11:]}, "${file:/path}"},
	{"required", []string{"version: 1\nkafka: {brokers: [h], tls: {certificate: '${file:/c}'}}\n" + body(events, once, audit)[11:]}, "go together"},
	{"inline-secret", []string{"version: 1\nkafka: {brokers: [h], tls: {certificate: '${file:/c}', key: '-----BEGIN x'}}\n" + body(events, once, audit)[11:]}, "the key is written down"},
	{"value", []string{body(events, once, audit, "limits: {batch: 1000000}")}, "at most 100000"},
	{"value", []string{body(events, once, projection, "on: {early: 10m}")}, "early: {hold: 10m"},
	{"variable", []string{"version: 1\nkafka: {brokers: [$KAFKA]}\n" + body(events, once, audit)[11:]}, "write ${KAFKA}"},
	{"variable", []string{"version: 1\nkafka: {brokers: ['${KAFKA']}\n" + body(events, once, audit)[11:]}, "not closed"},
	{"required", []string{strings.Replace(body(events, once, audit), "topic: t", "topic: []", 1)}, "topic is empty"},
	{"name", []string{strings.Replace(body(events, once, audit), "topic: t", "topic: a b", 1)}, "name of a topic"},
	{"twice", []string{body(events, once, strings.Replace(workflow, "[B]", "[B, B]", 1))}, "B is listed twice"},
	{"twice", []string{body(events, once, strings.Replace(workflow, "[A]", "[A, A]", 1))}, "A is listed twice"},
	{"columns", []string{body(events, once, "counter: {table: sums, group: {}, add: {n: 1}}")}, "counted apart"},
	{"columns", []string{body(events, once, "counter: {table: sums, group: {g: $.g}, add: {}}")}, "nothing to count"},
	{"columns", []string{body(events, once, "ledger: {table: entries, columns: {k: key}, account: $.a, amount: 1}")}, "no column holds the amount"},
	{"requery", []string{body(events, once, "projection: {table: rows, columns: {a: stream, v: version}, requery: {url: '{stream}'}}", "on: {early: requery}")}, "no address"},
	{"expression", []string{body(events, once, "projection: {table: rows, columns: {a: stream, v: version, s: status}}")}, "write $.status"},
	{"expression", []string{body("event: {id: eventId}", once, audit)}, "write $.eventId"},
	{"expression", []string{body("event: {id: $id}", once, audit)}, "write $.id"},
	{"expression", []string{body("event: {id: ce.id}", once, audit)}, "format: cloudevents"},
	{"expression", []string{body("event: {id: '$.a[*].b'}", once, audit)}, "names one value"},
	{"expression", []string{body(events, once, audit, "when: event.type = 'A'")}, "write =="},
	{"expression", []string{body(events, once, audit, "when: event.type == 'A' and $.x == 1")}, "write &&"},
	{"expression", []string{body(events, once, audit, "when: event.type == 'A' &&")}, "not complete"},
	{"expression", []string{body(events, once, audit, "when: event.version == '3'")}, "== does not take (int, text)"},
	{"expression", []string{body(events, once, audit, "when: event.type.startWith('A')")}, "did you mean startsWith?"},
	{"expression", []string{body(events, "once_per: string(meta.offset)", audit)}, "tells two copies of an event apart"},
	{"expression", []string{body(events, once, strings.Replace(ledger, "decimal(", "double(", 1))}, "floats are not exact"},
	{"same-table", []string{body(events, once, audit), strings.NewReplacer("  p:", "  q:", "log", "public.log").Replace(body(events, once, audit))}, "already"},
	{"hold-retention", []string{body(events, once, projection, "on: {early: {hold: 30d}}", "retention: {topic: 7d}")}, "could not be"},
	{"owner", []string{strings.Replace(body(events, once, audit), "    owner: o\n", "", 1)}, "no owner"},
}

var warnings = []string{"inline-secret", "position-key", "filtered-versions", "newer-time", "owner", "hold-retention"}

func lintFiles(t *testing.T, files []string) (*Set, error) {
	t.Helper()
	var named []string
	for i, f := range files {
		named = append(named, string(rune('a'+i))+".yaml", f)
	}
	return load(t, nil, named...)
}

func TestEachRuleFindsWhatItIsFor(t *testing.T) {
	for _, c := range lintCases {
		set, err := lintFiles(t, c.files)
		i := slices.IndexFunc(set.Findings, func(f Finding) bool { return f.Rule == c.rule && strings.Contains(f.Message+" "+f.Hint, c.want) })
		if i < 0 {
			t.Errorf("%s (%s) was not found in\n%s\n%v", c.rule, c.want, clip(c.files[len(c.files)-1], 600), err)
			continue
		}
		f := set.Findings[i]
		if f.Line == 0 || f.Col == 0 {
			t.Errorf("%s has no place: %s", c.rule, f)
		}
		if warning := slices.Contains(warnings, c.rule); warning != (f.Severity == Warning) || warning == (err != nil) {
			t.Errorf("%s is a %s, and loading says %v", c.rule, f.Severity, err)
		}
	}
}

// Without the fault each of them loads: a rule that refused everything would pass the test above.
func TestWhatIsSafeIsAccepted(t *testing.T) {
	for _, lines := range [][]string{
		{events, once, projection},
		{events, once, workflow, "also: [audit]"},
		{events, once, workflow, "also: [audit]", audit},
		{events, once, ledger},
		{events, once, counter},
		{events, once, audit},
		{"event: {stream: meta.key}", "once_per: meta.position", state},
		{"event: {stream: $.s, id: $.id}", once, strings.Replace(state, "state: {", "state: {deleted: $.op == 'd', ", 1)},
		{events, once, "commands: {table: c, command: '\"close:\" + event.stream', columns: {id: command, x: $.x}}"},
		{events, `once_per: event.stream + "/" + string(event.version)`, audit},
		{events, once, projection, "quarantine: stream", "order: stream"},
		{events, once, projection, "order: none", "quarantine: record"},
		{events, once, audit, "retention: {topic: 7d, keys: 7d}"},
		{"event: {id: $.id, supersedes: $.?c}", once, strings.Replace(counter, "counter: {", "counter: {contributions: c, ", 1)},
		{events, once, strings.Replace(projection, "columns", "requery: {url: 'https://h/{stream}', headers: {Authorization: '${file:/k}', Accept: text/json}}, columns", 1), "on: {early: {hold: 1m, then: requery}}"},
		{"format: cloudevents", once, audit},
	} {
		set, err := lintFiles(t, []string{body(lines...)})
		if err != nil || len(set.Findings) > 0 {
			t.Errorf("%s\n%v\n%v", body(lines...), err, set.Findings)
		} else if len(set.Pipelines[0].Tables()) == 0 {
			t.Errorf("%v has no tables", lines)
		}
	}
}

// What an editor or another tool has written is read as it is meant.
func TestOtherWaysToWriteAFileAreTaken(t *testing.T) {
	good := body(events, once, audit)
	for what, text := range map[string]string{
		"a byte order mark": "\uFEFF" + good, "lines of Windows": strings.ReplaceAll(good, "\n", "\r\n"), "lines of old": strings.ReplaceAll(good, "\n", "\r"),
		"marks of a document": "---\n" + good + "...\n",
		"JSON":                `{"version":1,"pipelines":{"p":{"topic":"t","owner":"o","event":{"id":"$.id"},"once_per":"event.id","audit":{"table":"a"}}}}`,
	} {
		if set, err := lintFiles(t, []string{text}); err != nil || len(set.Findings) > 0 {
			t.Errorf("%s: %v %v", what, err, set.Findings)
		}
	}
	set, err := lintFiles(t, []string{"version: 1\nkafka: {brokers: [localhost:9092, b:1, c]}\n" + good[11:]})
	if err != nil || !slices.Equal(set.Kafka.Brokers, []string{"localhost:9092", "b:1", "c"}) {
		t.Errorf("addresses without quotes, within braces, are %v: %v", set.Kafka, err)
	}
}

// A file that is wrong is shown to people, in logs of builds too: not what it holds of logins, wherever that was misplaced.
func TestFindingsShowNoSecrets(t *testing.T) {
	for _, head := range []string{
		"store: {postgres: 'postgres://u:CANARY7@h/db\n",
		"store: 'postgres://u:CANARY7@h/db'\n",
		"store: {dsn: CANARY7}\n",
		"store: {postgres: {password: CANARY7}}\n",
		"kafka: {brokers: [h], sasl: {mechanism: plain, user: u, password: x, password: CANARY7}}\n",
		"kafka: {brokers: [h], sasl: {mechanism: plain, user: u, pasword: CANARY7}}\n",
		"kafka: {brokers: [h], sasl: {mechanism: plain, user: u, password: 'CANARY7}}\n",
		"kafka: {brokers: [h], tls: {key: CANARY7}}\n",
		"storage: {password: CANARY7}\n",
	} {
		set, err := lintFiles(t, []string{"version: 1\n" + head + body(events, once, audit)[11:]})
		if err == nil {
			t.Errorf("%s is accepted", head)
		}
		for _, f := range set.Findings {
			if strings.Contains(f.Text(), "CANARY7") {
				t.Errorf("%s", f.Text())
			}
		}
	}
}

// The caret is below its place, whatever was masked or left out before it.
func TestTheCaretIsBelowItsPlace(t *testing.T) {
	for _, text := range []string{
		"version: 1\nkafka: {brokers: [h], sasl: {password: hunter2hunter2, mechanism: scram-sha-256, user: u, XX: 1}}\n" + body(events, once, audit)[11:],
		body(events, once, audit, "limits: {"+strings.Repeat(" ", 300)+"XX: 1}"),
	} {
		set, _ := lintFiles(t, []string{text})
		i := slices.IndexFunc(set.Findings, func(f Finding) bool { return f.Rule == "unknown-key" })
		lines := strings.Split(set.Findings[i].Text(), "\n")
		if at := len([]rune(lines[2])) - 1; !strings.HasPrefix(string([]rune(lines[1])[at:]), "XX") || strings.Contains(lines[1], "hunter2") {
			t.Errorf("%s", set.Findings[i].Text())
		}
	}
}

func TestEveryRuleHasACaseAndAReason(t *testing.T) {
	elsewhere := []string{"file", "fixture", "override"} // load_test.go, fixture_test.go, override_test.go
	for _, r := range Rules {
		if r.Why == "" || !slices.Contains(elsewhere, r.ID) && !slices.ContainsFunc(lintCases, func(c struct {
			rule  string
			files []string
			want  string
		}) bool {
			return c.rule == r.ID
		}) {
			t.Errorf("%s has no case", r.ID)
		}
	}
	for _, c := range lintCases {
		if !slices.ContainsFunc(Rules, func(r Rule) bool { return r.ID == c.rule }) {
			t.Errorf("%s is no rule", c.rule)
		}
	}
}
