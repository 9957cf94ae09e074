package pipeline

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/kafka"
)

func pipelineOf(t *testing.T, lines ...string) *Pipeline {
	t.Helper()
	set, err := load(t, nil, "a.yaml", body(lines...))
	if err != nil {
		t.Fatal(err)
	}
	return set.Pipelines[0]
}

func TestARouteIsWhatTheFileSays(t *testing.T) {
	for _, c := range []struct {
		lines      []string
		order      pawl.Order
		quarantine []pawl.QuarantineScope // of each route
	}{
		{[]string{events, once, workflow}, pawl.OrderPartition, []pawl.QuarantineScope{pawl.QuarantineStream}},
		{[]string{events, once, projection, "order: stream"}, pawl.OrderStream, []pawl.QuarantineScope{pawl.QuarantineStream}},
		{[]string{events, once, projection, "order: none"}, pawl.OrderNone, []pawl.QuarantineScope{pawl.QuarantineRecord}},
		{[]string{events, once, projection, "quarantine: record"}, pawl.OrderPartition, []pawl.QuarantineScope{pawl.QuarantineRecord}},
		{[]string{events, once, ledger}, pawl.OrderPartition, []pawl.QuarantineScope{pawl.QuarantineRecord}},
		{[]string{events, once, ledger, "quarantine: stream"}, pawl.OrderPartition, []pawl.QuarantineScope{pawl.QuarantineStream}},
		{[]string{events, once, workflow, "also: [audit]"}, pawl.OrderPartition, []pawl.QuarantineScope{pawl.QuarantineStream, pawl.QuarantineRecord}},
	} {
		p := pipelineOf(t, c.lines...)
		if len(p.routes) != len(c.quarantine) {
			t.Errorf("%v has %d routes", c.lines, len(p.routes))
			continue
		}
		for i, e := range p.routes {
			if r := p.route(e); r.Order != c.order || r.Quarantine != c.quarantine[i] || r.Name != e.name || len(r.Topics) != 1 {
				t.Errorf("%v: %+v", c.lines, r)
			}
		}
	}
}

func TestTheConfigurationIsWhatTheFileSays(t *testing.T) {
	p := pipelineOf(t, events, once, audit, "consumer: c", "start: committed", "on: {poison: stop}",
		"limits: {held: 1, batch: 2, workers: 3, tries: 4, timeout: 5s}", "budget: {window: 2m, records: 7, percent: 8}")
	c := p.Config()
	want := pawl.Config{
		Consumer: "c", Start: pawl.StartCommitted, OnPoison: pawl.PoisonStop, MaxHeld: 1, MaxBatch: 2, Workers: 3, MaxTries: 4, HandlerTimeout: 5 * time.Second,
		Budget: pawl.Budget{Window: 2 * time.Minute, Records: 7, Share: 0.08},
	}
	if c.Consumer != want.Consumer || c.Start != want.Start || c.OnPoison != want.OnPoison || c.MaxHeld != want.MaxHeld || c.MaxBatch != want.MaxBatch ||
		c.Workers != want.Workers || c.MaxTries != want.MaxTries || c.HandlerTimeout != want.HandlerTimeout || c.Budget != want.Budget {
		t.Errorf("%+v", c)
	}
	if p.GroupName() != "c" {
		t.Errorf("the group is %s", p.GroupName())
	}
}

func TestTheSourceIsWhatTheFileSays(t *testing.T) {
	text := "version: 1\nkafka: {brokers: [a, b], instance: i, tls: {ca: '${file:/ca}', server_name: s}, sasl: {mechanism: scram-sha-512, user: u, password: '${file:/pw}'}}\n"
	set, err := load(t, nil, "a.yaml", text+body(events, once, audit, "group: g")[len("version: 1\n"):])
	if err != nil {
		t.Fatal(err)
	}
	c := set.Kafka.Source(set.Pipelines[0])
	login, ok := c.SASL.(kafka.SCRAM512)
	if len(c.Brokers) != 2 || c.Group != "g" || c.Instance != "i" || c.TLS == nil || c.TLS.CA.String() != "${file:/ca}" || c.TLS.ServerName != "s" || !ok || login.User != "u" || login.Password.String() != "${file:/pw}" {
		t.Errorf("%+v", c)
	}
}

// The tables are those of the effects, with the types that the expressions have.
func TestTheTablesHaveTheTypesOfTheExpressions(t *testing.T) {
	p := pipelineOf(t, events, once, `projection: {table: s.rows, columns: {a: stream, v: version, n: int($.n), d: decimal($.d), b: bool($.b), at: at, j: json($.j), x: $.x, c: "$.n > 1", s: size($.l)}}`)
	var got []string
	for _, c := range p.Tables()[0].Columns {
		got = append(got, c.Name+" "+c.Kind.String())
	}
	want := "a text, v int, n int, d decimal, b bool, at time, j json, x text, c bool, s int"
	if strings.Join(got, ", ") != want || p.Tables()[0].Name != "s.rows" || p.Tables()[0].Key != 1 {
		t.Errorf("%v", got)
	}
}
