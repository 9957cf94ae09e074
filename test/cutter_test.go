package test

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// cutter stands between a store and PostgreSQL and cuts connections at COMMIT: behind it, so that the server has committed
// and the client never hears; or before it, so that neither has.
type cutter struct {
	listener net.Listener
	server   string
	wait     sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]bool
	every  int // cut at each n-th commit; 0: never
	before bool
	seen   int
	cuts   int
}

func newCutter(t testing.TB, serverURL string) (*cutter, string) {
	t.Helper()
	u, err := url.Parse(serverURL)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{listener: l, server: u.Host, conns: map[net.Conn]bool{}}
	c.wait.Go(c.accept)
	t.Cleanup(func() {
		l.Close()
		c.mu.Lock()
		for conn := range c.conns {
			conn.Close()
		}
		c.mu.Unlock()
		c.wait.Wait()
	})
	u.Host = l.Addr().String()
	return c, u.String()
}

// arm cuts at each n-th commit from now on.
func (c *cutter) arm(n int, before bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.every, c.before, c.seen = n, before, 0
}

func (c *cutter) fired() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cuts
}

// due reports whether this commit is to be cut.
func (c *cutter) due(before bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.every == 0 || c.before != before {
		return false
	}
	if c.seen++; c.seen%c.every != 0 {
		return false
	}
	c.cuts++
	return true
}

func (c *cutter) accept() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", c.server)
		if err != nil {
			client.Close()
			continue
		}
		c.mu.Lock()
		c.conns[client], c.conns[server] = true, true
		c.mu.Unlock()
		c.wait.Go(func() { c.up(client, server) })
		c.wait.Go(func() { c.down(server, client) })
	}
}

// up carries what the client sends. The first message has no type; it is passed on as it is.
func (c *cutter) up(client, server net.Conn) {
	defer client.Close()
	defer server.Close()
	var head [4]byte
	if _, err := io.ReadFull(client, head[:]); err != nil {
		return
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:])-4)
	if _, err := io.ReadFull(client, body); err != nil {
		return
	}
	if _, err := server.Write(append(head[:], body...)); err != nil {
		return
	}
	c.relay(client, server, func(kind byte, body []byte) bool {
		// Bind of the prepared commit, or its text: whatever carries the word.
		return (kind == 'P' || kind == 'Q') && containsFold(body, "commit") && c.due(true)
	})
}

// down carries what the server answers.
func (c *cutter) down(server, client net.Conn) {
	defer client.Close()
	defer server.Close()
	c.relay(server, client, func(kind byte, body []byte) bool {
		return kind == 'C' && string(body) == "COMMIT\x00" && c.due(false)
	})
}

// relay passes on messages until one is to be cut.
func (c *cutter) relay(from, to net.Conn, cut func(kind byte, body []byte) bool) {
	var head [5]byte
	for {
		if _, err := io.ReadFull(from, head[:]); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(from, body); err != nil {
			return
		}
		if cut(head[0], body) {
			return
		}
		if _, err := to.Write(append(head[:], body...)); err != nil {
			return
		}
	}
}

func containsFold(b []byte, word string) bool {
	for i := 0; i+len(word) <= len(b); i++ {
		same := true
		for j := range len(word) {
			if b[i+j]|0x20 != word[j] {
				same = false
				break
			}
		}
		if same {
			return true
		}
	}
	return false
}
