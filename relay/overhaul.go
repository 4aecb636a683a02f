package relay

import (
	"maps"
	"reflect"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/relay/resolve"
)

// overhaul is what another configuration does to the hub: prepared first, so that
// whatever may fail has done so before anything is changed.
type overhaul struct {
	router  *router
	plan    *plan                      // that routes by
	planes  map[string]*plane          // those that there are then
	configs map[string]config.Upstream // what each of them is configured as
	changed map[*plane]*plane          // planes that are reached in another way: what is taken over from whom
	added   []*plane                   // those that there were not; some have another's name
	linger  time.Duration
	scopes  int     // limits.scopes
	share   float64 // limits.share
	resolve resolve.Settings
}

// discard gives back what was prepared.
func (o *overhaul) discard() {
	for _, p := range slices.AppendSeq(o.added, maps.Values(o.changed)) {
		p.upstream.Close()
		p.forget()
	}
}

// refill is a session that gets another feed, and the node that it shows then.
type refill struct {
	session *session
	feed    feed
	node    *corev3.Node
}

// carryOut changes the hub. The error says why a session could not go on; nothing was
// changed then. obsolete is to be closed by the caller, who holds no lock: what the
// changed planes were reached through.
func (h *hub) carryOut(o *overhaul) (obsolete []origin, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errClosed
	}
	refills, err := o.refills(h)
	if err != nil {
		return nil, err
	}
	for p, next := range o.changed {
		obsolete = append(obsolete, p.upstream)
		p.upstream, p.files, p.servers = next.upstream, next.files, next.servers
		next.forget() // p has them
	}
	for _, r := range refills {
		r.session.node = r.node
		r.session.client.replace(r.feed)
	}
	o.resetLoads(h) // when the feeds are the new ones: a stream that is opened after it goes the new way
	h.node = o.plan.node
	o.retime(h)
	o.respeak(h)
	o.router.adopt(o.plan)
	before := h.planes
	h.planes = o.planes
	for _, p := range before {
		if o.planes[p.name] != p {
			h.retire(p)
		}
	}
	h.endUseless()
	h.room.most, h.room.share = o.scopes, o.share
	if h.linger != o.linger {
		h.relinger(o.linger)
	}
	o.resettle(h)
	return obsolete, nil
}

// resetLoads forgets whether the control planes that are new, or are reached in another way, take
// load reports (LRS-2). Those that are none any more tell it to nobody. The caller holds the hub's mu.
func (o *overhaul) resetLoads(h *hub) {
	for _, p := range h.planes {
		if o.planes[p.name] != p {
			p.gate.Retire()
		}
	}
	for p := range o.changed {
		p.gate.Reset()
	}
	for _, p := range o.added {
		p.gate.Reset()
	}
}

// refills opens new feeds for the sessions whose control plane is reached in another way,
// or is shown another node. They do nothing until they are run. The caller holds the hub's mu.
func (o *overhaul) refills(h *hub) ([]refill, error) {
	var refills []refill
	for _, s := range h.sessions {
		p, node := s.key.of, s.node
		if p == nil || o.planes[p.name] != p {
			continue
		}
		from, changed := p.upstream, false
		if next := o.changed[p]; next != nil {
			from, changed = next.upstream, true
		}
		if now := s.shown.node(forwarding(o.plan.node, s.key.forwarded)); !proto.Equal(now, node) {
			node, changed = now, true
		}
		if !changed {
			continue
		}
		f, err := h.open(s, from, node, 0)
		if err != nil {
			return nil, err
		}
		refills = append(refills, refill{s, f, node})
	}
	return refills, nil
}

// retime notes what the planes are configured as, and has the stores go by their clocks. The
// caller holds the hub's mu.
func (o *overhaul) retime(h *hub) {
	for name, u := range o.configs {
		p := o.planes[name]
		if p.files == nil {
			setTimes(&p.source, &u)
		}
		p.source.Guard = guardOf(&u, h.secrets)
		same := p.config.Settle == u.Settle && p.config.ResumeSettle == u.ResumeSettle && p.config.AbsentAfter == u.AbsentAfter
		reguard := !reflect.DeepEqual(p.config.Guard, u.Guard)
		p.config = u
		if same && !reguard {
			continue
		}
		for _, s := range h.sessions {
			if s.key.of == p {
				s.store.Session().SetTimes(&p.source)
				s.store.Session().SetGuard(p.source.Guard)
			}
		}
	}
}

// endUseless ends the sessions that nobody uses and nobody will come back to.
func (h *hub) endUseless() {
	for _, s := range slices.Collect(maps.Values(h.sessions)) {
		if s.users == 0 && s.useless() {
			h.end(s)
		}
	}
}

// relinger has the sessions that nobody uses wait as long as sessions do now, from now on.
func (h *hub) relinger(linger time.Duration) {
	h.linger = linger
	for _, s := range h.sessions {
		if s.closer != nil {
			h.closeLater(s)
		}
	}
}

// resettle tells the relay's own resolver what is in force: the plan is by now. The caller
// holds the hub's mu.
func (o *overhaul) resettle(h *hub) {
	if own, ok := h.own.upstream.(*resolving); ok {
		own.config.Settings = o.resolve
	}
	for _, s := range h.sessions {
		if r, ok := s.client.current().(*resolver); ok {
			r.Renew(o.resolve)
		}
	}
}
