package pawl

import (
	"errors"
	"time"
)

// BoundConsumer is a consumer as the store knows it: a name, and the group and cluster that it is bound to.
type BoundConsumer struct {
	Name    string
	Cluster string
	Group   string
	Routes  []string // by name
	Paused  *Pause   // nil: it is not
	Since   time.Time
}

// AuditQuery asks what operators did. At most one of Operation, Key and Stream is set; none asks for everything.
type AuditQuery struct {
	Operation int64
	Key       string // of the record that was acted on
	Stream    string
	AsOf      time.Time // leaves out what was done after it; zero: nothing
	Limit     int       // the latest so many; of a Key or Stream, on its latest so many records. 0: MostListed
}

// Validate refuses a query that asks for several things. Stores call it.
func (q *AuditQuery) Validate() error {
	n := 0
	for _, set := range []bool{q.Operation != 0, q.Key != "", q.Stream != ""} {
		if set {
			n++
		}
	}
	if n <= 1 && q.Limit >= 0 {
		return nil
	}
	return &Error{Op: "read the audit", Class: Validation, Err: errors.New("ask by Operation, by Key or by Stream, with a Limit of at least 0")}
}

// AuditEntry is one act: of an operator, or of an operation on one of its records.
type AuditEntry struct {
	ID        int64
	What      string // such as "pause", "start replay", or of a record "replay"
	By        string
	Why       string
	At        time.Time
	Operation int64 // 0: none

	// Of an act on one record:
	Quarantine int64 // 0: it is of no record
	Partition  Partition
	Offset     int64
	Outcome    Outcome // what became of it
	Reason     string
}
