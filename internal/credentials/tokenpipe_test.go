//go:build unix

package credentials

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe is not waited for.
func TestRead_pipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadToken(pipe); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("%q, %v", got, err)
	}
}
