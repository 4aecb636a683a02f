package credentials

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
)

// Roots says whose certificates count. They do not change. The zero value trusts nobody.
type Roots struct {
	pool    *x509.CertPool
	bundles map[spiffeid.TrustDomain]*x509bundle.Bundle // nil: every root is for every certificate
	ids     []spiffeid.ID                               // of those of bundles; empty: all
	unknown bool
	revoked *Revoked // nil: nobody says
}

// UnknownRoots trusts nobody: it is not known yet who counts. Who counted before goes on doing so.
func UnknownRoots() *Roots { return &Roots{unknown: true} }

// Known reports whether it is known who counts.
func (r *Roots) Known() bool { return !r.unknown }

// RootsOf trusts each certificate that chains to the pool.
func RootsOf(pool *x509.CertPool) *Roots { return &Roots{pool: pool} }

// RootsOfDomains trusts the X509-SVIDs of trust domains, each by the bundle of its own domain. With ids
// only those SPIFFE IDs count.
func RootsOfDomains(bundles []*x509bundle.Bundle, ids []spiffeid.ID) *Roots {
	r := &Roots{pool: x509.NewCertPool(), bundles: make(map[spiffeid.TrustDomain]*x509bundle.Bundle, len(bundles)), ids: ids}
	for _, b := range bundles {
		r.bundles[b.TrustDomain()] = b
		for _, root := range b.X509Authorities() {
			r.pool.AddCert(root)
		}
	}
	return r
}

// Pool gives all roots, never nil: to crypto/tls that would be the system's. A caller that verifies with the
// pool alone must call Check too.
func (r *Roots) Pool() *x509.CertPool {
	if r.pool == nil {
		return x509.NewCertPool()
	}
	return r.pool
}

// Check gives what crypto/tls calls at the end of a handshake, a resumed one too, if the pool does
// not say everything. Otherwise it gives nil.
func (r *Roots) Check(usage x509.ExtKeyUsage) func(tls.ConnectionState) error {
	if r.bundles == nil && r.revoked == nil {
		return nil
	}
	return func(state tls.ConnectionState) error {
		_, err := r.Verify(state.PeerCertificates, usage, time.Now())
		return err
	}
}

// Verify gives the chains of a certificate, the first of shown, to the roots that count for it. The
// others of shown may be between. The error is one of x509, or wraps it, if the certificate does not
// chain to them at this time.
func (r *Roots) Verify(shown []*x509.Certificate, usage x509.ExtKeyUsage, now time.Time) ([][]*x509.Certificate, error) {
	if r.pool == nil || len(shown) == 0 {
		return nil, x509.UnknownAuthorityError{}
	}
	if r.bundles != nil {
		return r.verifySVID(shown, now)
	}
	between := x509.NewCertPool()
	for _, c := range shown[1:] {
		between.AddCert(c)
	}
	chains, err := shown[0].Verify(x509.VerifyOptions{
		Roots: r.pool, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage},
	})
	if err != nil {
		return nil, err
	}
	return r.revoked.left(chains)
}

// verifySVID verifies an X509-SVID with the bundle of its own trust domain, whatever other bundles
// there are: the authorities of one domain say nothing of the IDs of another. An SVID is for both
// sides.
func (r *Roots) verifySVID(shown []*x509.Certificate, now time.Time) ([][]*x509.Certificate, error) {
	id, chains, err := x509svid.Verify(shown, r, x509svid.WithTime(now))
	if err != nil {
		return nil, fmt.Errorf("spiffe: %w", err)
	}
	if len(r.ids) > 0 && !slices.Contains(r.ids, id) {
		return nil, fmt.Errorf("spiffe: %q is none of the SPIFFE IDs that are expected", id)
	}
	return chains, nil
}

// GetX509BundleForTrustDomain implements x509bundle.Source.
func (r *Roots) GetX509BundleForTrustDomain(domain spiffeid.TrustDomain) (*x509bundle.Bundle, error) {
	if b, ok := r.bundles[domain]; ok {
		return b, nil
	}
	return nil, fmt.Errorf("the trust domain %q is not trusted, or its bundle is not known", domain)
}

// Equal reports whether both trust the same certificates. Nil is equal to nil alone.
func (r *Roots) Equal(o *Roots) bool {
	if r == o {
		return true
	}
	if r == nil || o == nil || r.unknown != o.unknown || (r.bundles == nil) != (o.bundles == nil) {
		return false
	}
	if r.bundles == nil {
		return r.pool.Equal(o.pool) && r.revoked.equal(o.revoked)
	}
	return slices.Equal(r.ids, o.ids) && maps.EqualFunc(r.bundles, o.bundles, (*x509bundle.Bundle).Equal)
}
