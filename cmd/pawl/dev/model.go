package dev

import (
	"encoding/json"
	"slices"

	"github.com/pawlhq/pawl/kafka/embedded"
)

// What may become of a delivery, in the order in which it is shown.
const (
	Applied     = "applied"
	Duplicate   = "duplicate"
	Stale       = "stale"
	Gap         = "quarantined: gap"
	Illegal     = "quarantined: transition"
	Conflict    = "quarantined: conflict"
	Undecodable = "quarantined: poison"
)

// Outcomes are all of them.
var Outcomes = []string{Applied, Duplicate, Stale, Gap, Illegal, Conflict, Undecodable}

// place is where a delivery is in the topic.
type place struct {
	partition int32
	offset    int64
}

// row is a row of case_projection.
type row struct {
	status  string
	version int64
	last    string
}

// model says what must become of the deliveries of a topic.
type model struct {
	rows   map[string]row
	first  map[string]Event // by event id: what was said first
	counts map[string]int   // of first, by type
	want   map[place]string
	// also is what may become of a delivery where an event overtook the one before it, and both came in one transaction: the
	// early one then is not early. Rows do not depend on it.
	also map[place]string
}

// newModel works out what must become of deliveries, each partition in order.
func newModel(deliveries []embedded.Message) *model {
	m := &model{first: map[string]Event{}, counts: map[string]int{}}
	strict, patient := newMachine(false), newMachine(true)
	for _, d := range deliveries {
		if e, ok := read(d.Value); ok {
			if _, known := m.first[e.EventID]; !known {
				m.first[e.EventID] = e
				m.counts[e.EventType]++
			}
		}
		at := place{d.Partition, d.Offset}
		strict.take(at, d.Value)
		patient.take(at, d.Value)
	}
	m.rows, m.want, m.also = strict.rows, strict.became, patient.became
	return m
}

var legal = []string{
	">OPENED", "OPENED>EVIDENCE_SUBMITTED", "EVIDENCE_SUBMITTED>NOTICE_ISSUED", "NOTICE_ISSUED>RESPONSE_RECEIVED",
	"RESPONSE_RECEIVED>PENALTY_ASSESSED", "PENALTY_ASSESSED>APPEALED", "PENALTY_ASSESSED>CLOSED", "APPEALED>CLOSED",
}

// machine is the state machine of the sample. One that is patient lets early events wait for what is missing.
type machine struct {
	patient bool
	rows    map[string]row
	decided map[string]Event // by event id: what was said by the copy that decided it
	early   map[string][]waiting
	became  map[place]string
}

// waiting is an event that came early.
type waiting struct {
	at place
	e  Event
}

func newMachine(patient bool) *machine {
	return &machine{patient, map[string]row{}, map[string]Event{}, map[string][]waiting{}, map[place]string{}}
}

// take says what becomes of the next delivery, and of those that waited for it.
func (m *machine) take(at place, value []byte) {
	e, ok := read(value)
	if !ok {
		m.became[at] = Undecodable
		return
	}
	outcome := m.decide(e)
	m.became[at] = outcome
	if outcome == Gap && m.patient {
		m.early[e.CaseID] = append(m.early[e.CaseID], waiting{at, e})
	}
	for again := outcome == Applied; again; {
		again = false
		for _, w := range m.early[e.CaseID] {
			if m.became[w.at] == Gap {
				m.became[w.at] = m.decide(w.e)
				again = again || m.became[w.at] == Applied
			}
		}
	}
}

// decide is the rules. What is quarantined decides nothing: if it comes again, it is looked at again.
func (m *machine) decide(e Event) string {
	if before, known := m.decided[e.EventID]; known {
		if before == e {
			return Duplicate
		}
		return Conflict
	}
	now := m.rows[e.CaseID]
	switch {
	case e.Version < now.version:
		m.decided[e.EventID] = e
		return Stale
	case e.Version == now.version && e.EventType == now.status:
		m.decided[e.EventID] = e
		return Duplicate // another event that says what the row says
	case e.Version == now.version:
		return Conflict
	case e.Version != now.version+1:
		return Gap
	case !slices.Contains(legal, now.status+">"+e.EventType):
		return Illegal
	}
	m.decided[e.EventID] = e
	m.rows[e.CaseID] = row{e.EventType, e.Version, e.EventID}
	return Applied
}

// read returns what a record says; ok is false if it is not an event.
func read(value []byte) (e Event, ok bool) {
	if err := json.Unmarshal(value, &e); err != nil || e.EventID == "" || e.CaseID == "" || e.Version < 1 {
		return Event{}, false
	}
	return e, true
}
