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
	near bool // it is the relay that the Envoys are connected to
}

// disturbances are those that there are on the side of a play.
func (w *world) disturbances() []disturbance {
	all := []disturbance{
		{what: "the control plane's streams broke", now: w.plane.BreakStreams},
		{what: "the control plane restarted", now: func() { w.plane.Restart(w.t) }},
	}
	for i, r := range w.relays {
		all = append(all, disturbance{what: "a relay restarted", now: r.restart, near: i == len(w.relays)-1})
	}
	return all
}

// suffer has streams end, and waits until they are there again: an Envoy's, or those that
// a relay has at the control plane.
func (w *world) suffer(d disturbance, e *envoyproc.Envoy) {
	opened, connections := w.plane.Opened(), e.Stat(connectionsStat)
	d.now()
	w.need(soon, "streams are back after "+d.what, func() bool {
		if d.near {
			return e.Stat(connectionsStat) > connections && connected(e)
		}
		return w.plane.Opened() > opened && connected(e)
	})
}

// connectionsStat counts the connections that an Envoy has opened to its server.
const connectionsStat = "cluster.xds.upstream_cx_total"

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
