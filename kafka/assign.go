package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl"
)

// assignment is one ownership of a partition; see the package comment for its states. It is the flow of the
// pawl.Assignment that the intake sees.
type assignment struct {
	pawl.Assignment
	r      *run
	member string // the member id that it was made for

	// handing is held while records are handed over, so that a Take is over before the assignment is closed. It is taken
	// before any lock of the intake, and never by the flow: the intake may pause or rewind from inside Take.
	handing sync.Mutex
	next    int64 // the next record to hand over is at or after this offset; unopened until it is known

	epoch          atomic.Int32 // of the leader of the last record that was handed over; -1: none was
	committedEpoch int32        // of the offset that the group had committed; -1: unknown

	closed bool // written with handing and r.mu held, read with either
	halted bool // with r.mu held: not read before it is rewound
	lapsed bool // the intake has been told that it is lost, and it is to be renewed; of the client's callbacks alone
}

// offsets by topic and partition, the way the client wants them.
type offsets = map[string]map[int32]kgo.Offset

// assigned is called by the client when the group has given us partitions, before it reads them. Its ctx ends when the
// group takes some away again: the partitions are then either revoked, or come here a second time.
func (r *run) assigned(ctx context.Context, given offsets) (offsets, error) {
	<-r.joined
	// What comes a second time without having been given back was never read. It starts over, as another assignment.
	r.lose(r.pick(func(topic string, partition int32) bool {
		_, ok := given[topic][partition]
		return ok
	}))
	r.mu.Lock()
	commits := r.commitsOf
	r.mu.Unlock()
	as, err := r.describe(ctx, given, commits)
	var starts offsets
	if err == nil {
		starts, err = r.assign(ctx, as, (*assignment).handOverFrom)
	}
	switch {
	case err == nil:
		r.joinedGroup()
		return starts, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case isMisconfigured(err), errors.Is(err, errRejoin):
		r.fail(err)
		return starts, nil // so that what we already had is given back in good order
	case errors.Is(err, context.Canceled):
		// The client takes this error for "leaving the group", and would never join again.
		return nil, fmt.Errorf("assign partitions: %v", err) //nolint:errorlint // must not wrap, see above
	}
	return nil, fmt.Errorf("assign partitions: %w", err) // asked again soon
}

func (r *run) joinedGroup() {
	r.mu.Lock()
	first := !r.wasMember
	r.wasMember = true
	r.mu.Unlock()
	r.letIn(first)
}

// assign asks the intake where to start, and opens each assignment from there. It returns the offsets of those that are
// open; on an error that is not misconfigured that is none.
func (r *run) assign(ctx context.Context, as []*assignment, open func(*assignment, int64)) (offsets, error) {
	asked := make([]*pawl.Assignment, len(as))
	for i, a := range as {
		asked[i] = &a.Assignment
	}
	r.register(as) // now, because the intake may use the flow before it answers
	starts, err := r.in.Assign(ctx, asked)
	if err == nil && len(starts) != len(as) {
		err = fmt.Errorf("%d offsets for %d assignments", len(starts), len(as))
	}
	if err != nil {
		r.lose(as) // the intake may have begun with some
		return nil, err
	}

	cut, err := r.cutOff(ctx, as, starts)
	if err != nil {
		r.lose(as)
		return nil, err
	}
	out := make(offsets)
	for i, a := range as {
		start, outside, err := r.inLog(ctx, a, starts[i])
		if outside != nil {
			err = r.stillThere(ctx, a)
		}
		if err != nil {
			r.lose(as)
			return nil, err
		}
		open(a, start)
		if lost, ok := cut[a]; starts[i] == pawl.Halted {
			r.halt(a)
		} else if outside != nil {
			r.raise(a, *outside)
		} else if ok {
			r.raise(a, lost)
		}
		if out[a.Partition.Topic] == nil {
			out[a.Partition.Topic] = make(map[int32]kgo.Offset)
		}
		// No epoch: with one, the client may find that data was lost and move the offset by itself.
		out[a.Partition.Topic][a.Partition.Index] = kgo.NewOffset().At(start).WithEpoch(-1)
	}
	return out, nil
}

// unopened is what nothing is at or after.
const unopened = math.MaxInt64

// position is where an assignment is read on from. It has none before it was opened.
func (a *assignment) position() (next int64, open bool) {
	a.handing.Lock()
	defer a.handing.Unlock()
	return a.next, a.next != unopened
}

// handOverFrom opens an assignment that the client does not read yet.
func (a *assignment) handOverFrom(start int64) {
	a.handing.Lock()
	defer a.handing.Unlock()
	a.next = start
}

// inLog looks whether the log has an offset. The client is given a start that is in the log in any case, also for a
// partition that it must not read: it would ask for any other without end.
func (r *run) inLog(ctx context.Context, a *assignment, start int64) (int64, *pawl.Condition, error) {
	if start == pawl.Halted {
		return a.Start, nil, nil
	}
	end := a.End
	if start > end { // an open transaction holds back what is readable; the log itself may be longer
		ends, err := listOffsets(ctx, r.cl, latest, readUncommitted, a.Partition)
		if err != nil {
			return 0, nil, err
		}
		end = ends[0]
	}
	if start >= a.Start && start <= end {
		return start, nil, nil
	}
	c := outsideLog(a.Partition, start, a.Start, end)
	return a.Start, &c, nil
}

// revoked is called by the client when partitions are to be given back: some of them, at the end of Run all, and often
// none.
func (r *run) revoked(ctx context.Context, cl *kgo.Client, partitions map[string][]int32) {
	as := r.pickListed(partitions)
	if len(as) == 0 {
		return
	}
	member, _ := cl.GroupMetadata()
	var own, foreign []*assignment
	for _, a := range as {
		if a.member == member {
			own = append(own, a)
		} else { // we were expelled since, and are back under another id: they may have an owner
			foreign = append(foreign, a)
		}
	}
	r.lose(foreign)
	if len(own) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.drainTimeout())
	defer cancel()
	r.close(own)
	r.in.Revoke(ctx, names(own))
	r.forget(own)

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing != nil { // the rest is to leave the group, which a broker that is down must not delay
		r.closing.Reset(leaveTimeout)
	}
}

// lost is called by the client when the group has taken partitions away without asking.
func (r *run) lost(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	r.lose(r.pickListed(partitions))
}

func (r *run) lose(as []*assignment) {
	if len(as) == 0 {
		return
	}
	r.close(as)
	r.forget(as)
	if told := slices.DeleteFunc(slices.Clone(as), func(a *assignment) bool { return a.lapsed }); len(told) > 0 {
		r.in.Lose(names(told))
	}
}

func (r *run) register(as []*assignment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range as {
		topic := a.Partition.Topic
		if r.live[topic] == nil {
			r.live[topic] = make(map[int32]*assignment)
		}
		r.live[topic][a.Partition.Index] = a
		// A pause of the client's outlives the assignment that asked for it.
		r.cl.ResumeFetchPartitions(map[string][]int32{topic: {a.Partition.Index}})
	}
}

// close ends the intake of assignments: when it returns, no Take is under way and none will come.
func (r *run) close(as []*assignment) {
	for _, a := range as {
		a.handing.Lock()
		r.mu.Lock()
		a.closed = true
		r.mu.Unlock()
		a.handing.Unlock()
	}
}

// forget ends assignments: when it returns, no commit for them is under way and none will be sent.
func (r *run) forget(as []*assignment) {
	r.commits.Lock()
	defer r.commits.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range as {
		if r.live[a.Partition.Topic][a.Partition.Index] == a {
			delete(r.live[a.Partition.Topic], a.Partition.Index)
		}
	}
}

// find returns the assignment of a partition, or nil.
func (r *run) find(topic string, partition int32) *assignment {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.live[topic][partition]
}

func (r *run) pick(wanted func(topic string, partition int32) bool) []*assignment {
	r.mu.Lock()
	defer r.mu.Unlock()
	var as []*assignment
	for topic, partitions := range r.live {
		for partition, a := range partitions {
			if wanted(topic, partition) {
				as = append(as, a)
			}
		}
	}
	sortByName(as)
	return as
}

func sortByName(as []*assignment) {
	slices.SortFunc(as, func(a, b *assignment) int {
		return cmp.Or(cmp.Compare(a.Partition.Topic, b.Partition.Topic), cmp.Compare(a.Partition.Index, b.Partition.Index))
	})
}

func (r *run) pickListed(partitions map[string][]int32) []*assignment {
	return r.pick(func(topic string, partition int32) bool { return slices.Contains(partitions[topic], partition) })
}

func (r *run) all() []*assignment { return r.pick(func(string, int32) bool { return true }) }

func names(as []*assignment) []pawl.Partition {
	ps := make([]pawl.Partition, len(as))
	for i, a := range as {
		ps[i] = a.Partition
	}
	return ps
}

func isMisconfigured(err error) bool {
	e, ok := errors.AsType[*pawl.Error](err)
	return ok && e.Class == pawl.Misconfigured
}
