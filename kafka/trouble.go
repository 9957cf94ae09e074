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

// errRejoin ends a membership so that another begins: a client that is running does not find out that a topic was made
// again, and reads nothing, without a word.
var errRejoin = errors.New("the topic was deleted and made again")

// judge says what an error of a poll means. What concerns a partition is dealt with here; an error that is returned ends
// this membership.
func (r *run) judge(ctx context.Context, topic string, partition int32, err error) error {
	session, ofGroup := errors.AsType[*kgo.ErrGroupSession](err)
	// A connection that closes before its first answer may mean that a login is expected, and then the group could not have
	// been joined. Where a partition is being read it means a broker that goes away, and the client asks again.
	_, hungUp := errors.AsType[*kgo.ErrFirstReadEOF](err)
	switch {
	case topic == "" && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		return nil // of the poll itself

	case ofGroup && r.member() && unauthorized(session.Err):
		r.castOut(session.Err)
		return nil

	case ofGroup && permanent(session.Err):
		_, hint, ok := refusal(session.Err)
		if !ok {
			hint = joinHint(session.Err)
		}
		return &pawl.Error{Op: "join group " + r.cfg.Group, Class: pawl.Misconfigured, Err: session.Err, Hint: hint}

	case ofGroup:
		return nil // the client has logged it, and joins again

	case topic == "":
		_, hint, _ := refusal(err)
		return &pawl.Error{Op: "read from kafka", Class: pawl.Misconfigured, Err: err, Hint: hint}

	case errors.Is(err, kerr.UnknownTopicID):
		return nil // the watch finds out

	case hungUp, kerr.IsRetriable(err):
		name := fmt.Sprintf("%s/%d", topic, partition)
		r.cfg.Logger.Warn("partition is not readable at the moment", "partition", name, "error", err)
		return nil
	}
	a := r.find(topic, partition)
	if a == nil {
		return nil
	}
	next, open := a.position()
	if !open {
		return nil // it answers what was asked for an assignment before this one
	}
	c := r.diagnose(ctx, a, next, err)
	switch gone := r.stillThere(ctx, a); {
	case errors.Is(gone, errRejoin):
		return gone
	case gone != nil:
		r.halt(a) // the watch finds out
	case errors.Is(err, kerr.OffsetOutOfRange) && c.Start >= 0 && c.Start <= c.Next && c.Next <= c.End:
		// It answers what was asked before this assignment began, by a member that was away for long: the client asks again.
	default:
		r.raise(a, c)
	}
	return nil
}

// diagnose names what is the matter with a partition that the client cannot read.
func (r *run) diagnose(ctx context.Context, a *assignment, next int64, err error) pawl.Condition {
	c := pawl.Condition{Partition: a.Partition, Next: next, Start: -1, End: -1, Reason: err.Error()}
	if bounds, berr := r.bounds(ctx, a.Partition); berr == nil {
		c.Start, c.End = bounds[0].start, bounds[0].end
	}
	lost, isLost := errors.AsType[*kgo.ErrDataLoss](err)
	large, isLarge := errors.AsType[*kgo.ErrDecompressTooLarge](err)
	switch {
	case unauthorized(err):
		_, hint, _ := refusal(err)
		c.State, c.Hint = pawl.StateUnauthorized, hint+"; reading is tried again by itself"
	case isLost:
		c.State = pawl.StateDataLoss
		c.Reason = fmt.Sprintf("the log was cut off: records up to %d had been read, and it goes on at %d", lost.ConsumedTo, lost.ResetTo)
		c.Hint = dataLossHint(lost.ResetTo)
	case isLarge: // by mistake, or to do harm
		c.State = pawl.StateUnreadable
		c.Hint = fmt.Sprintf("the records from %d to %d are not read: give the client a larger kgo.MaxDecompressBatchBytes if there is memory for them, or move to %d to go on without them",
			large.Offset, large.NextOffset-1, large.NextOffset)
	case errors.Is(err, kerr.OffsetOutOfRange) && c.Start >= 0:
		return outsideLog(a.Partition, next, c.Start, c.End)
	default:
		c.State = pawl.StateUnreadable
		c.Hint = fmt.Sprintf("going on tries the same bytes again; moving past them loses what is in them: the record at %d, or a batch that begins there", next)
	}
	return c
}

// outsideLog is the condition of a position that cannot be read from.
func outsideLog(p pawl.Partition, position, start, end int64) pawl.Condition {
	c := pawl.Condition{
		Partition: p, State: pawl.StateBelowLog, Next: position, Start: start, End: end,
		Reason: fmt.Sprintf("the position to read on from is %d, and the log has %d to %d", position, start, end),
		Hint: fmt.Sprintf("%d records were deleted before they were read: restore them from elsewhere, and move to %d to go on without them",
			start-position, start),
	}
	if position > end {
		c.State = pawl.StateAboveLog
		c.Hint = fmt.Sprintf("the log is shorter than what was read from it: was the topic, or the cluster, restored from a backup? Moving to %d goes on with what comes, moving to %d reads all of it again",
			end, start)
	}
	return c
}

// halt stops reading a partition until it is rewound. The client would try again at once, thousands of times a second.
// It reports whether that is news.
func (r *run) halt(a *assignment) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.closed || a.halted {
		return false
	}
	a.halted = true
	r.cl.PauseFetchPartitions(a.only())
	return true
}

// raise halts a partition and tells the intake why.
func (r *run) raise(a *assignment, c pawl.Condition) {
	if r.halt(a) {
		r.in.Raise(c)
	}
}

// castOut tells that the right to be in the group was taken away.
func (r *run) castOut(err error) {
	r.mu.Lock()
	told := r.outcast
	r.outcast = true
	r.mu.Unlock()
	if told {
		return
	}
	_, hint, _ := refusal(err)
	r.in.Raise(pawl.Condition{
		Partition: pawl.Partition{Index: pawl.AllPartitions}, State: pawl.StateUnauthorized, Next: pawl.NoStart,
		Reason: fmt.Sprintf("group %s: %v", r.cfg.Group, err), Hint: hint + "; it is tried again by itself",
	})
}

// letIn tells that we are back, if it was told that we were cast out: by this process, or perhaps by an earlier one.
func (r *run) letIn(perhaps bool) {
	r.mu.Lock()
	told := r.outcast || perhaps
	r.outcast = false
	r.mu.Unlock()
	if told {
		r.in.Clear(pawl.Partition{Index: pawl.AllPartitions}, pawl.StateUnauthorized)
	}
}

// member reports whether the group has given us partitions before: from then on a right that is missing was taken away.
func (r *run) member() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wasMember
}

// unauthorized reports whether a right, or the proof of who asks, is missing.
func unauthorized(err error) bool {
	return isAny(err, kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed,
		kerr.SaslAuthenticationFailed)
}

// permanent reports whether joining again would fail the same way.
func permanent(err error) bool {
	return isMisconfigured(err) || unauthorized(err) || isAny(err, kerr.UnsupportedSaslMechanism, kerr.InvalidGroupID,
		kerr.InconsistentGroupProtocol, kerr.InvalidSessionTimeout, kerr.UnsupportedVersion, kerr.UnsupportedAssignor,
		kerr.FencedInstanceID, kerr.UnreleasedInstanceID)
}

func isAny(err error, those ...error) bool {
	for _, e := range those {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// boundsTimeout bounds questions about the log that are asked beside the path of records.
const boundsTimeout = 5 * time.Second

// bounds is what a log has.
type bounds struct {
	start  int64 // the first offset
	end    int64 // after the last record
	stable int64 // after the last record that can be read: before the first of a transaction that is open
}

// bounds asks for what the logs of partitions have.
func (r *run) bounds(ctx context.Context, ps ...pawl.Partition) ([]bounds, error) {
	ctx, cancel := context.WithTimeout(ctx, boundsTimeout)
	defer cancel()
	out := make([]bounds, len(ps))
	for _, ask := range []struct {
		which     int64
		isolation int8
		to        func(*bounds) *int64
	}{
		{latest, readCommitted, func(b *bounds) *int64 { return &b.stable }}, // first: the end is then not before it
		{latest, readUncommitted, func(b *bounds) *int64 { return &b.end }},
		{earliest, readUncommitted, func(b *bounds) *int64 { return &b.start }},
	} {
		found, err := listOffsets(ctx, r.cl, ask.which, ask.isolation, ps...)
		if err != nil {
			return nil, err
		}
		for i, offset := range found {
			*ask.to(&out[i]) = offset
		}
	}
	return out, nil
}
