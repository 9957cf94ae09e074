package main

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
)

// want is what must be in the database after the records were consumed, whoever consumed them.
type want struct {
	records int
	unique  int // ids: markers, or decisions
	cases   int // rows of the projection
	digest  string

	hundredths int // of what a ledger has posted
}

// model consumes the records in memory: each id once, in order.
func model(events []event) want {
	type row struct {
		version, applied int32
		state            int8
	}
	seen := make(map[[16]byte]bool, len(events))
	rows := map[string]row{}
	posted := 0
	for i := range events {
		e := &events[i]
		if seen[e.id] {
			continue
		}
		seen[e.id] = true
		posted += int(e.version%7)*100 + int(e.version)*37%100
		r := rows[e.caseID()]
		r.applied++
		if e.version > r.version {
			r.version, r.state = e.version, e.state
		}
		rows[e.caseID()] = r
	}
	// The digest is of every row, so that it cannot be right by two errors that cancel out. check.go has the same in SQL.
	sum := md5.New()
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		r := rows[id]
		fmt.Fprintf(sum, "%s %d %d %s\n", id, r.version, r.applied, states[r.state])
	}
	return want{records: len(events), unique: len(seen), cases: len(rows), digest: hex.EncodeToString(sum.Sum(nil)), hundredths: posted}
}
