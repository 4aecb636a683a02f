//go:build unix

package config

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
)

// Nobody may ever write to a pipe: it is refused, and not waited for.
func TestCheckFilesPipe_ACC1(t *testing.T) {
	dir := pki.NewFolder(t)
	if err := syscall.Mkfifo(dir.Path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, keys := range []string{"ca_file: PIPE", "cert_file: PIPE, key_file: PIPE"} {
		c := mustParse(t, strings.ReplaceAll("upstreams: [{name: a, default: true, endpoints: [\"a:1\"], tls: {"+keys+"}}]\n", "PIPE", dir.Path("pipe")))
		done := make(chan error, 1)
		go func() { done <- c.CheckFiles() }()
		if err := <-done; err == nil || !strings.Contains(err.Error(), "expected a regular file") {
			t.Errorf("%s: %v", keys, err)
		}
	}
}

func TestOpenFiles_ACC6(t *testing.T) {
	dir, ca := pki.NewFolder(t), pki.NewAuthority(t, "ca")
	dir.PutPair("a", ca.Server("a.test"))
	dir.Put("token", []byte("t"))
	c := mustParse(t, strings.ReplaceAll(`server: {tls: {cert_file: DIR/a.crt, key_file: DIR/a.key}, listeners: [{name: l, listen: ":1", tls: {cert_file: DIR/a.crt, key_file: DIR/a.key}}]}
admin: {tokens_file: DIR/token, tls: {cert_file: DIR/a.crt, key_file: DIR/a.key}}
upstreams: [{name: a, default: true, endpoints: ["a:1"], credentials: {token_file: DIR/token}, tls: {cert_file: DIR/a.crt, key_file: DIR/a.key}}]
`, "DIR", dir.Path("")))
	warned := func() (at []string) {
		for _, w := range c.OpenFiles() {
			path, rest, _ := strings.Cut(strings.TrimPrefix(w.Error(), "test.yaml:"), ": every user may read ")
			if !strings.HasPrefix(rest, dir.Path("")) {
				t.Errorf("%v names no file", w)
			}
			at = append(at, path[strings.Index(path, " ")+1:])
		}
		return at
	}
	mode := func(m os.FileMode) {
		for _, file := range []string{"a.key", "token"} {
			if err := os.Chmod(dir.Path(file), m); err != nil {
				t.Fatal(err)
			}
		}
	}
	mode(0o640)
	if at := warned(); at != nil {
		t.Errorf("ACC-6: files of the group are warned of: %v", at)
	}
	mode(0o644)
	const want = "admin.tls.key_file server.listeners[0].tls.key_file server.tls.key_file admin.tokens_file upstreams[0].tls.key_file upstreams[0].credentials.token_file"
	if got := strings.Join(warned(), " "); got != want {
		t.Errorf("ACC-6: warned of %s, want %s", got, want)
	}
}
