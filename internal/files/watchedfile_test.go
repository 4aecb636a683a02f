package files

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// followed is a file that is followed, in a folder of its own.
type followed struct {
	*testing.T

	path    string
	changes chan string // what the file holds, each time that it is said to have changed
}

// follow has a file followed that holds "1".
func follow(t *testing.T, path string, change ...func(*WatchedFile)) *followed {
	t.Helper()
	f, err := NewWatchedFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f.quiet, f.poll = 10*time.Millisecond, time.Hour
	for _, c := range change {
		c(f)
	}
	x := &followed{T: t, path: path, changes: make(chan string, 100)}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		f.Run(ctx, slog.New(slog.DiscardHandler), func() {
			data, err := os.ReadFile(path)
			if err != nil {
				data = []byte("unreadable")
			}
			x.changes <- string(data)
		})
	})
	t.Cleanup(func() {
		stop()
		wg.Wait()
	})
	return x
}

func (x *followed) must(err error) {
	x.Helper()
	if err != nil {
		x.Fatal(err)
	}
}

func (x *followed) write(path, data string) {
	x.Helper()
	x.must(os.WriteFile(path, []byte(data), 0o600))
}

// replace puts another file in its place.
func (x *followed) replace(data string) {
	x.Helper()
	x.write(x.path+".new", data)
	x.must(os.Rename(x.path+".new", x.path))
}

// tells waits until a change to this content was told, and to no other one. Writing in
// place truncates first, and on a busy machine that may be for longer than is waited for.
func (x *followed) tells(want string) {
	x.Helper()
	got := <-x.changes
	for got == "" {
		got = <-x.changes
	}
	if got != want {
		x.Fatalf("told of %q, want %q", got, want)
	}
}

func TestFile(t *testing.T) {
	// in makes a folder with the file, which holds "1".
	in := func(t *testing.T) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "x.yaml")
		if err := os.WriteFile(path, []byte("1"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Run("written in place, and written again with the same", func(t *testing.T) {
		x := follow(t, in(t))
		x.write(x.path, "2")
		x.tells("2")
		x.replace("2")
		then := time.Now().Add(-time.Hour)
		x.must(os.Chtimes(x.path, then, then))
		x.write(x.path, "3")
		x.tells("3")
	})
	t.Run("replaced, as editors do", func(t *testing.T) {
		x := follow(t, in(t))
		for _, data := range []string{"2", "3"} {
			x.replace(data)
			x.tells(data)
		}
	})
	t.Run("gone and back", func(t *testing.T) {
		x := follow(t, in(t))
		x.must(os.Remove(x.path))
		x.tells("unreadable")
		x.write(x.path, "1")
		x.tells("1")
	})
	t.Run("changed before it is followed", func(t *testing.T) {
		x := follow(t, in(t), func(f *WatchedFile) {
			if err := os.WriteFile(f.path, []byte("2"), 0o600); err != nil {
				t.Fatal(err)
			}
		})
		x.tells("2")
	})
	t.Run("without a watch", func(t *testing.T) {
		x := follow(t, in(t), func(f *WatchedFile) {
			f.poll = 10 * time.Millisecond
			f.system = func() (*fsnotify.Watcher, error) { return nil, errors.New("too many") }
		})
		x.write(x.path, "2")
		x.tells("2")
	})
	t.Run("written without end", func(t *testing.T) {
		x := follow(t, in(t), func(f *WatchedFile) { f.quiet = 5 * time.Millisecond })
		for n := "2"; ; n += "2" { // never quiet for long
			x.write(x.path, n)
			select {
			case got := <-x.changes:
				if strings.Trim(got, "2") != "" {
					t.Errorf("told of %q", got)
				}
				return
			default:
			}
		}
	})
}

// TestFile_configMap replaces the contents as Kubernetes does: the file is a link into a
// folder which is a link itself, and that is swapped.
func TestFile_configMap(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("symbolic links need a privilege")
	}
	dir := t.TempDir()
	put := func(version string) {
		if err := errors.Join(
			os.Mkdir(filepath.Join(dir, "..v"+version), 0o700),
			os.WriteFile(filepath.Join(dir, "..v"+version, "x.yaml"), []byte(version), 0o600),
			os.Symlink("..v"+version, filepath.Join(dir, "..data_tmp")),
			os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")),
		); err != nil {
			t.Fatal(err)
		}
	}
	put("1")
	path := filepath.Join(dir, "x.yaml")
	if err := os.Symlink(filepath.Join("..data", "x.yaml"), path); err != nil {
		t.Fatal(err)
	}
	x := follow(t, path)
	for _, version := range []string{"2", "3", "4"} {
		put(version)
		x.tells(version)
	}
}

func TestNewFile(t *testing.T) {
	dir := t.TempDir()
	if _, err := NewWatchedFile(filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	socket := filepath.Join(dir, "s")
	lis, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	for _, path := range []string{dir, socket} {
		if _, err := NewWatchedFile(path); err == nil || !strings.Contains(err.Error(), "is no regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
