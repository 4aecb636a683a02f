package downstream

import (
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
)

// waits is until when a poll waits for more than there is.
type waits struct {
	over     bool     // the time of the poll is over
	forPeers []uint64 // cache.Peers.Wants of its places' stores when they had its names
}

// peersDue reports whether peers are to be asked yet for what a poll wants, while it has time to wait for that.
func (w *waits) peersDue(places []*delivery.Place) bool {
	if w.over {
		return false
	}
	due := false
	for i, c := range places {
		due = c.Store().Peers().Due(w.forPeers[i]) || due
	}
	return due
}
