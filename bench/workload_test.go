package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
)

var testStart = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func TestFewerRecordsAreAPrefixOfMore(t *testing.T) {
	few, more := generate(1_000, "v7", 1, testStart), generate(5_000, "v7", 1, testStart)
	for i := range few {
		if few[i] != more[i] {
			t.Fatalf("record %d differs", i)
		}
	}
}

func TestACaseIsInOrderWithinItsPartition(t *testing.T) {
	events := generate(200_000, "v7", 1, testStart)
	versions := map[int32]int32{}
	seen := map[[16]byte]bool{}
	var last [16]byte
	for i := range events {
		e := &events[i]
		if seen[e.id] {
			continue
		}
		seen[e.id] = true
		if versions[e.of]++; e.version != versions[e.of] {
			t.Fatalf("record %d: version %d, want %d", i, e.version, versions[e.of])
		}
		if bytes.Compare(e.id[:], last[:]) <= 0 {
			t.Fatalf("record %d: id %x does not follow %x", i, e.id, last)
		}
		last = e.id
	}
	if share := 1 - float64(len(seen))/float64(len(events)); share < 0.045 || share > 0.055 {
		t.Errorf("%.3f of the records are duplicates", share)
	}
}

func TestBodiesAreAboutAsLongAsTheirDescriptionSays(t *testing.T) {
	for _, ids := range []string{"v7", "v4"} {
		for _, e := range generate(1_000, ids, 1, testStart) {
			doc := e.json()
			if len(doc) < 256 || len(doc) > 296 {
				t.Fatalf("%d bytes: %s", len(doc), doc)
			}
			var b body
			if err := json.Unmarshal(doc, &b); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestModelAppliesEachIDOnce(t *testing.T) {
	id := func(n byte) [16]byte { return [16]byte{n} }
	first := event{id: id(1), of: 7, version: 1, state: 0}
	second := event{id: id(2), of: 7, version: 2, state: 4}
	other := event{id: id(3), of: 8, version: 1, state: 2}
	got := model([]event{first, other, first, second, first, second})
	if got.records != 6 || got.unique != 3 || got.cases != 2 {
		t.Errorf("%+v", got)
	}
	if got.digest != model([]event{other, first, second}).digest {
		t.Error("duplicates and the order between cases change the digest")
	}
	if got.digest == model([]event{other, first}).digest {
		t.Error("a missing event does not change the digest")
	}
}

func TestRatiosAreTakenWithinRounds(t *testing.T) {
	at := func(rates ...float64) (fs []figures) {
		for _, r := range rates {
			fs = append(fs, figures{Records: int(r), Seconds: 1})
		}
		return fs
	}
	r := results{"a": at(1000, 100, 3000), "b": at(100, 10, 100)}
	if got := r.times("a", "b"); got != 10 {
		t.Errorf("got %v", got)
	}
	if got := r.times("a", "missing"); got >= 0 {
		t.Errorf("got %v for a contender that did not run", got)
	}
}
