package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
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

// handOver gives what one poll brought for one partition to the intake. It returns an error that ends Run.
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
		return recreated(a.Partition, t.TopicID)
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
	a.next = records[len(records)-1].Offset + 1
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

// judge says what an error of a poll means: nil if the client deals with it by itself.
func (r *run) judge(ctx context.Context, topic string, partition int32, err error) error {
	session, ofGroup := errors.AsType[*kgo.ErrGroupSession](err)
	switch {
	case topic == "" && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		return nil // of the poll itself

	case ofGroup && permanent(session.Err):
		return &pawl.Error{Op: "join group " + r.cfg.Group, Class: pawl.Misconfigured, Err: session.Err, Hint: joinHint(session.Err)}

	case ofGroup:
		return nil // the client has logged it, and joins again

	case topic == "":
		return &pawl.Error{Op: "read from kafka", Class: pawl.Misconfigured, Err: err}

	case kerr.IsRetriable(err) && !errors.Is(err, kerr.UnknownTopicID):
		name := fmt.Sprintf("%s/%d", topic, partition)
		r.cfg.Logger.Warn("partition is not readable at the moment", "partition", name, "error", err)
		return nil
	}
	// The client would try again at once, thousands of times a second.
	r.cl.PauseFetchPartitions(map[string][]int32{topic: {partition}})
	a := r.find(topic, partition)
	if a != nil && errors.Is(err, kerr.OffsetOutOfRange) {
		if err := r.outOfRange(ctx, a); err != nil {
			return err
		}
	}
	return &pawl.Error{Op: fmt.Sprintf("read %s/%d", topic, partition), Class: pawl.Misconfigured, Err: err, Hint: readHint(err)}
}

// outOfRange finds out what the log has, for the sake of the message. It returns nil if it cannot.
func (r *run) outOfRange(ctx context.Context, a *assignment) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	starts, err := listOffsets(ctx, r.cl, earliest, readUncommitted, a.Partition)
	if err != nil {
		return nil
	}
	ends, err := listOffsets(ctx, r.cl, latest, readUncommitted, a.Partition)
	if err != nil {
		return nil
	}
	a.handing.Lock()
	next := a.next
	a.handing.Unlock()
	return outsideLog(a.Partition, next, starts[0], ends[0])
}

const recreatedHint = "the topic was deleted and made again: its offsets start over, and the position is of the old one"

func recreated(p pawl.Partition, id pawl.TopicID) error {
	return &pawl.Error{
		Op: "read " + p.String(), Class: pawl.Misconfigured,
		Err: fmt.Errorf("the topic's id was %s and is %s", p.TopicID, id), Hint: recreatedHint,
	}
}

// readHint says what to do about an error of a partition that does not pass by itself.
func readHint(err error) string {
	if errors.Is(err, kerr.UnknownTopicID) {
		return recreatedHint
	}
	if large, ok := errors.AsType[*kgo.ErrDecompressTooLarge](err); ok { // by mistake, or to do harm
		return fmt.Sprintf("the records from %d to %d were not read: give the client a larger kgo.MaxDecompressBatchBytes if there is memory for them, "+
			"or pass them over, by setting the group's offset to %d and accepting that with pawl.ResetAccept",
			large.Offset, large.NextOffset-1, large.NextOffset)
	}
	if loss, ok := errors.AsType[*kgo.ErrDataLoss](err); ok { // the client has moved its own position, and so it must not read on
		return fmt.Sprintf("a replica without them was elected leader: the records from %d to %d were read here, and the log does not have them any more; "+
			"others will take their places: to read those, set the group's offset to %d and accept that with pawl.ResetAccept",
			loss.ResetTo, loss.ConsumedTo-1, loss.ResetTo)
	}
	return ""
}

// permanent reports whether joining again would fail the same way.
func permanent(err error) bool {
	if isMisconfigured(err) {
		return true
	}
	for _, p := range []error{
		kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed,
		kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.InvalidGroupID, kerr.InconsistentGroupProtocol,
		kerr.InvalidSessionTimeout, kerr.UnsupportedVersion, kerr.UnsupportedAssignor, kerr.FencedInstanceID,
		kerr.UnreleasedInstanceID,
	} {
		if errors.Is(err, p) {
			return true
		}
	}
	return false
}
