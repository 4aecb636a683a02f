package downstream

import (
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// typeState is one type's sub-stream (VAR-4).
type typeState struct {
	url           string
	wildcard      *cache.Client // where "*" is subscribed to
	subscriptions int
	refused       []wire.ResourceError // names that the relay itself answers, not told yet
	unnamed       bool                 // "*" is subscribed to by naming nothing (SUB-4)

	// Flow control. Nonces are numbers that rise on the stream, so one comparison
	// tells whether the last response was acknowledged.
	sent, acked uint64
	sentAt      time.Time
	received    time.Time // when the oldest change in the last responses came from upstream
	released    bool      // the time limit for the ACK has passed
	origins     []origin  // of the responses that are not acknowledged, the oldest first

	listed listed // of the state-of-the-world form
	told   uint64 // nonce of the last response with more in it than heartbeats
	// What the client takes for the version of what it holds, in the state-of-the-world
	// form: it says so itself when it rejects a response.
	holds string

	// Of a stream that moved: the client was given all that there was at the time when the
	// last response was this one; the last one when its lists had nothing of another scope
	// any more; and the version that it held, which must not be that of anything else.
	given    bool
	givenAt  uint64
	listedAt uint64
	avoids   string
	unserved map[string]struct{} // names of an incremental client that no upstream is for (LOC-4)

	systemVersion string     // of the last response
	status        TypeStatus // guarded by stream.mu
}

// origin is where a response came from: the store, and the number of its youngest
// change there.
type origin struct {
	nonce, change uint64
	store         *cache.Store
}

// maxOrigins bounds what is kept for a client that acknowledges nothing.
const maxOrigins = 4 * maxParts

// from gives the origin of a response that is acknowledged now, and forgets it and
// those before it.
func (t *typeState) from(nonce uint64) (o origin, ok bool) {
	for i, o := range t.origins {
		if o.nonce >= nonce {
			ok = o.nonce == nonce
			if ok {
				i++
			}
			t.origins = append(t.origins[:0], t.origins[i:]...)
			return o, ok
		}
	}
	t.origins = t.origins[:0]
	return origin{}, false
}

// busy reports whether an acknowledgement is awaited.
func (t *typeState) busy() bool { return t.acked < t.sent && !t.released }
