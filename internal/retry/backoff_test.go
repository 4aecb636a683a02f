package retry

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A late delay lies in the last quarter of its bound, and counts as any other.
func TestLate_UPS2(t *testing.T) {
	const base, limit = 100 * time.Millisecond, time.Second
	for range 1000 {
		b := Backoff{Base: base, Max: limit}
		for i, bound := range []time.Duration{base, 2 * base, 4 * base, 8 * base, limit, limit} {
			if d := b.Late(); d < bound*3/4 || d > bound {
				t.Fatalf("attempt %d: delay %v, bound %v", i, d, bound)
			}
		}
	}
}

// Delays are uniform between nothing and a bound that doubles up to the maximum.
func TestOPS2BackoffFullJitter(t *testing.T) {
	const base, limit, rounds = 100 * time.Millisecond, 3 * time.Second, 2000
	bounds := []time.Duration{base, 2 * base, 4 * base, 8 * base, 16 * base, limit, limit}
	sums := make([]time.Duration, len(bounds))
	for range rounds {
		b := Backoff{Base: base, Max: limit}
		for i, bound := range bounds {
			d := b.Next()
			if d <= 0 || d > bound {
				t.Fatalf("attempt %d: delay %v out of (0, %v]", i, d, bound)
			}
			sums[i] += d
		}
	}
	for i, sum := range sums {
		// The mean of 2,000 uniform values is within 5% of the middle but for one time in 10^9.
		if mean, middle := sum/rounds, bounds[i]/2; mean < middle*92/100 || mean > middle*108/100 {
			t.Errorf("attempt %d: mean delay %v, want about %v", i, mean, middle)
		}
	}
	for _, base := range []time.Duration{time.Second, 30 * time.Second, 10 * time.Minute, 24 * time.Hour} {
		b := Backoff{Base: base, Max: 24 * time.Hour}
		for i := range 100 {
			if d := b.Next(); d <= 0 || d > b.Max {
				t.Fatalf("base %v, attempt %d: delay %v", base, i, d)
			}
		}
	}
	b := Backoff{Base: base, Max: limit, Attempts: 1 << 20}
	if d := b.Next(); d > limit {
		t.Errorf("delay %v after a million attempts", d)
	}
	b.Reset()
	if d := b.Next(); d > base {
		t.Errorf("delay %v after a reset", d)
	}
}

// Who looks at something again and again does not do so at the same moment as others.
func TestOPS2Spread(t *testing.T) {
	const d = time.Minute
	first, differ := Spread(d), false
	for range 1000 {
		got := Spread(d)
		if got < d*3/4 || got > d*5/4 {
			t.Fatalf("%v is %v", d, got)
		}
		differ = differ || got != first
	}
	if !differ {
		t.Error("there is no jitter")
	}
}

// Sleep waits for the whole time, or for the end of its context.
func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !Sleep(t.Context(), time.Minute) || time.Since(began) != time.Minute {
			t.Errorf("slept for %v, want a minute", time.Since(began))
		}
		began = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if Sleep(ctx, time.Minute) || time.Since(began) != time.Second {
			t.Errorf("slept for %v, want a second: the context ended", time.Since(began))
		}
	})
}

// Every turns at its pace, with the time of the turn, and ends with its context.
func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		var turns []time.Duration
		Every(ctx, time.Second, func(now time.Time) {
			if turns = append(turns, now.Sub(began)); len(turns) == 3 {
				cancel()
			}
		})
		if len(turns) != 3 || turns[0] != time.Second || turns[2] != 3*time.Second {
			t.Errorf("turned at %v", turns)
		}
	})
}
