package credentials

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
)

// bundle is that of a trust domain.
func bundle(domain string, roots ...*pki.Authority) *x509bundle.Bundle {
	b := x509bundle.New(spiffeid.RequireTrustDomainFromString(domain))
	for _, ca := range roots {
		b.AddX509Authority(ca.Root())
	}
	return b
}

func domains(bundles ...*x509bundle.Bundle) *Roots { return RootsOfDomains(bundles, nil) }

// Each certificate counts by the roots that are for it, in a handshake, a resumed one, and when it is
// judged again.
func TestRoots_ACC1(t *testing.T) {
	a, b := pki.NewAuthority(t, "a"), pki.NewAuthority(t, "b")
	both := domains(bundle("a", a), bundle("b", b))
	ids := RootsOfDomains([]*x509bundle.Bundle{bundle("a", a), bundle("b", b)}, []spiffeid.ID{spiffeid.RequireFromString("spiffe://a/x")})
	named := a.SVID("spiffe://a/x", pki.URI("https://a"))
	for _, tt := range []struct {
		name  string
		roots *Roots
		cert  tls.Certificate
		good  bool
	}{
		{"a pool", RootsOf(a.Pool()), a.Client("c"), true},
		{"another pool", RootsOf(b.Pool()), a.Client("c"), false},
		{"a pool, for a server's certificate", RootsOf(a.Pool()), a.Server("s"), false},
		{"an SVID", both, a.SVID("spiffe://a/x"), true},
		{"the SVID of another trust domain", both, b.SVID("spiffe://b/x"), true},
		{"an SVID by the roots of another trust domain", both, b.SVID("spiffe://a/x"), false},
		{"an SVID of an unknown trust domain", both, a.SVID("spiffe://c/x"), false},
		{"no SVID", both, a.Client("c"), false},
		{"two IDs", both, named, false},
		{"an ID without a path", both, a.SVID("spiffe://a"), true},
		{"the ID that is expected", ids, a.SVID("spiffe://a/x"), true},
		{"another ID", ids, a.SVID("spiffe://a/y"), false},
		{"the same path of another trust domain", ids, b.SVID("spiffe://b/x"), false},
		{"nobody", domains(), a.SVID("spiffe://a/x"), false},
		{"the zero value", new(Roots), a.SVID("spiffe://a/x"), false},
	} {
		shown := []*x509.Certificate{tt.cert.Leaf}
		chains, err := tt.roots.Verify(shown, x509.ExtKeyUsageClientAuth, time.Now())
		if (err == nil) != tt.good || (len(chains) > 0) != tt.good {
			t.Errorf("ACC-1: %s: %v, %d chains", tt.name, err, len(chains))
		}
		// crypto/tls verifies with the pool, and calls Check.
		_, err = tt.cert.Leaf.Verify(x509.VerifyOptions{Roots: tt.roots.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		if check := tt.roots.Check(x509.ExtKeyUsageClientAuth); err == nil && check != nil {
			err = check(tls.ConnectionState{PeerCertificates: shown})
		}
		if (err == nil) != tt.good {
			t.Errorf("ACC-1: %s, in a handshake: %v", tt.name, err)
		}
	}
	if _, err := both.Verify(nil, x509.ExtKeyUsageClientAuth, time.Now()); err == nil {
		t.Error("ACC-1: no certificate counts")
	}
	expired := []*x509.Certificate{a.SVID("spiffe://a/x", pki.Lifetime(time.Minute)).Leaf}
	_, err := both.Verify(expired, x509.ExtKeyUsageClientAuth, time.Now().Add(2*time.Minute))
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); !ok || invalid.Reason != x509.Expired {
		t.Errorf("ACC-1: an SVID that has expired: %v", err)
	}
}

// Roots are equal if they trust the same certificates.
func TestEqual_ACC1(t *testing.T) {
	a, b := pki.NewAuthority(t, "a"), pki.NewAuthority(t, "b")
	id := []spiffeid.ID{spiffeid.RequireFromString("spiffe://a/x")}
	all := []*Roots{
		nil, new(Roots), RootsOf(a.Pool()), RootsOf(b.Pool()), domains(), domains(bundle("a", a)), domains(bundle("a", a, b)), domains(bundle("b", a)),
		domains(bundle("a", a), bundle("b", b)), domains(bundle("a", b), bundle("b", a)), RootsOfDomains([]*x509bundle.Bundle{bundle("a", a)}, id),
	}
	again := []*Roots{
		nil, new(Roots), RootsOf(a.Pool()), RootsOf(b.Pool()), domains(), domains(bundle("a", a)), domains(bundle("a", a, b)), domains(bundle("b", a)),
		domains(bundle("b", b), bundle("a", a)), domains(bundle("b", a), bundle("a", b)), RootsOfDomains([]*x509bundle.Bundle{bundle("a", a)}, id),
	}
	for i, x := range all {
		for j, y := range again {
			if x.Equal(y) != (i == j) {
				t.Errorf("%d and %d: equal is %t", i, j, x.Equal(y))
			}
		}
	}
}
