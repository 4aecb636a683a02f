// Package retry says when to try again: delays with jitter, a bound on how many things are done in a second,
// and a pace for the connections of one gRPC channel.
package retry

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff gives exponentially growing delays with full jitter (OPS-2): each is
// uniform between nothing and the bound, so that many that lost one server at one
// moment come back spread over the bound. It belongs to one goroutine.
type Backoff struct {
	// Base bounds the first delay, and each further one has twice the bound up to Max.
	Base, Max time.Duration
	// Attempts is how many delays were given since the beginning or Reset.
	Attempts int
}

// Next gives the delay before the next attempt, which is never zero: a delay is what
// tells waiting from being idle.
func (b *Backoff) Next() time.Duration {
	return 1 + rand.N(b.bound()) //nolint:gosec // jitter is no secret
}

// Late gives a delay as Next does, from the last quarter of the bound. It is for a server that takes streams and
// does not keep them: there is no use in a short delay.
func (b *Backoff) Late() time.Duration {
	bound := b.bound()
	return bound - rand.N(bound/4+1) //nolint:gosec // jitter is no secret
}

// bound bounds the next delay, and counts it.
func (b *Backoff) bound() time.Duration {
	bound := b.Max
	if b.Base < b.Max>>b.Attempts { // the other way round it could overflow
		bound = b.Base << b.Attempts
	}
	b.Attempts++
	return bound
}

// Reset begins anew with Base.
func (b *Backoff) Reset() { b.Attempts = 0 }

// Spread gives d with a jitter of a quarter in both directions.
func Spread(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1) //nolint:gosec // jitter is no secret
}

// Sleep waits for a while. It reports false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Every calls f at a steady pace until ctx ends, with the time of each turn. A turn that takes long
// has the next one come late, and none is made up for.
func Every(ctx context.Context, d time.Duration, f func(now time.Time)) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			f(now)
		}
	}
}
