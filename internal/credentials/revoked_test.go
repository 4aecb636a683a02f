package credentials

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
)

// list gives a revocation list of an authority.
func list(t *testing.T, a *pki.Authority, next time.Duration, revoked ...*x509.Certificate) []byte {
	t.Helper()
	template := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now().Add(-2 * time.Hour), NextUpdate: time.Now().Add(next)}
	for _, c := range revoked {
		template.RevokedCertificateEntries = append(template.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: c.SerialNumber, RevocationTime: time.Now()})
	}
	der, err := x509.CreateRevocationList(rand.Reader, template, a.Root(), a.Key())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})
}

// A client whose certificate its CA revoked is refused in the handshake, and judged so when it is looked at again (ACC-1).
func TestRevoked_ACC1(t *testing.T) {
	dir, ca := pki.NewFolder(t), pki.NewAuthority(t, "ca")
	good, bad := ca.Client("good"), ca.Client("bad")
	cert, key := dir.PutPair("server", ca.Server("relay.test"))
	caFile := dir.PutCA("ca", ca)
	s, err := NewTLSServer(TLSServerConfig{CertFile: cert, KeyFile: key, ClientCAFile: caFile, ClientCRLFile: dir.Put("crl", list(t, ca, time.Hour, bad.Leaf)), Refresh: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, served := range map[string]bool{"good": true, "bad": false} {
		leaf := map[string]*x509.Certificate{"good": good.Leaf, "bad": bad.Leaf}[name]
		pair := good
		if !served {
			pair = bad
		}
		certFile, keyFile := dir.PutPair(name, pair)
		c, err := NewTLSClient(TLSClientConfig{CertFile: certFile, KeyFile: keyFile, CAFile: caFile, Refresh: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		_, _, _, serverErr := handshake(t, c, s, "relay.test")
		c.Close()
		if (serverErr == nil) != served || !served && !strings.Contains(serverErr.Error(), "revoked") {
			t.Errorf("ACC-1: %s: %v", name, serverErr)
		}
		if _, err := s.Clients().Verify([]*x509.Certificate{leaf}, x509.ExtKeyUsageClientAuth, time.Now()); (err == nil) != served {
			t.Errorf("ACC-1: %s looked at again: %v", name, err)
		}
	}
	without := RootsOf(ca.Pool())
	if s.Clients().Equal(without) || !s.Clients().Equal(s.Clients()) {
		t.Error("ACC-1: a list makes no difference to whom the relay trusts, and nobody is judged again")
	}
}

func TestParseRevoked_ACC1(t *testing.T) {
	dir, ca, other := pki.NewFolder(t), pki.NewAuthority(t, "ca"), pki.NewAuthority(t, "other")
	cas, err := os.ReadFile(dir.PutCA("ca", ca))
	if err != nil {
		t.Fatal(err)
	}
	for text, tt := range map[string]struct {
		lists []byte
		want  string
	}{
		"a list":             {list(t, ca, time.Hour), ""},
		"of another CA":      {list(t, other, time.Hour), "none of the CAs of client_ca_file signed the list of"},
		"out of date":        {list(t, ca, -time.Hour), "should have been replaced at"},
		"no list":            {cas, "no PEM block in it is a revocation list"},
		"a list and another": {append(list(t, ca, time.Hour), list(t, other, time.Hour)...), "none of the CAs"},
		"cut short":          {cut(list(t, ca, time.Hour), list(t, ca, time.Hour)), "is not whole"},
		"broken":             {pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: []byte("x")}), "x509"},
	} {
		_, err := ParseRevoked(tt.lists, cas, time.Now())
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("ACC-1: %s: %v, want %q", text, err, tt.want)
		}
	}
}

// cut gives two lists, of which the second is not written to its end.
func cut(whole, half []byte) []byte { return append(whole, half[:len(half)/2]...) }

// A list that nobody renews counts on, and does not have the server's own certificate run out (ACC-1).
func TestStaleList_ACC1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, ca := pki.NewFolder(t), pki.NewAuthority(t, "ca")
		bad := ca.Client("bad")
		cert, key := dir.PutPair("server", ca.Server("relay.test"))
		var told reports
		s := newServer(t, TLSServerConfig{
			CertFile: cert, KeyFile: key, ClientCAFile: dir.PutCA("ca", ca), ClientCRLFile: dir.Put("crl", list(t, ca, time.Hour, bad.Leaf)), Refresh: time.Second, Report: told.add,
		})
		for name, spoil := range map[string]func(){
			"out of date": func() { dir.Put("crl", list(t, ca, -time.Hour)) },
			"gone":        func() { _ = os.Remove(dir.Path("crl")) },
		} {
			spoil()
			next := ca.Server("relay.test")
			dir.PutPair("server", next)
			<-time.After(3300 * time.Millisecond)
			cfg, err := s.current()
			if err != nil {
				t.Fatal(err)
			}
			if !cfg.Certificates[0].Leaf.Equal(next.Leaf) {
				t.Errorf("ACC-1: the list is %s, and the server shows its old certificate", name)
			}
			if _, err := s.Clients().Verify([]*x509.Certificate{bad.Leaf}, x509.ExtKeyUsageClientAuth, time.Now()); err == nil {
				t.Errorf("ACC-1: the list is %s, and who was on it counts", name)
			}
			if got := told.take(); len(got) == 0 || got[len(got)-1] == nil {
				t.Errorf("ACC-1: the list is %s, and nobody is told: %v", name, got)
			}
		}
	})
}
