package relay

import (
	"os"
	"slices"
	"testing"

	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
)

// A file may have its key before its certificate, as TLS takes it.
func TestCertificateBehindKey_OPS6(t *testing.T) {
	dir, ca := pki.NewFolder(t), pki.NewAuthority(t, "ca")
	certFile, keyFile := dir.PutPair("s", ca.Server("a.test"))
	cert, err := os.ReadFile(certFile)
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"alone": cert, "behind its key": slices.Concat(key, cert)} {
		if got := certificateIn("server.tls", dir.Put("both", content)); got.Error != "" || got.Expires.IsZero() {
			t.Errorf("a certificate %s: %+v", name, got)
		}
	}
	if got := certificateIn("server.tls", dir.Put("key", key)); got.Error != "no certificate in PEM form" {
		t.Errorf("a key alone: %+v", got)
	}
}
