package refusals

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
)

// seen is what a log of refusals and its observer have of it.
type seen struct {
	lines *logs.Limit
	heard chan Reason // nil: nobody waits

	mu         sync.Mutex // guards what follows
	log        bytes.Buffer
	handshakes map[Reason]int
	methods    int
	rules      []string // by which nodes were refused
	ended      []string // why identities ended
	admin      []AdminReason
	tokens     []string // why bearer tokens were refused
}

func (s *seen) HandshakeFailed(r Reason) {
	s.mu.Lock()
	s.handshakes[r]++
	s.mu.Unlock()
}

func (s *seen) MethodUnknown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.methods++
}

func (s *seen) Unverified(rule string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = append(s.rules, rule)
}

func (s *seen) IdentityEnded(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, reason)
}

func (s *seen) AdminRefused(r AdminReason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.admin = append(s.admin, r)
}

func (s *seen) TokenRefused(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = append(s.tokens, reason)
}

// Write takes a line of the log, which comes after the count.
func (s *seen) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heard != nil {
		for r := range s.handshakes {
			s.heard <- r
		}
	}
	return s.log.Write(line)
}

func (s *seen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// maxLines is how many lines of one message the log has in a pause.
const (
	maxLines = 16
	pause    = time.Minute
)

func newSeen(level slog.Level) (*Log, *seen) {
	s := &seen{handshakes: make(map[Reason]int)}
	s.lines = logs.NewLimit(slog.NewTextHandler(s, &slog.HandlerOptions{Level: level}), maxLines, nil)
	return New(slog.New(s.lines.Handler()), s), s
}

// handshakes are clients whose TLS handshakes come to nothing.
var handshakes = []struct {
	name   string
	reason Reason
	client func(conn net.Conn, ours, another *pki.Authority) error
}{
	{"no certificate", Certificate, func(conn net.Conn, ours, _ *pki.Authority) error {
		return shake(conn, &tls.Config{RootCAs: ours.Pool()})
	}},
	{"another authority's certificate", Certificate, func(conn net.Conn, ours, another *pki.Authority) error {
		return shake(conn, &tls.Config{RootCAs: ours.Pool(), Certificates: []tls.Certificate{another.Client("proxy")}})
	}},
	{"the relay's is not accepted", Rejected, func(conn net.Conn, _, another *pki.Authority) error {
		return shake(conn, &tls.Config{RootCAs: another.Pool()})
	}},
	{"an old version", Protocol, func(conn net.Conn, ours, _ *pki.Authority) error {
		return shake(conn, &tls.Config{RootCAs: ours.Pool(), MaxVersion: tls.VersionTLS12})
	}},
	{"plain HTTP", NotTLS, func(conn net.Conn, _, _ *pki.Authority) error {
		_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: relay\r\n\r\n")
		return err
	}},
	{"plain HTTP/2", NotTLS, func(conn net.Conn, _, _ *pki.Authority) error {
		_, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
		return err
	}},
	{"a probe", Closed, func(conn net.Conn, _, _ *pki.Authority) error { return conn.Close() }},
}

// shake has a client of TLS do its part, and read what the server makes of it.
func shake(conn net.Conn, config *tls.Config) error {
	config.ServerName, config.NextProtos = "relay", []string{"h2"}
	c := tls.Client(conn, config)
	if c.Handshake() == nil { // it may fail on one side or the other
		_, _ = c.Read(make([]byte, 1))
	}
	return nil
}

// servers are the two that log refusals, each with what ends it.
var servers = map[string]func(d *Log, lis net.Listener, config *tls.Config) (serve, stop func()){
	"gRPC": func(d *Log, lis net.Listener, config *tls.Config) (serve, stop func()) {
		s := grpc.NewServer(grpc.Creds(d.Guard(credentials.NewTLS(config))))
		return func() { _ = s.Serve(lis) }, s.Stop
	},
	"REST": func(d *Log, lis net.Listener, config *tls.Config) (serve, stop func()) {
		s := &http.Server{
			TLSConfig: config, ErrorLog: slog.NewLogLogger(d.HTTPLog(), slog.LevelDebug), ReadHeaderTimeout: time.Minute,
		}
		return func() { _ = s.ServeTLS(lis, "", "") }, func() { _ = s.Close() }
	},
}

// Who fails to shake hands is counted and logged once; a probe of the port is not worth a
// warning.
func TestHandshake_LIM4(t *testing.T) {
	ours, another := pki.NewAuthority(t, "ours"), pki.NewAuthority(t, "another")
	config := &tls.Config{
		Certificates: []tls.Certificate{ours.Server("relay")}, NextProtos: []string{"h2"},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ours.Pool(), MinVersion: tls.VersionTLS13,
	}
	for name, server := range servers {
		for _, tt := range handshakes {
			t.Run(name+"/"+tt.name, func(t *testing.T) {
				d, s := newSeen(slog.LevelDebug)
				s.heard = make(chan Reason, 10)
				lis, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				serve, stop := server(d, lis, config.Clone())
				var wg sync.WaitGroup
				wg.Go(serve)
				defer wg.Wait()
				defer stop()
				conn, err := net.Dial("tcp", lis.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if err := tt.client(conn, ours, another); err != nil {
					t.Fatal(err)
				}
				if got := <-s.heard; got != tt.reason {
					t.Errorf("the reason is %s, want %s", got, tt.reason)
				}
				warnings := 1
				if tt.reason == Closed {
					warnings = 0
				}
				log := s.text()
				if strings.Count(log, "level=WARN") != warnings || strings.Count(log, "reason="+string(tt.reason)) != 1 || s.handshakes[tt.reason] != 1 {
					t.Errorf("counted %v, and the log has\n%s", s.handshakes, log)
				}
			})
		}
	}
}

func TestReasonOf_LIM4(t *testing.T) {
	for text, want := range map[string]Reason{
		"read tcp 10.0.0.1:1->10.0.0.2:2: i/o timeout":                        Timeout,
		"read tcp 10.0.0.1:1->10.0.0.2:2: read: connection reset by peer":     Closed,
		"credentials: cannot check peer: missing selected ALPN property":      Protocol,
		"tls: no application protocol":                                        Protocol,
		"remote error: tls: unknown certificate authority":                    Rejected,
		"tls: failed to verify certificate: x509: certificate has expired":    Certificate,
		"tls: invalid signature by the client certificate: crypto/rsa: wrong": Certificate,
		"": Other,
	} {
		if got := reasonOf(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// Calls of methods that there are not are all counted. The log has some of each minute, short
// and in UTF-8, and says how many it lacks.
func TestUnknown_LIM4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, s := newSeen(slog.LevelInfo)
		lis := bufconn.Listen(1 << 20)
		server := grpc.NewServer(grpc.UnknownServiceHandler(d.Unknown))
		var wg sync.WaitGroup
		wg.Go(func() { _ = server.Serve(lis) })
		conn, err := grpc.NewClient("passthrough:///relay", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
		if err != nil {
			t.Fatal(err)
		}
		call := func(method string) {
			t.Helper()
			err := conn.Invoke(t.Context(), method, new(emptypb.Empty), new(emptypb.Empty))
			if status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), "this relay has no method") || len(err.Error()) > 1000 {
				t.Errorf("%.100s: %v", method, err)
			}
		}
		holds := func(lines, counts int) {
			t.Helper()
			synctest.Wait()
			if got := strings.Count(s.text(), "\n"); got != lines || s.methods != counts || !utf8.ValidString(s.text()) || len(s.text()) > lines*500 {
				t.Errorf("%d lines, want %d; %d are counted, want %d\n%s", got, lines, s.methods, counts, s.text())
			}
		}
		call("/envoy.service.status.v3.ClientStatusDiscoveryService/StreamClientStatus")
		for i := range maxLines + 1 {
			call(fmt.Sprintf("/example.Service/%d", i) + strings.Repeat("é\xff", 10_000))
		}
		holds(maxLines, maxLines+2)
		if !strings.Contains(s.text(), "method=/envoy.service.status.v3.ClientStatusDiscoveryService/StreamClientStatus") {
			t.Errorf("the log has\n%s", s.text())
		}
		<-time.After(pause)
		holds(maxLines+1, maxLines+2)
		if !strings.Contains(s.text(), "left_out=2 ") {
			t.Errorf("the log does not say what it lacks:\n%s", s.text())
		}
		call("/example.Service/Later")
		<-time.After(pause)
		holds(maxLines+2, maxLines+3) // a quiet minute has no end
		_ = conn.Close()
		server.Stop()
		wg.Wait()
	})
}

// Clients that may not present their nodes are all counted. The log has some of each minute, short
// and in UTF-8, and says how many it lacks.
func TestUnverified_ACC5_LIM4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, s := newSeen(slog.LevelInfo)
		long := strings.Repeat("é\xff", 10_000)
		for range maxLines + 3 {
			d.Unverified(&Unverified{From: "10.0.0.1:1", Identity: "spiffe://td/a" + long, Node: "b" + long, Rule: "own-node", Reason: long})
		}
		<-time.After(pause)
		synctest.Wait()
		text := s.text()
		if lines := strings.Count(text, "\n"); lines != maxLines+1 || len(s.rules) != maxLines+3 || len(text) > lines*1500 || !utf8.ValidString(text) {
			t.Errorf("%d lines, %d are counted\n%s", lines, len(s.rules), text)
		}
		for _, part := range []string{`identity="spiffe://td/a`, `node="b`, "rule=own-node", "left_out=3 "} {
			if !strings.Contains(text, part) {
				t.Errorf("the log has no %q:\n%s", part, text)
			}
		}
	})
}

// Identities that end are all counted, and some of each minute logged.
func TestIdentityEnded_ACC1_LIM4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, s := newSeen(slog.LevelInfo)
		for range maxLines + 2 {
			d.IdentityEnded("10.0.0.1:1", "spiffe://td/a", "expired")
		}
		s.lines.Close()
		if text := s.text(); strings.Count(text, "\n") != maxLines+1 || len(s.ended) != maxLines+2 ||
			!strings.Contains(text, "peer=10.0.0.1:1 identity=spiffe://td/a reason=expired") || !strings.Contains(text, "left_out=2 ") {
			t.Errorf("%d are counted, and the log has\n%s", len(s.ended), text)
		}
	})
}

// What an HTTP server says besides handshakes is nothing to warn of; nor are handshakes on the admin
// port, where nobody is a client.
func TestHTTPLog_LIM4(t *testing.T) {
	for level, want := range map[slog.Level]int{slog.LevelInfo: 0, slog.LevelDebug: 2} {
		d, s := newSeen(level)
		slog.NewLogLogger(d.HTTPLog(), slog.LevelDebug).Print("http: superfluous response.WriteHeader call")
		slog.NewLogLogger(d.AdminHTTPLog(), slog.LevelDebug).Print("http: TLS handshake error from 10.0.0.1:1: EOF")
		if got := strings.Count(s.text(), `level=DEBUG msg="HTTP server" error="http: `); got != want || len(s.handshakes) != 0 {
			t.Errorf("at %v: %s", level, s.text())
		}
	}
	if New(slog.New(slog.DiscardHandler), nil).Guard(nil) != nil {
		t.Error("no credentials are guarded")
	}
}
