package pki

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"slices"
	"testing"
	"time"
)

func TestAuthority(t *testing.T) {
	const id = "spiffe://example.org/proxy"
	ca, other := NewAuthority(t, "ca"), NewAuthority(t, "other")
	server, client := ca.Server("relay.test"), ca.Client("proxy", URI(id))
	expired := ca.Server("relay.test", Lifetime(-time.Minute))

	serves := x509.VerifyOptions{DNSName: "relay.test", Roots: ca.Pool()}
	asks := x509.VerifyOptions{Roots: ca.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, tt := range []struct {
		name   string
		cert   tls.Certificate
		verify x509.VerifyOptions
		good   bool
	}{
		{"a server", server, serves, true},
		{"a client", client, asks, true},
		{"a server as a client", server, asks, false},
		{"a client as a server", client, x509.VerifyOptions{Roots: ca.Pool()}, false},
		{"another host", server, x509.VerifyOptions{DNSName: "elsewhere.test", Roots: ca.Pool()}, false},
		{"another authority", server, x509.VerifyOptions{Roots: other.Pool()}, false},
		{"expired", expired, serves, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := tt.cert.Leaf.Verify(tt.verify); (err == nil) != tt.good {
				t.Errorf("verified: %v", err)
			}
		})
	}
	if got := client.Leaf; got.Subject.CommonName != "proxy" || got.Issuer.CommonName != "ca" || len(got.URIs) != 1 || got.URIs[0].String() != id {
		t.Errorf("the client is %q with %v, by %q", got.Subject, got.URIs, got.Issuer)
	}
	if ca.Server("relay.test").Leaf.SerialNumber.Cmp(server.Leaf.SerialNumber) == 0 {
		t.Error("two certificates have one serial number")
	}
}

func TestFolder(t *testing.T) {
	dir, ca := NewFolder(t), NewAuthority(t, "ca")
	var certFile, keyFile string
	var want tls.Certificate
	for range 2 { // the second replaces the first
		want = ca.Server("relay.test")
		certFile, keyFile = dir.PutPair("relay", want)
	}
	got, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Leaf.Equal(want.Leaf) {
		t.Error("the files are not those of the last certificate")
	}
	pem, err := os.ReadFile(dir.PutCA("ca", ca))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) || !roots.Equal(ca.Pool()) {
		t.Error("the CA file is not the authority's pool")
	}

	list, err := os.ReadDir(dir.Path(""))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	if want := []string{"ca.crt", "relay.crt", "relay.key"}; !slices.Equal(names, want) {
		t.Errorf("the folder holds %v, want %v", names, want)
	}
}
