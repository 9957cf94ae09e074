package main

import (
	"context"
	"fmt"
	"slices"
)

// act is a moment of the demonstration: when so much is settled, these leave and those come. Members are numbered as they
// come.
type act struct {
	percent int
	leave   []int
	join    []ending
}

var acts = []act{
	{percent: 0, join: []ending{inOrder}},
	{percent: 15, leave: []int{1}, join: []ending{cutOff}},
	{percent: 30, leave: []int{2}, join: []ending{cutOff, inOrder}}, // two at once share the partitions
	{percent: 60, leave: []int{3}, join: []ending{cutOff}},
	{percent: 80, leave: []int{4}},
	{percent: 90, leave: []int{5}, join: []ending{inOrder}},
	{percent: 100},
}

// attack sends the stream, and has it consumed by members that come and go.
func (l *lab) attack(ctx context.Context, p *printer, s *stream) (err error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	defer func() { // a member that failed is why the rest did
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
	}()
	before, err := length(ctx, l.addrs)
	if err != nil {
		return err
	}
	p.progress("sending")
	if err := send(ctx, l.addrs, s.main); err != nil {
		return err
	}
	p.sent(s, before)

	c := &crew{lab: l, p: p, fail: fail, here: map[int]*member{}}
	defer c.dismiss()
	if err := c.begin(ctx); err != nil {
		return err
	}
	for _, a := range acts {
		if err := c.play(ctx, a); err != nil {
			return err
		}
	}

	// Only now, when all the rest is settled: see stream.
	if err := send(ctx, l.addrs, s.late); err != nil {
		return err
	}
	p.event(100, "%s old events are sent again, each to a partition it was never on", comma(len(s.late)))
	if err := c.begin(ctx); err != nil {
		return err
	}
	if err := c.play(ctx, act{percent: 100, leave: []int{c.count}}); err != nil {
		return err
	}
	p.consumed()
	return nil
}

// crew is the members that are at work.
type crew struct {
	lab   *lab
	p     *printer
	fail  context.CancelCauseFunc
	count int
	here  map[int]*member // by number

	from, to int64 // deliveries settled at the beginning and to be settled at the end
}

// begin notes how much there is to do.
func (c *crew) begin(ctx context.Context) (err error) {
	if c.from, err = settled(ctx, c.lab.db); err != nil {
		return err
	}
	if c.to, err = length(ctx, c.lab.addrs); err != nil {
		return err
	}
	if c.from > c.to {
		return fmt.Errorf("%s has %d deliveries settled, and the topic holds %d: they are not of one run; use another -dir",
			c.lab.database, c.from, c.to)
	}
	return nil
}

func (c *crew) play(ctx context.Context, a act) error {
	if err := c.wait(ctx, a); err != nil {
		return err
	}
	for _, number := range a.leave {
		if err := c.leave(ctx, number); err != nil {
			return err
		}
	}
	for _, end := range a.join {
		c.count++
		m, err := startMember(ctx, c.fail, c.lab, c.count, end)
		if err != nil {
			return err
		}
		c.here[c.count] = m
		c.p.event(c.at(ctx), "member %d starts", m.number)
	}
	return nil
}

// wait waits for the moment of an act. Nobody leaves before having done something, unless there is nothing left to do.
func (c *crew) wait(ctx context.Context, a act) error {
	goal := c.from + (c.to-c.from)*int64(a.percent)/100
	return waitFor(ctx, c.lab.db, func(n int64) bool {
		c.p.progress(fmt.Sprintf("settled %s of %s", comma(n), comma(c.to)))
		idle := slices.ContainsFunc(a.leave, func(number int) bool { return c.here[number].settled.Load() == 0 })
		return n >= c.to || n >= goal && !idle
	})
}

// leave stops a member and says what it left behind.
func (c *crew) leave(ctx context.Context, number int) error {
	m := c.here[number]
	delete(c.here, number)
	m.stop()
	done := comma(m.settled.Load())
	switch {
	case m.settled.Load() == 0:
		c.p.event(c.at(ctx), "member %d is stopped: there was nothing left to do", number)
		return nil
	case m.ending == inOrder:
		c.p.event(c.at(ctx), "member %d is stopped in good order, after %s deliveries", number, done)
		return nil
	}
	stored, err := committed(ctx, c.lab.addrs)
	if err != nil {
		return err
	}
	n, err := settled(ctx, c.lab.db)
	if err != nil {
		return err
	}
	if stored > n {
		return fmt.Errorf("Kafka's offsets lead the database: %d deliveries are committed, %d settled", stored, n)
	}
	c.p.event(c.at(ctx), "member %d is cut off without time to finish, after %s deliveries; Kafka's offsets are %s behind",
		number, done, comma(n-stored))
	return nil
}

// at is how much is settled, in percent.
func (c *crew) at(ctx context.Context) int64 {
	n, err := settled(ctx, c.lab.db)
	if err != nil || c.to == c.from {
		return 0
	}
	return (n - c.from) * 100 / (c.to - c.from)
}

// dismiss stops whoever is still there.
func (c *crew) dismiss() {
	for _, m := range c.here {
		m.stop()
	}
}
