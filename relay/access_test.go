package relay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// allowing is a list of one rule.
func allowing(match string) []config.AccessRule {
	return []config.AccessRule{{Name: "rule", Match: match, Effect: config.Allow}}
}

// answers gives what an incremental client is told of clusters: the code of the error of each name
// that has one, and OK for a name that is sent. It waits for all of them.
func answers(t *testing.T, conn *grpc.ClientConn, node string, headers []string, names ...string) map[string]codes.Code {
	t.Helper()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), headers...), patience)
	defer cancel()
	told := make(map[string]codes.Code)
	c := xdsclient.New(xdsclient.Options{Conn: conn, Node: &corev3.Node{Id: node}, OnResponse: func(r *xdsclient.Response) error {
		for _, ch := range r.Changes {
			switch {
			case ch.Error != nil:
				told[ch.Name] = ch.Error.Code
			case ch.Resource != nil:
				told[ch.Name] = codes.OK
			}
		}
		if len(told) == len(names) {
			cancel()
		}
		return r.Err
	}})
	c.Subscribe(clusterType, names...)
	if err := c.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	return told
}

// Access rules see through which listener a client comes, and which user it is.
func TestAccessSeesListeners_ACC1_ACC2(t *testing.T) {
	m := newMany(t, func(c *config.Config, _ *trust) {
		c.Server.Listeners = []config.Listener{listenerAt("local", socketIn(t, "xds.sock")), listenerAt("plain", "127.0.0.1:0")}
		c.Access.Otherwise = config.Deny
		c.Access.Rules = allowing(fmt.Sprintf(
			`listener == "local" && peer.uid == %d && peer.gid == %d || listener == "default" && peer.spiffe == "spiffe://td/" + name`, os.Getuid(), os.Getgid()))
	})
	for _, test := range []struct {
		what     string
		conn     *grpc.ClientConn
		expected codes.Code
	}{
		{"the socket", m.dialAt("unix://"+m.at["local"].Addr().String(), insecure.NewCredentials()), codes.OK},
		{"plaintext", m.dialAt(m.at["plain"].Addr().String(), insecure.NewCredentials()), codes.PermissionDenied},
		{"the certificate of the name", m.dialAt(m.xds, credentials.NewTLS(m.tls("spiffe://td/a"))), codes.OK},
		{"another certificate", m.dialAt(m.xds, credentials.NewTLS(m.tls("spiffe://td/b"))), codes.PermissionDenied},
	} {
		if got := answers(t, test.conn, "n", nil, "a")["a"]; got != test.expected {
			t.Errorf("ACC-2: through %s: got %v, want %v", test.what, got, test.expected)
		}
	}
	m.check()
}

// Access rules see the token of a client. One without a token has none of its rights.
func TestAccessSeesTokens_ACC1_ACC2(t *testing.T) {
	p := newPods(t, func(c *config.Config) {
		c.Access.Otherwise = config.Deny
		c.Access.Rules = allowing(`peer.token.sub == "system:serviceaccount:shop:web" && name == "a"`)
	})
	token := []string{"authorization", "Bearer " + p.token(nil)}
	if got := answers(t, p.conn, "n", token, "a", "b"); got["a"] != codes.OK || got["b"] != codes.PermissionDenied {
		t.Errorf("ACC-2: with the token: %v", got)
	}
	if got := answers(t, p.conn, "n", nil, "a"); got["a"] != codes.PermissionDenied {
		t.Errorf("ACC-2: without a token: %v", got)
	}
	p.check()
}

// blind does not judge what is subscribed to.
type blind struct{ downstream.Access }

func (blind) Forget(string, string) {}

func (blind) Subscribes(string, string) error { return nil }

// The decision falls before any look-up: no control plane hears of a denied name. With that check
// taken out one does, though the client still gets nothing.
func TestAccessBeforeLookUp_ACC2(t *testing.T) {
	start := func(judge func(downstream.Access) downstream.Access) (*planeServer, *running) {
		p := newPlaneServer(t, contents{"denied": "1", "open": "1"})
		cfg := configOf(upstreamAt("plane", p.address))
		cfg.Access.Rules = allowing(`name == "open"`)
		cfg.Access.Otherwise = config.Deny
		return p, runWith(t, cfg, func(r *Relay) { r.router.judge = judge })
	}
	asked := func(p *planeServer) []string { return p.opens().Subscribe }
	p, r := start(nil)
	c := r.join("n", "denied", "open")
	c.holds(contents{"open": "1"})
	if names := asked(p); !slices.Equal(names, []string{"open"}) {
		t.Errorf("ACC-2: the control plane was asked for %q", names)
	}
	p, r = start(func(a downstream.Access) downstream.Access { return blind{a} })
	c = r.join("n", "denied")
	if names := asked(p); !slices.Equal(names, []string{"denied"}) {
		t.Errorf("without the check the control plane was asked for %q: the test shows nothing", names)
	}
	c.Subscribe(clusterType, "open")
	c.holds(contents{"open": "1"})
	r.check()
}
