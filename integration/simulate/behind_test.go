package simulate

import (
	"maps"
	"math/rand/v2"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// opBehind has the peer of a relay miss news, and then all control planes away, while clients of the relay want
// more than it knows: it asks its peer, which has older contents of what the relay knows (SUR-1).
const opBehind kind = "peer-behind"

// mostBehind is how many of these a seed with peers has at most.
const mostBehind = 1

// behindOf are the operations of this kind. What else a seed does is the same without them.
func behindOf(seed uint64, id int, before time.Duration) []op {
	if !choicesOf(seed).peers {
		return nil
	}
	r := rand.New(rand.NewPCG(seed, 5))
	var all []op
	for range r.IntN(mostBehind + 1) {
		at := 20*time.Second + time.Duration(r.Int64N(int64(before)))
		all = append(all, op{
			id: id + len(all), at: at.Round(time.Millisecond), kind: opBehind,
			dur: aloneTime + time.Duration(r.Int64N(int64(operatedTime))).Round(time.Millisecond),
			a:   r.IntN(1 << 16), b: r.IntN(1 << 16), c: r.IntN(1 << 16),
		})
	}
	return all
}

// nobodys is a name of endpoints that do not exist. Only clients of the relay that asks its peer want it.
const nobodys = "nobodys"

// ahead is what a relay knows of the last state, while its peer has older contents. Guarded by the simulation's
// mu.
type ahead struct {
	host  string
	known operated         // only its known
	held  map[string]state // what its clients held, by their cluster: the last contents
}

// leaveBehind carries the operation out.
func (s *simulation) leaveBehind(o op) {
	if s.twin == nil {
		return
	}
	r, peer := s.twin, s.relays[0] // the second tier wants globs of the first relay
	s.undoAll()
	s.releaseAll()
	for _, c := range s.clients {
		switch c.at {
		case r.host:
			s.wantMembers(c)
		case peer.host:
			s.wantAll(c)
		}
	}
	s.crashRelay(r, op{id: o.id, at: o.at, dur: time.Second, kind: opCrash, b: loseDisk})
	s.passAlone(afresh + aloneTime)
	if s.failed() || !r.runs() || !peer.runs() || r.evicts() || peer.evicts() || s.heldNames(r, "guard") > 0 {
		return
	}
	cut := func(do func(from, to string)) {
		for _, p := range s.planes {
			do(peer.host, p.host)
			do(p.host, peer.host)
		}
	}
	cut(s.network.sever)
	for _, typeURL := range []string{plane.Endpoints, plane.Cluster, plane.Listener, plane.Route} {
		for i, name := range universe(typeURL) {
			if (i+o.c)%3 > 0 {
				s.spread(s.contents.set(typeURL, name))
			}
		}
	}
	s.passAlone(afresh) // some poll
	for _, p := range s.planes {
		s.stop(p)
	}
	known, before := s.knownTo(r), s.askedOf(peer)
	s.mu.Lock()
	s.ahead = &ahead{host: r.host, known: operated{known: known}, held: s.heldAt(r)}
	s.mu.Unlock()
	had := taken(r)
	s.passAlone(3 * time.Second)
	for _, c := range s.clients {
		if c.at == r.host && c.n%2 == o.b%2 {
			s.wantAll(c)
			if !c.form.rest {
				c.subscribe(plane.Endpoints, nobodys, true)
			}
		}
	}
	s.passAlone(aloneTime)
	s.count("taken from a peer that is behind", taken(r)-had)
	s.judgeDemand(peer, before)
	for _, c := range s.clients {
		c.subscribe(plane.Endpoints, nobodys, false)
	}
	s.mu.Lock()
	s.ahead = nil
	s.mu.Unlock()
	for _, p := range s.planes {
		s.disturb()
		s.serve(p)
	}
	cut(s.network.mend)
	s.passAlone(afresh)
}

// heldAt lists the last contents that clients of a relay hold, for each cluster of clients.
func (s *simulation) heldAt(r *relayProcess) map[string]state {
	held := make(map[string]state)
	for _, c := range s.clients {
		if c.at != r.host {
			continue
		}
		if held[c.cluster] == nil {
			held[c.cluster] = make(state)
		}
		now := held[c.cluster]
		c.mu.Lock()
		for k := range s.contents.everything() {
			if h, ok := c.xds.Get(k.TypeURL, k.Name); ok && h.Resource != nil {
				if x := s.contents.find(h.Resource.Any()); x != nil && (now[k] == nil || now[k].born.Before(x.born)) {
					now[k] = x
				}
			}
		}
		c.mu.Unlock()
	}
	return held
}

// wantMembers has a client want members of globs by their names, and no glob: its relay does not know who else there is.
func (s *simulation) wantMembers(c *client) {
	for _, typeURL := range []string{plane.Cluster, plane.Listener, plane.Endpoints} {
		for _, name := range globs(typeURL) {
			c.subscribe(typeURL, name, false)
		}
		for i, name := range universe(typeURL) {
			if keyer.GlobOf(name) != "" && i%2 == 0 {
				s.mu.Lock()
				s.names[plane.Key{TypeURL: typeURL, Name: name}] = true
				s.mu.Unlock()
				c.subscribe(typeURL, name, true)
			}
		}
	}
}

// wantAll has a client want all globs, and all endpoints and routes.
func (s *simulation) wantAll(c *client) {
	for _, typeURL := range []string{plane.Cluster, plane.Listener, plane.Endpoints, plane.Route} {
		names := globs(typeURL)
		if typeURL == plane.Endpoints || typeURL == plane.Route {
			names = append(names, universe(typeURL)...)
		}
		for _, name := range names {
			s.mu.Lock()
			s.names[plane.Key{TypeURL: typeURL, Name: name}] = true
			s.mu.Unlock()
			c.subscribe(typeURL, name, true)
		}
	}
}

// judgeAhead holds content to what the client's relay knew before it asked its peer: what that knows replaces
// nothing (SUR-1).
func (c *client) judgeAhead(x *thing) {
	c.sim.mu.Lock()
	a := c.sim.ahead
	c.sim.mu.Unlock()
	if a == nil || c.at != a.host || passesHolds(x.key()) {
		return
	}
	last := a.held[c.cluster][x.key()]
	if last == nil || !a.known.knows(c, x.key()) {
		return
	}
	c.sim.count("judged while a peer is behind", 1)
	if x.born.Before(last.born) {
		c.fault("%s came, which only a peer has, and the relay knew %s (SUR-1)", x, last)
	}
}

// askedOf lists what a relay has entries of, with content or without.
func (s *simulation) askedOf(r *relayProcess) map[knownName]bool {
	var all []struct {
		Scope   string `json:"scope"`
		TypeURL string `json:"type_url"`
		Name    string `json:"name"`
		Kind    string `json:"kind"`
	}
	page(r, "/resources", &all)
	asked := make(map[knownName]bool)
	for _, x := range all {
		asked[knownName{x.Scope, x.Kind, plane.Key{TypeURL: x.TypeURL, Name: x.Name}}] = true
	}
	return asked
}

// judgeDemand looks whether a relay that was asked by its peer wants more than before of its control planes, which
// none of its clients wants (SUR-1): a peer answers from memory, which ends loops.
func (s *simulation) judgeDemand(r *relayProcess, before map[knownName]bool) {
	asked := s.askedOf(r)
	maps.DeleteFunc(asked, func(k knownName, _ bool) bool { return before[k] })
	for k := range asked {
		wanted := false
		for _, c := range s.clients {
			if c.at == r.host || c.tier == 1 && r == s.relays[0] {
				wanted = wanted || c.wants(k.Key)
			}
		}
		if !wanted {
			s.fail("relay %s has %s %s, which only its peer asked for", r.host, keyer.ShortName(k.TypeURL), k.Name)
			return
		}
	}
}

// wants reports whether the client wants a resource.
func (c *client) wants(k plane.Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted, _ := c.covers(k)
	return wanted
}
