package integration

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/keyer"
)

func (p *plane) deltaRequest(st *planeStream, r *discovery.DeltaDiscoveryRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beginLocked(st, r.GetNode())
	first := st.types[r.GetTypeUrl()] == nil
	t := st.of(r.GetTypeUrl())
	st.requests = append(st.requests, r)
	if r.GetResponseNonce() != "" {
		p.deltaAnswered(st, t, r)
	}
	var left []string
	for _, n := range keysOf(r.GetResourceNamesUnsubscribe()) {
		if t.subs[n] {
			left = append(left, n)
		}
		delete(t.subs, n)
		maps.DeleteFunc(t.known, func(known, _ string) bool { return !t.covers(known, p.types[r.GetTypeUrl()][known]) })
	}
	names := keysOf(r.GetResourceNamesSubscribe())
	if first && len(names)+len(r.GetResourceNamesUnsubscribe()) == 0 {
		names = []string{"*"} // SUB-3
	}
	fresh := &planeType{subs: make(map[string]bool)}
	for _, n := range names {
		if t.subs[n] {
			p.again = append(p.again, r.GetTypeUrl()+" "+n)
		}
		t.subs[n], fresh.subs[n] = true, true
	}
	if t.subs["*"] && !fresh.subs["*"] {
		p.deltaLeft(st, r.GetTypeUrl(), t, left)
	}
	if len(fresh.subs) > 0 {
		p.deltaAnswer(st, r.GetTypeUrl(), t, fresh, r.GetInitialResourceVersions())
	}
}

// deltaLeft says of names that are not asked for any more whether the wildcard has them
// (SUB-8).
func (p *plane) deltaLeft(st *planeStream, typeURL string, t *planeType, left []string) {
	var add []*discovery.Resource
	var remove []string
	for _, n := range left {
		e, ok := p.types[typeURL][n]
		switch {
		case isCollection(n), t.subs[n], keyer.GlobOf(n) != "": // no wildcard has them
		case ok && e.inStar:
			t.known[n] = e.version
			add = append(add, resource(typeURL, n, e))
		default:
			remove = append(remove, n)
		}
	}
	if len(add)+len(remove) > 0 {
		p.deltaPush(st, typeURL, add, remove)
	}
}

// keysOf has the plane take all spellings of a name for the same (NAME-3). Its answers
// have the canonical one.
func keysOf(names []string) []string {
	keys := slices.Clone(names)
	for i, n := range names {
		if key, err := keyer.Key(n); err == nil {
			keys[i] = key
		}
	}
	return keys
}

// deltaAnswer sends what new subscriptions ask for.
func (p *plane) deltaAnswer(st *planeStream, typeURL string, t, fresh *planeType, versions map[string]string) {
	var add []*discovery.Resource
	var remove []string
	said := make(map[string]bool)
	content := p.types[typeURL]
	for _, n := range slices.Sorted(maps.Keys(content)) {
		e := content[n]
		if !fresh.covers(n, e) {
			continue
		}
		t.known[n] = e.version
		said[n] = true
		if g := keyer.GlobOf(n); g != "" {
			said[g] = true
		}
		if versions[n] != e.version {
			add = append(add, resource(typeURL, n, e))
		}
	}
	for n := range versions {
		if e, ok := content[n]; !ok || !t.covers(n, e) {
			remove = append(remove, n)
			said[n] = true
		}
	}
	for n := range fresh.subs {
		if n != "*" && !said[n] {
			remove = append(remove, n)
		}
	}
	if len(add)+len(remove) > 0 || fresh.subs["*"] {
		p.deltaPush(st, typeURL, add, remove)
	}
}

// deltaChanged tells one resource, or its removal.
func (p *plane) deltaChanged(st *planeStream, typeURL string, t *planeType, name string) {
	e, ok := p.types[typeURL][name]
	if !ok {
		delete(t.known, name)
		p.deltaPush(st, typeURL, nil, []string{name})
		return
	}
	t.known[name] = e.version
	p.deltaPush(st, typeURL, []*discovery.Resource{resource(typeURL, name, e)}, nil)
}

// deltaPush sends resources and removals, in parts and in any order if the plane
// is random. That there is nothing is said too: "*" is always answered.
func (p *plane) deltaPush(st *planeStream, typeURL string, add []*discovery.Resource, remove []string) {
	parts := max(1, p.parts)
	if p.rand != nil && len(add)+len(remove) > 0 {
		p.rand.Shuffle(len(add), func(i, j int) { add[i], add[j] = add[j], add[i] })
		parts = 1 + p.rand.IntN(3)
	}
	for i := range parts {
		r := &discovery.DeltaDiscoveryResponse{
			ControlPlane: p.identifier,
			TypeUrl:      typeURL, Nonce: st.nextNonce(), SystemVersionInfo: fmt.Sprint("v", p.version),
			Resources: add[len(add)*i/parts : len(add)*(i+1)/parts],
		}
		if i == parts-1 {
			r.RemovedResources = remove
		}
		if parts > 1 && len(r.GetResources())+len(r.GetRemovedResources()) == 0 {
			continue
		}
		t := st.of(typeURL)
		t.answers = append(t.answers, planeAnswer{nonce: r.GetNonce()})
		st.sent++
		if p.held {
			st.waiting = append(st.waiting, r)
		} else {
			st.send <- r
		}
	}
}

func (st *planeStream) nextNonce() string {
	st.nonce++
	return strconv.Itoa(st.nonce)
}
