package xdsclient

import (
	"testing"
	"time"
)

func TestOPS2_backoffIsBounded(t *testing.T) {
	b := Backoff{Base: time.Second, Max: time.Minute}
	for n, bound := range map[int]time.Duration{0: time.Second, 3: 8 * time.Second, 6: time.Minute, 1000: time.Minute} {
		for range 100 {
			if d := b.next(n); d <= 0 || d > bound {
				t.Errorf("delay %d is %v, want at most %v", n, d, bound)
			}
		}
	}
}
