package sockets

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestUnix_ACC1(t *testing.T) {
	for address, want := range map[string]struct {
		name string
		is   bool
		err  string
	}{
		"127.0.0.1:80":                        {"", false, ""},
		"unix:///run/x.sock":                  {"/run/x.sock", true, ""},
		"unix:////run//x.sock":                {"/run/x.sock", true, ""},
		"unix:@relay":                         {"@relay", true, ""},
		"unix://run/x.sock":                   {"", true, "expected unix:///path or unix:@name"},
		"unix:x.sock":                         {"", true, "expected unix:///path or unix:@name"},
		"unix:@":                              {"", true, "expected unix:///path or unix:@name"},
		"unix:///":                            {"", true, "expected the path of a file"},
		"unix:@a\x00b":                        {"", true, "zero byte"},
		"unix:///" + strings.Repeat("x", 106): {"/" + strings.Repeat("x", 106), true, ""},
		"unix:///" + strings.Repeat("x", 107): {"", true, "has at most 107 bytes"},
	} {
		name, is, err := Unix(address)
		if name != want.name || is != want.is || (err == nil) != (want.err == "") || err != nil && !strings.Contains(err.Error(), want.err) {
			t.Errorf("%q: %q, %t, %v; want %+v", address, name, is, err, want)
		}
	}
}

// listen gives a listener on a file.
func listen(t *testing.T, path string, mode fs.FileMode) net.Listener {
	t.Helper()
	lis, err := Listen(t.Context(), "unix://"+path, mode)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lis.Close() })
	return lis
}

// The file has the mode that is asked for, whatever the umask is, and goes with the listener.
func TestListenFile_ACC1(t *testing.T) {
	for _, mode := range []fs.FileMode{0o600, 0o660, 0o666, 0o777} {
		path := filepath.Join(t.TempDir(), "x.sock")
		lis := listen(t, path, mode)
		info, err := os.Lstat(path)
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%v, %v; want mode %v", info, err, mode)
		}
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if err := lis.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("after Close: %v", err)
		}
	}
}

// The file that a killed process left behind is replaced.
func TestListenStale_ACC1(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.sock")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	listen(t, path, 0o600)
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

// What somebody uses is not touched.
func TestListenRefuses_ACC1(t *testing.T) {
	dir := t.TempDir()
	regular, used, other := filepath.Join(dir, "file"), filepath.Join(dir, "used"), filepath.Join(dir, "other")
	if err := os.WriteFile(regular, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	listen(t, used, 0o600)
	if err := os.Symlink(used, other); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		regular:                                 "there is a file that is not a socket",
		used:                                    "another process listens on it",
		other:                                   "there is a file that is not a socket",
		filepath.Join(dir, "missing", "x.sock"): syscall.ENOENT.Error(),
	} {
		lis, err := Listen(t.Context(), "unix://"+path, 0o600)
		if err == nil {
			_ = lis.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if text, err := os.ReadFile(regular); err != nil || string(text) != "x" {
		t.Errorf("the file has %q, %v", text, err)
	}
	if conn, err := net.Dial("unix", used); err != nil {
		t.Error(err)
	} else {
		_ = conn.Close()
	}
}

// A listener that ends does not remove the file of the one that came after it.
func TestListenTakenOver_ACC1(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.sock")
	first := listen(t, path, 0o600)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second := listen(t, path, 0o600)
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

func TestListenAbstract_ACC1(t *testing.T) {
	name := "@" + t.TempDir()
	lis, err := Listen(t.Context(), "unix:"+name, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	conn, err := net.Dial("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

func TestListenTCP(t *testing.T) {
	lis, err := Listen(t.Context(), "127.0.0.1:0", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := lis.Close(); err != nil {
		t.Error(err)
	}
}
