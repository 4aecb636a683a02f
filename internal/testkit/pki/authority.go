package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"time"
)

const (
	// backdated is how long before now everything is valid from, so that a test
	// may ask for a certificate that has run out.
	backdated = time.Hour
	// lifetime is how long a certificate is valid unless [Lifetime] says
	// otherwise, caLifetime how long its authority is.
	lifetime   = time.Hour
	caLifetime = 24 * time.Hour
)

// TB is what a test has that makes certificates: a [testing.TB], or a program that measures.
type TB interface {
	Helper()
	Fatal(args ...any) // ends the test: it does not return
	TempDir() string   // goes away with the test
}

// Authority is a certificate authority for one test. It is not changed after
// [NewAuthority].
type Authority struct {
	tb   TB
	root tls.Certificate
}

// NewAuthority makes an authority whose common name, the issuer of what it
// issues, is name.
func NewAuthority(tb TB, name string) *Authority {
	tb.Helper()
	a := &Authority{tb: tb}
	a.root = a.sign(&x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotAfter:              time.Now().Add(caLifetime),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	})
	return a
}

// Pool returns a pool with the authority's own certificate, for one who trusts
// it. The pool is the caller's.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.root.Leaf)
	return pool
}

// Server issues a certificate for a server: host is the DNS name that it is good
// for, and the common name. It does not serve a client.
func (a *Authority) Server(host string, options ...Option) tls.Certificate {
	a.tb.Helper()
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: host},
		DNSNames:    []string{host},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, options)
}

// Client issues a certificate for a client with that common name, which is all
// of its identity unless [URI] adds to it. It does not serve a server.
func (a *Authority) Client(commonName string, options ...Option) tls.Certificate {
	a.tb.Helper()
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: commonName},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, options)
}

// SVID issues an X509-SVID with a SPIFFE ID, which serves both sides.
func (a *Authority) SVID(id string, options ...Option) tls.Certificate {
	a.tb.Helper()
	return a.issue(&x509.Certificate{
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, append(options, URI(id)))
}

// Root is the authority's own certificate.
func (a *Authority) Root() *x509.Certificate { return a.root.Leaf }

// Key signs for the authority, for lists of what it revokes.
func (a *Authority) Key() crypto.Signer {
	key, ok := a.root.PrivateKey.(crypto.Signer)
	if !ok {
		a.tb.Fatal("the authority's key does not sign")
	}
	return key
}

// Option changes what a certificate says.
type Option func(tb TB, template *x509.Certificate)

// URI adds an alternative name, a SPIFFE ID for instance.
func URI(uri string) Option {
	return func(tb TB, template *x509.Certificate) {
		tb.Helper()
		u, err := url.Parse(uri)
		if err != nil {
			tb.Fatal(err)
		}
		template.URIs = append(template.URIs, u)
	}
}

// Lifetime is how long from now the certificate is valid, an hour without it.
// With a negative one, of less than an hour, it has run out.
func Lifetime(d time.Duration) Option {
	return func(_ TB, template *x509.Certificate) {
		template.NotAfter = time.Now().Add(d)
	}
}

func (a *Authority) issue(template *x509.Certificate, options []Option) tls.Certificate {
	a.tb.Helper()
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.NotAfter = time.Now().Add(lifetime)
	for _, change := range options {
		change(a.tb, template)
	}
	return a.sign(template)
}

// sign makes a key and has the authority sign its certificate; the first one,
// the authority's own, signs itself. The serial number is a random one.
func (a *Authority) sign(template *x509.Certificate) tls.Certificate {
	a.tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.tb.Fatal(err)
	}
	template.NotBefore = time.Now().Add(-backdated)
	parent, signer := a.root.Leaf, a.root.PrivateKey
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		a.tb.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		a.tb.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}
