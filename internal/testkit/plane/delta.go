package plane

import (
	"maps"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// takeDelta takes a request of an incremental stream.
func (p *Plane) takeDelta(st *stream, r *discovery.DeltaDiscoveryRequest) error {
	if err := st.typed(&r.TypeUrl); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s, first := st.of(r.GetTypeUrl())
	p.recordLocked(st, Request{
		TypeURL: r.GetTypeUrl(), Subscribe: r.GetResourceNamesSubscribe(), Unsubscribe: r.GetResourceNamesUnsubscribe(),
		Versions: r.GetInitialResourceVersions(), Nonce: r.GetResponseNonce(), Rejection: r.GetErrorDetail().GetMessage(),
		Rejects: r.GetErrorDetail() != nil,
		Message: r,
	}, r.GetNode())
	if r.GetResponseNonce() == s.nonce || r.GetResponseNonce() == "" {
		s.outstanding = false // another request asks for more, too
	}
	for name, version := range r.GetInitialResourceVersions() {
		if p.behaviour.IgnoreVersions {
			version = "" // which no content has
		}
		s.known[name] = version
	}
	if p.secondLocked(st) {
		return status.Error(codes.AlreadyExists, "the node has a stream")
	}
	for _, name := range r.GetResourceNamesUnsubscribe() {
		s.unsubscribe(name, p.behaviour.LegacyWildcard)
	}
	for _, name := range r.GetResourceNamesSubscribe() {
		if p.behaviour.IgnoreNames && s.star {
			break
		}
		_, presented := r.GetInitialResourceVersions()[name]
		s.subscribe(name, !presented && !p.behaviour.IgnoreRepeats, p.behaviour.LegacyWildcard)
	}
	if first && len(r.GetResourceNamesSubscribe())+len(r.GetResourceNamesUnsubscribe()) == 0 {
		s.star = true // SUB-3; what the client has is not owed
	}
	p.unsubscribedLocked(s, r.GetInitialResourceVersions())
	p.flushLocked(st, map[string]bool{s.typeURL: true})
	return nil
}

// subscribe adds a name. again: it is owed even if the stream has it (SUB-6). legacy:
// "*" is a name like any other.
func (s *subscription) subscribe(name string, again, legacy bool) {
	if name == wildcard && !legacy {
		s.star = true
		return
	}
	s.names[key(name)] = true
	if _, held := s.known[name]; !held || again {
		s.owed[key(name)] = true
	}
}

func (s *subscription) unsubscribe(name string, legacy bool) {
	if name == wildcard && !legacy {
		s.star = false
		return
	}
	delete(s.names, key(name))
	delete(s.owed, key(name))
}

// unsubscribedLocked forgets what the stream was sent and does not subscribe to any
// more. Entries that do not exist stay known, and those that the client presents: they are told as removed.
func (p *Plane) unsubscribedLocked(s *subscription, presented map[string]string) {
	maps.DeleteFunc(s.known, func(name, _ string) bool {
		_, has := presented[name]
		e := p.content[s.typeURL][name]
		return !has && e != nil && !s.covers(e)
	})
}

// sendDeltaLocked sends what an incremental stream lacks of a type.
func (p *Plane) sendDeltaLocked(st *stream, s *subscription) {
	covered := p.coveredLocked(s.typeURL, s)
	var add []*discovery.Resource
	for _, e := range s.changed(covered) {
		add = append(add, e.wire(&p.behaviour))
		s.known[e.Name] = e.Version
		p.noteClusterLocked(st, s, e)
	}
	removed := s.gone(covered)
	for _, name := range removed {
		delete(s.known, name)
	}
	for _, name := range s.unanswered(covered) {
		switch p.behaviour.Absent {
		case AbsentSilent:
		case AbsentRemoved:
			removed = append(removed, name)
		case AbsentUnresolved:
			add = append(add, &discovery.Resource{Name: name, Aliases: []string{name}})
		}
	}
	clear(s.owed)
	// The wildcard is always answered once: a client may wait for it.
	if len(add)+len(removed) > 0 || s.first && s.star {
		p.pushDeltaLocked(st, s, add, removed)
	}
}

// noteClusterLocked makes the endpoints of a Cluster that goes out due again.
func (p *Plane) noteClusterLocked(st *stream, s *subscription, e *entry) {
	if s.typeURL != Cluster {
		return
	}
	eds := st.types[Endpoints]
	if eds == nil {
		return
	}
	eds.clusters = true
	if p.behaviour.RepeatEndpoints && eds.names[e.serves] {
		eds.owed[e.serves] = true
	}
}

// pushDeltaLocked sends one response, or as many as the behaviour wants.
func (p *Plane) pushDeltaLocked(st *stream, s *subscription, add []*discovery.Resource, removed []string) {
	s.first, s.outstanding = false, true
	shuffle(&p.behaviour, add)
	for last := false; !last; {
		n := p.behaviour.part(len(add))
		last = n == len(add)
		s.nonce = st.nextNonce()
		r := &discovery.DeltaDiscoveryResponse{
			TypeUrl: s.typeURL, Nonce: s.nonce, SystemVersionInfo: p.versionLocked(s.typeURL), Resources: add[:n],
		}
		if p.behaviour.Identifier != "" {
			r.ControlPlane = &corev3.ControlPlane{Identifier: p.behaviour.Identifier}
		}
		if last || p.behaviour.Random != nil && p.behaviour.Random.IntN(2) == 0 {
			r.RemovedResources, removed = removed, nil
		}
		add = add[n:]
		if p.refusesLocked() {
			return
		}
		st.out.put(r)
		p.recordDeltaLocked(st, r)
	}
}

// heartbeatLocked renews what the stream has.
func (p *Plane) heartbeatLocked(st *stream, s *subscription) {
	var beats []*discovery.Resource
	for _, e := range p.coveredLocked(s.typeURL, s) {
		if e.TTL > 0 && s.known[e.Name] == e.Version {
			beats = append(beats, e.heartbeat(&p.behaviour))
		}
	}
	switch {
	case len(beats) == 0:
	case !st.delta && p.behaviour.RenewWhole:
		p.pushStateLocked(st, s, p.coveredLocked(s.typeURL, s))
	case st.delta:
		p.pushDeltaLocked(st, s, beats, nil)
	default:
		p.pushHeartbeatsLocked(st, s, beats)
	}
}
