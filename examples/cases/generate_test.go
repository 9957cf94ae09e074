package main

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"
)

func TestTheSameSeedMakesTheSameStream(t *testing.T) {
	one, two, other := generate(1, 50), generate(1, 50), generate(2, 50)
	if !reflect.DeepEqual(one, two) {
		t.Error("two streams from one seed")
	}
	if reflect.DeepEqual(one, other) {
		t.Error("one stream from two seeds")
	}
}

func TestEveryHostilityOccurs(t *testing.T) {
	s := generate(1, 1000)
	bad := reflect.ValueOf(s.bad)
	for i := range bad.NumField() {
		if bad.Field(i).Int() == 0 {
			t.Errorf("%s does not occur", bad.Type().Field(i).Name)
		}
	}
	if len(s.late) == 0 {
		t.Error("nothing is sent again at the end")
	}
}

// laid returns the records of a stream as they are in the topic, and how many of them are of main.
func laid(s *stream) (records []delivered, inMain int) {
	var next [partitions]int64
	for _, d := range append(s.main[:len(s.main):len(s.main)], s.late...) {
		records = append(records, delivered{position{d.partition, next[d.partition]}, d.value})
		next[d.partition]++
	}
	return records, len(s.main)
}

// verdict is everything that must not depend on the order of reading.
type verdict struct {
	cases   map[string]caseRow
	effects map[effect]bool
	counts  map[[2]string]int // deliveries, by event id and outcome
}

func judge(records []delivered) verdict {
	m := newModel()
	v := verdict{m.cases, m.effects, map[[2]string]int{}}
	for _, r := range records {
		c, _ := read(r.value)
		v.counts[[2]string{c.EventID, m.take(r.value)}]++
	}
	return v
}

// shuffled returns records in another order in which they could be read: within each partition it stays as it is.
func shuffled(rng *rand.Rand, records []delivered) []delivered {
	var queues [partitions][]delivered
	for _, r := range records {
		queues[r.at.partition] = append(queues[r.at.partition], r)
	}
	// Whole stretches at a time, so that partitions get far ahead of each other.
	var out []delivered
	for len(out) < len(records) {
		p := rng.IntN(partitions)
		n := min(1+rng.IntN(200), len(queues[p]))
		out = append(out, queues[p][:n]...)
		queues[p] = queues[p][n:]
	}
	return out
}

func TestAnyReadingOrderGivesTheSameResult(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 1))
		records, inMain := laid(generate(seed, 200))
		want := judge(strayLast(records))
		for range 3 {
			got := judge(append(shuffled(rng, records[:inMain]), shuffled(rng, records[inMain:])...))
			if !maps.Equal(got.cases, want.cases) || !maps.Equal(got.effects, want.effects) || !maps.Equal(got.counts, want.counts) {
				t.Fatalf("seed %d: the result depends on the order of reading", seed)
			}
		}
	}
}
