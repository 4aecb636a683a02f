package relay

import (
	"context"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/contain"
	"github.com/xdsrelay/xdsrelay/relay/load"
)

// await waits until the control plane of a new session may be asked (LIM-2). No feed has the store settle before
// that, and it may hold what a snapshot had: so ttls run out and freezes end meanwhile. The error is that of ctx.
func (h *hub) await(ctx context.Context, from load.From, s *session) error {
	return h.admission.Begin(ctx, from, func(ctx context.Context) {
		if h.panics.Do(contain.Store, func() { s.settle(ctx) }) != nil {
			h.suspect(s.store)
		}
	})
}

// settle has the store settle whenever it is time, until ctx ends.
func (s *session) settle(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for store := s.store.Session(); ; {
		select {
		case <-ctx.Done():
			return
		case <-store.DemandChanged(): // or it is to be asked anew when to settle
		case <-timer.C:
		}
		if at := store.Settle(time.Now()); at.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(at))
		}
	}
}
