package downstream

import (
	"context"
	"log/slog"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

// loudRejections is how many rejections of one client, of one type, are worth a warning
// each. A client may go on for ever; what it says is counted, and the last is shown on
// the admin port (ACK-7).
const loudRejections = 8

// rejectionLevel is the level at which a client's rejection is logged that comes after
// others.
func rejectionLevel(before int64) slog.Level {
	if before < loudRejections {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

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
		st.server.observer.Nacked(t.url)
		level := rejectionLevel(t.status.Nacks)
		st.log(level).Log(context.Background(), level, "client rejected a response", "type", t.url, "nonce", n, "reason", clip(r.rejection.GetMessage()))
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
	st.routes.Rejected(b.Store, t.url, b.Last, st.status.node+": "+clip(r.rejection.GetMessage()))
	st.places.Rejected(place, b)
	st.calm = false // what of it is good is sent again (ACK-3)
}
