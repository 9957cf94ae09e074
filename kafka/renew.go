package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/retry"
)

// rebalanced is called by the client at the end of each rebalance, after revoked and before it reads what was added. Until
// it returns the client takes nothing away.
//
// A cooperative member that was expelled may find out only when it joins again. It then gets another id, and keeps what the
// group still gives it without a word: neither lost nor assigned. But another member may have had it in between, and the
// assignment is tied to the old id, under which nothing can be committed any more. So it is renewed: lost, and assigned
// again.
func (r *run) rebalanced(ctx context.Context, cl *kgo.Client, _ map[string][]int32) {
	<-r.joined
	member, _ := cl.GroupMetadata()
	old := r.pick(func(topic string, partition int32) bool { return r.live[topic][partition].member != member })
	if len(old) == 0 {
		return
	}
	r.lapse(old)
	ctx, cancel := context.WithTimeout(ctx, r.drainTimeout()) // or the group would wait for us, and expel us again
	defer cancel()
	defer context.AfterFunc(r.reading, cancel)()
	for n := 1; ; n++ {
		err := r.renew(ctx, old)
		switch {
		case err == nil:
			return
		case isMisconfigured(err), errors.Is(err, errRejoin):
			r.fail(err)
			return
		}
		r.cfg.Logger.Warn("partitions not taken anew under another member id", "error", err)
		select {
		case <-time.After(retry.Delay(n)):
		case <-ctx.Done():
			if r.reading.Err() == nil {
				cl.ForceRebalance() // which comes here once more
			}
			return
		}
	}
}

// lapse tells the intake that assignments are over, and keeps them in mind: they are to be renewed, unless the group takes
// them away first.
func (r *run) lapse(as []*assignment) {
	r.close(as)
	var told []pawl.Partition
	for _, a := range as {
		if !a.lapsed {
			told = append(told, a.Partition)
		}
		a.lapsed = true
	}
	if len(told) > 0 {
		r.in.Lose(told)
	}
}

// renew assigns partitions that the client is reading. What the group has committed is not looked at: it was, when they
// were first assigned, and the store's position has moved on since.
func (r *run) renew(ctx context.Context, old []*assignment) error {
	given := make(offsets)
	for _, a := range old {
		if given[a.Partition.Topic] == nil {
			given[a.Partition.Topic] = make(map[int32]kgo.Offset)
		}
		given[a.Partition.Topic][a.Partition.Index] = kgo.Offset{}
	}
	as, err := r.describe(ctx, given, nil)
	if err != nil {
		return err
	}
	// What the client has read already is beyond the store's position. Nothing is handed over before it has gone back.
	if _, err = r.assign(ctx, as, func(a *assignment, start int64) { r.askRewind(rewind{a: a, offset: start, opens: true}) }); err == nil || isMisconfigured(err) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range old {
		r.live[a.Partition.Topic][a.Partition.Index] = a
	}
	return err
}
