package simulate

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

// operated is what operators hold at one relay. Guarded by the simulation's mu.
type operated struct {
	since, until time.Time // zero since: nothing; zero until: until it is released
	scope        *string   // nil: all
	types        []string  // nil: all but secrets
	flows        bool      // endpoints go on: it is a rollback
	loose        time.Time // until when a route may come without its cluster: an operator tore them apart
	rolledBack   bool      // ever
	saved        bool      // the order is on the disk
	known        map[knownName]bool
	lacked       map[string]span // by then; see contents
}

// knownName is a name of which a store has content.
type knownName struct {
	scope, kind string
	plane.Key
}

// holdsFrom notes that a relay holds what a command selects from now on, but in scopes in which it could not carry
// the command out.
func (s *simulation) holdsFrom(r *relayProcess, c *admin.Command, until time.Time, rollback bool, done *admin.Done) {
	known := s.knownTo(r)
	for _, x := range done.Scopes {
		if x.Error != "" {
			maps.DeleteFunc(known, func(k knownName, _ bool) bool { return k.scope == x.Scope })
		}
	}
	s.contents.mu.Lock()
	lacked := maps.Clone(s.contents.lacked)
	s.contents.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &r.operated
	if !h.since.IsZero() { // two orders: neither is judged by itself
		known = nil
	}
	*h = operated{
		since: time.Now(), until: until, scope: c.Scope, flows: rollback, loose: h.loose, rolledBack: h.rolledBack, saved: len(done.Warnings) == 0,
		known: known, lacked: lacked,
	}
	for _, name := range c.Types {
		typeURL, _ := keyer.TypeURL(name)
		h.types = append(h.types, typeURL)
	}
	switch {
	case len(h.types) == 0:
	case until.IsZero():
		h.loose = time.Now().Add(time.Hour) // until it is released
	default:
		h.loose = until.Add(afresh)
	}
}

// rollingBack notes that a relay is about to be told of a rollback. One of some types may tear them apart before
// the command is answered.
func (s *simulation) rollingBack(r *relayProcess, c *admin.Command) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &r.operated
	h.known, h.rolledBack = nil, true
	if until := time.Now().Add(afresh); len(c.Types) > 0 && until.After(h.loose) {
		h.loose = until
	}
}

// releasing notes that a relay is about to be told of a release: nothing is judged by what it holds any more.
func (s *simulation) releasing(r *relayProcess) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.operated.known = nil
}

// releasedAt notes that a relay holds nothing any more, or not all of it.
func (s *simulation) releasedAt(r *relayProcess, part bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &r.operated
	loose := h.loose.After(time.Now()) || part
	*h = operated{rolledBack: h.rolledBack}
	if loose {
		h.loose = time.Now().Add(afresh)
	}
}

// knownTo lists what the stores of a relay have content of.
func (s *simulation) knownTo(r *relayProcess) map[knownName]bool {
	var all []struct {
		Scope   string `json:"scope"`
		TypeURL string `json:"type_url"`
		Name    string `json:"name"`
		Kind    string `json:"kind"`
		Bytes   int    `json:"bytes"`
	}
	if !page(r, "/resources", &all) {
		return nil
	}
	known := make(map[knownName]bool)
	for _, x := range all {
		if x.Bytes > 0 {
			known[knownName{x.Scope, x.Kind, plane.Key{TypeURL: x.TypeURL, Name: x.Name}}] = true
		}
	}
	return known
}

// restarting takes over what is on the disk of a relay that starts: what it holds then, and what it knows.
func (s *simulation) restarting(r *relayProcess) {
	s.mu.Lock()
	if !r.operated.saved { // the relay does not know of it any more
		r.operated.known = nil
	}
	held := len(r.operated.known) > 0
	s.mu.Unlock()
	if !held {
		return
	}
	known := make(map[knownName]bool)
	if s.choices.disk {
		s.inspect(r, func(k kept, _ *thing) {
			known[knownName{k.scope, k.kind, plane.Key{TypeURL: k.typeURL, Name: k.name}}] = true
		})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &r.operated
	for k := range h.known {
		if !known[k] {
			delete(h.known, k)
		}
	}
}

// wiped notes that a relay's disk is empty, and its orders with it.
func (s *simulation) wiped(r *relayProcess) { s.releasedAt(r, true) }

// stillHolds looks whether a relay that started again knows its orders.
func (s *simulation) stillHolds(r *relayProcess) {
	s.mu.Lock()
	h := r.operated
	s.mu.Unlock()
	if !r.runs() {
		return
	}
	var held admin.HeldPage
	if !page(r, "/held", &held) {
		return
	}
	switch orders := len(held.Orders); {
	case h.since.IsZero():
		if orders > 0 { // the release did not get to the disk
			s.mu.Lock()
			r.operated.loose = time.Now().Add(time.Hour)
			s.mu.Unlock()
		}
	case s.choices.disk && h.saved && orders == 0 && (h.until.IsZero() || time.Until(h.until) > time.Second):
		s.fail("relay %s forgot in a restart what operators hold (GATE-4)", r.host)
	case orders == 0:
		s.releasedAt(r, true)
	default:
		s.count("orders that outlived a restart", 1)
	}
}

// holdsOf are the holds of relays on the way to a client.
func (c *client) holdsOf() (all []operated) {
	c.sim.mu.Lock()
	defer c.sim.mu.Unlock()
	for _, r := range c.way() {
		all = append(all, r.operated)
	}
	return all
}

// judgeHeld holds a change to what operators hold at the client's own relay (GATE-4): what was known there is
// not replaced by newer content, nor removed. The first answer to a question passes.
func (c *client) judgeHeld(k plane.Key, x *thing, born time.Time) {
	all := c.holdsOf()
	h := &all[len(all)-1]
	if wanted, _ := c.covers(k); !wanted || !h.about(k, time.Now()) || !h.knows(c, k) {
		return
	}
	c.sim.count("judged while held", 1)
	if x != nil && x.born.After(h.since) {
		c.fault("%s came, which is newer than what is held since %s", x, h.since.Sub(c.sim.began))
	}
	if x == nil && !lackedIn(h.lacked, c.sim.contents.hosts(), k, born) && !c.mayGiveUp(k.TypeURL) {
		c.fault("%s %s is removed, and is held since %s", keyer.ShortName(k.TypeURL), k.Name, h.since.Sub(c.sim.began))
	}
}

// about reports whether a hold is about a resource.
func (h *operated) about(k plane.Key, now time.Time) bool {
	return !h.since.IsZero() && (h.until.IsZero() || now.Before(h.until)) && !passesHolds(k) &&
		(len(h.types) == 0 || slices.Contains(h.types, k.TypeURL)) && !(h.flows && k.TypeURL == plane.Endpoints)
}

// knows reports whether all stores that a client gets a resource from knew it when they were held.
func (h *operated) knows(c *client, k plane.Key) bool {
	var kinds []string
	subs := c.subs[k.TypeURL]
	if subs[xdsclient.Wildcard] && keyer.GlobOf(k.Name) == "" {
		kinds = append(kinds, kindWhole)
	}
	if subs[k.Name] || subs[keyer.GlobOf(k.Name)] {
		kinds = append(kinds, kindNamed)
	}
	for _, kind := range kinds {
		if !slices.ContainsFunc(h.scopes(c, k), func(scope string) bool { return h.known[knownName{scope, kind, k}] }) {
			return false
		}
	}
	return len(kinds) > 0
}

// The kinds of tables on /resources.
const kindWhole, kindNamed = "wildcard", "named"

// scopes are those in which a hold has a client's resource.
func (h *operated) scopes(c *client, k plane.Key) (all []string) {
	for x := range h.known {
		own := x.scope == "" || !c.sim.choices.scoped || strings.Contains(x.scope, c.cluster)
		if x.Key == k && own && (h.scope == nil || *h.scope == x.scope) {
			all = append(all, x.scope)
		}
	}
	return all
}

// tornApart reports whether operators had a relay on the way hold a cluster and not a route to it.
func (c *client) tornApart(route *thing) bool {
	now := time.Now()
	return slices.ContainsFunc(c.holdsOf(), func(h operated) bool {
		return now.Before(h.loose) || h.about(route.key(), now) && !h.knows(c, route.key())
	})
}

// mayRollBack reports whether a rollback removes a resource, which some control plane was without at some time.
func (c *client) mayRollBack(k plane.Key) bool {
	return slices.ContainsFunc(c.holdsOf(), func(h operated) bool { return h.rolledBack }) && c.sim.contents.lackedSince(k, c.sim.began)
}
