package pawltest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawlhq/pawl"
)

// Topic is where records are unless they say otherwise.
const Topic = "pawltest"

// JSON returns a record whose value is v as JSON. It panics if v cannot be marshalled.
func JSON(v any) pawl.Record {
	value, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("pawltest: %v", err))
	}
	return Bytes(value)
}

// Bytes returns a record with the given value.
func Bytes(value []byte) pawl.Record { return pawl.Record{Value: value} }

// On returns r as a record of partition p.
func On(p int32, r pawl.Record) pawl.Record {
	r.Partition.Index = p
	return r
}

// lay gives records their places in a log: topic, topic id, offsets ascending per partition, timestamps.
func lay(id pawl.TopicID, records []pawl.Record) []pawl.Record {
	next := map[int32]int64{}
	out := make([]pawl.Record, len(records))
	for i, r := range records {
		r.Partition.Topic, r.Partition.TopicID = Topic, id
		r.Offset = next[r.Partition.Index]
		next[r.Partition.Index]++
		if r.Timestamp.IsZero() {
			r.Timestamp = time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC).Add(time.Duration(i) * time.Second)
		}
		out[i] = r
	}
	return out
}
