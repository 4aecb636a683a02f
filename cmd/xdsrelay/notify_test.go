//go:build unix

package main

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// systemd is the socket of a service manager.
type systemd struct {
	*testing.T

	conn *net.UnixConn
}

func newSystemd(t *testing.T) *systemd {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	t.Setenv("NOTIFY_SOCKET", socket)
	return &systemd{t, conn}
}

// hears fails unless the next state is this one.
func (s *systemd) hears(want string) {
	s.Helper()
	if err := s.conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		s.Fatal(err)
	}
	b := make([]byte, 1024)
	n, err := s.conn.Read(b)
	if err != nil {
		s.Fatalf("waiting for %s: %v", want, err)
	}
	if got := string(b[:n]); got != want {
		s.Fatalf("systemd heard %q, want %q", got, want)
	}
}

// systemd hears that a relay serves, not before it does; that it reloads, also in vain; and that it drains.
func TestServeTellsSystemd_OPS4(t *testing.T) {
	manager := newSystemd(t)
	file := write(t, "x.yaml", good+"server: {listen: \"127.0.0.1:0\", drain: 10ms}\nadmin: {listen: \"127.0.0.1:0\"}\n")
	_, log, stop := background(t, "serve", "--config", file, "--watch-config=false")
	manager.hears("READY=1")
	answer, err := http.Get("http://" + serving(t, log)["admin"] + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("/livez is %s after READY=1", answer.Status)
	}
	for _, content := range []string{"upstreams: []\n", good} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		manager.hears("RELOADING=1")
		manager.hears("READY=1")
	}
	if code := stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	manager.hears("STOPPING=1")
}

// A manager that is gone keeps no relay from serving. The log says so.
func TestServeWithoutSystemd(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "nobody"))
	file := write(t, "x.yaml", good+"server: {listen: \"127.0.0.1:0\", drain: 10ms}\nadmin: {listen: \"127.0.0.1:0\"}\n")
	_, log, stop := background(t, "serve", "--config", file)
	r := &reloaded{t, log, ""}
	r.logs("the service manager was not told", `state="READY=1"`)
	if code := stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
