package attack

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An attack that cannot begin says why.
func TestRunFails(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"client.crt", "client.key"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("no certificate"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ name, addr, want string }{
		{"crowd", "tls://127.0.0.1:1/nowhere", "no such file"},
		{"crowd", "tls://127.0.0.1:1" + folder, "certificate"},
		{"crowd", "tls://%", "address"},
		{"none", "127.0.0.1:1", "there is no attack"},
	} {
		if err := Run(t.Context(), c.name, c.addr, 1, io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s at %s: %v, want an error with %q", c.name, c.addr, err, c.want)
		}
	}
}
