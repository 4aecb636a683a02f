package plane

import (
	"slices"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
)

// takeState takes a request of a state-of-the-world stream.
func (p *Plane) takeState(st *stream, r *discovery.DiscoveryRequest) error {
	if err := st.typed(&r.TypeUrl); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s, first := st.of(r.GetTypeUrl())
	p.recordLocked(st, Request{
		TypeURL: r.GetTypeUrl(), Subscribe: r.GetResourceNames(), VersionInfo: r.GetVersionInfo(), Nonce: r.GetResponseNonce(),
		Rejection: r.GetErrorDetail().GetMessage(), Rejects: r.GetErrorDetail() != nil,
		Message: r,
	}, r.GetNode())
	if p.secondLocked(st) {
		return status.Error(codes.AlreadyExists, "the node has a stream")
	}
	if !first && r.GetResponseNonce() != s.nonce {
		return nil // STR-4
	}
	// The first request with a nonce answers that response, a further one asks.
	repeated := !s.outstanding && s.nonce != "" && sameNames(s, r.GetResourceNames())
	s.outstanding = false
	s.state(r.GetResourceNames(), p.behaviour.LegacyWildcard)
	if first && p.behaviour.HeedVersion && r.GetVersionInfo() == p.versionLocked(s.typeURL) {
		s.takeAsSent(p.coveredLocked(s.typeURL, s))
	}
	p.unsubscribedLocked(s, nil)
	if repeated && s.clusters && !p.behaviour.IgnoreRepeats {
		for name := range s.names {
			s.owed[name] = true
		}
		s.clusters = false
	}
	p.flushLocked(st, map[string]bool{s.typeURL: true})
	return nil
}

func sameNames(s *subscription, names []string) bool {
	return len(names) == len(s.names) && !slices.ContainsFunc(names, func(n string) bool { return !s.names[key(n)] })
}

// state takes a request's names: all of them, each time. No names mean the wildcard
// as long as nothing was ever named, for the types that have full state (SUB-2).
func (s *subscription) state(names []string, legacy bool) {
	old := s.names
	s.names, s.star = make(map[string]bool), false
	for _, name := range names {
		s.named = true
		if name == wildcard && !legacy {
			s.star = true
			continue
		}
		s.names[key(name)] = true
		if !old[key(name)] {
			s.owed[key(name)] = true
		}
	}
	if !s.named && fullState(s.typeURL) {
		s.star = true
	}
}

// takeAsSent has the stream know entries as if they had been sent.
func (s *subscription) takeAsSent(all []*entry) {
	s.first = false
	clear(s.owed)
	for _, e := range all {
		s.known[e.Name] = e.Version
	}
}

// lacks reports whether the subscription has a name that none of these entries answers.
func (s *subscription) lacks(covered []*entry) bool {
	has := make(map[string]bool)
	for _, e := range covered {
		has[key(e.Name)] = true
	}
	for name := range s.names {
		if !has[name] {
			return true
		}
	}
	return false
}

// sendStateLocked sends a stream the list of a full-state type if anything of it
// changed, and of other types what changed. There is no word for their removal
// (RES-3).
func (p *Plane) sendStateLocked(st *stream, s *subscription) {
	covered := p.coveredLocked(s.typeURL, s)
	if p.behaviour.AllOrNothing && s.lacks(covered) {
		return
	}
	changed, gone := s.changed(covered), s.gone(covered)
	for _, name := range gone {
		delete(s.known, name)
	}
	asked := len(s.owed) > 0
	clear(s.owed)
	send := changed
	if fullState(s.typeURL) {
		if len(changed)+len(gone) == 0 && !asked && !(s.first && s.star) {
			return
		}
		send = covered
	} else if len(changed) == 0 && !(s.first && s.star) {
		return
	}
	for _, e := range changed {
		s.known[e.Name] = e.Version
		p.noteClusterLocked(st, s, e)
	}
	p.pushStateLocked(st, s, send)
}

// pushStateLocked sends entries in one response, or in as many as the behaviour
// wants of a type that is not full-state.
func (p *Plane) pushStateLocked(st *stream, s *subscription, send []*entry) {
	shuffle(&p.behaviour, send)
	for last := false; !last; {
		n := len(send)
		if !fullState(s.typeURL) {
			n = p.behaviour.part(n)
		}
		last = n == len(send)
		var payloads []*anypb.Any
		var names []string
		for _, e := range send[:n] {
			payloads = append(payloads, e.bare(&p.behaviour))
			names = append(names, e.Name)
		}
		send = send[n:]
		p.pushPayloadsLocked(st, s, payloads, names)
	}
}

// pushHeartbeatsLocked sends a list of wrapped heartbeats.
func (p *Plane) pushHeartbeatsLocked(st *stream, s *subscription, beats []*discovery.Resource) {
	var payloads []*anypb.Any
	var names []string
	for _, r := range beats {
		payloads = append(payloads, wrapped(r))
		names = append(names, r.GetName())
	}
	p.pushPayloadsLocked(st, s, payloads, names)
}

func (p *Plane) pushPayloadsLocked(st *stream, s *subscription, payloads []*anypb.Any, names []string) {
	s.first, s.outstanding, s.nonce = false, true, st.nextNonce()
	r := &discovery.DiscoveryResponse{
		TypeUrl: s.typeURL, VersionInfo: p.versionLocked(s.typeURL), Nonce: s.nonce, Resources: payloads,
	}
	if p.refusesLocked() {
		return
	}
	st.out.put(r)
	p.sentLocked(Response{Stream: st.number, TypeURL: s.typeURL, Version: r.GetVersionInfo(), Nonce: s.nonce, Names: names})
}
