package credentials

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

// Workload has what a [WorkloadParty] is to use, as it is now. Its methods may be called from any goroutine.
type Workload struct {
	// Immutable after Open.
	api     *api
	domains []spiffeid.TrustDomain
	ids     []spiffeid.ID

	last atomic.Pointer[trusting]
}

// trusting are the roots that follow from what a Workload API said.
type trusting struct {
	bundles *x509bundle.Set
	roots   *Roots
}

// Certificate gives the certificate to show, and whose to take. The error says why there is none:
// the Workload API has given none yet, has taken it away, or it has expired.
func (s *Workload) Certificate(now time.Time) (*tls.Certificate, *Roots, error) {
	said := s.api.said.Load()
	switch {
	case said.cert == nil:
		return nil, nil, fmt.Errorf("the SPIFFE Workload API at %s gives the relay no certificate: %w", s.api.address, said.why)
	case now.After(said.cert.Leaf.NotAfter):
		return nil, nil, fmt.Errorf("the relay's certificate of the SPIFFE Workload API at %s expired at %s",
			s.api.address, said.cert.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return said.cert, s.rootsOf(said), nil
}

// Roots gives whose certificates count. Before the Workload API has answered nobody knows.
func (s *Workload) Roots() *Roots { return s.rootsOf(s.api.said.Load()) }

// rootsOf gives the roots that follow from what the API said. Equal ones are the same, so that
// certificates are not verified again for nothing.
func (s *Workload) rootsOf(said *said) *Roots {
	before := s.last.Load()
	if before != nil && before.bundles == said.bundles {
		return before.roots
	}
	if said.cert == nil && said.domain.IsZero() { // it has not answered yet
		return UnknownRoots()
	}
	domains := s.domains
	if len(domains) == 0 && !said.domain.IsZero() {
		domains = []spiffeid.TrustDomain{said.domain}
	}
	var bundles []*x509bundle.Bundle
	for _, domain := range domains {
		if b, ok := said.bundles.Get(domain); ok {
			bundles = append(bundles, b)
		} else if !said.domain.IsZero() {
			s.api.of.log.Warn("the SPIFFE Workload API has no bundle for a trust domain: its SPIFFE IDs are not trusted",
				"socket", s.api.address, "trust_domain", domain.Name())
		}
	}
	roots := RootsOfDomains(bundles, s.ids)
	if before != nil && before.roots.Equal(roots) {
		roots = before.roots
	}
	s.last.Store(&trusting{said.bundles, roots})
	return roots
}

// Close ends the use of the Workload API.
func (s *Workload) Close() { s.api.of.leave(s.api) }
