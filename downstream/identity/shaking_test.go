package identity

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
)

// secured is a listener of TLS for HTTP, with a CA that its clients trust.
func secured(t *testing.T, handshake func(context.Context) Handshake) (net.Listener, *tls.Config) {
	t.Helper()
	ca := pki.NewAuthority(t, "ca")
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Listener{Name: "default", Handshake: handshake}
	config := &tls.Config{Certificates: []tls.Certificate{ca.Server("relay")}, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2", "http/1.1"}}
	return l.Secure(l.Guard(lis), config), &tls.Config{RootCAs: ca.Pool(), ServerName: "relay", MinVersion: tls.VersionTLS13}
}

// The handshakes of clients that poll wait for their turns, too, and HTTP is served behind them in both versions.
func TestHandshakesOfHTTPTakeTurns_LIM1(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		seen := &turns{}
		lis, trusted := secured(t, func(context.Context) Handshake { return seen })
		server := &http.Server{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Client", ClientOf(r.Context()).Listener.Name)
			}),
			Protocols: new(http.Protocols), TLSConfig: &tls.Config{NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS13}, ConnContext: Context,
		}
		server.Protocols.SetHTTP1(true)
		server.Protocols.SetHTTP2(true)
		served := make(chan error, 1)
		go func() { served <- server.Serve(lis) }()
		transport := &http.Transport{TLSClientConfig: trusted, ForceAttemptHTTP2: http2}
		response, err := (&http.Client{Transport: transport}).Get("https://" + lis.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if want := map[bool]int{false: 1, true: 2}[http2]; response.ProtoMajor != want || response.Header.Get("Client") != "default" || response.TLS == nil {
			t.Errorf("LIM-1: the answer came over HTTP/%d, from the listener %q", response.ProtoMajor, response.Header.Get("Client"))
		}
		transport.CloseIdleConnections()
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		if n := len(seen.calls); n < 5 || seen.calls[0] != "pause" || seen.calls[n-1] != "done" || slices.Contains(seen.calls, "failed") {
			t.Errorf("LIM-1: a handshake: %q", seen.calls)
		}
	}
}

// A handshake that may not go on comes out as one that failed, and so does one with a client that speaks no TLS.
func TestHandshakesOfHTTPFail_LIM1(t *testing.T) {
	busy := errors.New("busy")
	for _, tt := range []struct {
		name  string
		turns *turns
		says  []byte // in place of a handshake
		check func(error) bool
	}{
		{"busy", &turns{refuse: busy}, nil, func(err error) bool { return errors.Is(err, busy) }},
		{"not TLS", &turns{}, []byte("GET / HTTP/1.1\r\n\r\n"), func(err error) bool {
			_, ok := errors.AsType[tls.RecordHeaderError](err)
			return ok
		}},
	} {
		lis, trusted := secured(t, func(context.Context) Handshake { return tt.turns })
		raw, err := net.Dial("tcp", lis.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if tt.says != nil {
			_, _ = raw.Write(tt.says)
		} else {
			go func() { _ = tls.Client(raw, trusted).Handshake() }()
		}
		conn, err := lis.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.(*tls.Conn).Handshake(); !tt.check(err) {
			t.Errorf("LIM-1: %s: the handshake ended with %v", tt.name, err)
		}
		if calls := tt.turns.calls; calls[len(calls)-1] != "failed" {
			t.Errorf("LIM-1: %s: %q", tt.name, calls)
		}
		_ = conn.Close()
		_ = raw.Close()
		_ = lis.Close()
	}
}

// The end of the listener cuts those off that shake hands, and those that nobody accepted.
func TestHandshakesOfHTTPEnd_LIM1(t *testing.T) {
	started := make(chan Handshake, 2)
	lis, trusted := secured(t, func(context.Context) Handshake { s := &turns{}; started <- s; return s })
	silent, err := net.Dial("tcp", lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	<-started
	done, err := tls.Dial("tcp", lis.Addr().String(), trusted)
	if err != nil {
		t.Fatal(err)
	}
	defer done.Close()
	if err := lis.Close(); err != nil {
		t.Error(err)
	}
	if err := lis.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closing again: %v", err)
	}
	if _, err := lis.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after the end: %v", err)
	}
	for name, conn := range map[string]net.Conn{"silent": silent, "done": done} {
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Errorf("the connection of the client that is %s goes on", name)
		}
	}
}

// queued is a handshake that waits for its turn until its context ends.
type queued struct {
	ctx     context.Context
	waiting chan struct{}
	ended   chan bool
}

func (*queued) Pause() {}
func (q *queued) Resume() error {
	close(q.waiting)
	<-q.ctx.Done()
	return q.ctx.Err()
}
func (q *queued) End(done bool) { q.ended <- done }

// An HTTP server that is shut down waits for no handshake that waits for its turn: it closes its listener before it looks
// at its own context, and under its lock.
func TestHandshakesOfHTTPShutDown_LIM1(t *testing.T) {
	waiting, ended := make(chan struct{}), make(chan bool, 1)
	lis, trusted := secured(t, func(ctx context.Context) Handshake { return &queued{ctx, waiting, ended} })
	server := &http.Server{Handler: http.NotFoundHandler(), ConnContext: Context, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(lis) }()
	raw, err := net.Dial("tcp", lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	shaken := make(chan error, 1)
	go func() { shaken <- tls.Client(raw, trusted).Handshake() }()
	<-waiting
	if err := server.Shutdown(t.Context()); err != nil { // hangs if the wait goes on
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	select {
	case done := <-ended:
		if done {
			t.Error("LIM-1: the handshake is done, which had no turn")
		}
	default:
		t.Error("LIM-1: the listener is closed, and the handshake goes on")
	}
	if err := <-shaken; err == nil {
		t.Error("LIM-1: the client has a connection")
	}
}
