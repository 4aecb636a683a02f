package simulate

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

// The kinds of losses that the guard holds, for its time only, and of those that it lets pass (SUR-3). Each is
// played by itself, when all clients hold what there is, so that the judge knows what has to come when.
const (
	opTake    kind = "take-all"      // the control planes delete all of a type, or most of it
	opDry     kind = "empty-sets"    // all endpoint sets become empty
	opScale   kind = "scale-down"    // endpoint sets go from 40 endpoints to 15
	opRename  kind = "rename"        // the only listener has another name
	opFew     kind = "delete-few"    // a few of many clusters are deleted
	opTrickle kind = "delete-slowly" // one after the other
	opRevoke  kind = "revoke"        // all secrets are deleted
	opExpire  kind = "expire"        // the ttl of all listeners runs out
)

var losses = []kind{opTake, opDry, opScale, opRename, opFew, opTrickle, opRevoke, opExpire}

// mostLosses is how many of these a seed with the guard has at most.
const mostLosses = 2

// lossesOf are the operations of these kinds. What else a seed does is the same without them.
func lossesOf(seed uint64, id int, before time.Duration) []op {
	if !choicesOf(seed).guard {
		return nil
	}
	kinds := append([]kind{opTake, opTake, opDry}, losses...)
	r := rand.New(rand.NewPCG(seed, 6))
	var all []op
	for range r.IntN(mostLosses + 1) {
		at := 20*time.Second + time.Duration(r.Int64N(int64(before)))
		all = append(all, op{
			id: id + len(all), at: at.Round(time.Millisecond), kind: kinds[r.IntN(len(kinds))],
			a: r.IntN(1 << 16), b: r.IntN(1 << 16), c: r.IntN(1 << 16),
		})
	}
	return all
}

const (
	// lossLate is how long after the guard let it go a loss may come to clients of the second tier. It is less than
	// guardHold: a loss is held once on its way.
	lossLate = 35 * time.Second
	// releasedIn is how long a loss may take that an operator released, before its time would be over, or that no guard
	// holds.
	releasedIn = 25 * time.Second
	// releaseAt is when the operator does: a relay that polls has come to know of the loss in all its stores, or the rest
	// would be held for as long as if nobody had released anything.
	releaseAt = 14 * time.Second
)

// lose carries out an operation of these kinds.
func (s *simulation) lose(o op) {
	if !slices.Contains(losses, o.kind) {
		return
	}
	if !s.settled() {
		s.note("not all is settled: %s", s.different())
		return
	}
	for _, p := range s.planes {
		p.plane.Behave(func(b *plane.Behaviour) { b.PerResponse = 0 }) // the guard sees it whole
	}
	switch o.kind {
	case opTake:
		s.takeAll(o)
	case opDry:
		s.runDry(o)
	case opScale:
		s.resize(40)
		if s.follows("sets of 40 endpoints", lossLate) {
			s.resize(15)
			s.passes(plane.Endpoints)
		}
	case opRename:
		s.rename()
	case opFew, opTrickle:
		s.deleteSome(o)
	case opRevoke:
		s.spread(s.contents.set(plane.Secret, "s0"))
		s.spread(s.contents.set(plane.Secret, "s1"))
		if s.follows("the secrets", lossLate) {
			s.spread(s.contents.keepOnly(plane.Secret))
			s.passes(plane.Secret)
		}
	case opExpire:
		s.expire()
	default:
	}
	for _, p := range s.planes {
		p.plane.Behave(func(b *plane.Behaviour) { b.PerResponse = s.choices.behaviour.PerResponse })
	}
}

// settled ends all that is wrong, and waits until all clients hold what there is and the guard can hold the loss of
// it. It reports whether that came to be.
func (s *simulation) settled() bool {
	s.undoAll()
	for _, r := range s.everyRelay() {
		if r.evicts() {
			r.reload(0)
		}
	}
	s.releaseAll()
	s.passAlone(afresh + 5*time.Second)
	for range 120 {
		if s.failed() || s.steady() {
			break
		}
		s.passAlone(time.Second)
	}
	return !s.failed() && s.steady()
}

// steady reports whether all clients hold what there is, and no relay has begun a stream a short while ago, or holds a loss.
func (s *simulation) steady() bool {
	return s.different() == "" && !slices.ContainsFunc(s.everyRelay(), func(r *relayProcess) bool {
		return !r.runs() || time.Since(r.streamsSince()) < afresh || s.heldNames(r, "guard") > 0
	})
}

// follows reports whether all clients hold what there is within a time.
func (s *simulation) follows(what string, most time.Duration) bool {
	begun := time.Now()
	for d := s.different(); d != ""; d = s.different() {
		if s.failed() {
			return false
		}
		if time.Since(begun) > most {
			s.note("after %s not all have %s: %s", most, what, d)
			return false
		}
		s.passAlone(time.Second)
	}
	return true
}

// passes looks whether a change that is no loss reaches all clients at once, and nothing of its type is held.
func (s *simulation) passes(typeURL string) {
	begun := time.Now()
	s.passAlone(time.Second)
	if !s.follows("what passes the guard", releasedIn) && !s.failed() {
		s.fail("%s after %s: %s; that is no loss that is held (SUR-3)", keyer.ShortName(typeURL), time.Since(begun), s.different())
		s.tellAll()
		return
	}
	s.letPass(typeURL, "")
}

// letPass looks whether any guard holds something of a type, in a table of a kind; "": any.
func (s *simulation) letPass(typeURL, kind string) {
	for _, r := range s.everyRelay() {
		for _, x := range s.guarded(r) {
			if x.TypeURL == typeURL && (kind == "" || x.Kind == kind) {
				s.fail("relay %s holds the loss of %s (%s), which is not of the kind that is held (SUR-3)", r.host, keyer.ShortName(typeURL), x.Kind)
				return
			}
		}
	}
	s.count("passed the guard", 1)
}

// guarded is what the guard of a relay holds.
func (s *simulation) guarded(r *relayProcess) []admin.HeldView {
	var held admin.HeldPage
	page(r, "/held", &held)
	return slices.DeleteFunc(held.Held, func(x admin.HeldView) bool { return x.Why != "guard" })
}

// holding is what a client held when a loss began.
type holding struct {
	client *client
	had    map[plane.Key]*thing
	missed plane.Key // when it was looked at last
}

// holdings are those of all clients, of a type.
func (s *simulation) holdings(typeURL string) (all []*holding) {
	for _, c := range s.clients {
		h := &holding{client: c, had: make(map[plane.Key]*thing)}
		for k := range s.contents.everything() {
			if x := c.holds(k); x != nil && k.TypeURL == typeURL && !passesHolds(k) && c.wants(k) {
				h.had[k] = x
			}
		}
		all = append(all, h)
	}
	return all
}

// holds is what the client holds of a name; nil: nothing.
func (c *client) holds(k plane.Key) *thing {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.xds == nil {
		return nil
	}
	h, ok := c.xds.Get(k.TypeURL, k.Name)
	if !ok || h.Resource == nil {
		return nil
	}
	return c.sim.contents.find(h.Resource.Any())
}

// kept looks whether all clients hold until a moment what they held before a loss, also those that come meanwhile. One
// whose stream has just ended may begin anew.
func (s *simulation) kept(all []*holding, until time.Time) {
	for time.Now().Before(until) && !s.failed() {
		s.passAlone(min(5*time.Second, time.Until(until)))
		for _, h := range all {
			missed := plane.Key{}
			for k, x := range h.had {
				if h.client.holds(k) != x {
					missed = k
				}
			}
			if h.missed != (plane.Key{}) && missed != (plane.Key{}) {
				s.fail("%s holds %s instead of %s, the loss of which is held (SUR-3)", h.client, h.client.holds(missed), h.had[missed])
				s.tellAll()
				return
			}
			h.missed = missed
		}
	}
}

// fresh has some clients begin anew.
func (s *simulation) fresh(o op) {
	for _, c := range s.clients {
		if c.n%4 == o.b%4 {
			c.end()
			c.start()
		}
	}
}

// held looks whether what is held since a time is the guard's, of the first tier, and until when.
func (s *simulation) held(began time.Time) {
	for _, r := range s.everyRelay() {
		for _, x := range s.guarded(r) {
			if r.tier > 0 {
				s.fail("relay %s holds a loss of %s once more (SUR-3, STR-10)", r.host, keyer.ShortName(x.TypeURL))
			}
			if least := began.Add(guardHold); x.Until.Before(least) || x.Until.After(x.Since.Add(2*guardHold)) || x.Since.After(time.Now()) {
				s.fail("relay %s holds %s from %s to %s, and lost it at %s (SUR-3)", r.host, keyer.ShortName(x.TypeURL), x.Since, x.Until, began)
			}
		}
	}
}

// ends looks whether a loss that began at a time comes to all clients: when its time is over, or when an operator
// releases it.
func (s *simulation) ends(o op, all []*holding, began time.Time) {
	s.held(began)
	if o.c%2 == 0 {
		s.kept(all, began.Add(guardHold-5*time.Second))
		lacking := s.lacking()
		s.passAlone(time.Until(began.Add(guardHold)))
		if !s.follows("what was held", lossLate) && !s.failed() {
			s.fail("the time of a loss is over since %s, and still: %s (SUR-3)", time.Since(began)-guardHold, s.different())
			s.tellAll()
		}
		s.count("kept until the time was over", lacking)
		return
	}
	s.kept(all, began.Add(releaseAt))
	lacking := s.lacking()
	for _, r := range s.everyRelay() {
		if _, code := s.post(r, "/release", &admin.Command{Guard: true}); code != http.StatusOK {
			s.fail("relay %s: /release: %d", r.host, code)
		}
	}
	if !s.follows("what was released", releasedIn) && !s.failed() {
		s.fail("an operator released a loss, and still: %s (SUR-3)", s.different())
		s.tellAll()
	}
	s.count("kept until a release", lacking)
}

// lacking counts the clients that do not hold what there is: a loss is held from them.
func (s *simulation) lacking() (n int) {
	now := s.contents.latest()
	for _, c := range s.clients {
		if c.differs(now) != "" {
			n++
		}
	}
	return n
}

// takeAll deletes all of a type at once, or most of it. What the guard holds of it ends.
func (s *simulation) takeAll(o op) {
	kinds := []string{plane.Listener, plane.Endpoints, plane.Cluster}
	typeURL := kinds[o.a%len(kinds)]
	all := s.holdings(typeURL)
	began := time.Now()
	if o.a/3%2 == 0 {
		s.spread(s.contents.shrink(typeURL, uint64(o.b)))
		all = nil // which tables lose most of it, nobody knows here
	} else {
		s.spread(s.contents.keepOnly(typeURL))
		if typeURL == plane.Cluster { // those that routes lead to stay
			all = nil
		}
	}
	s.passAlone(2 * time.Second)
	s.fresh(o)
	s.ends(o, all, began)
}

// runDry empties all endpoint sets at once, which counts as a loss of them. It ends as other losses do, or with sets
// that have endpoints again.
func (s *simulation) runDry(o op) {
	s.resize(3)
	if !s.follows("sets with endpoints", lossLate) {
		return
	}
	s.passAlone(afresh) // what the guard held of the sets before
	all := s.holdings(plane.Endpoints)
	began := time.Now()
	s.resize(0)
	s.passAlone(2 * time.Second)
	s.fresh(o)
	if o.a%3 > 0 {
		s.ends(o, all, began)
		return
	}
	s.held(began)
	s.kept(all, began.Add(releaseAt))
	lacking := s.lacking()
	s.resize(5)
	s.passes(plane.Endpoints)
	s.count("kept until it came back", lacking)
}

// resize gives all endpoint sets other contents, with so many endpoints.
func (s *simulation) resize(n int) { s.spread(s.contents.resize(n)) }

// everythingOf lists the clients of the first tier that want all of a type that has no authority, and nothing else of it.
func (s *simulation) everythingOf(typeURL string) (all []*client) {
	for _, c := range s.clients {
		c.mu.Lock()
		subs := maps.Clone(c.subs[typeURL])
		c.mu.Unlock()
		if c.tier == 0 && len(subs) == 1 && subs[xdsclient.Wildcard] {
			all = append(all, c)
		}
	}
	return all
}

// passesTo looks whether a change of a type reaches clients that want all of it, and is not held from them.
func (s *simulation) passesTo(some []*client, typeURL string) {
	now := s.contents.latest()
	begun := time.Now()
	for _, c := range some {
		for d := s.differsIn(c, typeURL, now); d != "" && !s.failed(); d = s.differsIn(c, typeURL, now) {
			if time.Since(begun) > releasedIn {
				s.fail("%s after %s: %s; that is no loss that is held (SUR-3)", c, time.Since(begun), d)
				s.tellAll()
			}
			s.passAlone(time.Second)
		}
	}
	s.letPass(typeURL, kindWhole)
}

// differsIn says in what a client that wants all of a type differs from the control planes.
func (s *simulation) differsIn(c *client, typeURL string, now state) string {
	for _, name := range universe(typeURL) {
		k := plane.Key{TypeURL: typeURL, Name: name}
		if is := c.holds(k); !strings.HasPrefix(name, authority) && is != now[k] {
			return fmt.Sprintf("%s %s: holds %s instead of %s", keyer.ShortName(typeURL), name, is, now[k])
		}
	}
	return ""
}

// rename gives the only listener without an authority another name.
func (s *simulation) rename() {
	s.spread(s.contents.keepOnly(plane.Listener, "l0"))
	s.spread(s.contents.set(plane.Listener, "l0"))
	s.releaseAll()
	if !s.follows("one listener", lossLate) {
		return
	}
	s.passAlone(afresh)
	s.contents.change(func(next state) string {
		delete(next, plane.Key{TypeURL: plane.Listener, Name: "l0"})
		x := s.contents.makeLocked(plane.Listener, "l1", "")
		next[x.key()] = x
		return "rename"
	})
	for _, p := range s.planes {
		s.contents.giveAtOnce(p.host, p.plane, s.contents.latest())
	}
	s.passAlone(time.Second)
	s.passesTo(s.everythingOf(plane.Listener), plane.Listener)
}

// deleteSome deletes a few of all clusters at once, or one after the other.
func (s *simulation) deleteSome(o op) {
	var unused []string
	for _, name := range numbered("c", 8) {
		s.spread(s.contents.set(plane.Cluster, name))
		if !leadsTo(s.contents.latest(), name) {
			unused = append(unused, name)
		}
	}
	if !s.follows("all clusters", lossLate) {
		return
	}
	s.passAlone(afresh)
	some := s.everythingOf(plane.Cluster)
	if o.kind == opFew {
		s.spread(s.contents.without(plane.Cluster, unused[:2]...))
		s.passAlone(time.Second)
		s.passesTo(some, plane.Cluster)
		return
	}
	for _, name := range unused[:4] {
		s.spread(s.contents.without(plane.Cluster, name))
		s.passAlone(12 * time.Second)
		s.passesTo(some, plane.Cluster)
	}
}

// lossTTL is the ttl of listeners that expire.
const lossTTL = 20 * time.Second

// expire has all listeners have a ttl that nobody renews.
func (s *simulation) expire() {
	s.spread(s.contents.mortal(plane.Listener, lossTTL))
	until := time.Now().Add(lossTTL)
	s.passAlone(lossTTL)
	for _, p := range s.planes { // they have forgotten them too, and say so later
		s.note("%s forgets its listeners", p.host)
	}
	s.contents.keepOnly(plane.Listener)
	s.passAlone(time.Until(until.Add(3 * time.Second)))
	s.passesTo(slices.DeleteFunc(s.everythingOf(plane.Listener), func(c *client) bool { return s.stateOnTheWay(0) || c.form.state || c.form.rest }), plane.Listener)
	for _, p := range s.planes {
		s.contents.give(p.host, p.plane, s.contents.latest())
	}
	s.passAlone(time.Second)
}

// keepOnly removes all of a type but some names, and the clusters that routes lead to.
func (c *contents) keepOnly(typeURL string, names ...string) string {
	var gone []string
	for k := range c.latest() {
		if k.TypeURL == typeURL && !slices.Contains(names, k.Name) {
			gone = append(gone, k.Name)
		}
	}
	return c.without(typeURL, gone...)
}

// without removes names at once, but for the clusters that routes lead to, and for routes.
func (c *contents) without(typeURL string, names ...string) string {
	return c.change(func(next state) string {
		var all []string
		for _, name := range slices.Sorted(slices.Values(names)) {
			k := plane.Key{TypeURL: typeURL, Name: name}
			if next[k] != nil && (typeURL != plane.Cluster || !leadsTo(next, name)) {
				delete(next, k)
				all = append(all, name)
			}
		}
		if len(all) == 0 {
			return ""
		}
		return "unset " + keyer.ShortName(typeURL) + " " + strings.Join(all, ", ")
	})
}

// resize gives all endpoint sets other contents, with so many endpoints. Sets that there were not come: a relay may have
// them still, if nobody could tell it that they are gone, and would count them.
func (c *contents) resize(n int) string {
	return c.change(func(next state) string {
		for _, name := range universe(plane.Endpoints) {
			c.made++
			x := makeThing(plane.Endpoints, name, c.made, "", c.delicate)
			x.endpoints = n
			if n > 0 {
				set := x.message.(*endpointv3.ClusterLoadAssignment) //nolint:forcetypeassert // which we made
				set.Endpoints = []*endpointv3.LocalityLbEndpoints{{}}
				for range n {
					set.Endpoints[0].LbEndpoints = append(set.Endpoints[0].LbEndpoints, new(endpointv3.LbEndpoint))
				}
			}
			c.noteLocked(x)
			next[x.key()] = x
		}
		return fmt.Sprintf("%d endpoints in each set", n)
	})
}

// mortal gives all of a type other contents with a ttl. From now on a control plane may be without them.
func (c *contents) mortal(typeURL string, ttl time.Duration) string {
	return c.change(func(next state) string {
		for _, k := range sortedKeys(next) {
			if k.TypeURL == typeURL {
				x := c.makeLocked(typeURL, k.Name, "")
				x.ttl = ttl
				next[k] = x
				for host := range c.planes {
					c.lackLocked(host, k)
				}
			}
		}
		return "a ttl for all " + keyer.ShortName(typeURL)
	})
}
