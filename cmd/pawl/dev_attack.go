package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/fault"
	"github.com/pawlhq/pawl/kafka/embedded"
)

const (
	// chunkEvery is how often traffic is sent.
	chunkEvery = 250 * time.Millisecond
	// sampleEvery is how often offsets are held against effects.
	sampleEvery = 25 * time.Millisecond
	// mostLife is after how long a consumer is killed that did not come to its window.
	mostLife = 4 * time.Second
)

// killWindows are where the consumer is killed, in turn: between any two durable steps.
var killWindows = []fault.Point{
	fault.Committed, fault.Effected, fault.Advanced, fault.Settled, fault.Claimed, fault.OffsetStored, fault.Taken, fault.Begun,
}

// windowMeans says where a window is, for people.
var windowMeans = map[string]string{
	string(fault.Taken): "before any work", string(fault.Begun): "at the start of the transaction",
	string(fault.Claimed): "with the claim uncommitted", string(fault.Effected): "with the effect uncommitted",
	string(fault.Advanced): "right before the commit", string(fault.Committed): "right after the commit",
	string(fault.Settled): "before the offset was sent", string(fault.OffsetStored): "right after the offset",
	anywhere: "at a random moment",
}

// anywhere is no window: the consumer did not come to the one that it was to be killed at.
const anywhere = "anywhere"

// attack sends traffic while consumers are killed, until ctx ends or the time is over.
func (d *devRun) attack(ctx, work context.Context) error {
	if d.lasts > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.lasts)
		defer cancel()
		d.mu.Lock()
		d.until = time.Now().Add(d.lasts)
		d.mu.Unlock()
	}
	var all sync.WaitGroup
	defer all.Wait()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var sendErr error
	all.Go(func() {
		if sendErr = d.send(ctx); sendErr != nil {
			fail(sendErr)
		}
	})
	all.Go(func() { d.sample(ctx, work) })
	err := d.killInTurn(ctx)
	fail(nil)
	all.Wait()
	return errors.Join(err, sendErr)
}

func (d *devRun) send(ctx context.Context) error {
	s, err := embedded.NewSender(d.broker.Addrs())
	if err != nil {
		return err
	}
	defer s.Close()
	tick := time.NewTicker(chunkEvery)
	defer tick.Stop()
	for {
		// What was begun is sent whole: the model would not mind, but the numbers would.
		chunk := d.next()
		if err := s.Send(context.WithoutCancel(ctx), chunk); err != nil {
			return err
		}
		d.mu.Lock()
		d.sentNow += len(chunk)
		d.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// killInTurn runs the consumers, and has them killed at one window after the other.
func (d *devRun) killInTurn(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(d.seed, 0x171))
	for n := 0; ctx.Err() == nil || n == 0; n++ { // on a slow machine too, one is killed
		over := ctx.Done()
		if n == 0 {
			over = nil
		}
		window := killWindows[n%len(killWindows)]
		naive, err := d.start("dev-naive")
		if err != nil {
			return err
		}
		spec := fmt.Sprintf("%s:%d=kill", window, 4+rng.IntN(12))
		c, err := d.start("dev-consumer", "PAWL_FAULT="+spec)
		if err != nil {
			naive.kill()
			return err
		}
		where := string(window)
		select {
		case <-c.ended:
			if !c.killed() {
				naive.kill()
				return fmt.Errorf("the consumer ended by itself: %s", c.said())
			}
		case <-time.After(mostLife):
			where = anywhere
		case <-over:
			where = ""
		}
		c.kill()
		naive.kill()
		if where != "" {
			d.mu.Lock()
			d.kills[where]++
			d.lastKill = where
			d.mu.Unlock()
			d.say("killed %-32s %s", windowMeans[where], d.progressText(ctx))
		}
	}
	return nil
}

// sample holds the group's offsets against the store's positions, again and again. The offset is read first: what is settled
// meanwhile can only help it.
func (d *devRun) sample(ctx, work context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, p := range d.pipelines().Pipelines {
			logs, err := d.look(work, p.GroupName(), p.Topic)
			if err != nil {
				continue // the broker is busy; the next sample counts
			}
			progress, err := d.store.Admin().Progress(work, p.ConsumerName())
			if err != nil {
				continue
			}
			waiting := int64(0)
			d.mu.Lock()
			for _, l := range logs {
				at := positionOf(progress, l.Partition)
				if l.Committed >= 0 {
					d.samples++
				}
				if l.Committed > at {
					d.ahead++
				}
				waiting += max(l.End-at, 0)
			}
			d.waiting[p.Name] = waiting
			d.mu.Unlock()
		}
	}
}
