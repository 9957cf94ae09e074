// Package dev is the sample that `pawl dev` plays: a hostile stream of events, a model of what must become of them, a check of the tables
// against the model, and a consumer without Pawl to compare with.
//
// The model is written from the rules of the sample alone. It shares no code with Pawl, and knows nothing of batches, restarts or
// databases. A file of the user's own has no such model: see package rehearsal.
package dev

import (
	_ "embed"
	"hash/fnv"
)

const (
	// Topic is what is read, in Partitions.
	Topic      = "case.lifecycle.events.v1"
	Partitions = 4
)

// Pipelines is the file that runs: a state machine and a counter on one topic.
//
//go:embed pipelines.yaml
var Pipelines []byte

// home is the partition of a case: its events have an order.
func home(caseID string) int32 {
	h := fnv.New32a()
	h.Write([]byte(caseID))
	return int32(h.Sum32() % Partitions)
}
