package keyer_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdsrelay/xdsrelay/keyer"
)

func TestPeerFromCertificate(t *testing.T) {
	uri := func(s string) *url.URL {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	for _, tc := range []struct {
		name string
		leaf *x509.Certificate
		want keyer.Peer
	}{
		{"AGG-2 no certificate", nil, keyer.Peer{}},
		{
			"AGG-2 SPIFFE ID", &x509.Certificate{URIs: []*url.URL{uri("spiffe://td/ns/sa")}},
			keyer.Peer{SPIFFE: "spiffe://td/ns/sa", URIs: []string{"spiffe://td/ns/sa"}},
		},
		{
			"AGG-2 two URIs are no SPIFFE ID", &x509.Certificate{URIs: []*url.URL{uri("spiffe://td/a"), uri("spiffe://td/b")}},
			keyer.Peer{URIs: []string{"spiffe://td/a", "spiffe://td/b"}},
		},
		{
			"ACC-1 a path with a dot segment is no SPIFFE ID", &x509.Certificate{URIs: []*url.URL{uri("spiffe://td/a/../b")}},
			keyer.Peer{URIs: []string{"spiffe://td/a/../b"}},
		},
		{
			"ACC-1 an escaped path is no SPIFFE ID", &x509.Certificate{URIs: []*url.URL{uri("spiffe://td/a%2Fb")}},
			keyer.Peer{URIs: []string{"spiffe://td/a%2Fb"}},
		},
		{
			"ACC-1 a final slash is no SPIFFE ID", &x509.Certificate{URIs: []*url.URL{uri("spiffe://td/a/")}},
			keyer.Peer{URIs: []string{"spiffe://td/a/"}},
		},
		{
			"ACC-1 a port is no trust domain", &x509.Certificate{URIs: []*url.URL{uri("spiffe://td:1/a")}},
			keyer.Peer{URIs: []string{"spiffe://td:1/a"}},
		},
		{
			"ACC-1 a user is no trust domain", &x509.Certificate{URIs: []*url.URL{uri("spiffe://td@evil/a")}},
			keyer.Peer{URIs: []string{"spiffe://td@evil/a"}},
		},
		{
			"ACC-1 upper case is no trust domain", &x509.Certificate{URIs: []*url.URL{uri("spiffe://TD/a")}},
			keyer.Peer{URIs: []string{"spiffe://TD/a"}},
		},
		{
			"ACC-1 a query is no SPIFFE ID", &x509.Certificate{URIs: []*url.URL{uri("spiffe://td/a?b")}},
			keyer.Peer{URIs: []string{"spiffe://td/a?b"}},
		},
		{
			"AGG-2 other URI", &x509.Certificate{URIs: []*url.URL{uri("https://example.com")}},
			keyer.Peer{URIs: []string{"https://example.com"}},
		},
		{
			"AGG-2 everything else",
			&x509.Certificate{
				Subject:  pkix.Name{CommonName: "proxy", Organization: []string{"o"}},
				DNSNames: []string{"proxy.example.com"}, EmailAddresses: []string{"p@example.com"}, IPAddresses: []net.IP{net.ParseIP("2001:db8::1")},
			},
			keyer.Peer{Subject: "CN=proxy,O=o", DNS: []string{"proxy.example.com"}, Emails: []string{"p@example.com"}, IPs: []string{"2001:db8::1"}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, keyer.PeerFromCertificate(tc.leaf)); diff != "" {
				t.Errorf("PeerFromCertificate (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSPIFFEParts_ACC1(t *testing.T) {
	for id, want := range map[string][2]string{
		"spiffe://td.example/ns/a/sa/b": {"td.example", "/ns/a/sa/b"},
		"spiffe://td":                   {"td", ""},
		"":                              {"", ""},
		"spiffe://":                     {"", ""},
		"spiffe://td/../a":              {"", ""},
	} {
		p := keyer.Peer{SPIFFE: id}
		if domain, path := p.SPIFFEParts(); domain != want[0] || path != want[1] {
			t.Errorf("%q: %q, %q; want %q", id, domain, path, want)
		}
	}
}
