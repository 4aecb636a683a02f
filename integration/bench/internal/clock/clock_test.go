//go:build linux

package clock

import (
	"testing"
	"time"
)

// A process that loses its processor while it reads the clock tells the same time as others.
func TestAPauseWhileReading(t *testing.T) {
	began := time.Now()
	var passed time.Duration
	readings := 0
	now := func() time.Time { return began.Add(passed) }
	c := between(now, func() int64 {
		readings++
		passed += 50 * time.Nanosecond
		at := int64(passed)
		if readings != 5 {
			passed += 10 * time.Millisecond
		}
		return at
	})
	if off := time.Duration(c.at) - c.began.Sub(began); off < 0 || off > time.Microsecond {
		t.Errorf("the clock is off by %v", off)
	}
}
