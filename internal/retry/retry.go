// Package retry says how long to wait before trying again.
package retry

import (
	"math/rand/v2"
	"time"
)

const (
	first = 50 * time.Millisecond
	most  = 15 * time.Second
)

// Delay is the wait before try n (the first retry is 1): it doubles from 50 ms to 15 s, and the upper half of it is
// random, so that members which failed together do not come back together.
func Delay(n int) time.Duration {
	d := most
	if n < 1 {
		n = 1
	}
	if n <= 9 {
		d = min(first<<(n-1), most)
	}
	return d/2 + rand.N(d/2+1)
}
