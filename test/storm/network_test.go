//go:build synctests

package storm

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// link is a member's network. It stands between the client and the broker, knows requests from answers, and can hold
// them, cut them off or deliver them late.
type link struct {
	w *world
	m *member // whose it is; nil: the producer's, or an operator's

	mu     sync.Mutex
	dead   bool
	frozen chan struct{} // closed when it goes on; nil if it is not frozen
	wires  map[*wire]bool
}

func newLink(w *world, m *member) *link { return &link{w: w, m: m, wires: map[*wire]bool{}} }

// wait waits while the link is frozen, and reports whether it was.
func (l *link) wait(ctx context.Context) (was bool) {
	for {
		l.mu.Lock()
		frozen := l.frozen
		l.mu.Unlock()
		if frozen == nil {
			return was
		}
		was = true
		select {
		case <-frozen:
		case <-ctx.Done():
			return was
		}
	}
}

// freeze returns what ends it, unless it has been ended since.
func (l *link) freeze() (thaw func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frozen == nil {
		l.frozen = make(chan struct{})
	}
	mine := l.frozen
	return func() {
		l.mu.Lock()
		same := l.frozen == mine
		l.mu.Unlock()
		if same {
			l.thaw()
		}
	}
}

func (l *link) thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frozen != nil {
		close(l.frozen)
		l.frozen = nil
	}
}

// cut closes every connection. With dead, no new ones are made.
func (l *link) cut(dead bool) int {
	l.mu.Lock()
	l.dead = l.dead || dead
	var all []*wire
	for c := range l.wires {
		all = append(all, c)
	}
	l.mu.Unlock()
	for _, c := range all {
		c.close()
	}
	return len(all)
}

func (l *link) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

func (l *link) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	l.wait(ctx)
	if l.isDead() {
		return nil, errors.New("the network is gone")
	}
	broker, err := l.w.net.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	c := &wire{link: l, client: far, broker: broker, fates: map[int32]fate{}, commits: map[int32]*pendingCommit{}}
	l.mu.Lock()
	l.wires[c] = true
	l.mu.Unlock()
	go c.requests()
	go c.answers()
	return near, nil
}

// loses reports whether the connection breaks with a request of this kind on its way.
func (l *link) loses(key kmsg.Key) bool {
	switch key {
	case kmsg.ListOffsets, kmsg.OffsetForLeaderEpoch, kmsg.OffsetFetch, kmsg.FindCoordinator:
		return l.m != nil && l.w.chance(requestLost, 8)
	case kmsg.Fetch, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat, kmsg.ConsumerGroupHeartbeat:
		return l.m != nil && l.w.chance(requestLost, 150)
	}
	return false
}

// wire is one connection, with a frame of the protocol as its unit.
type wire struct {
	link           *link
	client, broker net.Conn

	mu      sync.Mutex
	fates   map[int32]fate           // of commits under way, by correlation id
	commits map[int32]*pendingCommit // likewise
	late    bool                     // what was held is still to be delivered: the broker's side stays open
}

// fate is what becomes of an offset commit.
type fate struct {
	kind kind
	wait time.Duration
}

func (c *wire) close() {
	c.link.mu.Lock()
	delete(c.link.wires, c)
	c.link.mu.Unlock()
	c.client.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.late {
		c.broker.Close()
	}
}

func frame(from io.Reader) ([]byte, error) {
	b := make([]byte, 4)
	if _, err := io.ReadFull(from, b); err != nil {
		return nil, err
	}
	b = append(b, make([]byte, binary.BigEndian.Uint32(b))...)
	_, err := io.ReadFull(from, b[4:])
	return b, err
}

func (c *wire) requests() {
	defer c.close()
	for {
		b, err := frame(c.client)
		if err != nil || len(b) < 12 {
			return
		}
		frozen := c.link.wait(context.Background())
		key := kmsg.Key(binary.BigEndian.Uint16(b[4:]))
		if c.link.loses(key) {
			return
		}
		if key == kmsg.OffsetCommit && frozen { // a process that is stopped sends nothing
			return
		}
		c.look(key, b)
		if key == kmsg.OffsetCommit {
			switch f := c.link.w.fateOfCommit(); f.kind {
			case commitCutBefore:
				c.link.w.count(f.kind)
				return
			case commitLate:
				c.deliverLate(b, f.wait)
				return
			case commitCutAfter, commitDelayed:
				c.mu.Lock()
				c.fates[correlation(b[8:])] = f
				c.mu.Unlock()
			}
		}
		if _, err := c.broker.Write(b); err != nil {
			return
		}
	}
}

func correlation(b []byte) int32 { return int32(binary.BigEndian.Uint32(b)) }

// look shows a member's request to the ledger.
func (c *wire) look(key kmsg.Key, b []byte) {
	if c.link.m == nil || key != kmsg.OffsetCommit && key != kmsg.SyncGroup && key != kmsg.ConsumerGroupHeartbeat {
		return
	}
	if p := c.link.m.sends(b); p != nil {
		c.mu.Lock()
		c.commits[correlation(b[8:])] = p
		c.mu.Unlock()
	}
}

// deliverLate cuts the client off, which then tries again on another connection, and gives the broker the request later:
// it was on its way all the time.
func (c *wire) deliverLate(b []byte, wait time.Duration) {
	c.mu.Lock()
	c.late = true
	for _, p := range c.commits {
		p.late = true
	}
	c.mu.Unlock()
	c.client.Close()
	time.Sleep(wait)
	if _, err := c.broker.Write(b); err == nil {
		c.link.w.count(commitLate)
		time.Sleep(time.Second) // for the broker to read all of it, and to answer nobody
	}
	c.mu.Lock()
	c.late = false
	c.mu.Unlock()
}

// heard reads what the broker answers, and shows it to the ledger at once: what was stored first was stored first, however
// late its sender hears of it.
func (c *wire) heard() <-chan []byte {
	frames := make(chan []byte, 1024) // more than are ever under way
	go func() {
		defer close(frames)
		for {
			b, err := frame(c.broker)
			if err != nil || len(b) < 8 {
				return
			}
			corr := correlation(b[4:])
			c.mu.Lock()
			p := c.commits[corr]
			delete(c.commits, corr)
			c.mu.Unlock()
			if p != nil {
				c.link.m.answered(b, p)
			}
			frames <- b
		}
	}()
	return frames
}

func (c *wire) answers() {
	defer c.close()
	for b := range c.heard() {
		corr := correlation(b[4:])
		c.mu.Lock()
		f := c.fates[corr]
		delete(c.fates, corr)
		c.mu.Unlock()
		// A request takes time, or a client that tries again at once would do so for ever: in fake time nothing else gets its turn.
		time.Sleep(50*time.Microsecond + rand.N(2*time.Millisecond))
		switch f.kind {
		case commitCutAfter:
			c.link.w.count(f.kind)
			return
		case commitDelayed:
			c.link.w.count(f.kind)
			time.Sleep(f.wait)
		}
		c.link.wait(context.Background())
		if _, err := c.client.Write(b); err != nil {
			return
		}
	}
}
