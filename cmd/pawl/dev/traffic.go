package dev

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pawlhq/pawl/kafka/embedded"
)

// Event is what happens to a case.
type Event struct {
	EventID    string    `json:"eventId"`
	CaseID     string    `json:"caseId"`
	Version    int64     `json:"version"`
	EventType  string    `json:"eventType"`
	OccurredAt time.Time `json:"occurredAt"`
}

// Traffic makes a stream of events with everything that goes wrong in practice: copies near and far and in other spellings,
// old versions, missing events, illegal transitions, ids used twice, garbage. The same seed makes the same stream. All events of a
// case are on its home partition, so that what must become of them does not depend on which partition is read first.
type Traffic struct {
	seed        uint64
	rng         *rand.Rand
	clock       time.Time
	cases, ids  int
	far, later  []embedded.Message // copies to be sent with the next, and behind it
	Deliveries  int
	Hostilities map[string]int // what was put in on purpose
}

// NewTraffic begins a stream.
func NewTraffic(seed uint64) *Traffic {
	return &Traffic{
		seed: seed, rng: rand.New(rand.NewPCG(seed, 0x9a31)), clock: time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC),
		Hostilities: map[string]int{},
	}
}

// Next is what is sent about the next so many cases, mixed as a topic would have it.
func (t *Traffic) Next(cases int) []embedded.Message {
	var scripts [][]embedded.Message
	for range cases {
		t.cases++
		scripts = append(scripts, t.script(t.caseID(t.cases)))
		if t.chance(2) {
			scripts = append(scripts, []embedded.Message{t.garbage()})
		}
	}
	for _, m := range t.far {
		scripts = append(scripts, []embedded.Message{m})
	}
	t.far = t.later
	t.later = nil
	out := t.mix(scripts)
	t.Deliveries += len(out)
	return out
}

// FirstCase is the first that the stream is about.
func (t *Traffic) FirstCase() string { return t.caseID(1) }

func (t *Traffic) caseID(n int) string { return fmt.Sprintf("case-%d-%05d", t.seed, n) }

func (t *Traffic) chance(percent int) bool { return t.rng.IntN(100) < percent }

func (t *Traffic) hostile(what string) { t.Hostilities[what]++ }

func (t *Traffic) event(caseID string, version int64, eventType string) Event {
	t.ids++
	t.clock = t.clock.Add(time.Duration(1+t.rng.IntN(90)) * time.Second)
	return Event{fmt.Sprintf("evt-%d-%06d", t.seed, t.ids), caseID, version, eventType, t.clock}
}

// script is what is sent about a case, in this order: its life, with mishaps.
func (t *Traffic) script(caseID string) (out []embedded.Message) {
	types := []string{"OPENED", "EVIDENCE_SUBMITTED", "NOTICE_ISSUED", "RESPONSE_RECEIVED", "PENALTY_ASSESSED", "CLOSED"}
	if t.chance(50) {
		types = types[:1+t.rng.IntN(len(types))]
	}
	var life []Event
	for i, eventType := range types {
		life = append(life, t.event(caseID, int64(i+1), eventType))
	}
	send := func(e Event) { out = append(out, encode(e)) }
	var sent []Event
	ahead := -1 // which was sent before its turn: it is sent again in its turn
	for i := 0; i < len(life); i++ {
		switch first, last := i == 0, i == len(life)-1; {
		case !first && i != ahead && t.chance(1):
			t.hostile("missing") // never sent: what comes after it is a gap
			continue
		case !first && !last && t.chance(2):
			t.hostile("overtaken") // the next one comes first, and again in its turn
			send(life[i+1])
			ahead = i + 1
		case !first && t.chance(2):
			t.hostile("illegal")
			send(t.event(caseID, life[i].Version, "OPENED"))
		}
		send(life[i])
		sent = append(sent, life[i])
		if t.chance(5) {
			t.hostile("sent twice")
			send(life[i])
		}
		if t.chance(1) {
			t.hostile("respelt")
			out = append(out, respell(life[i]))
		}
		if t.chance(3) {
			t.hostile("sent again later")
			t.later = append(t.later, encode(life[i]))
		}
		if t.chance(3) {
			t.hostile("old version")
			old := sent[t.rng.IntN(len(sent))] // never one that is missing: it would close the gap
			send(t.event(caseID, old.Version, old.EventType))
		}
		if t.chance(1) {
			t.hostile("id used twice")
			e := life[i]
			e.OccurredAt = e.OccurredAt.Add(-time.Hour)
			send(e)
		}
	}
	return out
}

// garbage is a record that no one can make sense of.
func (t *Traffic) garbage() embedded.Message {
	t.hostile("garbage")
	m := encode(t.event("case-of-nobody", 1, "OPENED"))
	m.Partition = t.rng.Int32N(Partitions)
	values := [][]byte{
		{},
		m.Value[:len(m.Value)/2],
		[]byte("Case opened, see attachment."),
		[]byte(`{"eventId":"evt-without-number","caseId":"case-of-nobody","version":"seven","eventType":"OPENED","occurredAt":"2026-07-01T10:00:00Z"}`),
		[]byte(`{"caseId":"case-of-nobody","version":1,"eventType":"OPENED","occurredAt":"2026-07-01T10:00:00Z"}`), // whose event?
	}
	m.Value = values[t.rng.IntN(len(values))]
	return m
}

// mix interleaves scripts: many cases are open at once, each in its own order.
func (t *Traffic) mix(scripts [][]embedded.Message) (out []embedded.Message) {
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

func encode(e Event) embedded.Message {
	value, err := json.Marshal(e)
	if err != nil {
		panic(err) // texts, a number and a time always marshal
	}
	return embedded.Message{Topic: Topic, Partition: home(e.CaseID), Key: []byte(e.CaseID), Value: value}
}

// respell says the same in other bytes: another producer, another library.
func respell(e Event) embedded.Message {
	m := encode(e)
	m.Value = fmt.Appendf(nil, "{\n  \"version\": %d,\n  \"occurredAt\": %q,\n  \"eventType\": %q,\n  \"eventId\": %q,\n  \"caseId\": %q\n}\n",
		e.Version, e.OccurredAt.Format(time.RFC3339), e.EventType, e.EventID, e.CaseID)
	return m
}
