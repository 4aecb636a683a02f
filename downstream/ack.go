package downstream

import (
	"context"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/verdict"
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
		st.tell(t, b, verdict.Word{Kind: verdict.Accepted})
		if st.places.Accepted(place, b) {
			st.calm = false
		}
		return
	}
	parts := st.places.Rejected(place, b)
	st.tell(t, b, verdict.Word{Kind: verdict.Rejected, Parts: parts, Reason: st.status.node + ": " + reason(r.rejection)})
	st.calm = false // what of it is good is sent again (ACK-3)
}

// tell tells the control planes of which a response has content what became of it (ACK-7).
// Of a list that has something new of several, nobody knows which of them a rejection is for.
func (st *stream) tell(t *typeState, b *cache.Batch, w verdict.Word) {
	if !st.routes.Listens() {
		return
	}
	w.TypeURL, w.Client = t.url, st.id
	var room [1]cache.Part
	parts := b.Parts(room[:0])
	if w.Kind == verdict.Rejected && len(parts) > 1 {
		return
	}
	for _, part := range parts {
		w.Of, w.Open = part.Content, 0
		if w.Kind == verdict.Accepted {
			w.Open = t.open(part.Store)
		}
		st.routes.Tell(part.Store, w)
	}
}

// open is the lowest change of a store's content in the responses that are not acknowledged;
// zero if there is none.
func (t *typeState) open(store *cache.Store) (lowest uint64) {
	var room [1]cache.Part
	for i := range t.flights {
		for _, part := range t.flights[i].batch.Parts(room[:0]) {
			if part.Store == store && (lowest == 0 || part.Content.First < lowest) {
				lowest = part.Content.First
			}
		}
	}
	return lowest
}
