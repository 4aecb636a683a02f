package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/xdsrelay/xdsrelay/internal/pkitest"
)

func TestCheckFiles(t *testing.T) {
	dir, ca := pkitest.NewFolder(t), pkitest.NewAuthority(t, "ca")
	dir.PutPair("a", ca.Server("a.test"))
	dir.PutPair("b", ca.Client("b"))
	dir.PutCA("ca", ca)
	dir.Put("empty.pem", nil)
	dir.Put("token", []byte("t"))
	inDir := func(s string) string { return strings.ReplaceAll(s, "DIR", dir.Path("")) }
	good := mustParse(t, inDir(`
upstreams:
  - {name: a, default: true, endpoints: ["a:1"], tls: {ca_file: DIR/ca.crt}}
  - {name: b, authorities: [b], endpoints: ["b:1"], tls: {cert_file: DIR/b.crt, key_file: DIR/b.key}}
  - {name: c, authorities: [c], path: DIR}
  - {name: d, authorities: [d], path: DIR/ca.crt}
  - {name: e, authorities: [e], endpoints: ["e:1"], credentials: {token_file: DIR/token}}
server:
  tls: {cert_file: DIR/a.crt, key_file: DIR/a.key, client_ca_file: DIR/ca.crt}
`))
	if err := good.CheckFiles(); err != nil {
		t.Errorf("good files: %v", err)
	}
	bad := mustParse(t, inDir(`
server:
  tls:
    cert_file: DIR/a.crt
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
  - name: c
    authorities: [c]
    path: DIR/missing
  - name: d
    authorities: [d]
    endpoints: ["d:1"]
    credentials: {token_file: DIR/empty.pem}
  - name: e
    authorities: [e]
    endpoints: ["e:1"]
    credentials: {token_file: DIR/missing}
  - name: f
    authorities: [f]
    endpoints: ["f:1"]
    tls: {spiffe: {socket: unix://DIR/missing.sock}}
`))
	err := bad.CheckFiles()
	if err == nil {
		t.Fatal("no error for bad files")
	}
	want := strings.Split(inDir(`test.yaml:4:16: server.tls.cert_file: no certificate and key pair with DIR/b.key: tls: private key does not match public key
test.yaml:6:21: server.tls.client_ca_file: DIR/empty.pem has no certificate in PEM form
test.yaml:12:16: upstreams[0].tls.ca_file: reading DIR/missing.pem: no such file or directory
test.yaml:17:18: upstreams[1].tls.cert_file: reading DIR: is a directory
test.yaml:21:11: upstreams[2].path: reading DIR/missing: no such file or directory
test.yaml:25:31: upstreams[3].credentials.token_file: reading DIR/empty.pem: expected a token, got an empty file
test.yaml:29:31: upstreams[4].credentials.token_file: reading DIR/missing: no such file or directory
test.yaml:33:28: upstreams[5].tls.spiffe.socket: reading DIR/missing.sock: no such file or directory`), "\n")
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
