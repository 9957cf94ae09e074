package retry

import (
	"testing"
	"time"
)

func TestDelayDoublesAndIsBounded(t *testing.T) {
	for n := -1; n < 100; n++ {
		for range 50 {
			d := Delay(n)
			if d < first/2 || d > most {
				t.Fatalf("try %d waits %s", n, d)
			}
		}
	}
	if d := Delay(4); d < 4*first || d > 8*first {
		t.Fatalf("try 4 waits %s, want between %s and %s", d, 4*first, 8*first)
	}
	if d := Delay(60); d < most/2 || d > 15*time.Second {
		t.Fatalf("try 60 waits %s", d)
	}
}
