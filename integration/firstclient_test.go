package integration

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
)

// nodesSeen are all nodes that a control plane was ever shown.
type nodesSeen struct {
	mu    sync.Mutex
	nodes []*corev3.Node
}

// world notes a node, and gives each cluster contents of its own.
func (s *nodesSeen) world(n *corev3.Node) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes = append(s.nodes, n)
	return byCluster(n, "", "")
}

func (s *nodesSeen) all() []*corev3.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.nodes)
}

// entrance is a way by which the relay knows its clients.
type entrance struct {
	scope     []string
	configure func(*config.Config)
	// liar and honest are how two clients dial, of which the first presents the node of the cluster
	// "bank" that is not its own, and the second one of the cluster honestly.
	liar, honest grpc.DialOption
	cluster      string
	poll         func(*testRelay) (int, string) // the HTTP status of a poll of the liar; nil: there is no way for it
}

// byCertificate ties a node's cluster to the client's certificate. Clients of one cluster share a scope.
func byCertificate(t *testing.T) entrance {
	t.Helper()
	dir, fleet := pki.NewFolder(t), pki.NewAuthority(t, "fleet")
	server := config.ServerTLS{ClientCAFile: dir.PutCA("fleet", fleet)}
	server.CertFile, server.KeyFile = dir.PutPair("relay", fleet.Server(relayHost))
	m := &mutual{fleet: fleet}
	shown := func(who string) grpc.DialOption {
		return grpc.WithTransportCredentials(credentials.NewTLS(m.trusting(fleet.Client(who, pki.URI("spiffe://td/"+who)))))
	}
	return entrance{
		scope: []string{"node.cluster"},
		configure: func(c *config.Config) {
			c.Server.TLS = &server
			c.Access.Verify = []config.VerifyRule{{Name: "own-cluster", Require: `peer.spiffe == "spiffe://td/" + node.cluster`}}
		},
		liar: shown("shop"), honest: shown("bank"), cluster: "bank",
		poll: func(r *testRelay) (int, string) {
			with := m.trusting(fleet.Client("shop", pki.URI("spiffe://td/shop")))
			with.NextProtos = nil
			transport := &http.Transport{TLSClientConfig: with}
			defer transport.CloseIdleConnections()
			return pollAs(t, &http.Client{Transport: transport}, "https://"+r.rest, lying(), "")
		},
	}
}

// bySocket ties a node's cluster to the user at a unix socket. All clients share one scope.
func bySocket(t *testing.T) entrance {
	t.Helper()
	folder, err := os.MkdirTemp("", "xds") //nolint:usetesting // the path of a socket is short, and tests have long names
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) }) // it is in the folder for temporary files
	socket := filepath.Join(folder, "xds.sock")
	dial := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	})
	return entrance{
		scope: []string{},
		configure: func(c *config.Config) {
			local := config.DefaultListener()
			local.Name, local.Listen = "local", "unix://"+socket
			c.Server.Listeners = []config.Listener{local}
			c.Access.Verify = []config.VerifyRule{{
				Name: "own-cluster", Require: fmt.Sprintf(`listener == "local" && peer.uid == %d && node.cluster == "shop"`, os.Getuid()),
			}}
		},
		liar: dial, honest: dial, cluster: "shop",
	}
}

// lying is the node of the client that lies.
func lying() *corev3.Node {
	n := profile("bank", "vault", map[string]string{"role": "liar"})
	n.Id = "liar"
	return n
}

// pollAs gives the HTTP status of a poll for clusters, and its body. authorization goes with it unless it
// is empty.
func pollAs(t *testing.T, client *http.Client, url string, node *corev3.Node, authorization string) (int, string) {
	t.Helper()
	q, err := protojson.Marshal(&discovery.DiscoveryRequest{Node: node})
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v3/discovery:clusters", bytes.NewReader(q))
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Error(err)
	}
	return answer.StatusCode, string(body)
}

// joinNode connects a client that asks for all clusters.
func joinNode(t *testing.T, v variant, r *testRelay, node *corev3.Node, options ...grpc.DialOption) xdsClient {
	t.Helper()
	c := newVariantClient(t, v, r.addr, node.GetId(), options...)
	c.common().profile = node
	if err := c.connect(false); err != nil {
		t.Fatal(err)
	}
	c.subscribe(clusterType, []string{"*"}, nil)
	return c
}

// A first client that presents a node that is not its own is refused before a scope or a stream upstream
// begins, though the control plane would be shown its node (node: first). The control plane never sees
// it, and the honest client that comes next is served as itself.
func TestFirstClientLies_ACC5_AGG3(t *testing.T) {
	for name, way := range map[string]func(*testing.T) entrance{"a certificate": byCertificate, "a unix socket": bySocket} {
		for _, v := range []variant{deltaADS, delta, sotwADS, sotw} {
			t.Run(name+", "+v.name, func(t *testing.T) {
				e, seen := way(t), new(nodesSeen)
				w := newWorlds(t, seen.world)
				w.set(clusterType, "c1", true)
				r := startRelay(t, func(c *config.Config) {
					first := rule("first", "true", e.scope...)
					first.Node.First = true
					c.Aggregation.Rules, c.Aggregation.Otherwise = []config.Rule{first}, config.Refuse
					e.configure(c)
				}, w.front.addr)

				liar := joinNode(t, v, r, lying(), e.liar)
				if h := liar.common(); !h.happens(func() bool { return !liar.connected() }) {
					t.Fatal("ACC-5: the client that lies keeps its stream")
				}
				err := liar.(interface{ ended() error }).ended()
				if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "own-cluster") {
					t.Errorf("ACC-5: the stream ended with %v", err)
				}
				if e.poll != nil {
					if got, _ := e.poll(r); got != http.StatusForbidden {
						t.Errorf("ACC-5: a poll of the client that lies: %d", got)
					}
				}
				if page := scopesOf(t, r, ""); page.Scopes != 0 || page.Clients != 0 || len(seen.all()) != 0 {
					t.Errorf("ACC-5: %d scopes, %d clients and the nodes %v upstream", page.Scopes, page.Clients, seen.all())
				}

				node := profile(e.cluster, "z", map[string]string{"role": "honest"})
				node.Id = "honest"
				honest := joinNode(t, v, r, node, e.honest)
				h := honest.common()
				h.awaitHolding(t, clusterType, "c1")
				if got := worldOf(h.payloads(clusterType)["c1"]); got != "cluster/"+e.cluster {
					t.Errorf("AGG-3: the honest client is served %q", got)
				}
				for _, n := range seen.all() {
					if n.GetId() != "honest" || n.GetCluster() != e.cluster || role(n) != "honest" || n.GetLocality().GetZone() != "z" {
						t.Errorf("AGG-3: the control plane was shown %v", n)
					}
				}
				if n := liar.common().payloads(clusterType); len(n) != 0 {
					t.Errorf("ACC-5: the client that lies holds %v", n)
				}
				r.consistent(t)
			})
		}
	}
}

// With the node that a rule has by default, who comes first decides nothing: the control plane is shown
// the same after a client that lies in all fields that the scope does not name, as if it never came.
func TestFirstClientDecidesNothing_AGG3(t *testing.T) {
	honest := profile("bank", "z", map[string]string{"role": "honest"})
	honest.Id = "honest"
	for _, v := range []variant{deltaADS, sotwADS} {
		t.Run(v.name, func(t *testing.T) {
			shown := func(nodes ...*corev3.Node) []*corev3.Node {
				t.Helper()
				seen := new(nodesSeen)
				w := newWorlds(t, seen.world)
				w.set(clusterType, "c1", true)
				r := startRelay(t, func(c *config.Config) {
					c.Aggregation.Rules, c.Aggregation.Otherwise = []config.Rule{rule("shared", "true", "node.cluster")}, config.Refuse
				}, w.front.addr)
				for _, n := range nodes {
					h := joinNode(t, v, r, n).common()
					h.awaitHolding(t, clusterType, "c1")
					if got := worldOf(h.payloads(clusterType)["c1"]); got != "cluster/bank" {
						t.Errorf("AGG-3: %s is served %q", n.GetId(), got)
					}
				}
				if got := scopesOf(t, r, "").Scopes; got != 1 {
					t.Errorf("AGG-1: %d scopes, want a shared one", got)
				}
				for _, n := range seen.all() {
					if text := n.String(); strings.Contains(text, "liar") || strings.Contains(text, "vault") || n.GetMetadata() != nil || n.GetLocality() != nil {
						t.Errorf("AGG-3: the control plane was shown %v", n)
					}
				}
				return seen.all()
			}
			id := protocmp.IgnoreFields(&corev3.Node{}, "id") // each relay has one of its own
			if diff := cmp.Diff(shown(honest), shown(lying(), honest), protocmp.Transform(), id); diff != "" {
				t.Errorf("AGG-3: the first client decides what the control plane sees (-without +with the lie):\n%s", diff)
			}
		})
	}
}
