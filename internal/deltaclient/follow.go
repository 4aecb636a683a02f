package deltaclient

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff is how long Follow waits between two streams: uniformly between
// nothing and a bound that doubles from Base to Max (OPS-2).
type Backoff struct {
	Base, Max time.Duration // DefaultBackoff's where 0
}

// DefaultBackoff is for somebody who looks on.
func DefaultBackoff() Backoff {
	return Backoff{Base: 500 * time.Millisecond, Max: 10 * time.Second}
}

// next gives the delay before attempt n, which counts from 0.
func (b Backoff) next(n int) time.Duration {
	bound := b.Max
	// Beyond 20 doublings the shift could overflow; no sensible base gets there.
	if n < 20 {
		bound = min(bound, b.Base<<n)
	}
	return 1 + rand.N(bound) //nolint:gosec // jitter needs no secrecy
}

// Follow is Run again and again, until ctx ends or lost gives an error, which
// it returns. lost, which may be nil, is called with the reason for which a
// stream ended and the delay before the next one. The delay begins anew after a
// stream that brought a response.
func (c *Client) Follow(ctx context.Context, b Backoff, lost func(reason error, delay time.Duration) error) error {
	if !c.begin() {
		return ErrRunning
	}
	defer c.end()
	def := DefaultBackoff()
	if b.Base <= 0 {
		b.Base = def.Base
	}
	if b.Max <= 0 {
		b.Max = def.Max
	}
	for attempt := 0; ; attempt++ {
		before := c.responses
		err := c.run(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if c.responses != before {
			attempt = 0
		}
		delay := b.next(attempt)
		if lost != nil {
			if err := lost(err, delay); err != nil {
				return err
			}
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}
