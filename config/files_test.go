package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCheckFiles(t *testing.T) {
	dir := t.TempDir()
	certificate(t, filepath.Join(dir, "a"))
	certificate(t, filepath.Join(dir, "b"))
	if err := os.WriteFile(filepath.Join(dir, "empty.pem"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	inDir := func(s string) string { return strings.ReplaceAll(s, "DIR", dir) }
	good := mustParse(t, inDir(`
upstreams:
  - {name: a, default: true, endpoints: ["a:1"], tls: {ca_file: DIR/a.pem}}
  - {name: b, authorities: [b], endpoints: ["b:1"], tls: {cert_file: DIR/b.pem, key_file: DIR/b.key}}
server:
  tls: {cert_file: DIR/a.pem, key_file: DIR/a.key, client_ca_file: DIR/b.pem}
`))
	if err := good.CheckFiles(); err != nil {
		t.Errorf("good files: %v", err)
	}
	bad := mustParse(t, inDir(`
server:
  tls:
    cert_file: DIR/a.pem
    key_file: DIR/b.key
    client_ca_file: DIR/empty.pem
upstreams:
  - name: a
    default: true
    endpoints: ["a:1"]
    tls:
      ca_file: DIR/missing.pem
  - name: b
    authorities: [b]
    endpoints: ["b:1"]
    tls:
      cert_file: DIR
      key_file: DIR/b.key
`))
	err := bad.CheckFiles()
	if err == nil {
		t.Fatal("no error for bad files")
	}
	want := strings.Split(inDir(`test.yaml:4:16: server.tls.cert_file: with DIR/b.key no certificate and key: tls: private key does not match public key
test.yaml:6:21: server.tls.client_ca_file: DIR/empty.pem holds no certificate in PEM form
test.yaml:12:16: upstreams[0].tls.ca_file: reading DIR/missing.pem: no such file or directory
test.yaml:17:18: upstreams[1].tls.cert_file: reading DIR: is a directory`), "\n")
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// certificate writes a self-signed certificate to path.pem and its key to path.key.
func certificate(t *testing.T, path string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		".pem": {Type: "CERTIFICATE", Bytes: cert},
		".key": {Type: "PRIVATE KEY", Bytes: encoded},
	} {
		if err := os.WriteFile(path+name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
