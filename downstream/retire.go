package downstream

import (
	"time"

	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/xds"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrRetired ends the streams of connections that have reached their age (SUR-4).
var ErrRetired = status.Error(codes.Unavailable, "the connection has reached its greatest age: connect again")

// retire has a stream end as soon as it can, or cuts it off if it could not for too long.
func (st *stream) retire() {
	now := time.Now()
	since, before := st.shared.retirements.begin(st.standing.id, now)
	switch {
	case st.link.end.Load() != nil: // it may have been forgotten before
		st.shared.retirements.end(st.standing.id)
	case !before:
		st.owner.retires.Store(true)
		st.standing.edit(func() { st.standing.leaving = true })
		st.shared.observer.Retired(st.variant.String())
		st.ring()
	case now.Sub(since) >= st.shared.limits.Load().retirement():
		_ = st.link.close(ErrRetired)
	}
}

// retired gives the status with which a stream ends that is to end, if it can now: nothing is on its
// way to the client, and nothing waits for a time that comes soon. A client takes the end of a stream
// without a response for a failure of the relay: Envoy waits longer each time, up to half a minute, until
// it connects again. So one that has had nothing to be told gets an empty response first.
func (st *stream) retired(more bool, next time.Time) error {
	if !st.owner.retires.Load() || more {
		return nil
	}
	if soon := time.Now().Add(st.shared.limits.Load().retirement()); !next.IsZero() && next.Before(soon) {
		return nil
	}
	for _, t := range st.types.list {
		if !t.flow.idle() || t.refusals.due() {
			return nil
		}
	}
	if st.nonces.last == 0 {
		return st.confirm()
	}
	return ErrRetired
}

// confirm sends a response without anything to an incremental client that presented what it holds, of a type that
// it did so for. Other clients may wait for their first response, and would take this one for it (ABS-2).
// A list of the state of the world that is empty means something else (RES-2).
func (st *stream) confirm() error {
	for _, t := range st.types.list {
		if t.presented && t.status.Subscriptions > 0 {
			return st.send(&delivery.Batch{TypeURL: t.url, Rank: xds.RankOf(t.url)})
		}
	}
	return nil
}
