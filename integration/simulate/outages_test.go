package simulate

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

// guardHold is guard.hold where the guard is on. The planes are empty for a shorter time.
const (
	guardHold = 40 * time.Second
	emptyTime = 30 * time.Second
)

// guardOf is what the seed makes of the guard. With the default it has too few resources to hold any.
func (s *simulation) guardOf(g *config.Guard) {
	if s.choices.guard {
		g.AtLeast, g.Hold = 1, config.Duration(guardHold)
	}
}

// newsIn is how long news may take that the guard may hold.
func (s *simulation) newsIn() time.Duration {
	if s.choices.guard {
		return newsWithin + 2*guardHold
	}
	return newsWithin
}

// emptyPlanes has all control planes come back empty, and complete later. With the guard nobody loses
// anything by that: no control plane counts as having been without it.
func (s *simulation) emptyPlanes(o op) {
	if s.choices.guard && o.c%4 > 0 { // nothing else is wrong, and all is known
		s.undoAll()
		s.releaseAll()
		s.passAlone(afresh + 5*time.Second)
	}
	some := slices.DeleteFunc(slices.Clone(s.planes[:]), func(p *server) bool { return !p.up })
	spared := len(some) == len(s.planes) && s.guards()
	s.note("the guard can hold that: %t", spared)
	for _, p := range some {
		s.stop(p)
	}
	lost := s.lost
	after := o
	after.dur = time.Duration(o.c%3000) * time.Millisecond
	s.later(after, func() {
		for _, p := range some {
			p.lags = true
			s.contents.empty(p.host, p.plane, spared && s.lost == lost)
			s.serve(p)
		}
		over := o
		over.dur = guardHold
		s.later(over, s.unguarded)
		end := o
		end.dur = min(o.dur, emptyTime)
		s.later(end, func() {
			n := s.heldNames(s.relays[0], "guard")
			s.count("names held by the guard", n)
			s.note("%d names are held by the guard", n)
			for _, p := range some {
				s.catchUp(p)
			}
		})
	})
}

// guards reports whether the first tier is in a state in which the guard holds the loss of everything: it
// has known all for a while, holds nothing yet, and is told in whole responses.
func (s *simulation) guards() bool {
	if !s.choices.guard || s.choices.behaviour.PerResponse > 0 || len(s.undone) > 0 {
		return false
	}
	for _, r := range s.everyRelay() {
		if r.tier == 0 && (!r.runs() || r.evicts() || time.Since(r.streamsSince()) < afresh || s.heldNames(r, "guard") > 0) {
			return false
		}
	}
	return true
}

// unguarded notes that a relay has lost what it knew: from now on the control planes are without what
// they lost.
func (s *simulation) unguarded() {
	s.lost++
	for _, p := range s.planes {
		s.contents.admit(p.host)
	}
}

// evicts reports whether the relay has no room for what no client wants.
func (p *relayProcess) evicts() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settings/3%2 == 1
}

// deleteMost has the control planes delete most of a type. An operator may release that.
func (s *simulation) deleteMost(o op) {
	kinds := []string{plane.Cluster, plane.Endpoints, plane.Listener}
	s.spread(s.contents.shrink(kinds[o.a%len(kinds)], uint64(o.b)))
	s.later(o, func() {
		for _, r := range s.everyRelay() {
			s.count("names held by the guard", s.heldNames(r, "guard"))
			if o.c%2 == 0 && r.runs() {
				s.unguarded()
				if _, code := s.post(r, "/release", &admin.Command{Guard: true}); code != http.StatusOK {
					s.fail("relay %s: /release: %d", r.host, code)
				}
			}
		}
	})
}

// aloneTime is how long a relay may take to serve clients from its peer.
const aloneTime = 20 * time.Second

// leaveAlone has all control planes away while a relay of the first tier loses its disk, and its clients forget
// everything. From its peer they get what that knows.
func (s *simulation) leaveAlone(o op) {
	if s.twin == nil {
		return
	}
	r, peer := s.relays[0], s.twin
	if o.a%2 == 0 {
		r, peer = peer, r
	}
	if o.c%4 > 0 { // nothing else is wrong, and all is known
		s.undoAll()
		s.passAlone(afresh + aloneTime)
		o.dur = max(o.dur, aloneTime+10*time.Second)
	}
	calm := len(s.undone) == 0 && r.runs() && peer.runs() && !r.evicts() && !peer.evicts() && time.Since(peer.streamsSince()) > afresh
	some := slices.DeleteFunc(slices.Clone(s.planes[:]), func(p *server) bool { return !p.up })
	for _, p := range some {
		s.stop(p)
	}
	s.later(o, func() {
		for _, p := range some {
			s.disturb()
			s.serve(p)
		}
	})
	s.passAlone(time.Second)
	known := s.knownTo(peer)
	s.crashRelay(r, op{id: o.id, at: o.at, dur: time.Second, kind: opCrash, b: loseDisk})
	var fresh []*client
	for _, c := range s.clients {
		if c.at == r.host && c.n%2 == o.b%2 {
			c.end()
			c.start()
			fresh = append(fresh, c)
		}
	}
	s.passAlone(min(o.dur, aloneTime))
	s.note("the time alone is over: calm %t", calm)
	s.count("taken from peers", taken(r))
	if !calm || o.dur < aloneTime || s.failed() {
		return
	}
	for _, c := range fresh {
		c.servedBy(peer, known)
	}
}

// undoAll ends all operations that last.
func (s *simulation) undoAll() {
	for len(s.undone) > 0 {
		u := s.undone[0]
		s.undone = s.undone[1:]
		s.note("end of %s", u.what)
		u.do()
	}
}

// passAlone lets time pass in which no other operation begins.
func (s *simulation) passAlone(by time.Duration) {
	s.leapt += by
	s.until(time.Now().Add(by))
}

// servedBy looks whether a client that knew nothing got what the peer of its relay knew, while no control
// plane is there. What a client got counts that begins anew and forgets it whenever one of its streams or
// polls ends, as one for a secret does that nobody knows (ABS-2).
func (c *client) servedBy(peer *relayProcess, known map[knownName]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := operated{known: known}
	for k := range c.sim.contents.everything() {
		wanted, _ := c.covers(k)
		if !wanted || passesHolds(k) || !h.knows(c, k) || c.paused {
			continue
		}
		if !c.served[k] {
			c.fault("%s %s is known to %s, which is a peer, and the client has not got it (SUR-1)", keyer.ShortName(k.TypeURL), k.Name, peer.host)
			return
		}
		c.sim.count("served by peers", 1)
	}
}

// taken is how many resources a relay took from its peers.
func taken(r *relayProcess) int {
	text, _ := r.get("/metrics")
	_, rest, _ := strings.Cut(text, "\nxdsrelay_peer_taken_resources_total ")
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseFloat(line, 64)
	if err != nil {
		return 0
	}
	return int(n)
}

// hosts are those of the control planes.
func (c *contents) hosts() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.planes))
}

// lackedIn reports whether any control plane was without a resource at some time after a moment.
func lackedIn(lacked map[string]span, hosts []string, k plane.Key, since time.Time) bool {
	return slices.ContainsFunc(hosts, func(host string) bool {
		x, ok := lacked[lackKey(host, k)]
		return ok && (x.until.IsZero() || x.until.After(since))
	})
}

// empty empties a control plane that is stopped. Where that is spared it counts as having what it had, but
// for what no guard holds.
func (c *contents) empty(host string, p *plane.Plane, spared bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.planes[host]
	c.admitLocked(host)
	at.spared = make(map[plane.Key]bool)
	for k := range at.now {
		if spared && !passesHolds(k) {
			at.spared[k] = true
		} else {
			c.lackLocked(host, k)
		}
	}
	at.now = make(state)
	p.Forget()
}

// admit ends that a control plane counts as having what it lost.
func (c *contents) admit(host string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.admitLocked(host)
}

func (c *contents) admitLocked(host string) {
	at := c.planes[host]
	for k := range at.spared {
		c.lackLocked(host, k)
		if at.now[k] != nil {
			c.hasLocked(host, k)
		}
	}
	at.spared = nil
}

// everything is every name that there is.
func (c *contents) everything() map[plane.Key]bool {
	all := make(map[plane.Key]bool)
	for k := range c.latest() {
		all[k] = true
	}
	return all
}

// shrink removes most of a type at once.
func (c *contents) shrink(typeURL string, how uint64) string {
	return c.change(func(next state) string {
		var all []string
		for _, name := range universe(typeURL) {
			k := plane.Key{TypeURL: typeURL, Name: name}
			if next[k] != nil && chance(how, typeURL, name)%6 > 0 && (typeURL != plane.Cluster || !leadsTo(next, name)) {
				delete(next, k)
				all = append(all, name)
			}
		}
		if len(all) == 0 {
			return ""
		}
		return "delete " + keyer.ShortName(typeURL) + " " + strings.Join(all, ", ")
	})
}
