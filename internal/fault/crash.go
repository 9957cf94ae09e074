package fault

import "sync"

// Crash is an injector that dies at the n-th window it meets, and stays dead.
type Crash struct {
	mu   sync.Mutex
	left int
	at   Point
	dead bool
}

// NewCrash dies at the n-th hit, counted from 1.
func NewCrash(n int) *Crash { return &Crash{left: n} }

// Inject is the Injector.
func (c *Crash) Inject(p Point) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return ErrCrash
	}
	if c.left--; c.left > 0 {
		return nil
	}
	c.dead, c.at = true, p
	return ErrCrash
}

// Fired reports where the crash happened, and whether it did.
func (c *Crash) Fired() (Point, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at, c.dead
}
