package main

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// delivery is one record to be sent.
type delivery struct {
	partition int32
	key       string
	value     []byte // nil is a tombstone
}

// stream is what is sent to the topic. The same seed and number of cases make the same stream.
//
// # Why the result does not depend on which partition is read first
//
// Kafka orders the records of one partition and nothing else. All events of a case go to the case's home partition, so
// their order is given, and what becomes of them follows from it. The exceptions are copies that went astray to another
// partition. They are of two kinds, and neither changes the result, whenever it is read:
//
//   - A stray OPENED, in main. It is a copy of the first decodable record of its case, and needs nothing to come before
//     it. Whichever of the two is read first is applied, the other is a duplicate, and all that follows in the home
//     partition finds the case open.
//   - Those in late. They are sent when everything in main has been settled, and are copies of events that have had their
//     effect by then: each is a duplicate.
//
// TestAnyReadingOrderGivesTheSameResult tries this out.
type stream struct {
	main []delivery
	late []delivery
	bad  hostility
}

// hostility counts what was put into main on purpose.
type hostility struct {
	near, far, respelt, stray            int // copies
	stale, conflict                      int
	missing, overtaken, illegal, garbage int
}

// home is the partition of a case.
func home(caseID string) int32 {
	h := fnv.New32a()
	h.Write([]byte(caseID))
	return int32(h.Sum32() % partitions)
}

// generate makes the stream of a number of cases.
func generate(seed uint64, cases int) *stream {
	g := &generator{seed: seed, rng: rand.New(rand.NewPCG(seed, 0x9a31)), clock: time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)}
	for n := range cases {
		g.addCase(fmt.Sprintf("case-%d-%04d", seed, n+1))
		if g.chance(2) {
			g.addGarbage()
		}
	}
	g.out.main = g.interleave()
	return &g.out
}

type generator struct {
	seed  uint64
	rng   *rand.Rand
	clock time.Time
	ids   int
	todo  []*script
	out   stream
}

// script is what is sent about one case, in this order; far is sent some time after the rest.
type script struct {
	sends []delivery
	far   []delivery
}

func (g *generator) chance(percent int) bool { return g.rng.IntN(100) < percent }

func (g *generator) event(caseID string, version int64, eventType string) Event {
	g.ids++
	g.clock = g.clock.Add(time.Duration(1+g.rng.IntN(90)) * time.Second)
	return Event{fmt.Sprintf("evt-%d-%05d", g.seed, g.ids), caseID, version, eventType, g.clock}
}

// life is what really happens to a case: some come to their end, some do not.
func (g *generator) life(caseID string) []Event {
	types := []string{"OPENED", "EVIDENCE_SUBMITTED", "NOTICE_ISSUED", "RESPONSE_RECEIVED", "PENALTY_ASSESSED", "CLOSED"}
	if g.chance(30) {
		types = []string{"OPENED", "EVIDENCE_SUBMITTED", "NOTICE_ISSUED", "RESPONSE_RECEIVED", "PENALTY_ASSESSED", "APPEALED", "CLOSED"}
	}
	if g.chance(50) {
		types = types[:1+g.rng.IntN(len(types))]
	}
	life := make([]Event, len(types))
	for i, t := range types {
		life[i] = g.event(caseID, int64(i+1), t)
	}
	return life
}

// addCase writes the script of a case: its life, with mishaps.
func (g *generator) addCase(caseID string) {
	life := g.life(caseID)
	s := &script{}
	g.todo = append(g.todo, s)
	whole := true
	for i := 0; i < len(life); i++ {
		switch first, last := i == 0, i == len(life)-1; {
		case !first && g.chance(1): // never sent: what comes after it is a gap
			g.out.bad.missing++
			whole = false
			continue
		case !first && !last && g.chance(2): // the next one overtakes it, and is sent again
			g.out.bad.overtaken++
			s.send(encode(life[i+1]))
			g.sendWithCopies(s, life[i])
			i++
		case !first && g.chance(2):
			g.out.bad.illegal++
			s.send(encode(g.event(caseID, life[i].Version, g.wrongType(life[i-1].EventType))))
		}
		g.sendWithCopies(s, life[i])
		if i == 0 && g.chance(4) {
			g.out.bad.stray++
			g.todo = append(g.todo, &script{sends: []delivery{g.astray(encode(life[0]))}})
		}
		if g.chance(3) { // a new event that brings an old version
			g.out.bad.stale++
			old := life[g.rng.IntN(i+1)]
			s.send(encode(g.event(caseID, old.Version, old.EventType)))
		}
		if g.chance(1) { // an old event id with something else to say
			g.out.bad.conflict++
			e := life[i]
			e.OccurredAt = e.OccurredAt.Add(-time.Hour)
			s.send(encode(e))
		}
	}
	for _, e := range life {
		if whole && g.chance(4) {
			g.out.late = append(g.out.late, g.astray(encode(e)))
		}
	}
}

// sendWithCopies sends an event, and perhaps sends it again.
func (g *generator) sendWithCopies(s *script, e Event) {
	s.send(encode(e))
	if g.chance(4) {
		g.out.bad.near++
		s.send(encode(e))
	}
	if g.chance(1) {
		g.out.bad.respelt++
		s.send(respell(e))
	}
	if g.chance(3) {
		g.out.bad.far++
		s.far = append(s.far, encode(e))
	}
}

func (s *script) send(d delivery) { s.sends = append(s.sends, d) }

// wrongType is an event type that must not follow status.
func (g *generator) wrongType(status string) string {
	if status == "PENALTY_ASSESSED" {
		return "OPENED"
	}
	return "CLOSED"
}

// addGarbage adds a record that no one can make sense of, to any partition.
func (g *generator) addGarbage() {
	g.out.bad.garbage++
	e := encode(g.event("case-of-nobody", 1, "OPENED"))
	values := [][]byte{
		nil,
		{},
		e.value[:len(e.value)/2],
		[]byte("Case opened, see attachment."),
		[]byte(`{"eventId":"evt-without-number","caseId":"case-of-nobody","version":"seven","eventType":"OPENED"}`),
		[]byte(`{"caseId":"case-of-nobody","version":1,"eventType":"OPENED"}`), // whose event?
	}
	d := delivery{g.rng.Int32N(partitions), e.key, values[g.rng.IntN(len(values))]}
	g.todo = append(g.todo, &script{sends: []delivery{d}})
}

// interleave mixes the scripts as a topic would: many cases are open at once, each in its own order.
func (g *generator) interleave() []delivery {
	const atOnce = 100
	var out []delivery
	waiting := g.todo
	g.rng.Shuffle(len(waiting), func(i, j int) { waiting[i], waiting[j] = waiting[j], waiting[i] })
	var open []*script
	for len(waiting)+len(open) > 0 {
		for len(open) < atOnce && len(waiting) > 0 {
			open = append(open, waiting[len(waiting)-1])
			waiting = waiting[:len(waiting)-1]
		}
		i := g.rng.IntN(len(open))
		s := open[i]
		out = append(out, s.sends[0])
		if s.sends = s.sends[1:]; len(s.sends) > 0 {
			continue
		}
		open[i] = open[len(open)-1]
		open = open[:len(open)-1]
		for _, d := range s.far { // somewhere among what is still to come
			waiting = append(waiting, &script{sends: []delivery{d}})
			j := g.rng.IntN(len(waiting))
			waiting[j], waiting[len(waiting)-1] = waiting[len(waiting)-1], waiting[j]
		}
	}
	return out
}

func encode(e Event) delivery {
	value, err := json.Marshal(e)
	if err != nil {
		panic(err) // strings, a number and a time always marshal
	}
	return delivery{home(e.CaseID), e.CaseID, value}
}

// respell says the same in other bytes: another producer, another JSON library.
func respell(e Event) delivery {
	d := encode(e)
	d.value = fmt.Appendf(nil, "{\n  \"version\": %d,\n  \"occurredAt\": %q,\n  \"eventType\": %q,\n  \"eventId\": %q,\n  \"caseId\": %q\n}\n",
		e.Version, e.OccurredAt.Format(time.RFC3339), e.EventType, e.EventID, e.CaseID)
	return d
}

// astray is d, sent to a partition that is not its home.
func (g *generator) astray(d delivery) delivery {
	d.partition = (d.partition + 1 + g.rng.Int32N(partitions-1)) % partitions
	return d
}
