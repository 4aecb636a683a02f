package relay

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/xdsrelay/xdsrelay/config"
)

// own gives a listener access rules of its own.
func own(a config.ListenerAccess) func(*config.Listener) {
	return func(l *config.Listener) { l.Access = &a }
}

// A listener with rules of its own has nothing of those for all others, and gives them nothing.
func TestAccessOfListeners_ACC2_ACC5(t *testing.T) {
	m := newMany(t, func(c *config.Config, _ *trust) {
		c.Server.Listeners = []config.Listener{
			listenerAt("local", socketIn(t, "xds.sock"), own(config.ListenerAccess{
				Otherwise: config.Deny, Rules: allowing(fmt.Sprintf("peer.uid == %d", os.Getuid())),
				Verify: []config.VerifyRule{{Name: "own-name", Require: `node.id == "me"`}},
			})),
			listenerAt("open", "127.0.0.1:0", own(config.DefaultListenerAccess())),
			listenerAt("plain", "127.0.0.1:0"),
			listenerAt("polls", "127.0.0.1:0", polls, own(config.ListenerAccess{
				Otherwise: config.Deny, Verify: []config.VerifyRule{{Name: "pollers", Require: `node.id == "poller"`}},
			})),
		}
		c.Access.Otherwise = config.Deny
		c.Access.Rules = allowing(`peer.spiffe == "spiffe://td/" + name`)
		c.Access.Verify = []config.VerifyRule{{Name: "certified", Require: `listener == "plain" || peer.spiffe != ""`}}
	})
	dial := func(name string) *grpc.ClientConn {
		return m.dialAt(m.at[name].Addr().String(), insecure.NewCredentials())
	}
	local := m.dialAt("unix://"+m.at["local"].Addr().String(), insecure.NewCredentials())
	for _, test := range []struct {
		what     string
		conn     *grpc.ClientConn
		expected codes.Code
	}{
		{"the socket, by its own rules", local, codes.OK},
		{"a listener whose own rules are none", dial("open"), codes.OK},
		{"a listener without rules of its own", dial("plain"), codes.PermissionDenied},
		{"the default one", m.dialAt(m.xds, credentials.NewTLS(m.tls("spiffe://td/a"))), codes.OK},
		{"the default one with another certificate", m.dialAt(m.xds, credentials.NewTLS(m.tls("spiffe://td/b"))), codes.PermissionDenied},
	} {
		if got := answers(t, test.conn, "me", nil, "a")["a"]; got != test.expected {
			t.Errorf("ACC-2: through %s: got %v, want %v", test.what, got, test.expected)
		}
	}
	for _, form := range openForms[:2] {
		if got, text := code(m.begin(local, form.method, form.first(&corev3.Node{Id: "other"}))); got != codes.PermissionDenied || !strings.Contains(text, "own-name") {
			t.Errorf("ACC-5: another node through the socket: %v: %s", got, text)
		}
	}
	url := "http://" + m.at["polls"].Addr().String()
	if got, body := m.postTo(url, http.DefaultClient, "other", ""); got != http.StatusForbidden || !strings.Contains(body, "pollers") {
		t.Errorf("ACC-5: a poll: %d: %s", got, body)
	}
	if got, body := m.postTo(url, http.DefaultClient, "poller", ""); strings.Contains(body, `"name":"a"`) {
		t.Errorf("ACC-2: a poll was answered with %d: %s", got, body)
	}
	m.shows("/metrics", `xdsrelay_access_unverified_total{rule="own-name"} 2`, `xdsrelay_access_unverified_total{rule="pollers"} 1`,
		`xdsrelay_access_unverified_total{rule="certified"} 0`)
	m.check()
}

// A reload that gives a listener rules of its own ends the streams of its clients that may get something
// else now, and of nobody else. So does one that takes them away.
func TestAccessOfListenersReload_ACC2_ACC5(t *testing.T) {
	m := newMany(t, func(c *config.Config, _ *trust) {
		c.Server.TLS = nil
		c.Server.Listeners = []config.Listener{listenerAt("one", "127.0.0.1:0"), listenerAt("two", "127.0.0.1:0")}
		c.Access.Rules = []config.AccessRule{{Name: "unused", Match: `name == "nothing"`, Effect: config.Deny}}
	})
	stream := func(name string) grpc.ClientStream {
		conn := m.dialAt(m.at[name].Addr().String(), insecure.NewCredentials())
		s := m.begin(conn, openForms[0].method, firstDelta(&corev3.Node{Id: "n"}))
		if got, text := code(s); got != codes.OK {
			t.Fatalf("%s: %v: %s", name, got, text)
		}
		return s
	}
	first, kept := stream("one"), m.join("n", "a")
	kept.holds(contents{"a": "1"})
	access := func(a *config.ListenerAccess) func(*config.Config) {
		return func(c *config.Config) {
			c.Server.Listeners = slices.Clone(c.Server.Listeners)
			c.Server.Listeners[0].Access = a
		}
	}
	m.reload(access(&config.ListenerAccess{Otherwise: config.Deny, Rules: allowing(`name == "b"`)}))
	if got, text := code(first); got != codes.Unavailable {
		t.Errorf("ACC-2: a client of the listener: %v: %s", got, text)
	}
	conn := m.dialAt(m.at["one"].Addr().String(), insecure.NewCredentials())
	if got := answers(t, conn, "n", nil, "a")["a"]; got != codes.PermissionDenied {
		t.Errorf("ACC-2: after the reload: %v", got)
	}
	m.reload(access(&config.ListenerAccess{
		Otherwise: config.Allow, Verify: []config.VerifyRule{{Name: "nobody", Require: `node.id == "x"`}},
	}))
	if got, text := code(m.begin(conn, openForms[0].method, firstDelta(&corev3.Node{Id: "n"}))); got != codes.PermissionDenied || !strings.Contains(text, "nobody") {
		t.Errorf("ACC-5: after the second reload: %v: %s", got, text)
	}
	m.reload(access(nil))
	if got := answers(t, conn, "n", nil, "a")["a"]; got != codes.OK {
		t.Errorf("ACC-2: without rules of its own: %v", got)
	}
	if got := answers(t, m.dialAt(m.at["two"].Addr().String(), insecure.NewCredentials()), "n", nil, "a")["a"]; got != codes.OK {
		t.Errorf("ACC-2: the other listener: %v", got)
	}
	if lost := kept.lost(); lost != "" {
		t.Errorf("a client of another listener lost %s", lost)
	}
	m.check()
}
