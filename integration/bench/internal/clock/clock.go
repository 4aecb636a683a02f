//go:build linux

// Package clock is a clock that all processes of a machine share and nobody sets.
package clock

import (
	"context"
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// Clock tells the time of CLOCK_MONOTONIC. Its zero value is of no use, see New.
type Clock struct {
	began time.Time
	at    int64
}

// New reads the clock. From then on the runtime's is used, which is the same and takes no
// system call.
func New() Clock {
	return between(time.Now, func() int64 {
		var t unix.Timespec
		// It fails for clocks that do not exist only.
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
		return t.Nano()
	})
}

// between reads a clock several times and keeps the reading that took least: a process that
// has to wait for a processor while it reads would be behind all others by that wait.
func between(now func() time.Time, read func() int64) Clock {
	var nearest Clock
	least := time.Duration(math.MaxInt64)
	for range 16 {
		before := now()
		at := read()
		if took := now().Sub(before); took < least {
			nearest, least = Clock{before, at}, took
		}
	}
	return nearest
}

// Now gives the time in nanoseconds.
func (c Clock) Now() int64 { return c.at + int64(time.Since(c.began)) }

// Until waits for a time, at most until ctx ends, and tells whether it came.
func (c Clock) Until(ctx context.Context, at int64) bool {
	left := time.Duration(at - c.Now())
	if left <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
