package identity

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	grpccredentials "google.golang.org/grpc/credentials"

	"github.com/xdsrelay/xdsrelay/internal/credentials"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
)

// turns notes what a handshake does.
type turns struct {
	calls  []string
	refuse error
}

func (t *turns) Pause()        { t.calls = append(t.calls, "pause") }
func (t *turns) Resume() error { t.calls = append(t.calls, "resume"); return t.refuse }
func (t *turns) End(done bool) {
	t.calls = append(t.calls, map[bool]string{true: "done", false: "failed"}[done])
}

// A TLS handshake says when it waits for the client and when it computes, and what comes after it is read
// without that. It ends if it may not go on, before anything is computed.
func TestHandshakesTakeTurns_LIM1(t *testing.T) {
	ca := pki.NewAuthority(t, "ca")
	busy := errors.New("busy")
	for _, refuse := range []error{nil, busy} {
		seen := &turns{refuse: refuse}
		l := &Listener{
			Name: "default", Handshake: func(context.Context) Handshake { return seen },
			Credentials: NewWatch(func() *credentials.Roots { return nil }, time.Minute, nil).Guard(grpccredentials.NewTLS(&tls.Config{
				Certificates: []tls.Certificate{ca.Server("relay")}, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"},
			})),
		}
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		guarded := l.Guard(lis)
		said := make(chan error, 1)
		go func() {
			conn, err := tls.Dial("tcp", lis.Addr().String(), &tls.Config{RootCAs: ca.Pool(), ServerName: "relay", NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13})
			if err == nil {
				_, err = conn.Write([]byte("x"))
				defer conn.Close()
			}
			said <- err
		}()
		raw, err := guarded.Accept()
		if err != nil {
			t.Fatal(err)
		}
		conn, _, err := Credentials().ServerHandshake(raw)
		if !errors.Is(err, refuse) {
			t.Fatalf("LIM-1: %v, want %v", err, refuse)
		}
		n := len(seen.calls)
		if err != nil {
			_ = raw.Close()
			if want := []string{"pause", "resume", "failed"}; !slices.Equal(seen.calls, want) {
				t.Errorf("LIM-1: a handshake that may not go on: %q, want %q", seen.calls, want)
			}
			<-said
		} else {
			if n < 5 || seen.calls[n-1] != "done" || seen.calls[0] != "pause" || slices.Contains(seen.calls, "failed") {
				t.Errorf("LIM-1: a handshake: %q", seen.calls)
			}
			var b [1]byte
			if _, err := conn.Read(b[:]); err != nil || b[0] != 'x' || len(seen.calls) != n {
				t.Errorf("LIM-1: what is read after the handshake: %q, %v, %q", b, err, seen.calls[n:])
			}
			if err := <-said; err != nil {
				t.Error(err)
			}
			_ = conn.Close()
		}
		_ = guarded.Close()
	}
}
