package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl"
)

const (
	pollRecords = 10_000                // most records of one poll
	rewindRetry = 10 * time.Millisecond // while a rewind has to wait
	idlePoll    = time.Minute
)

// poll hands over records until ctx ends.
func (r *run) poll(ctx context.Context) {
	for ctx.Err() == nil {
		r.rewindAll()
		for _, f := range r.pollOnce(ctx) {
			for _, t := range f.Topics {
				for i := range t.Partitions {
					// Once ctx has ended nothing is handed over; it was not settled, so it will be read again.
					if ctx.Err() != nil {
						return
					}
					if err := r.handOver(ctx, &t, &t.Partitions[i]); err != nil {
						r.fail(err)
						return
					}
				}
			}
		}
	}
}

func (r *run) pollOnce(ctx context.Context) kgo.Fetches {
	r.mu.Lock()
	limit := idlePoll
	if len(r.rewinds) > 0 {
		limit = rewindRetry
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	r.wake = cancel
	r.mu.Unlock()
	defer cancel()
	return r.cl.PollRecords(ctx, pollRecords)
}

// handOver gives what one poll brought for one partition to the intake. It returns an error that ends this membership.
func (r *run) handOver(ctx context.Context, t *kgo.FetchTopic, p *kgo.FetchPartition) error {
	if p.Err != nil {
		if err := r.judge(ctx, t.Topic, p.Partition, p.Err); err != nil {
			return err
		}
	}
	if len(p.Records) == 0 {
		return nil
	}
	a := r.find(t.Topic, p.Partition)
	if a == nil {
		return nil // taken away since
	}
	if t.TopicID != [16]byte{} && t.TopicID != a.Partition.TopicID {
		return errRejoin
	}
	a.handing.Lock()
	defer a.handing.Unlock()
	if a.closed {
		return nil
	}
	// A client may return an offset twice. The intake is promised that offsets ascend.
	skip := 0
	for skip < len(p.Records) && p.Records[skip].Offset < a.next {
		skip++
	}
	records := convert(a.Partition, p.Records[skip:])
	if len(records) == 0 {
		return nil
	}
	last := &records[len(records)-1]
	a.next = last.Offset + 1
	a.epoch.Store(last.LeaderEpoch)
	r.in.Take(a.Partition, records)
	return nil
}

// convert copies what the intake needs: two allocations, however many records. Keys and values are not copied.
func convert(p pawl.Partition, in []*kgo.Record) []pawl.Record {
	headers := 0
	for _, k := range in {
		headers += len(k.Headers)
	}
	all := make([]pawl.Header, 0, headers)
	out := make([]pawl.Record, len(in))
	for i, k := range in {
		from := len(all)
		for _, h := range k.Headers {
			all = append(all, pawl.Header{Key: h.Key, Value: h.Value})
		}
		out[i] = pawl.Record{
			Partition: p, Offset: k.Offset, LeaderEpoch: k.LeaderEpoch, Timestamp: k.Timestamp,
			Key: k.Key, Value: k.Value, Control: k.Attrs.IsControl(),
		}
		if len(all) > from {
			out[i].Headers = all[from:len(all):len(all)]
		}
	}
	return out
}
