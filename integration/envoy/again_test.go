package envoy

import (
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
)

// settled is a time in which what was begun anew is told: an Envoy that is to lose
// something wrongly has lost it then.
const settled = 1500 * time.Millisecond

// disturbance is something that ends streams.
type disturbance struct {
	what string
	now  func()
}

// disturbances are those that there are on the side of a play.
func (w *world) disturbances() []disturbance {
	all := []disturbance{
		{"the control plane's streams broke", w.plane.BreakStreams},
		{"the control plane restarted", func() { w.plane.Restart(w.t) }},
	}
	for i := range w.relays {
		all = append(all, disturbance{"a relay restarted", w.relays[i].restart})
	}
	return all
}

// suffer has streams end, and waits until they are there again: an Envoy's directly at
// the control plane, or a relay's, which opens one when an Envoy comes.
func (w *world) suffer(d disturbance, e *envoyproc.Envoy) {
	opened := w.plane.Opened()
	d.now()
	w.need(soon, "the Envoy is back after "+d.what, func() bool { return w.plane.Opened() > opened && connected(e) })
}

// connected reports whether all streams of an Envoy are open.
func connected(e *envoyproc.Envoy) bool {
	states := e.Stats(`control_plane\.connected_state$`)
	for _, v := range states {
		if v != 1 {
			return false
		}
	}
	return len(states) > 0
}
