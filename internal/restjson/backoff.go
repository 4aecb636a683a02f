package restjson

import (
	"math/rand/v2"
	"time"
)

// backoff gives exponentially growing delays with full jitter (OPS-2): each is
// uniform between nothing and the bound, so that pollers that lost one server at
// one moment come back spread over the bound.
type backoff struct {
	base, max time.Duration
	attempts  int
}

// next gives the delay before the next attempt.
func (b *backoff) next() time.Duration {
	bound := b.max
	if b.base < b.max>>b.attempts { // the other way round it could overflow
		bound = b.base << b.attempts
	}
	b.attempts++
	return 1 + rand.N(bound) //nolint:gosec // jitter is no secret
}

func (b *backoff) reset() { b.attempts = 0 }

// spread gives d with a jitter of a quarter in both directions.
func spread(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1) //nolint:gosec // jitter is no secret
}
