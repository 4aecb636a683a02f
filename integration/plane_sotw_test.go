package integration

import (
	"maps"
	"slices"
	"strconv"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

func (p *plane) sotwRequest(st *planeStream, r *discovery.DiscoveryRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beginLocked(st, r.GetNode())
	first := st.types[r.GetTypeUrl()] == nil
	t := st.of(r.GetTypeUrl())
	p.sotwAnswered(st, t, r)
	st.sotwRequests = append(st.sotwRequests, r)
	if r.GetResponseNonce() != t.latest() {
		return // STR-4: the answer to what was sent last will say it again
	}
	was := t.subs
	t.wants(r)
	fresh := &planeType{subs: maps.Clone(t.subs)}
	maps.DeleteFunc(fresh.subs, func(n string, _ bool) bool { return was[n] })
	current := first && r.GetVersionInfo() == p.versionLocked(r.GetTypeUrl()) && t.wildcardOnly() &&
		r.GetVersionInfo() != p.beyond[seenBy{st.node, r.GetTypeUrl()}]
	if p.sotwMuted(st, r.GetTypeUrl(), t) {
		return
	}
	switch {
	case len(fresh.subs) > 0 && (!current || !fullState[r.GetTypeUrl()]): // ACK-5
		p.sotwAnswer(st, r.GetTypeUrl(), t, fresh)
	case fullState[r.GetTypeUrl()] && t.subs["*"] && len(t.subs) < len(was):
		p.sotwAnswer(st, r.GetTypeUrl(), t, t) // SUB-8
	}
}

// latest is the nonce of the last response.
func (t *planeType) latest() string {
	if len(t.answers) == 0 {
		return ""
	}
	return t.answers[len(t.answers)-1].nonce
}

// wants takes a request's names: all of them, each time. No names mean "*" as long
// as nothing was ever named, for the types that have full state (SUB-2, SUB-4).
func (t *planeType) wants(r *discovery.DiscoveryRequest) {
	t.subs = make(map[string]bool)
	for _, n := range r.GetResourceNames() {
		t.named, t.subs[n] = true, true
	}
	if !t.named && fullState[r.GetTypeUrl()] {
		t.subs["*"] = true
	}
}

// wildcardOnly reports whether nothing else is asked for.
func (t *planeType) wildcardOnly() bool { return len(t.subs) == 1 && t.subs["*"] }

// sotwMuted reports whether there is nothing to say, since a name does not exist that is
// asked for, or since everything was said now that the last such name is gone.
func (p *plane) sotwMuted(st *planeStream, typeURL string, t *planeType) bool {
	if !p.allOrNothing {
		return false
	}
	was := t.muted
	t.muted = false
	for n := range t.subs {
		if _, ok := p.types[typeURL][n]; !ok && n != "*" {
			t.muted = true
			return true
		}
	}
	if was {
		p.sotwPush(st, typeURL, t, p.sotwNames(typeURL, t))
	}
	return was
}

// sotwAnswer sends what was newly asked for; of full-state types everything that
// is subscribed. Where nothing of the others exists there is nothing to say,
// unless about the wildcard.
func (p *plane) sotwAnswer(st *planeStream, typeURL string, t, fresh *planeType) {
	if fullState[typeURL] {
		fresh = t
	}
	names := p.sotwNames(typeURL, fresh)
	if len(names) > 0 || fullState[typeURL] || fresh.subs["*"] {
		p.sotwPush(st, typeURL, t, names)
	}
}

// sotwChanged tells that a resource changed. For the removal of one there is no
// word but the absence from a full state (RES-3).
func (p *plane) sotwChanged(st *planeStream, typeURL string, t *planeType, name string) {
	if p.sotwMuted(st, typeURL, t) {
		return
	}
	if fullState[typeURL] {
		p.sotwPush(st, typeURL, t, p.sotwNames(typeURL, t))
	} else if _, ok := p.types[typeURL][name]; ok {
		p.sotwPush(st, typeURL, t, []string{name})
	}
}

// sotwNames are the names that exist and are asked for.
func (p *plane) sotwNames(typeURL string, t *planeType) []string {
	var names []string
	for n, e := range p.types[typeURL] {
		if t.covers(n, e) {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names
}

// versionInfo is what the type's next response would have.
func (p *plane) versionInfo(typeURL string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.versionLocked(typeURL)
}

func (p *plane) versionLocked(typeURL string) string {
	return strconv.Itoa(p.versions[typeURL]) + p.suffix
}

// sotwPush sends resources, in any order if the plane is random, and in parts if
// the type allows it.
func (p *plane) sotwPush(st *planeStream, typeURL string, t *planeType, names []string) {
	parts := 1
	if p.rand != nil {
		p.rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		if !fullState[typeURL] && len(names) > 0 {
			parts = 1 + p.rand.IntN(len(names))
		}
	}
	for i := range parts {
		r := p.sotwResponse(typeURL, names[len(names)*i/parts:len(names)*(i+1)/parts], st.wraps)
		r.Nonce = st.nextNonce()
		t.answers = append(t.answers, planeAnswer{nonce: r.GetNonce(), version: r.GetVersionInfo()})
		if t.subs["*"] && !t.wildcardOnly() {
			p.beyond[seenBy{st.node, typeURL}] = r.GetVersionInfo()
		}
		st.sent++
		if p.held {
			st.waitingSotw = append(st.waitingSotw, r)
		} else {
			st.send <- r
		}
	}
}

func (p *plane) sotwResponse(typeURL string, names []string, wrap bool) *discovery.DiscoveryResponse {
	r := &discovery.DiscoveryResponse{TypeUrl: typeURL, VersionInfo: p.versionLocked(typeURL)}
	for _, n := range names {
		x := resource(typeURL, n, p.types[typeURL][n])
		if !wrap {
			r.Resources = append(r.Resources, x.GetResource())
			continue
		}
		b, err := proto.Marshal(x)
		if err != nil {
			panic(err) // made here, from valid parts
		}
		r.Resources = append(r.Resources, &anypb.Any{TypeUrl: wrapperType, Value: b})
	}
	return r
}
