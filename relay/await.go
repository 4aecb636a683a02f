package relay

import (
	"context"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/relay/load"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// await waits until something is wanted of a new session, and then until its control plane may be asked (LIM-2): a
// stream that a reload moves looks at its next session, and asks for nothing there. No feed has the store settle before
// that, and it may hold what a snapshot had: so ttls run out and freezes end meanwhile. The error is that of ctx.
func (h *hub) await(ctx context.Context, from load.From, s *session) error {
	store := s.store.Session()
	h.settle(ctx, s, func() bool { return store.Wanted() > 0 })
	return h.admission.Begin(ctx, from, func(ctx context.Context) {
		s.client.wait(time.Now())
		defer s.client.wait(time.Time{})
		observeTurns(h.planeOf(s.key).observer, &s.turned).StateChanged(upstream.StateWaiting)
		h.settle(ctx, s, func() bool { return false })
	})
}

// settle has the store of a session settle whenever it is time, until ctx ends or something has happened to it.
func (h *hub) settle(ctx context.Context, s *session, happened func() bool) {
	if h.panics.Do(logs.PartStore, func() { s.settle(ctx, happened) }) != nil {
		h.suspect(s.store)
	}
}

func (s *session) settle(ctx context.Context, happened func() bool) {
	for store := s.store.Session(); !happened(); {
		var due <-chan time.Time
		if at := store.Settle(time.Now()); !at.IsZero() {
			due = time.After(time.Until(at))
		}
		select {
		case <-ctx.Done():
			return
		case <-store.DemandChanged(): // or it is to be asked anew when to settle
		case <-due:
		}
	}
}
