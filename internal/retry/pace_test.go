package retry

import (
	"testing"
	"time"
)

// Who pauses may catch up, for as long as the burst is.
func TestPace_LIM1(t *testing.T) {
	const burst = 10 * time.Second
	var p Pace
	wait := func(at time.Duration, n int) (last time.Duration) {
		for range n {
			last = p.Next(at, 100, burst)
		}
		return last
	}
	if got := wait(0, 1000); got != 0 {
		t.Errorf("a burst waits %v", got)
	}
	if got := wait(0, 1); got != 10*time.Millisecond {
		t.Errorf("the next thing waits %v", got)
	}
	if got := wait(time.Second, 99); got != 0 {
		t.Errorf("after a second things wait %v", got)
	}
	if got := wait(time.Hour, 1000); got != 0 {
		t.Errorf("a burst after a pause waits %v", got)
	}
	if got := wait(time.Hour, 100); got != time.Second {
		t.Errorf("a second's worth beyond it waits %v", got)
	}
	if got := p.Next(0, 0, burst); got != 0 {
		t.Errorf("without a limit something waits %v", got)
	}
}
