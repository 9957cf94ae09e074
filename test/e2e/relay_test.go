//go:build unix

package e2e

import (
	"net"
	"sync"
	"testing"
)

// relay stands between a member and its broker. While it is paused, nothing passes in either direction and no connection
// breaks: a partition of the network.
type relay struct {
	listener net.Listener
	to       string
	wait     sync.WaitGroup
	gate     sync.RWMutex // held for writing while paused
	paused   bool         // of the test's goroutine

	mu    sync.Mutex
	conns []net.Conn
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l, to: to}
	r.wait.Go(r.accept)
	t.Cleanup(func() {
		l.Close()
		if r.paused {
			r.resume()
		}
		r.mu.Lock()
		for _, c := range r.conns {
			c.Close()
		}
		r.mu.Unlock()
		r.wait.Wait()
	})
	return r
}

func (r *relay) pause() {
	r.gate.Lock()
	r.paused = true
}

func (r *relay) resume() {
	r.paused = false
	r.gate.Unlock()
}

func (r *relay) accept() {
	for {
		from, err := r.listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", r.to)
		if err != nil {
			from.Close()
			continue
		}
		r.mu.Lock()
		r.conns = append(r.conns, from, to)
		r.mu.Unlock()
		r.wait.Go(func() { r.pass(from, to) })
		r.wait.Go(func() { r.pass(to, from) })
	}
}

func (r *relay) pass(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			r.gate.RLock()
			_, werr := to.Write(buf[:n])
			r.gate.RUnlock()
			if werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
