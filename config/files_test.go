package config

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/xdsrelay/xdsrelay/internal/files"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
)

func TestCheckFiles(t *testing.T) {
	dir, ca := pki.NewFolder(t), pki.NewAuthority(t, "ca")
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
test.yaml:17:18: upstreams[1].tls.cert_file: reading DIR: expected a regular file
test.yaml:21:11: upstreams[2].path: reading DIR/missing: no such file or directory
test.yaml:25:31: upstreams[3].credentials.token_file: reading DIR/empty.pem: expected a token, got an empty file
test.yaml:29:31: upstreams[4].credentials.token_file: reading DIR/missing: no such file or directory
test.yaml:33:28: upstreams[5].tls.spiffe.socket: reading DIR/missing.sock: no such file or directory`), "\n")
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A CA is no CA of relays alone if the file of a listener has it too, beside others.
func TestCheckFilesOfPeers_ACC1(t *testing.T) {
	dir, relays, clients := pki.NewFolder(t), pki.NewAuthority(t, "relays"), pki.NewAuthority(t, "clients")
	dir.PutPair("a", clients.Server("a.test"))
	own, theirs := dir.PutCA("relays", relays), dir.PutCA("clients", clients)
	both := dir.Put("both.crt", append(read(t, theirs), read(t, own)...))
	check := func(clientCA string) error {
		return mustParse(t, strings.ReplaceAll(`
upstreams: [{name: a, default: true, endpoints: ["a:1"]}]
server:
  tls: {cert_file: DIR/a.crt, key_file: DIR/a.key, client_ca_file: `+clientCA+`}
peers: {listen: ":2", identities: [spiffe://td/relay], tls: {cert_file: DIR/a.crt, key_file: DIR/a.key, ca_file: DIR/relays.crt}}
`, "DIR/", dir.Path("")+"/")).CheckFiles()
	}
	if err := check(theirs); err != nil {
		t.Errorf("ACC-1: a CA of its own: %v", err)
	}
	const want = `peers.tls.ca_file: expected a CA that server.tls.client_ca_file does not have: both files have "CN=relays", and a client of it could pass for a relay`
	if err := check(both); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("ACC-1: a CA of clients too: %v, want %s", err, want)
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// The relay does not start with an expired certificate, nor with a cache.dir that it cannot use.
func TestCheckFilesThatStopTheRelay(t *testing.T) {
	dir, ca := pki.NewFolder(t), pki.NewAuthority(t, "ca")
	dir.PutPair("old", ca.Server("a.test", pki.Lifetime(-time.Minute)))
	dir.Put("file", nil)
	config := func(s string) *Config {
		return mustParse(t, "upstreams: [{name: a, default: true, endpoints: [\"a:1\"]}]\n"+strings.ReplaceAll(s, "DIR", dir.Path("")))
	}
	for text, want := range map[string]string{
		"server: {tls: {cert_file: DIR/old.crt, key_file: DIR/old.key}}\n": "test.yaml:2:27: server.tls.cert_file: the certificate in " + dir.Path("old.crt") + " expired at ",
		"cache: {dir: DIR/file}\n":     "test.yaml:2:14: cache.dir: " + dir.Path("file") + " is no folder: expected a folder that the relay can write",
		"cache: {dir: DIR/file/sub}\n": "test.yaml:2:14: cache.dir: ",
	} {
		if err := config(text).CheckFiles(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	c := config("cache: {dir: DIR/new/cache}\n")
	if err := c.CheckFiles(); err != nil || len(c.FileWarnings()) != 0 {
		t.Errorf("a folder that is not there yet: %v, %v", err, c.FileWarnings())
	}
	folder, err := files.OS{}.Open(c.Cache.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if w := c.FileWarnings(); len(w) != 1 || !strings.HasPrefix(w[0].Error(), "test.yaml:2:14: cache.dir: a running relay uses ") {
		t.Errorf("a folder in use: %v", w)
	}
	if err := folder.Close(); err != nil {
		t.Fatal(err)
	}
	if w := c.FileWarnings(); len(w) != 0 {
		t.Errorf("a folder that was in use: %v", w)
	}
}
