package pawl

import (
	"encoding/hex"
	"fmt"
	"time"
)

// TopicID is the id a cluster gives a topic when it is created. A topic that is deleted and made again under the same
// name has another id, and its offsets start over: positions are kept by id, never by name alone.
type TopicID [16]byte

func (id TopicID) String() string { return hex.EncodeToString(id[:]) }

// Partition names one partition of one topic. It is comparable.
type Partition struct {
	Topic   string
	TopicID TopicID
	Index   int32
}

func (p Partition) String() string { return fmt.Sprintf("%s/%d", p.Topic, p.Index) }

// Record is one entry of the log with its position. Handlers never see it: they see an [Envelope].
type Record struct {
	Partition   Partition
	Offset      int64
	LeaderEpoch int32
	Timestamp   time.Time
	Key         []byte
	Value       []byte // nil is a tombstone
	Headers     []Header

	// Control marks an entry that carries no data (a transaction marker). It is received and settled at once and never
	// shown to a decoder.
	Control bool
}

// size is what the record costs while it waits in memory.
func (r *Record) size() int {
	n := 200 + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += 48 + len(h.Key) + len(h.Value)
	}
	return n
}

// storableTime replaces a time that no database can hold: a producer may write anything.
func storableTime(t time.Time) time.Time {
	if y := t.UTC().Year(); y < 1 || y > 9999 {
		return time.Unix(0, 0)
	}
	return t
}
