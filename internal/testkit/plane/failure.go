package plane

import (
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
)

// Failure is an error for a resource (ERR-1).
type Failure struct {
	Key

	Code    int32
	Message string
}

// Fail tells the streams that name a resource of an error, once. The contents stay as they are.
func (p *Plane) Fail(f Failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	errors := []*discovery.ResourceError{{
		ResourceName: &discovery.ResourceName{Name: f.Name}, ErrorDetail: &statuspb.Status{Code: f.Code, Message: f.Message},
	}}
	for st := range p.streams {
		s := st.types[f.TypeURL]
		if s == nil || !s.names[key(f.Name)] || p.refusesLocked() {
			continue
		}
		s.nonce, s.first, s.outstanding = st.nextNonce(), false, true
		if st.delta {
			r := &discovery.DeltaDiscoveryResponse{TypeUrl: s.typeURL, Nonce: s.nonce, SystemVersionInfo: p.versionLocked(s.typeURL), ResourceErrors: errors}
			st.out.put(r)
			p.recordDeltaLocked(st, r)
			continue
		}
		r := &discovery.DiscoveryResponse{TypeUrl: s.typeURL, Nonce: s.nonce, VersionInfo: p.versionLocked(s.typeURL), ResourceErrors: errors}
		if fullState(s.typeURL) { // the list is whole beside an error
			for _, e := range p.coveredLocked(s.typeURL, s) {
				s.known[e.Name] = e.Version
				r.Resources = append(r.Resources, e.bare(&p.behaviour))
			}
		}
		st.out.put(r)
		p.sentLocked(Response{Stream: st.number, TypeURL: s.typeURL, Version: r.GetVersionInfo(), Nonce: s.nonce})
	}
}
