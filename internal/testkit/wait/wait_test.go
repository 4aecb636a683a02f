package wait_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
)

func TestUntil(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration // when the condition begins to hold
		took  time.Duration
		held  bool
	}{
		"at once":           {0, 0, true},
		"later":             {45 * time.Millisecond, 50 * time.Millisecond, true},
		"after the limit":   {2 * time.Second, time.Second, false},
		"at the last asked": {time.Second, time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				took, held := wait.Until(time.Second, func() bool { return time.Since(begin) >= c.after })
				if took != c.took || held != c.held {
					t.Errorf("took %v, held %t; want %v, %t", took, held, c.took, c.held)
				}
			})
		})
	}
}

func TestHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if after, held := wait.Holds(time.Second, func() bool { return true }); after != time.Second || !held {
			t.Errorf("a condition that holds: %v, %t", after, held)
		}
		begin = time.Now()
		after, held := wait.Holds(time.Second, func() bool { return time.Since(begin) < 100*time.Millisecond })
		if after != 100*time.Millisecond || held {
			t.Errorf("a condition that fails after 100 ms: %v, %t", after, held)
		}
	})
}
