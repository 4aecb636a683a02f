package downstream

import (
	"context"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

// acknowledge takes an ACK or a NACK: error_detail tells them apart (ACK-1).
// Either way the response is done with: what was rejected is not sent again until
// its content changes (ACK-3). n is the response's number, zero if it has none.
func (st *stream) acknowledge(t *typeState, r *discoveryRequest, n uint64) {
	if n <= t.acked || n > t.sent {
		return // stale, or never given: a client may say so as often as it likes
	}
	st.hasRead(n)
	now := time.Now()
	rejected := r.rejection != nil
	if rejected {
		st.rejects(t, true)
		st.server.observer.Nacked(t.url)
		level := st.server.rejected.level(t.url, st.id)
		st.log(level).Log(context.Background(), level, "client rejected a response", "type", t.url, "nonce", n, "reason", reason(r.rejection))
		st.nacked(t, r, now)
	}
	t.acked = n
	st.settle(t, r, t.landed(n))
	if n < t.sent {
		return
	}
	if rejected {
		t.holds = r.versionInfo
	}
	if !t.received.IsZero() {
		st.server.observer.Acknowledged(t.url, now.Sub(t.received))
		t.received = time.Time{}
	}
	if !rejected {
		st.acked(t)
		st.reconsider(t)
	}
}

// rejects counts the client as one that rejects something of a type, or not any more.
func (st *stream) rejects(t *typeState, now bool) {
	switch {
	case now == t.rejecting:
	case now:
		st.server.observer.Rejecting(t.url, 1)
	default:
		st.server.observer.Rejecting(t.url, -1)
	}
	t.rejecting = now
}

// reconsider counts the client no longer as one that rejects something of a type, if it has
// answered everything and nothing is left of what it rejected: the content is another one by
// now, or gone, or the client does not subscribe to it any more.
func (st *stream) reconsider(t *typeState) {
	if t.rejecting && t.acked == t.sent && (st.places == nil || !st.places.Rejects(t.url)) {
		st.rejects(t, false)
	}
}

// settle tells the stores what became of a response, nil if nothing is known of it.
func (st *stream) settle(t *typeState, r *discoveryRequest, b *cache.Batch) {
	if r.rejection == nil {
		st.server.observer.Acked(t.url)
	}
	if b == nil || b.Store == nil {
		return
	}
	place := st.places.Place(b.Store)
	if r.rejection == nil {
		if st.places.Accepted(place, b) {
			st.calm = false
		}
		return
	}
	st.routes.Rejected(b.Store, t.url, b.Last, st.status.node+": "+reason(r.rejection))
	st.places.Rejected(place, b)
	st.calm = false // what of it is good is sent again (ACK-3)
}
