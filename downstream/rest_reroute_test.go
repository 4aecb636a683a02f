package downstream

import (
	"net/http"
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

func TestRESTReroute_REST1_ACK4_AGG2(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  func(h *harness)
	}{
		{"REST-1 a held poll is answered if its content differs", func(h *harness) {
			h.opaque.real(clusterType, "1", "a")
			h.other.real(clusterType, "2", "a")
			p := h.poller(clusterPath)
			p.poll().accepts("200 a=1")
			h.opaque.settle()
			p.poll().isHeld()
			h.moveTo(h.other)
			p.isHeld() // whether this is all is not known
			h.advance(mergeTime)
			p.isHeld()
			h.late()
			p.accepts("200 a=2")
			if h.seen.count("moved") != 1 {
				h.Error("the move was not counted")
			}
		}},
		{"REST-1 a held poll is not answered if its content is the same", func(h *harness) {
			h.opaque.real(endpointType, "1", "a")
			h.other.real(endpointType, "1", "a")
			p := h.poller(endpointPath, "a")
			p.poll().accepts("200 a=1")
			p.poll().isHeld()
			h.moveTo(h.other)
			h.advance(mergeTime)
			p.isHeld()
			if s := h.status(); s.Moved != 1 {
				h.Errorf("moved %d times", s.Moved)
			}
			h.other.real(endpointType, "2", "a")
			p.accepts("200 a=2")
		}},
		{"ACK-4 equal names and versions are not taken for the same", func(h *harness) {
			h.opaque.real(endpointType, "1", "a")
			h.other.real(endpointType, "1", "a")
			other := h.other.exists[endpointType]["a"]
			h.other.real(endpointType, "9", "a")
			changed := h.other.exists[endpointType]["a"]
			changed.Version = other.Version
			h.other.put(endpointType, changed)
			p := h.poller(endpointPath, "a")
			p.poll().accepts("200 a=1")
			p.poll().isHeld()
			h.moveTo(h.other)
			h.advance(mergeTime)
			p.accepts("200 a=9")
			h.moveTo(h.opaque) // between two polls
			p.poll().accepts("200 a=1")
		}},
		{"REST-1 a poll that is moved on and back before anything is known is not answered", func(h *harness) {
			h.opaque.real(endpointType, "1", "a")
			p := h.poller(endpointPath, "a")
			p.poll().accepts("200 a=1")
			p.poll().isHeld()
			h.moveTo(h.other)
			h.advance(mergeTime)
			p.isHeld()
			h.moveTo(h.opaque)
			h.advance(mergeTime)
			p.isHeld()
		}},
		{"REST-1 a poll that is moved to where its version is from is not answered", func(h *harness) {
			h.other.real(endpointType, "1", "a")
			h.moveTo(h.other)
			p := h.poller(endpointPath, "a")
			p.poll().accepts("200 a=1")
			h.moveTo(h.opaque) // between two polls
			p.poll().isHeld()
			h.moveTo(h.other)
			h.advance(mergeTime)
			p.isHeld()
		}},
		{"REST-1 a poll that is moved before anybody has looked at it counts as a new one", func(h *harness) {
			h.opaque.real(endpointType, "1", "a")
			p := h.poller(endpointPath, "a")
			p.poll().accepts("200 a=1")
			stores := []*cache.Store{h.other.store, h.opaque.store}
			h.reroute(func(r *testRouter) {
				r.byName = func(string, string) (*cache.Store, error) {
					store := stores[0]
					if len(stores) > 1 {
						stores = stores[1:]
						r.plan++
						h.server.Reroute()
					}
					return store, nil
				}
			})
			p.poll().isHeld()
			h.advance(mergeTime)
			p.isHeld()
		}},
		{"ACK-4 what comes from elsewhere has no version that the client has", func(h *harness) {
			h.opaque.real(endpointType, "1", "a")
			h.a.real(endpointType, "9", "a")
			changed := h.a.exists[endpointType]["a"]
			changed.Version = h.opaque.exists[endpointType]["a"].Version
			h.a.put(endpointType, changed)
			p := h.poller(endpointPath, "a")
			had := p.poll().accepts("200 a=1")
			p.poll().isHeld()
			h.moveTo(h.a) // whose digests do not say of what scope they are
			h.advance(mergeTime)
			if r := p.accepts("200 a=9"); r.VersionInfo == had.VersionInfo {
				h.Errorf("both have the version %q", r.VersionInfo)
			}
		}},
		{"a plan that changes nothing for a poll", func(h *harness) {
			h.opaque.real(endpointType, "1", "a")
			p := h.poller(endpointPath, "a")
			p.poll().accepts("200 a=1")
			p.poll().isHeld()
			h.reroute(func(*testRouter) {})
			h.advance(mergeTime)
			p.isHeld()
			if h.seen.count("moved") != 0 {
				h.Error("a move was counted")
			}
			h.opaque.real(endpointType, "2", "a")
			p.accepts("200 a=2")
		}},
		{"AGG-2 refused by the new plan", func(h *harness) {
			h.opaque.real(endpointType, "1", "a")
			p := h.poller(endpointPath, "a")
			p.poll().accepts("200 a=1")
			p.poll().isHeld()
			refusal := &rules.RefusedError{Rule: "none"}
			h.reroute(func(r *testRouter) {
				r.byName = func(string, string) (*cache.Store, error) { return nil, refusal }
			})
			p.refusedWith(http.StatusForbidden, refusal.Error())
		}},
	} {
		t.Run(tt.name, func(t *testing.T) { restBubble(t, tt.run) })
	}
}
