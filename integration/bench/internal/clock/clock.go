//go:build linux

// Package clock is a clock that all processes of a machine share and nobody sets.
package clock

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// Clock tells the time of CLOCK_MONOTONIC. Its zero value is of no use, see New.
type Clock struct {
	began time.Time
	at    int64
}

// New reads the clock once. From then on the runtime's is used, which is the same
// and takes no system call.
func New() Clock {
	var t unix.Timespec
	// It fails for clocks that do not exist only.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return Clock{time.Now(), t.Nano()}
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
