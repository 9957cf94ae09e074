package rehearsal

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cockroachdb/apd/v3"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/sqlfile"
	"github.com/pawlhq/pawl/kafka/embedded"
	"github.com/pawlhq/pawl/pipeline"
)

//go:embed sql/*.sql
var files embed.FS

var queries = sqlfile.Queries(files, "sql")

// Finding is what the check found. What is wrong must be 0.
type Finding struct {
	Events     int `json:"events"`     // different ones that took effect in the quiet run, in however many pipelines
	Deliveries int `json:"deliveries"` // records in the topics
	Rows       int `json:"rows"`       // of the quiet run, in all tables

	Lost        int      `json:"lost"`        // events that took effect in the quiet run, and not here
	Surplus     int      `json:"surplus"`     // events that took effect here, and not in the quiet run
	Different   int      `json:"different"`   // rows that are not those of the quiet run
	Unexplained int      `json:"unexplained"` // deliveries without evidence or with several, and events decided otherwise than in the quiet run
	Gone        int      `json:"gone"`        // records that do not decode, and were not kept
	Details     []string `json:"details,omitempty"`

	Effects []Effect `json:"effects"`

	events  map[delivery]bool // the places of Events
	took    map[string]bool   // by pipeline and key: it took effect in the quiet run
	ids     map[string]pawl.TopicID
	unnamed int // records that no pipeline can make sense of
}

// Effect is what became of the deliveries to one effect of a pipeline.
type Effect struct {
	Pipeline   string         `json:"pipeline"`
	Effect     string         `json:"effect"`
	Deliveries int            `json:"deliveries"`
	Outcomes   map[string]int `json:"outcomes"` // they sum to the deliveries
}

// OK reports whether nothing is wrong. Where nothing took effect in the quiet run, there is nothing that could be.
func (f *Finding) OK() bool {
	return f.Events > 0 && f.Lost+f.Surplus+f.Different+f.Unexplained+f.Gone == 0
}

func (f *Finding) blame(format string, args ...any) {
	if len(f.Details) < 10 {
		f.Details = append(f.Details, fmt.Sprintf(format, args...))
	}
}

// Check runs the pipelines quietly over what is in the topics, with databases in the folder dir, and compares db with the result.
// The ids are those of the topics.
func Check(ctx context.Context, set *pipeline.Set, db *sql.DB, messages []embedded.Message, ids map[string]pawl.TopicID, dir string) (*Finding, error) {
	f := &Finding{Deliveries: len(messages), events: map[delivery]bool{}, took: map[string]bool{}, ids: ids}
	evidence, err := deliveriesOf(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	for i, p := range set.Pipelines {
		var records []pawl.Record
		for _, m := range messages {
			if slices.Contains(p.Topic, m.Topic) {
				records = append(records, recordOf(m, ids))
			}
		}
		path := filepath.Join(dir, fmt.Sprintf("%d-%s.db", i+1, strings.Map(plainName, p.Name)))
		aside, err := quiet(ctx, p, records, path)
		if err != nil {
			return nil, fmt.Errorf("check: the quiet run: %w", err)
		}
		reference, err := sql.Open("sqlite", path)
		if err != nil {
			return nil, err
		}
		err = f.compare(ctx, p, db, reference, aside)
		reference.Close()
		if err != nil {
			return nil, fmt.Errorf("check: %w", err)
		}
		for _, name := range p.Effects() {
			f.explained(p, name, records, evidence)
		}
	}
	if f.Events = len(f.events); f.Events == 0 {
		f.blame("no record takes effect, also where nothing is killed: this shows nothing. Are they records of these pipelines? pawl test tells what becomes of each")
	}
	for _, m := range messages {
		f.garbage(readers(set, m.Topic), recordOf(m, ids), evidence)
	}
	return f, nil
}

// compare compares what a pipeline has made with what it made in the quiet run. A key that was set aside there may be decided
// otherwise here, as long as it takes no effect: what is said of a record holds for a copy in the same transaction, and one that comes
// later is looked at again.
func (f *Finding) compare(ctx context.Context, p *pipeline.Pipeline, db, reference *sql.DB, aside map[string]bool) error {
	have, err := decisionsOf(ctx, db, p.ConsumerName())
	if err != nil {
		return err
	}
	want, err := decisionsOf(ctx, reference, p.ConsumerName())
	if err != nil {
		return err
	}
	const applied = 1
	quietly, err := deliveriesOf(ctx, reference)
	if err != nil {
		return err
	}
	for at, what := range quietly {
		if at.route == p.Effects()[0] && slices.Contains(what, "applied") {
			f.events[delivery{topic: at.topic, partition: at.partition, offset: at.offset}] = true
		}
	}
	for key, w := range want {
		if w == applied {
			f.took[p.Name+"/"+key.key] = true
		}
		switch h := have[key]; {
		case h == w, aside[key.key] && h != applied && w != applied:
		case w == applied:
			f.Lost++
			f.blame("%s/%s: %q took no effect, and should have", p.Name, key.route, key.key)
		case h == applied:
			f.Surplus++
			f.blame("%s/%s: %q took effect, and should not have", p.Name, key.route, key.key)
		default:
			f.Unexplained++
			f.blame("%s/%s: %q was decided as %s, in the quiet run as %s", p.Name, key.route, key.key, word(h), word(w))
		}
	}
	for key, h := range have {
		if _, ok := want[key]; !ok && h == applied {
			f.Surplus++
			f.blame("%s/%s: %q took effect, and should not have", p.Name, key.route, key.key)
		} else if !ok && !aside[key.key] {
			f.Unexplained++
			f.blame("%s/%s: %q was decided as %s, in the quiet run it was not", p.Name, key.route, key.key, word(h))
		}
	}
	for _, t := range p.Tables() {
		have, err := rowsOf(ctx, db, t)
		if err != nil {
			return err
		}
		want, err := rowsOf(ctx, reference, t)
		if err != nil {
			return err
		}
		f.Rows += len(want)
		for key, w := range want {
			if h, ok := have[key]; !ok {
				f.Different++
				f.blame("%s: the row %s is missing", t.Name, w)
			} else if h != w {
				f.Different++
				f.blame("%s: a row is %s, and should be %s", t.Name, h, w)
			}
		}
		for key, h := range have {
			if _, ok := want[key]; !ok {
				f.Different++
				f.blame("%s: the row %s should not be there", t.Name, h)
			}
		}
	}
	return nil
}

// explained sees that each delivery has one piece of evidence.
func (f *Finding) explained(p *pipeline.Pipeline, name string, records []pawl.Record, all map[delivery][]string) {
	e := Effect{Pipeline: p.Name, Effect: name, Deliveries: len(records), Outcomes: map[string]int{}}
	there := map[delivery]bool{}
	for _, r := range records {
		at := delivery{p.ConsumerName(), name, r.Partition.Topic, r.Partition.Index, r.Offset}
		there[at] = true
		what := all[at]
		if len(what) > 1 { // it was held, and then decided
			what = slices.DeleteFunc(slices.Clone(what), func(w string) bool { return w == "held: kept nowhere" })
		}
		if len(what) != 1 || strings.HasSuffix(what[0], "kept nowhere") {
			f.Unexplained++
			f.blame("%s/%s: partition %d, offset %d has no reason, or several: %q", p.Name, name, at.partition, at.offset, what)
			continue
		}
		e.Outcomes[what[0]]++
	}
	for at := range all {
		if at.consumer == p.ConsumerName() && at.route == name && !there[at] {
			f.Unexplained++
			f.blame("%s/%s: partition %d, offset %d was decided, and is not in the topic", p.Name, name, at.partition, at.offset)
		}
	}
	f.Effects = append(f.Effects, e)
}

// garbage sees that a record which none of its readers can make sense of was set aside by each.
func (f *Finding) garbage(by []*pipeline.Pipeline, r pawl.Record, all map[delivery][]string) {
	kept := true
	for _, p := range by {
		if _, err := p.Identify(&r); err == nil {
			return
		}
		what := all[delivery{p.ConsumerName(), p.Effects()[0], r.Partition.Topic, r.Partition.Index, r.Offset}]
		kept = kept && len(what) == 1 && strings.HasPrefix(what[0], "quarantined: ") && !strings.HasSuffix(what[0], "kept nowhere")
	}
	f.unnamed++
	if !kept {
		f.Gone++
		f.blame("partition %d, offset %d does not decode, and was not kept", r.Partition.Index, r.Offset)
	}
}

// Outcomes is what has become of deliveries so far, over all effects.
func Outcomes(ctx context.Context, db *sql.DB) (map[string]int, error) {
	all := map[string]int{}
	err := each(ctx, db, queries["outcomes"], func(scan func(...any) error) error {
		var outcome, n int
		err := scan(&outcome, &n)
		all[word(outcome)] += n
		return err
	})
	return all, err
}

func word(outcome int) string {
	if outcome == 0 {
		return "nothing"
	}
	return pawl.Outcome(outcome).String()
}

func plainName(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
		return r
	}
	return '_'
}

// decided is a key within an effect.
type decided struct{ route, key string }

// decisionsOf are the outcomes of a consumer's keys.
func decisionsOf(ctx context.Context, db *sql.DB, consumer string) (map[decided]int, error) {
	all := map[decided]int{}
	err := each(ctx, db, queries["decisions"], func(scan func(...any) error) error {
		var of string
		var k decided
		var form pawl.KeyForm
		var id, key []byte
		var outcome int
		if err := scan(&of, &k.route, &form, &id, &key, &outcome); err != nil || of != consumer {
			return err
		}
		if k.key = string(key); form != pawl.KeyHashed {
			k.key, _ = pawl.KeyID{Form: form, ID: [16]byte(id)}.Key()
		}
		all[k] = outcome
		return nil
	})
	return all, err
}

// delivery is one to an effect.
type delivery struct {
	consumer, route, topic string
	partition              int32
	offset                 int64
}

func deliveriesOf(ctx context.Context, db *sql.DB) (map[delivery][]string, error) {
	all := map[delivery][]string{}
	err := each(ctx, db, queries["deliveries"], func(scan func(...any) error) error {
		var at delivery
		var what string
		err := scan(&at.consumer, &at.route, &at.topic, &at.partition, &at.offset, &what)
		all[at] = append(all[at], what)
		return err
	})
	return all, err
}

// rowsOf are the rows of a table as texts, by their keys.
func rowsOf(ctx context.Context, db *sql.DB, t *pawl.Table) (map[string]string, error) {
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = `"` + c.Name + `"`
	}
	all := map[string]string{}
	err := each(ctx, db, `select `+strings.Join(names, ", ")+` from "`+t.Name+`"`, func(scan func(...any) error) error {
		row, to := make([]any, len(names)), make([]any, len(names))
		for i := range row {
			to[i] = &row[i]
		}
		if err := scan(to...); err != nil {
			return err
		}
		var key, text strings.Builder
		for i, c := range t.Columns {
			v := shown(c.Kind, row[i])
			if i < t.Key {
				fmt.Fprintf(&key, "%q,", v)
			}
			if i > 0 {
				text.WriteString(", ")
			}
			fmt.Fprintf(&text, "%s: %s", c.Name, v)
		}
		all[key.String()] = "{" + text.String() + "}"
		return nil
	})
	return all, err
}

// shown is a value as a text that is the same for what is equal.
func shown(k pawl.Kind, v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case []byte:
		return shown(k, string(v))
	case string:
		if k == pawl.KindDecimal {
			if d, _, err := apd.NewFromString(v); err == nil {
				d.Reduce(d)
				return d.Text('f')
			}
		}
		return fmt.Sprintf("%q", v)
	}
	return fmt.Sprint(v)
}

func each(ctx context.Context, db *sql.DB, query string, f func(scan func(...any) error) error) error {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
