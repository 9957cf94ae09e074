package pipeline

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// linter looks at all files together.
type linter struct {
	set   *Set
	files []*loaded
}

func (l *linter) add(f *loaded) { l.files = append(l.files, f) }

// check is the look at one pipeline.
type check struct {
	l *linter
	f *loaded
	p *Pipeline
}

func (c *check) report(sev Severity, rule string, at place, path, hint, format string, args ...any) {
	if !at.known() {
		at = c.f.b.place(join(c.p.path, path))
	}
	c.f.b.report(sev, rule, at, join(c.p.path, path), hint, format, args...)
}

func (c *check) fault(rule, path, hint, format string, args ...any) {
	c.report(Fault, rule, place{}, path, hint, format, args...)
}

func (c *check) warn(rule, path, hint, format string, args ...any) {
	c.report(Warning, rule, place{}, path, hint, format, args...)
}

// place is where a path is in the file, or what it is in.
func (b *binder) place(path string) place {
	for path != "" {
		if at, ok := b.places[path]; ok {
			if at.value.known() {
				return at.value
			}
			return at.key
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			break
		}
		path = path[:i]
	}
	return place{line: 1, col: 1}
}

func (l *linter) lint() {
	for _, f := range l.files {
		if f.Store != nil {
			if l.set.Store != nil {
				f.b.fault("one-store", f.b.places["store"].key, "store", "say it in one of the files", "there is a store already")
			}
			l.set.Store = f.Store
			l.store(f)
		}
		if f.Kafka != nil {
			if l.set.Kafka != nil {
				f.b.fault("one-cluster", f.b.places["kafka"].key, "kafka", "say it in one of the files",
					"there is a cluster already")
			}
			l.set.Kafka = f.Kafka
			l.kafka(f)
		}
		for _, p := range f.Pipelines {
			c := &check{l, f, p}
			c.all()
			l.set.Pipelines = append(l.set.Pipelines, p)
		}
	}
}

var (
	identifier   = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)
	validName    = regexp.MustCompile(`^[A-Za-z0-9._:/-]{1,200}$`)
	validSection = []string{"projection", "workflow", "ledger", "counter", "audit", "state", "commands"}
)

func (c *check) identifier(name, path string) {
	if !identifier.MatchString(name) {
		c.fault("identifier", path, "it has small letters, digits and _, and at most 63 of them",
			"%q is no name of a table or column", clip(name, 80))
	}
}

func (c *check) table(name, path string) {
	if name == "" {
		return // said already
	}
	schema, rest, dotted := strings.Cut(name, ".")
	if dotted {
		c.identifier(schema, path)
	} else {
		rest = name
	}
	c.identifier(rest, path)
	if strings.HasPrefix(rest, "pawl_") {
		c.fault("identifier", path, "", "tables that begin with pawl_ are Pawl's own")
	}
	if schema == "public" || schema == "main" {
		name = rest // where a table without a schema is found
	}
	for _, f := range c.l.files {
		if other, ok := f.tables[name]; ok {
			c.fault("same-table", path, "give each a table of its own", "pipeline %s writes the table %s already", other, name)
			return
		}
	}
	if c.f.tables == nil {
		c.f.tables = map[string]string{}
	}
	c.f.tables[name] = c.p.Name
}

func (c *check) all() {
	p := c.p
	if c.f.b.isNoMapping(p.path) {
		return // said already
	}
	c.names()
	c.sections()
	cc := &compiler{check: c}
	cc.run()
	c.key()
	c.orders()
	c.policies()
	if p.Owner == "" {
		c.warn("owner", "", "add owner: the team that is asked at night", "%s has no owner", p.Name)
	}
	if r := p.Retention; r.Keys > 0 && r.Keys < r.Topic {
		c.fault("retention", "retention.keys", fmt.Sprintf("keep keys for at least %s, or for ever", r.Topic),
			"keys are forgotten after %s, while the topic delivers records that are up to %s old: they would take effect again", r.Keys, r.Topic)
	}
	if hold := p.On.Early.Hold; p.Retention.Topic > 0 && hold > p.Retention.Topic {
		c.warn("hold-retention", "on.early.hold", fmt.Sprintf("wait for at most %s", p.Retention.Topic),
			"events wait for %s, while the topic keeps records for %s: what is missing could not be sent to be read again", hold, p.Retention.Topic)
	}
	for _, most := range []struct {
		key   string
		value int
		most  int
	}{{"batch", p.Limits.Batch, 100_000}, {"workers", p.Limits.Workers, 1000}} {
		if most.value > most.most {
			c.fault("value", "limits."+most.key, "it is rarely worth changing: see its default", "%s is at most %d", most.key, most.most)
		}
	}
	for i, name := range p.Content.Except {
		if plain, ok := strings.CutPrefix(name, "$."); ok {
			c.fault("value", fmt.Sprintf("content.except[%d]", i), "write "+plain, "%q is the name of no member: this is no path", clip(name, 60))
		}
	}
	if p.Budget.Percent > 100 {
		c.fault("value", "budget.percent", "", "percent is from 1 to 100")
	}
}

func (c *check) names() {
	p := c.p
	for _, n := range []struct{ name, path string }{{p.Name, ""}, {p.ConsumerName(), "consumer"}, {p.GroupName(), "group"}} {
		if !validName.MatchString(n.name) {
			c.fault("name", n.path, "use letters, digits and - _ . : /, at most 200", "%q is no name", clip(n.name, 60))
		}
	}
	for _, other := range c.l.set.Pipelines {
		switch {
		case other.ConsumerName() == p.ConsumerName():
			c.fault("same-consumer", "consumer", "give one of them another name",
				"%s is the consumer of the pipeline %s already", p.ConsumerName(), other.Name)
		case other.GroupName() == p.GroupName():
			c.fault("same-group", "group", "", "%s is the group of the pipeline %s already", p.GroupName(), other.Name)
		}
	}
	if at, ok := c.f.b.places[join(p.path, "topic")]; ok && len(p.Topic) == 0 && !c.f.b.failedWithin(join(p.path, "topic")) {
		c.report(Fault, "required", at.value, "topic", "write topic: name, or topic: [one, another]", "topic is empty")
	}
	for i, t := range p.Topic {
		path := "topic"
		if _, ok := c.f.b.places[join(p.path, "topic[0]")]; ok {
			path = fmt.Sprintf("topic[%d]", i)
		}
		if !strings.Contains(t, "${") && (!topicName.MatchString(t) || t == "." || t == "..") {
			c.fault("name", path, "Kafka takes letters, digits and . _ -, at most 249", "%q is no name of a topic", clip(t, 60))
		}
		if slices.Contains(p.Topic[:i], t) {
			c.fault("twice", path, "remove one of them", "the topic %s is listed twice", t)
		}
	}
	c.once(p.Also, "also")
}

var topicName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)

func (c *check) sections() {
	p := c.p
	var there []string
	for _, s := range validSection {
		if _, ok := c.f.b.places[join(p.path, s)]; ok {
			there = append(there, s)
		}
	}
	also := slices.Contains(p.Also, "audit")
	mains := there
	if also {
		mains = slices.DeleteFunc(slices.Clone(there), func(s string) bool { return s == "audit" })
	}
	switch {
	case len(mains) == 0 && also && len(there) == 1:
		c.fault("also", "also", "remove also", "audit is the only effect here")
	case len(mains) == 0:
		c.fault("one-effect", "", "add one of "+strings.Join(validSection, ", "), "%s has no effect", p.Name)
	case len(mains) > 1 && slices.Contains(mains, "audit") && len(mains) == 2:
		c.fault("one-effect", "audit", "write also: [audit], and audit beside the other", "a pipeline has one effect")
	case len(mains) > 1:
		c.fault("one-effect", mains[1], "write a pipeline for each", "a pipeline has one effect, and this has %s",
			strings.Join(mains, ", "))
	}
	if also && p.Order != "" && p.Order != "partition" {
		c.fault("also-order", "also", "remove order, or write the audit as a pipeline of its own",
			"also: [audit] needs order: partition")
	}
	if also && p.State != nil {
		c.fault("also", "also", "write the audit as a pipeline of its own", "a tombstone has no document that an audit could keep")
	}
}

// key looks at what once is counted by.
func (c *check) key() {
	p, d := c.p, c.p.decoder
	if d.key == nil {
		return
	}
	uses := map[string]bool{}
	for name := range d.key.uses {
		uses[name] = true
		// What the key is made of, down to the record.
		for n, part := range map[string]*program{"event.id": d.id, "event.type": d.typ, "event.message_id": d.messageID} {
			if name == n && part != nil && part.uses["meta.position"] {
				uses["meta.position"] = true
			}
		}
	}
	only := func(names ...string) bool {
		for n := range uses {
			if !slices.Contains(names, n) {
				return false
			}
		}
		return len(uses) > 0
	}
	sameAsStream := d.stream != nil && d.stream.text == d.key.text
	switch {
	case len(uses) == 0:
		c.fault("key-is-constant", "once_per", "mostly it is event.id", "once_per is the same for all events")
	case (only("event.stream", "event.stream_type", "meta.topic") || only("meta.key") || sameAsStream):
		what := "the first event of each stream would take effect, and no other"
		c.fault("key-is-stream", "once_per", "use what tells one event from another, mostly event.id; or add the version",
			"once_per names a stream: %s", what)
	case only("event.type", "event.stream_type", "meta.topic"):
		c.fault("key-is-constant", "once_per", "mostly it is event.id", "once_per is the same for all events of a kind")
	case uses["meta.timestamp"]:
		c.fault("key-is-time", "once_per", "use what tells one event from another",
			"once_per depends on when the record was written")
	case only("event.message_id", "meta.topic"):
		c.fault("key-is-message", "once_per", "use event.id", "once_per is new each time an event is sent")
	case uses["meta.position"] && p.State == nil:
		c.warn("position-key", "once_per", "use an id of the event, if it has one",
			"an event that is sent again takes effect again")
	}
}

func (c *check) orders() {
	p := c.p
	if p.Order == "none" && p.Quarantine == "stream" {
		c.fault("quarantine-order", "quarantine", "write order: stream, or quarantine: record", "quarantine: stream needs an order")
	}
	if p.Quarantine == "stream" && p.decoder.stream == nil {
		c.fault("quarantine-stream", "quarantine", "add event: {stream: …}, or write quarantine: record",
			"quarantine: stream needs streams, and the events have none")
	}
	if p.Order == "stream" && p.decoder.stream == nil {
		c.fault("event", "order", "add event: {stream: …}", "order: stream needs streams, and the events have none")
	}
	if p.Order == "none" && (p.State != nil && p.decoder.version == nil) {
		c.fault("order-none", "order", "write order: partition, or add event: {version: …} and a column for it",
			"the last to come would win")
	}
}

func (c *check) policies() {
	p := c.p
	sequenced := p.Projection != nil && (p.Projection.Rule == "" || p.Projection.Rule == "next") ||
		p.Workflow != nil && p.Workflow.Rule != "newer"
	if _, ok := c.f.b.places[join(p.path, "on.early")]; ok && !sequenced {
		c.fault("no-effect", "on.early", "remove it", "no event is early where versions need not follow on each other")
	}
	if p.On.Early.Most > 0 && p.On.Early.Hold == 0 {
		c.fault("required", "on.early", "write {hold: 10m, …}", "hold is missing in early")
	}
	if p.On.Illegal != "" && p.Workflow == nil {
		c.fault("no-effect", "on.illegal", "remove it", "only a workflow has transitions")
	}
	if p.On.Stale != "" && p.Projection == nil && p.Workflow == nil && p.State == nil {
		c.fault("no-effect", "on.stale", "remove it", "a %s has no versions that could be past an event", p.Kind())
	}
	if p.When.Text != "" && sequenced {
		c.warn("filtered-versions", "when", "leave the filter to whole streams, or use rule: newer",
			"an event that is ignored leaves a gap in its stream's versions")
	}
	requery, path := (*Requery)(nil), ""
	switch {
	case p.Projection != nil:
		requery, path = p.Projection.Requery, "projection.requery"
	case p.Workflow != nil:
		requery, path = p.Workflow.Requery, "workflow.requery"
	}
	asks := p.On.Early.Act == "requery" || p.On.Early.Then == "requery"
	if asks && requery == nil && sequenced {
		c.fault("requery", "on.early", "add requery: {url: …} to the effect", "there is no source of truth to ask")
	}
	if requery != nil && !asks {
		c.fault("no-effect", path, "write on: {early: {hold: 10m, then: requery}}", "the source of truth is never asked")
	}
	if requery != nil && requery.URL != "" && !strings.Contains(requery.URL, "${") {
		if u, err := url.Parse(strings.ReplaceAll(requery.URL, "{stream}", "x")); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			c.fault("requery", path+".url", "write https://host/path/{stream}", "this is no address that can be asked")
		}
	}
	if requery != nil && requery.URL != "" && !strings.Contains(requery.URL, "{stream}") {
		c.fault("requery", path+".url", "write {stream} where its name goes", "every stream would get the same answer")
	}
	if requery != nil {
		c.headers(requery.Headers, path+".headers")
	}
}

var (
	headerName   = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	secretHeader = regexp.MustCompile(`(?i)auth|cookie|key|secret|token|password`)
)

// headers checks what is sent with requests.
func (c *check) headers(all Headers, path string) {
	for _, h := range all {
		at := join(path, h.Name)
		switch {
		case !headerName.MatchString(h.Name):
			c.fault("requery", at, "a name has letters, digits and -", "%q is no name of a header", clip(h.Name, 60))
		case h.Value.Inline() && secretHeader.MatchString(h.Name):
			c.warn("inline-secret", at, "write ${file:/path} or ${NAME}", "a secret is written down in the file")
		}
	}
}
