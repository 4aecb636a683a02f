package delivery

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/anypb"
)

// modelSource is what the modelled control plane speaks.
type modelSource struct {
	state   bool // the state of the world
	full    bool // of which every response is complete
	perType bool
}

func (m modelSource) source(full bool) cache.Source {
	return cache.Source{
		Quiet: time.Second, Absent: time.Second, State: m.state, PerType: m.perType, References: true,
		FullState: map[string]bool{clusterType: full},
	}
}

// stream is the one that the model gives a number.
func (m modelSource) stream(n int) wire.StreamID {
	id := streamOf(n)
	if m.perType {
		id.TypeURL = clusterType
	}
	return id
}

// resource is one as this control plane sends it.
func (m modelSource) resource(name string, c content) *wire.Resource {
	if !m.state {
		return resourceOf(name, c)
	}
	payload, err := anypb.New(&corev3.Address{Address: &corev3.Address_EnvoyInternalAddress{
		EnvoyInternalAddress: &corev3.EnvoyInternalAddress{EndpointId: name + "@" + c.version},
	}})
	if err != nil {
		panic(err)
	}
	payload.TypeUrl = c.typeURL()
	p := &discovery.Resource{Name: name, Resource: payload}
	if c.once {
		p.CacheControl = &discovery.Resource_CacheControl{DoNotCache: true}
	}
	return withTTL(p, c)
}

// version is what clients are shown of a resource.
func (m modelSource) version(name string, c content) string {
	if !m.state {
		return c.version
	}
	return m.resource(name, c).Digest()
}

// subscribeState takes a request in the state of the world: what is newly asked for is
// answered, with everything if the type is complete.
func (m *modelServer) subscribeState(stream int, fresh map[string]bool) {
	st := m.streams[stream]
	if len(fresh) == 0 {
		return
	}
	r := m.world(st, fresh)
	if m.source.full || fresh[cache.Wildcard] || len(r.Resources) > 0 {
		st.say(r)
	}
}

// say puts a response on its way. What it holds is not missing for an error any more
// (ERR-1).
func (st *modelStream) say(r *wire.Response) {
	for _, x := range r.Resources {
		delete(st.failed, x.Name)
	}
	st.states = append(st.states, r)
}

// world is a response: all that is subscribed to if the type is complete, else what
// the names mean.
func (m *modelServer) world(st *modelStream, fresh map[string]bool) *wire.Response {
	st.version = fmt.Sprint("state ", m.states)
	r := &wire.Response{State: true, TypeURL: clusterType, Version: st.version}
	for _, n := range slices.Sorted(maps.Keys(m.exists)) {
		c := m.exists[n]
		if (m.source.full && covered(st.subs, n, c)) || (!m.source.full && covered(fresh, n, c)) {
			r.Resources = append(r.Resources, m.source.resource(n, c))
		}
	}
	return r
}

// setState tells the streams of a change, as far as there is a word for it: the state
// of the world has none for the removal of what is not complete.
func (m *modelServer) setState(name string, old content, had bool) {
	c, has := m.exists[name]
	m.states++
	for _, st := range m.streams {
		if st == nil {
			continue
		}
		was, is := had && covered(st.subs, name, old), has && covered(st.subs, name, c)
		switch {
		case m.source.full && was && !is && st.failed[name]:
			m.respond(st, nil, wire.ResourceError{Name: name, Code: codes.NotFound})
			delete(st.failed, name)
		case m.source.full && (was || is):
			st.say(m.world(st, nil))
		case is:
			st.say(m.world(st, map[string]bool{name: true}))
		}
	}
}

func (m *modelServer) deliverState(stream int) bool {
	st := m.streams[stream]
	if len(st.states) == 0 {
		return false
	}
	r := st.states[0]
	st.states = st.states[1:]
	if err := m.store.Session().Apply(m.source.stream(stream), r, m.now); err != nil {
		m.t.Fatalf("rejected: %v", err)
	}
	return true
}

// holdsRight reports whether a client holds what a direct client would hold: exactly
// that or, where nobody has a word for a removal, that and what does not exist any
// more (RES-8).
func (m *modelServer) holdsRight(holds, want map[string]string) bool {
	if !m.source.state || m.source.full {
		return maps.Equal(holds, want)
	}
	for n, v := range want {
		if holds[n] != v {
			return false
		}
	}
	for n := range holds {
		if _, exists := m.exists[n]; exists && want[n] == "" && keyer.IsXDSTP(n) {
			return false
		}
	}
	return true
}

// forgiveSilence has a client drop what does not exist any more and the relay called unanswered: the
// relay does not know that the control plane ever sent it, and silence removes nothing (RES-7). A list of
// which nothing is known is not sent, and no word with it (ABS-3).
func (m *modelServer) forgiveSilence(c *modelClient) {
	w := c.client.find(clusterType)
	withheld := w != nil && w.lacksAll()
	for key := range c.holds {
		if _, exists := m.exists[key]; m.source.state && !exists && (c.silent[key] || withheld) {
			delete(c.holds, key)
			delete(c.clocks, key)
		}
	}
}

// sayState is say: a full-state type is told with everything, also because of a ttl.
func (m *modelServer) sayState(name string) {
	m.states++
	for _, st := range m.streams {
		if st != nil && covered(st.subs, name, m.exists[name]) {
			st.say(m.world(st, map[string]bool{name: true}))
		}
	}
}

// beatState sends all heartbeats of a stream in one response, without versions, as
// go-control-plane does; the version_info is that of the state that was sent last.
func (m *modelServer) beatState() {
	for _, st := range m.streams {
		if st == nil || st.version == "" {
			continue
		}
		r := &wire.Response{State: true, TypeURL: clusterType, Version: st.version}
		for _, n := range slices.Sorted(maps.Keys(m.exists)) {
			if c := m.exists[n]; c.ttl > 0 && covered(st.subs, n, c) {
				r.Resources = append(r.Resources, withTTL(&discovery.Resource{Name: n}, c))
			}
		}
		if len(r.Resources) > 0 {
			st.states = append(st.states, r)
		}
	}
}

// waitsForGlob reports whether a client that showed a version waits for word of a glob
// (RES-2). A server that is resumed with all that it has says nothing, and its silence
// is no word.
func (c *modelClient) waitsForGlob() bool {
	w := c.client.find(clusterType)
	if c.server.source.state || w == nil || !w.place.schedule().incomplete(w) {
		return false
	}
	for _, g := range w.subs.globs.all {
		if !g.Collection().Synced() {
			return true
		}
	}
	return false
}
