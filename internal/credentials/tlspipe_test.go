//go:build unix

package credentials

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
)

// A pipe in place of a file is refused, and not waited for: perhaps nobody ever writes to it. So is a file without end.
func TestNoOrdinaryFile(t *testing.T) {
	dir := pki.NewFolder(t)
	ca := pki.NewAuthority(t, "ca")
	caFile := dir.PutCA("ca", ca)
	cert, key := dir.PutPair("a.test", ca.Server("a.test"))
	pipe, large := dir.Path("pipe"), dir.Put("large", bytes.Repeat([]byte("\n"), maxSize+1))
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for odd, want := range map[string]string{pipe: "expected a regular file", large: "expected at most", os.DevNull: "expected a regular file"} {
		for _, c := range []TLSServerConfig{
			{CertFile: odd, KeyFile: key, ClientCAFile: caFile},
			{CertFile: cert, KeyFile: odd, ClientCAFile: caFile},
			{CertFile: cert, KeyFile: key, ClientCAFile: odd},
		} {
			done := make(chan error, 1)
			go func() {
				_, err := NewTLSServer(c)
				done <- err
			}()
			select {
			case err := <-done:
				if err == nil || !strings.Contains(err.Error(), odd) || !strings.Contains(err.Error(), want) {
					t.Errorf("%+v: %v, want %s: %s", c, err, odd, want)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("%+v: it waits for somebody who writes", c)
			}
		}
	}
}
