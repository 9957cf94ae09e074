package rehearsal

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/kafka/embedded"
	"github.com/pawlhq/pawl/pipeline"
)

// Traffic makes a stream of records from templates. Each round of them is about new streams and new events; copies near and far,
// other spellings, other orders and garbage come on top. All that a template has of one topic stays on one partition, so that its
// records have one order, and with it one result. The same seed makes the same stream.
type Traffic struct {
	Partitions  int
	Deliveries  int
	Hostilities map[string]int // what was put in on purpose
	// Once says why the records are played a single time, and after that only copies of them; "": every round is new.
	Once string
	// First is the stream of the first record, or its key; "": it has neither.
	First string

	seed   uint64
	rng    *rand.Rand
	shapes []shape
	topics []string
	turn   int                // of the shapes, one after the other
	later  []embedded.Message // copies, to be sent with what comes next
}

// shape is what a template has of one topic.
type shape struct {
	records []pawl.Record
	places  []pipeline.Place
	inTurn  bool // no event may come before its predecessor
}

// partitions of each topic, where streams have nothing to do with each other.
const partitions = 4

// errNoRecords says that there is nothing to make traffic of.
var errNoRecords = errors.New("there are no records to play")

// NewTraffic begins a stream. The pipelines have been through Rehearse.
func NewTraffic(seed uint64, set *pipeline.Set, templates []pipeline.Template) (*Traffic, error) {
	t := &Traffic{
		Partitions: partitions, Hostilities: map[string]int{}, seed: seed, rng: rand.New(rand.NewPCG(seed, 0x0e5e)), topics: topicsOf(set),
	}
	for _, p := range set.Pipelines {
		if p.Entangled() {
			t.Partitions = 1
		}
	}
	for _, tpl := range templates {
		for _, topic := range t.topics {
			s := shape{}
			for _, r := range tpl.Records {
				if r.Partition.Topic == topic {
					s.records = append(s.records, r)
				}
			}
			if len(s.records) == 0 {
				continue
			}
			for _, p := range readers(set, topic) {
				s.places = append(s.places, p.Places()...)
				if p.TakesInTurn() {
					s.inTurn = true
					s.records = inTurn(p, s.records)
				}
			}
			if why := s.fixed(set, topic); why != "" && t.Once == "" {
				t.Once = why
			}
			t.shapes = append(t.shapes, s)
		}
	}
	if len(t.shapes) == 0 {
		return nil, errNoRecords
	}
	if t.Once != "" {
		t.Partitions = 1 // templates may share streams: their order decides
	}
	t.First = t.first(set)
	return t, nil
}

func (t *Traffic) first(set *pipeline.Set) string {
	for _, r := range t.shapes[0].records {
		if t.Once == "" {
			r = names{t.seed, 0}.rename(r, t.shapes[0].places)
		}
		for _, p := range readers(set, r.Partition.Topic) {
			if id, err := p.Identify(&r); err == nil {
				return cmp.Or(id.Stream, id.EventID)
			}
		}
	}
	return ""
}

// fixed says why the shape's streams and events cannot be given other names; "": they can.
func (s *shape) fixed(set *pipeline.Set, topic string) string {
	for _, p := range readers(set, topic) {
		for _, r := range s.records {
			was, err := p.Identify(&r)
			if err != nil {
				continue // it is nobody's
			}
			elsewhere := r
			elsewhere.Offset += 1 << 40
			moved, _ := p.Identify(&elsewhere) // the offset is in no document: it decodes as before
			renamed := names{1, 1}.rename(r, s.places)
			switch is, err := p.Identify(&renamed); {
			case err != nil:
				return fmt.Sprintf("%s: with other names, a record of the templates does not decode: %v", p.Name, err)
			case is.Key == was.Key && moved.Key == was.Key:
				return fmt.Sprintf("%s: its key (once_per: %s) is computed, and stays the same when id and stream get other names", p.Name,
					p.OncePer.Text)
			case is.Stream == was.Stream && was.Stream != "":
				return fmt.Sprintf("%s: its stream (%s) is computed, and cannot be given another name", p.Name, p.Event.Stream.Text)
			}
		}
	}
	return ""
}

// inTurn puts each stream's events behind their predecessors, as far as those are there.
func inTurn(p *pipeline.Pipeline, records []pawl.Record) (out []pawl.Record) {
	type early struct {
		version int64
		r       pawl.Record
	}
	at, waiting := map[string]int64{}, map[string][]early{}
	var streams []string
	for _, r := range records {
		id, err := p.Identify(&r)
		if err != nil || id.Stream == "" || id.Version == 0 {
			out = append(out, r)
			continue
		}
		if id.Version > at[id.Stream]+1 {
			if waiting[id.Stream] == nil {
				streams = append(streams, id.Stream)
			}
			waiting[id.Stream] = append(waiting[id.Stream], early{id.Version, r})
			continue
		}
		out = append(out, r)
		at[id.Stream] = max(at[id.Stream], id.Version)
		for again := true; again; {
			again = false
			for i, w := range waiting[id.Stream] {
				if w.version <= at[id.Stream]+1 {
					out = append(out, w.r)
					at[id.Stream] = max(at[id.Stream], w.version)
					waiting[id.Stream] = slices.Delete(waiting[id.Stream], i, i+1)
					again = true
					break
				}
			}
		}
	}
	for _, stream := range streams { // what is missing never comes
		slices.SortStableFunc(waiting[stream], func(a, b early) int { return int(a.version - b.version) })
		for _, w := range waiting[stream] {
			out = append(out, w.r)
		}
	}
	return out
}

// Topics are those that the stream is on.
func (t *Traffic) Topics() (all []embedded.Topic) {
	for _, name := range t.topics {
		all = append(all, embedded.Topic{Name: name, Partitions: t.Partitions})
	}
	return all
}

// Next is what is sent next: about so many records, and what goes wrong with them, mixed as a topic would have it.
func (t *Traffic) Next(records int) []embedded.Message {
	var scripts [][]embedded.Message
	for _, m := range t.later {
		scripts = append(scripts, []embedded.Message{m})
	}
	t.later = nil
	for n := 0; n < records; t.turn++ {
		s := t.shapes[t.turn%len(t.shapes)]
		n += len(s.records)
		if t.Once != "" && t.turn >= len(t.shapes) {
			scripts = append(scripts, t.copies(s))
		} else {
			scripts = append(scripts, t.script(s))
		}
		if t.chance(5) {
			scripts = append(scripts, []embedded.Message{t.garbage()})
		}
	}
	out := t.mix(scripts)
	t.Deliveries += len(out)
	return out
}

func (t *Traffic) chance(percent int) bool { return t.rng.IntN(100) < percent }

func (t *Traffic) hostile(what string) { t.Hostilities[what]++ }

// script is a shape with the names of its turn, and with mishaps.
func (t *Traffic) script(s shape) (out []embedded.Message) {
	home := int32(t.turn % t.Partitions)
	records := slices.Clone(s.records)
	for j := 0; !s.inTurn && j+1 < len(records); j++ {
		if t.chance(3) {
			t.hostile("overtaken")
			records[j], records[j+1] = records[j+1], records[j]
			j++
		}
	}
	for _, r := range records {
		if t.Once == "" {
			r = names{t.seed, t.turn}.rename(r, s.places)
		}
		m := messageOf(r, home)
		out = append(out, m)
		if t.chance(5) {
			t.hostile("sent twice")
			out = append(out, m)
		}
		if other, ok := respell(m); ok && t.chance(2) {
			t.hostile("respelt")
			out = append(out, other)
		}
		if t.chance(4) {
			t.hostile("sent again later")
			t.later = append(t.later, m)
		}
	}
	return out
}

// copies are some of a shape's records, sent again.
func (t *Traffic) copies(s shape) (out []embedded.Message) {
	for _, r := range s.records {
		if t.chance(50) {
			t.hostile("sent again later")
			out = append(out, messageOf(r, 0))
		}
	}
	return out
}

// garbage is a record that no one can make sense of.
func (t *Traffic) garbage() embedded.Message {
	t.hostile("garbage")
	of := t.shapes[t.rng.IntN(len(t.shapes))]
	half := of.records[t.rng.IntN(len(of.records))].Value
	values := [][]byte{{}, half[:len(half)/2], []byte("see attachment"), []byte(`{}`), []byte(`{"unrelated": [1, 2`)}
	return embedded.Message{
		Topic: of.records[0].Partition.Topic, Partition: t.rng.Int32N(int32(t.Partitions)), Value: values[t.rng.IntN(len(values))],
	}
}

// mix interleaves scripts, each in its own order.
func (t *Traffic) mix(scripts [][]embedded.Message) (out []embedded.Message) {
	scripts = slices.DeleteFunc(scripts, func(s []embedded.Message) bool { return len(s) == 0 })
	for len(scripts) > 0 {
		i := t.rng.IntN(len(scripts))
		out = append(out, scripts[i][0])
		if scripts[i] = scripts[i][1:]; len(scripts[i]) == 0 {
			scripts[i] = scripts[len(scripts)-1]
			scripts = scripts[:len(scripts)-1]
		}
	}
	return out
}

func messageOf(r pawl.Record, partition int32) embedded.Message {
	m := embedded.Message{Topic: r.Partition.Topic, Partition: partition, Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		m.Headers = append(m.Headers, embedded.Header(h))
	}
	return m
}

// respell says the same in other bytes: another producer, another library.
func respell(m embedded.Message) (embedded.Message, bool) {
	var out bytes.Buffer
	if len(m.Value) == 0 || json.Indent(&out, m.Value, " ", "\t") != nil || bytes.Equal(out.Bytes(), m.Value) {
		return m, false
	}
	m.Value = out.Bytes()
	return m, true
}
