package downstream

import (
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// typeState is one type's sub-stream (VAR-4).
type typeState struct {
	url           string
	subscriptions int
	refused       []wire.ResourceError // names that the relay itself answers, not told yet
	mute          bool                 // names were refused without an answer (ABS-4), and the log says so
	unnamed       bool                 // "*" is subscribed to by naming nothing (SUB-4)

	// Flow control. Nonces are numbers that rise on the stream, so one comparison
	// tells whether the last response was acknowledged.
	sent, acked uint64
	rejecting   bool // the client is counted as one that rejects something of the type
	sentAt      time.Time
	received    time.Time  // when the oldest change in the last responses came from upstream
	flights     []inFlight // the responses that are not acknowledged, the oldest first

	listed listed // of the state-of-the-world form
	told   uint64 // nonce of the last response with more in it than renewed ttls

	unserved map[string]struct{} // names of an incremental client that no upstream is for (LOC-4)

	systemVersion string     // of the last response
	status        TypeStatus // guarded by stream.mu
}

// inFlight is a response that is not acknowledged.
type inFlight struct {
	nonce uint64
	batch *cache.Batch
}

// maxInFlight bounds what is kept for a client that acknowledges nothing. maxOutstanding is
// how many responses of a type may be outstanding before the next one waits for longer: for
// overflowWait (ADS-2).
const (
	maxInFlight    = 4 * maxOutstanding
	maxOutstanding = 8
	overflowWait   = time.Second
)

// note keeps a response that was sent.
func (t *typeState) note(nonce uint64, b *cache.Batch) {
	if len(t.flights) == maxInFlight {
		t.flights = slices.Delete(t.flights, 0, 1)
	}
	t.flights = append(t.flights, inFlight{nonce, b})
}

// landed gives the response with a nonce that the client answers now, nil if nothing is
// known of it, and forgets it and those before it.
func (t *typeState) landed(nonce uint64) (b *cache.Batch) {
	n := 0
	for ; n < len(t.flights) && t.flights[n].nonce <= nonce; n++ {
		if t.flights[n].nonce == nonce {
			b = t.flights[n].batch
		}
	}
	t.flights = slices.Delete(t.flights, 0, n)
	return b
}

// patience is when the next response does not wait for an acknowledgement any longer.
func (t *typeState) patience(wait time.Duration) time.Time {
	if len(t.flights) >= maxOutstanding {
		wait = max(wait, overflowWait)
	}
	return t.sentAt.Add(wait)
}
