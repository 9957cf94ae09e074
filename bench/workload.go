package main

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

const (
	partitions   = 16
	cases        = 50_000
	duplicates   = 0.05 // share of records that repeat an earlier one
	recentWindow = 1_000
)

// event is one record of the log. A repeated record is the same event again, byte for byte.
type event struct {
	id      [16]byte
	of      int32 // which case
	version int32 // of the case, from 1
	state   int8
	at      time.Time
}

var states = [...]string{"OPENED", "ASSIGNED", "ESCALATED", "ON_HOLD", "RESOLVED", "CLOSED", "REOPENED", "ARCHIVED"}

// body is the JSON of a record, as every contender reads it.
type body struct {
	EventID    string    `json:"eventId"`
	EventType  string    `json:"eventType"`
	CaseID     string    `json:"caseId"`
	Version    int64     `json:"caseVersion"`
	State      string    `json:"newState"`
	OccurredAt time.Time `json:"occurredAt"`
	Actor      string    `json:"actor"`
	Note       string    `json:"note"`
}

// generate makes n records. The same seed, time and kind of ids give the same records, and fewer of them are a prefix of
// more: that is how slow contenders get less of the same work.
func generate(n int, ids string, seed uint64, start time.Time) []event {
	rnd := rand.New(rand.NewPCG(seed, 0))
	versions := make([]int32, cases)
	out := make([]event, 0, n)
	for i := range n {
		if i > 0 && rnd.Float64() < duplicates {
			// Half of the copies come soon after the first, as from a producer's retry, and half at any time, as from a replay:
			// the first kind meets its original in the same batch, the second has to be looked up.
			back := rnd.IntN(i)
			if rnd.IntN(2) == 0 {
				back = rnd.IntN(min(i, recentWindow))
			}
			out = append(out, out[i-1-back])
			continue
		}
		e := event{of: int32(rnd.IntN(cases)), at: start.Add(time.Duration(i) * 100 * time.Microsecond)}
		versions[e.of]++
		e.version = versions[e.of]
		e.state = int8(rnd.IntN(len(states)))
		e.id = newID(rnd, ids, e.at)
		out = append(out, e)
	}
	return out
}

// newID makes a UUIDv7 whose order is the order of the records, or a UUIDv4, which has none.
func newID(rnd *rand.Rand, ids string, at time.Time) (id [16]byte) {
	binary.BigEndian.PutUint64(id[:8], rnd.Uint64())
	binary.BigEndian.PutUint64(id[8:], rnd.Uint64())
	version := byte(0x40)
	if ids == "v7" {
		version = 0x70
		binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16|uint64(at.Nanosecond()/1000%1000)) // microseconds where a counter would be
	}
	id[6] = id[6]&0x0f | version
	id[8] = id[8]&0x3f | 0x80
	return id
}

func (e *event) caseID() string { return fmt.Sprintf("CASE-%08d", e.of) }

// partition keeps the events of a case in one partition, and so in order.
func (e *event) partition() int32 {
	h := fnv.New32a()
	h.Write([]byte(e.caseID()))
	return int32(h.Sum32() % partitions)
}

func (e *event) eventID() string {
	h := hex.EncodeToString(e.id[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

func (e *event) json() []byte {
	b, err := json.Marshal(body{
		EventID: e.eventID(), EventType: "CASE_" + states[e.state], CaseID: e.caseID(), Version: int64(e.version), State: states[e.state],
		OccurredAt: e.at, Actor: fmt.Sprintf("agent-%05d", e.of%977),
		Note: "moved by the desk after a second call with the customer",
	})
	if err != nil {
		panic(err) // strings, numbers and times always marshal
	}
	return b
}
