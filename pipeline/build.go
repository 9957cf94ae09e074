package pipeline

import (
	"cmp"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/kafka"
)

// built is what is made of a declaration.
type built struct {
	path    string // in its file
	decoder *decoder
	routes  []route // the main one first
}

// route is one effect of a pipeline.
type route struct {
	name   string // the effect's kind
	effect pawl.Effect[*Document]
	tables []*pawl.Table
}

// ConsumerName is what once is counted under.
func (p *Pipeline) ConsumerName() string { return cmp.Or(p.Consumer, p.Name) }

// GroupName is the consumer group.
func (p *Pipeline) GroupName() string { return cmp.Or(p.Group, p.ConsumerName()) }

// Kind is the effect's: "projection", "workflow", "ledger", "counter", "audit", "state" or "commands".
func (p *Pipeline) Kind() string {
	switch {
	case p.Projection != nil:
		return "projection"
	case p.Workflow != nil:
		return "workflow"
	case p.Ledger != nil:
		return "ledger"
	case p.Counter != nil:
		return "counter"
	case p.State != nil:
		return "state"
	case p.Commands != nil:
		return "commands"
	case p.Audit != nil:
		return "audit"
	}
	return ""
}

// Config is the configuration of the pipeline's runner. What it does not say is left to the caller: Logger, Hooks, Version.
func (p *Pipeline) Config() pawl.Config {
	c := pawl.Config{
		Consumer: p.ConsumerName(), Workers: p.Limits.Workers, MaxBatch: p.Limits.Batch, MaxTries: p.Limits.Tries,
		MaxHeld: p.Limits.Held, HandlerTimeout: time.Duration(p.Limits.Timeout),
		Budget: pawl.Budget{Window: time.Duration(p.Budget.Window), Records: p.Budget.Records,
			Share: float64(p.Budget.Percent) / 100},
	}
	if p.Start == "committed" {
		c.Start = pawl.StartCommitted
	}
	if p.On.Poison == "stop" {
		c.OnPoison = pawl.PoisonStop
	}
	return c
}

// Source is the configuration of the pipeline's source on the cluster. What it does not say is left to the caller: Logger.
func (k *Kafka) Source(p *Pipeline) kafka.Config {
	c := kafka.Config{Brokers: k.Brokers, Group: p.GroupName(), Instance: k.Instance}
	if t := k.TLS; t != nil {
		c.TLS = &kafka.TLS{CA: t.CA, Certificate: t.Certificate, Key: t.Key, ServerName: t.ServerName}
	}
	if s := k.SASL; s != nil {
		switch s.Mechanism {
		case "plain":
			c.SASL = kafka.Plain{User: s.User, Password: s.Password}
		case "scram-sha-256":
			c.SASL = kafka.SCRAM256{User: s.User, Password: s.Password}
		case "scram-sha-512":
			c.SASL = kafka.SCRAM512{User: s.User, Password: s.Password}
		}
	}
	return c
}

// Register gives a runner the routes and effects of a pipeline. The runner is of the pipeline alone, and was made with its
// [Pipeline.Config].
func Register[Tx any](r *pawl.Runner[Tx], p *Pipeline) {
	for _, e := range p.routes {
		pawl.Apply(r, p.route(e), p.decoder, e.effect)
	}
}

func (p *Pipeline) route(e route) pawl.Route {
	r := pawl.Route{Name: e.name, Topics: p.Topic}
	switch p.Order {
	case "stream":
		r.Order = pawl.OrderStream
	case "none":
		r.Order = pawl.OrderNone
	}
	// Where events build on each other, what comes behind one that was set aside waits for it.
	sequenced := (e.name == "projection" || e.name == "workflow") && p.Order != "none"
	if p.Quarantine == "stream" && e.name != "audit" || p.Quarantine == "" && sequenced {
		r.Quarantine = pawl.QuarantineStream
	}
	return r
}

// Identify says who a record's event is, as the pipeline decodes it. An error is why the record would be set aside.
func (p *Pipeline) Identify(r *pawl.Record) (pawl.Identity, error) {
	d, err := p.decoder.Decode(pawl.NewMeta(r), r.Value)
	return d.Identity, err
}

// Tables are those that the pipeline's effects keep: postgres.DDL and sqlite.DDL write the statements that create them.
func (p *Pipeline) Tables() []*pawl.Table {
	var all []*pawl.Table
	for _, e := range p.routes {
		all = append(all, e.tables...)
	}
	return all
}
