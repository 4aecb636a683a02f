package wait_test

import (
	"context"
	"errors"
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

// A machine that stands still during a look does not end the wait, and the next look does
// not wait for as long again.
func TestUntilGoesOnAfterAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		took, held := wait.Until(10*time.Second, func() bool {
			if looks++; looks == 1 {
				<-time.After(time.Minute)
			}
			return looks == 3
		})
		if want := time.Minute + time.Second + wait.Interval; took != want || !held {
			t.Errorf("took %v, held %t; want %v", took, held, want)
		}
	})
}

func TestContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		ctx, cancel := wait.Context(t.Context(), 120*time.Millisecond)
		defer cancel()
		<-ctx.Done()
		if cause := context.Cause(ctx); time.Since(begin) != 120*time.Millisecond || !errors.Is(cause, context.DeadlineExceeded) {
			t.Errorf("it ended after %v with %v", time.Since(begin), cause)
		}
		parent, end := context.WithCancel(t.Context())
		ctx, cancel = wait.Context(parent, time.Hour)
		defer cancel()
		end()
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
			t.Errorf("the end of its parent ended it with %v", cause)
		}
	})
}
