//go:build unix

package files

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A pipe that takes a file's place is not waited for: perhaps nobody ever writes to it.
func TestFile_pipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(path, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := NewWatchedFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f.quiet, f.poll = time.Millisecond, time.Millisecond
	if err := f.Check(); err != nil {
		t.Errorf("a file: %v", err)
	}
	if err := syscall.Mkfifo(path+".new", 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	told := make(chan error, 100)
	var wg sync.WaitGroup
	wg.Go(func() { f.Run(ctx, slog.New(slog.DiscardHandler), func() { told <- f.Check() }) })
	if err := <-told; err == nil || !strings.Contains(err.Error(), "is no regular file") {
		t.Errorf("a pipe: %v", err)
	}
	stop()
	wg.Wait()
}
