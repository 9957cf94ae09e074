package main

import (
	"encoding/json"
	"slices"
)

// model says what must become of the records of the topic. It is written from the rules of the lab alone: it shares no code
// with Pawl, nor with the handler, and knows nothing of batches, restarts or databases.
type model struct {
	cases   map[string]caseRow
	effects map[effect]bool
	decided map[string]content // by event id: what was said by the copy that decided it
}

// delivered is a record as it is in the topic.
type delivered struct {
	at    position
	value []byte
}

type position struct {
	partition int32
	offset    int64
}

// content is what an event says, as text.
type content struct {
	EventID    string `json:"eventId"`
	CaseID     string `json:"caseId"`
	Version    int64  `json:"version"`
	EventType  string `json:"eventType"`
	OccurredAt string `json:"occurredAt"`
}

type caseRow struct {
	status      string
	version     int64
	lastEventID string
	updatedAt   string
}

// effect is a row of case_history.
type effect struct {
	caseID  string
	version int64
	eventID string
}

// What may become of a delivery.
const (
	applied     = "applied"
	duplicate   = "duplicate"
	stale       = "stale"
	gap         = "quarantined: version gap"
	illegal     = "quarantined: illegal transition"
	conflict    = "quarantined: same id, other content"
	undecodable = "quarantined: not decodable"
)

// outcomes are all of them, in the order in which they are shown.
var outcomes = []string{applied, duplicate, stale, gap, illegal, conflict, undecodable}

func newModel() *model {
	return &model{cases: map[string]caseRow{}, effects: map[effect]bool{}, decided: map[string]content{}}
}

var legal = []string{
	">OPENED", "OPENED>EVIDENCE_SUBMITTED", "EVIDENCE_SUBMITTED>NOTICE_ISSUED", "NOTICE_ISSUED>RESPONSE_RECEIVED",
	"RESPONSE_RECEIVED>PENALTY_ASSESSED", "PENALTY_ASSESSED>APPEALED", "PENALTY_ASSESSED>CLOSED", "APPEALED>CLOSED",
}

// take says what must become of the next delivery. What is quarantined decides nothing: if it comes again, it is looked at
// again.
func (m *model) take(value []byte) string {
	c, ok := read(value)
	if !ok {
		return undecodable
	}
	if before, known := m.decided[c.EventID]; known {
		if before == c {
			return duplicate
		}
		return conflict
	}
	now := m.cases[c.CaseID]
	if c.Version <= now.version {
		m.decided[c.EventID] = c
		return stale
	}
	if c.Version != now.version+1 {
		return gap
	}
	if !slices.Contains(legal, now.status+">"+c.EventType) {
		return illegal
	}
	m.decided[c.EventID] = c
	m.cases[c.CaseID] = caseRow{c.EventType, c.Version, c.EventID, c.OccurredAt}
	m.effects[effect{c.CaseID, c.Version, c.EventID}] = true
	return applied
}

// read returns what a record says; ok is false if it is not an event.
func read(value []byte) (c content, ok bool) {
	if err := json.Unmarshal(value, &c); err != nil || c.EventID == "" {
		return content{}, false
	}
	return c, true
}

// strayLast puts records in an order in which they could have been read: partition by partition, and then those that went
// astray. That any other order gives the same result is what the comment at stream is about.
func strayLast(records []delivered) []delivered {
	var atHome, stray []delivered
	for _, r := range records {
		if c, ok := read(r.value); ok && home(c.CaseID) != r.at.partition {
			stray = append(stray, r)
		} else {
			atHome = append(atHome, r)
		}
	}
	return append(atHome, stray...)
}
