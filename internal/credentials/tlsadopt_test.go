package credentials

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
)

// Files of other names, and a client CA that there was not, are used by what was made
// from the old ones, for new connections.
func TestAdopt(t *testing.T) {
	dir := pki.NewFolder(t)
	before, after := pki.NewAuthority(t, "before"), pki.NewAuthority(t, "after")
	oldCert, oldKey := dir.PutPair("relay.test", before.Server("relay.test"))
	newCert, newKey := dir.PutPair("new.relay.test", after.Server("relay.test"))
	ca := dir.PutCA("after", after)
	clientCert, clientKey := dir.PutPair("client.test", after.Client("client.test"))

	s := newServer(t, TLSServerConfig{CertFile: oldCert, KeyFile: oldKey})
	old := newClient(t, TLSClientConfig{CAFile: dir.PutCA("before", before)})
	stranger := newClient(t, TLSClientConfig{CAFile: ca})
	known := newClient(t, TLSClientConfig{CAFile: ca, CertFile: clientCert, KeyFile: clientKey})
	if _, _, err, _ := handshake(t, old, s, "relay.test"); err != nil {
		t.Fatal(err)
	}
	if _, err := NewTLSServer(TLSServerConfig{CertFile: newCert, KeyFile: oldKey}); err == nil {
		t.Error("a certificate and another one's key make a server")
	}
	next, err := NewTLSServer(TLSServerConfig{CertFile: newCert, KeyFile: newKey, ClientCAFile: ca})
	if err != nil {
		t.Fatal(err)
	}
	s.Adopt(next)
	if _, _, err, _ := handshake(t, old, s, "relay.test"); err == nil {
		t.Error("the old certificate is still in use")
	}
	if _, _, err, _ := handshake(t, stranger, s, "relay.test"); err == nil {
		t.Error("a client without a certificate is served")
	}
	_, server, err, serverErr := handshake(t, known, s, "relay.test")
	if err != nil || serverErr != nil {
		t.Fatal(err, serverErr)
	}
	if got := server.PeerCertificates[0].Subject.CommonName; got != "client.test" {
		t.Errorf("the client is %q", got)
	}
}
