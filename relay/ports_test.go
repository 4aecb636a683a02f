package relay

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/sockets"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
)

// many is a relay with mutual TLS on its default listener, and with more listeners.
type many struct {
	*trust

	at map[string]net.Listener
}

// newMany starts a relay with the listeners of a configuration that has mutual TLS.
func newMany(t *testing.T, change func(*config.Config, *trust)) *many {
	t.Helper()
	m := &many{trust: &trust{dir: pki.NewFolder(t), ca: pki.NewAuthority(t, "clients")}, at: make(map[string]net.Listener)}
	p := newPlaneServerAt(t, anyPort, contents{"a": "1"}, func(grpc.ServiceRegistrar) {})
	cfg := configOf(upstreamAt("plane", p.address))
	certFile, keyFile := m.dir.PutPair("relay", m.ca.Server(relayHost))
	cfg.Server.TLS = &config.ServerTLS{CertFile: certFile, KeyFile: keyFile, ClientCAFile: m.dir.PutCA("clients", m.ca)}
	change(cfg, m.trust)
	m.running = runWith(t, cfg, func(r *Relay) {
		for _, l := range cfg.Server.Listeners {
			lis, err := sockets.Listen(t.Context(), l.Listen, l.SocketMode.Std())
			if err != nil {
				t.Fatal(err)
			}
			m.at[l.Name] = lis
			if err := r.ServeListener(l.Name, lis); err != nil {
				t.Fatal(err)
			}
		}
	})
	return m
}

// listener gives a listener of the configuration.
func listenerAt(name, address string, change ...func(*config.Listener)) config.Listener {
	l := config.DefaultListener()
	l.Name, l.Listen = name, address
	for _, c := range change {
		c(&l)
	}
	return l
}

func polls(l *config.Listener) { l.Protocol = config.ProtocolREST }

func socketIn(t *testing.T, name string) string {
	t.Helper()
	return "unix://" + filepath.Join(t.TempDir(), name)
}

// dialAt connects to a gRPC listener.
func (m *many) dialAt(target string, creds credentials.TransportCredentials) *grpc.ClientConn {
	m.Helper()
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(creds))
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { _ = conn.Close() })
	return conn
}

// pollAt polls for clusters through a unix socket.
func (m *many) pollAt(listener, node string) (statusCode int, body string) {
	m.Helper()
	path := m.at[listener].Addr().String()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}}
	m.Cleanup(transport.CloseIdleConnections)
	return m.postTo("http://relay", &http.Client{Transport: transport}, node, "")
}

// Clients come through every listener, and rules see by which, and which user they are (ACC-1,
// ACC-5).
func TestListeners_ACC1_ACC5(t *testing.T) {
	me := fmt.Sprint(os.Getuid(), " ", os.Getgid())
	m := newMany(t, func(c *config.Config, _ *trust) {
		tls := *c.Server.TLS
		tls.ClientCAFile = ""
		c.Server.Listeners = []config.Listener{
			listenerAt("local", socketIn(t, "xds.sock")),
			listenerAt("polls", socketIn(t, "rest.sock"), polls),
			listenerAt("plain", "127.0.0.1:0"),
			listenerAt("tls", "127.0.0.1:0", func(l *config.Listener) { l.TLS = &tls }),
		}
		c.Access.Verify = []config.VerifyRule{{Name: "who", Require: `
			listener == "default" ? node.id == peer.spiffe && peer.uid == -1 && peer.gid == -1 :
			listener in ["local", "polls"] ? node.id == string(peer.uid) + " " + string(peer.gid) && peer.spiffe == "" :
			node.id == listener && peer.uid == -1 && peer.spiffe == ""`}}
	})
	oneWay := credentials.NewTLS(m.tls("spiffe://td/a"))
	for _, tt := range []struct {
		listener, target string
		creds            credentials.TransportCredentials
		node             string
	}{
		{"default", m.xds, credentials.NewTLS(m.tls("spiffe://td/a")), "spiffe://td/a"},
		{"local", "unix://" + filepath.Clean(strings.TrimPrefix(m.at["local"].Addr().String(), "unix://")), insecure.NewCredentials(), me},
		{"plain", m.at["plain"].Addr().String(), insecure.NewCredentials(), "plain"},
		{"tls", m.at["tls"].Addr().String(), oneWay, "tls"},
	} {
		conn := m.dialAt(tt.target, tt.creds)
		for _, form := range openForms[:len(openForms)-1] { // the control plane takes no load reports
			if got, text := code(m.begin(conn, form.method, form.first(&corev3.Node{Id: tt.node}))); got != codes.OK {
				t.Errorf("ACC-1: %s: %s: %v: %s", tt.listener, form.method, got, text)
			}
			if got, text := code(m.begin(conn, form.method, form.first(&corev3.Node{Id: "other"}))); got != codes.PermissionDenied {
				t.Errorf("ACC-5: %s: %s with another node: %v: %s", tt.listener, form.method, got, text)
			}
		}
		if answer, err := healthpb.NewHealthClient(conn).Check(t.Context(), new(healthpb.HealthCheckRequest)); err != nil || answer.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("ABS-2: %s: %v, %v", tt.listener, answer, err)
		}
	}
	if got, body := m.pollAt("polls", me); got != http.StatusOK {
		t.Errorf("ACC-1: a poll: %d: %s", got, body)
	}
	if got, body := m.pollAt("polls", "other"); got != http.StatusForbidden {
		t.Errorf("ACC-5: a poll with another node: %d: %s", got, body)
	}
	m.shows("/clients", `"listener": "local"`, fmt.Sprintf(`"uid": %d`, os.Getuid()), fmt.Sprintf("unix(uid=%d pid=%d)", os.Getuid(), os.Getpid()))
	if log := m.log.String(); !strings.Contains(log, fmt.Sprintf(`identity="uid %d" node=other`, os.Getuid())) {
		t.Errorf("the log has\n%s", log)
	}
	m.check()
}

// A listener takes no client of another one's kind: plaintext where there is TLS, none without a
// certificate where one is asked for.
func TestListenersApart_ACC1(t *testing.T) {
	m := newMany(t, func(c *config.Config, _ *trust) {
		c.Server.Listeners = []config.Listener{
			listenerAt("plain", "127.0.0.1:0"),
			listenerAt("mutual", "127.0.0.1:0", func(l *config.Listener) { l.TLS = new(*c.Server.TLS) }),
		}
	})
	bare := m.tls("spiffe://td/a")
	bare.Certificates = nil
	for name, tt := range map[string]struct {
		target string
		creds  credentials.TransportCredentials
	}{
		"plaintext to TLS":                {m.xds, insecure.NewCredentials()},
		"TLS to plaintext":                {m.at["plain"].Addr().String(), credentials.NewTLS(m.tls("spiffe://td/a"))},
		"no certificate":                  {m.xds, credentials.NewTLS(bare)},
		"no certificate, second listener": {m.at["mutual"].Addr().String(), credentials.NewTLS(bare)},
	} {
		conn := m.dialAt(tt.target, tt.creds)
		stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, openForms[0].method)
		if err == nil {
			_ = stream.SendMsg(firstDelta(&corev3.Node{Id: "a"}))
			if got, text := code(stream); got != codes.Unavailable {
				t.Errorf("ACC-1: %s: %v: %s", name, got, text)
			}
		}
	}
}

// A drain ends the streams of every listener, and the files of unix sockets go.
func TestListenersDrain_OPS4(t *testing.T) {
	m := newMany(t, func(c *config.Config, _ *trust) {
		c.Server.Listeners = []config.Listener{
			listenerAt("local", socketIn(t, "xds.sock")), listenerAt("polls", socketIn(t, "rest.sock"), polls),
		}
	})
	conn := m.dialAt("unix://"+m.at["local"].Addr().String(), insecure.NewCredentials())
	stream := m.begin(conn, openForms[0].method, firstDelta(&corev3.Node{Id: "a"}))
	if got, text := code(stream); got != codes.OK {
		t.Fatalf("%v: %s", got, text)
	}
	m.stop()
	if got, text := code(stream); got != codes.Unavailable {
		t.Errorf("OPS-4: %v: %s", got, text)
	}
	for name, lis := range m.at {
		if _, err := os.Lstat(lis.Addr().String()); !os.IsNotExist(err) {
			t.Errorf("the file of %s is still there: %v", name, err)
		}
	}
}

// A reload changes the TLS files and the identity of a listener. What belongs to its socket waits
// for a restart.
func TestListenersReload_ACC1(t *testing.T) {
	other := pki.NewAuthority(t, "other")
	m := newMany(t, func(c *config.Config, _ *trust) {
		c.Server.Listeners = []config.Listener{listenerAt("mutual", "127.0.0.1:0", func(l *config.Listener) { l.TLS = new(*c.Server.TLS) })}
	})
	conn := m.dialAt(m.at["mutual"].Addr().String(), credentials.NewTLS(m.tls("spiffe://td/a")))
	stream := m.begin(conn, openForms[0].method, firstDelta(&corev3.Node{Id: "a"}))
	if got, text := code(stream); got != codes.OK {
		t.Fatalf("%v: %s", got, text)
	}
	kept := m.begin(m.dial("spiffe://td/a"), openForms[0].method, firstDelta(&corev3.Node{Id: "a"}))
	if got, text := code(kept); got != codes.OK {
		t.Fatalf("%v: %s", got, text)
	}
	clients := m.dir.PutCA("others", other)
	m.reload(func(c *config.Config) {
		c.Server.Listeners = slices.Clone(c.Server.Listeners)
		c.Server.Listeners[0].TLS = new(*c.Server.TLS)
		c.Server.Listeners[0].Identity.Recheck = config.Duration(time.Second)
		c.Server.Listeners[0].TLS.ClientCAFile = clients
		c.Server.Listeners[0].Listen = "127.0.0.1:1"
	})
	if got, text := code(stream); got != codes.Unauthenticated {
		t.Errorf("ACC-1: %v: %s", got, text)
	}
	if log := m.log.String(); !strings.Contains(log, `a changed key needs a restart" key=server.listeners[mutual].listen`) {
		t.Errorf("the log has\n%s", log)
	}
	m.shows("/clients", `"listener": "default"`)
}

// A listener that the configuration has and nobody opened is an error, and so is one that it has not.
func TestServeListener_unknown(t *testing.T) {
	cfg := configOf(upstreamAt("plane", "127.0.0.1:1"))
	cfg.Server.Listeners = []config.Listener{listenerAt("local", "127.0.0.1:0")}
	r, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"default", "nobody"} {
		if err := r.ServeListener(name, nil); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var ports [2]net.Listener
	for i := range ports {
		if ports[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ports[i].Close() })
	}
	if err := r.Run(t.Context(), nil, ports[0], ports[1]); err == nil || !strings.Contains(err.Error(), `listener "local" has no socket`) {
		t.Errorf("Run: %v", err)
	}
}

// proxied dials like a load balancer: with a header before everything else.
func proxied(header string) grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		_, err = io.WriteString(conn, header)
		return conn, err
	})
}

// The address of a client is that of the PROXY header. Without one, the relay refuses a connection
// where it asks for one; with one, where it does not.
func TestProxyProtocol_ACC1(t *testing.T) {
	m := newMany(t, func(c *config.Config, _ *trust) {
		proxy := func(l *config.Listener) { l.ProxyProtocol = true }
		c.Server.Listeners = []config.Listener{
			listenerAt("plain", "127.0.0.1:0", proxy), listenerAt("none", "127.0.0.1:0"),
			listenerAt("mutual", "127.0.0.1:0", proxy, func(l *config.Listener) { l.TLS = new(*c.Server.TLS) }),
			listenerAt("polls", "127.0.0.1:0", proxy, polls),
		}
	})
	mutual := credentials.NewTLS(m.tls("spiffe://td/a"))
	v2 := "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xc6\x33\x64\x09\xc0\x00\x02\x01\x04\xd2\x01\xbb"
	for text, tt := range map[string]struct {
		listener, header string
		creds            credentials.TransportCredentials
		address          string // "": refused
	}{
		"version 1":              {"plain", "PROXY TCP4 192.0.2.7 192.0.2.1 4711 443\r\n", insecure.NewCredentials(), "192.0.2.7:4711"},
		"version 2":              {"plain", v2, insecure.NewCredentials(), "198.51.100.9:1234"},
		"IPv6":                   {"plain", "PROXY TCP6 2001:db8::7 2001:db8::1 4712 443\r\n", insecure.NewCredentials(), "[2001:db8::7]:4712"},
		"TLS":                    {"mutual", "PROXY TCP4 192.0.2.8 192.0.2.1 4713 443\r\n", mutual, "192.0.2.8:4713"},
		"none":                   {"plain", "", insecure.NewCredentials(), ""},
		"none, TLS":              {"mutual", "", mutual, ""},
		"half of one":            {"plain", "PROXY TCP4 192.0.2.7", insecure.NewCredentials(), ""},
		"no address":             {"plain", "PROXY TCP4 x y 1 2\r\n", insecure.NewCredentials(), ""},
		"where none is expected": {"none", "PROXY TCP4 192.0.2.9 192.0.2.1 4714 443\r\n", insecure.NewCredentials(), ""},
	} {
		conn, err := grpc.NewClient("passthrough:///"+m.at[tt.listener].Addr().String(), grpc.WithTransportCredentials(tt.creds), proxied(tt.header))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, openForms[0].method)
		got := status.Code(err)
		if err == nil {
			_ = stream.SendMsg(firstDelta(&corev3.Node{Id: text}))
			got, _ = code(stream)
		}
		switch {
		case tt.address == "" && got != codes.Unavailable:
			t.Errorf("ACC-1: %s: %v", text, got)
		case tt.address != "" && got != codes.OK:
			t.Errorf("ACC-1: %s: %v", text, got)
		case tt.address != "":
			m.shows("/clients", fmt.Sprintf(`"peer": %q`, tt.address))
		}
	}
	if page := m.page("/clients"); strings.Contains(page, "192.0.2.9") {
		t.Errorf("ACC-1: an address that nobody asked for is shown:\n%s", page)
	}
	dial := func(header string) (int, string) {
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			conn, err := d.DialContext(ctx, "tcp", m.at["polls"].Addr().String())
			if err == nil {
				_, err = io.WriteString(conn, header)
			}
			return conn, err
		}}
		defer transport.CloseIdleConnections()
		r, err := http.NewRequest(http.MethodPost, "http://relay/v3/discovery:clusters", strings.NewReader(`{"node":{"id":"poller"}}`))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := (&http.Client{Transport: transport}).Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer answer.Body.Close()
		return answer.StatusCode, ""
	}
	if got, text := dial("PROXY TCP4 192.0.2.7 192.0.2.1 4711 443\r\n"); got != http.StatusOK {
		t.Errorf("ACC-1: a poll with a header: %d %s", got, text)
	}
	if got, _ := dial(""); got == http.StatusOK {
		t.Error("ACC-1: a poll without a header is answered")
	}
	if log := m.log.String(); !strings.Contains(log, `msg="a connection is refused" peer=127.0.0.1:`) {
		t.Errorf("the log has\n%s", log)
	}
}
