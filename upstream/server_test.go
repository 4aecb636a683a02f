package upstream

import (
	"context"
	"encoding/pem"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	clusterservice "github.com/envoyproxy/go-control-plane/envoy/service/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	endpointservice "github.com/envoyproxy/go-control-plane/envoy/service/endpoint/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	serverv3 "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/xdsrelay/xdsrelay/internal/tlsfiles"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// controlPlane is go-control-plane's server with a snapshot on loopback.
type controlPlane struct {
	t     *testing.T
	cache cachev3.SnapshotCache
	addr  string

	mu       sync.Mutex
	requests []*discoveryv3.DeltaDiscoveryRequest
}

func newControlPlane(t *testing.T) *controlPlane {
	t.Helper()
	return &controlPlane{t: t, cache: cachev3.NewSnapshotCache(true, cachev3.IDHash{}, nil)}
}

// set publishes clusters, each with endpoints, for the node "relay".
func (cp *controlPlane) set(version string, names ...string) {
	cp.t.Helper()
	var cs, es []types.Resource
	for _, name := range names {
		cs = append(cs, &clusterv3.Cluster{Name: name, AltStatName: version})
		es = append(es, &endpointv3.ClusterLoadAssignment{ClusterName: name})
	}
	snap, err := cachev3.NewSnapshot(version, map[resourcev3.Type][]types.Resource{
		resourcev3.ClusterType: cs, resourcev3.EndpointType: es,
	})
	if err != nil {
		cp.t.Fatal(err)
	}
	if err := cp.cache.SetSnapshot(cp.t.Context(), "relay", snap); err != nil {
		cp.t.Fatal(err)
	}
}

// serve starts the server, at the address it had before if it had one.
func (cp *controlPlane) serve(opts ...grpc.ServerOption) (stop func()) {
	cp.t.Helper()
	addr := cp.addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	lis, err := net.Listen("tcp", addr)
	if err != nil {
		cp.t.Fatal(err)
	}
	cp.addr = lis.Addr().String()
	ctx, cancel := context.WithCancel(cp.t.Context())
	srv := grpc.NewServer(opts...)
	xds := serverv3.NewServer(ctx, cp.cache, serverv3.CallbackFuncs{
		StreamDeltaRequestFunc: func(_ int64, req *discoveryv3.DeltaDiscoveryRequest) error {
			cp.mu.Lock()
			defer cp.mu.Unlock()
			cp.requests = append(cp.requests, req)
			return nil
		},
	})
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(srv, xds)
	clusterservice.RegisterClusterDiscoveryServiceServer(srv, xds)
	endpointservice.RegisterEndpointDiscoveryServiceServer(srv, xds)
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(lis) })
	stop = sync.OnceFunc(func() { cancel(); srv.Stop(); wg.Wait() })
	cp.t.Cleanup(stop)
	return stop
}

// eventually waits for what a real server does in its own time.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline, tick := time.After(10*time.Second), time.NewTicker(2*time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}

// names lists what the store was given of a type and not taken away again.
func (s *memStore) names(typeURL string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := map[string]bool{}
	for _, r := range s.applied {
		if r.TypeURL != typeURL {
			continue
		}
		for _, res := range r.Resources {
			held[res.Name] = true
		}
		for _, name := range r.Removed {
			delete(held, name)
		}
	}
	var out []string
	for name := range held {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Against go-control-plane: a first state, changes, a restart of the server with
// other contents meanwhile, of which only the difference comes (RES-12).
func TestRES12GoControlPlane(t *testing.T) {
	cp := newControlPlane(t)
	cp.set("1", "a", "b")
	stop := cp.serve()
	store := newStore(sub(clusters, "*"), sub(endpoints, "a", "b"))
	// No questions: the first request after the restart is to be that of the stream (SUR-2).
	cfg := Config{Endpoints: [][]string{{cp.addr}}, Backoff: Backoff{Base: 10 * time.Millisecond}, Keepalive: Keepalive{Response: -1}}
	s := run(t, newUpstream(t, cfg), store, nil)
	holds := func(typeURL string, want ...string) func() bool {
		return func() bool { return slices.Equal(store.names(typeURL), want) }
	}
	eventually(t, "the first clusters", holds(clusters, "a", "b"))
	eventually(t, "the first endpoints", holds(endpoints, "a", "b"))

	cp.set("2", "b", "c")
	eventually(t, "changed clusters", holds(clusters, "b", "c"))
	eventually(t, "removed endpoints", holds(endpoints, "b"))

	store.want(0, []wire.Subscription{sub(clusters, "*"), sub(endpoints, "b", "c")},
		wire.Subscription{TypeURL: endpoints, Subscribe: []string{"c"}, Unsubscribe: []string{"a"}})
	eventually(t, "new endpoints", holds(endpoints, "b", "c"))
	eventually(t, "answers to everything", func() bool {
		st := s.Status()
		return st.Responses == st.Acks && st.Nacks == 0 && st.State == StateConnected
	})

	stop()
	eventually(t, "the loss", func() bool { return s.Status().State == StateConnecting })
	cp.mu.Lock()
	cp.requests = nil
	cp.mu.Unlock()
	// Of the clusters "c" is as it was, by its version of the content; "d" is new.
	cp.set("2", "c", "d")
	store.mu.Lock()
	store.versions[clusters] = map[string]string{"b": "gone", "c": store.versions[clusters]["c"]}
	store.applied = nil
	store.mu.Unlock()
	cp.serve()
	eventually(t, "what is new", func() bool { return slices.Contains(store.names(clusters), "d") })
	if store.get(func(s *memStore) {
		for _, r := range s.applied {
			if r.TypeURL == clusters && !slices.Equal(r.Removed, []string{"b"}) {
				t.Errorf("removed %v, want b", r.Removed)
			}
		}
	}); slices.Contains(store.names(clusters), "c") {
		t.Error("what had not changed came again")
	}
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if first := cp.requests[0]; first.GetNode().GetId() != "relay" || first.GetInitialResourceVersions()["c"] == "" {
		t.Errorf("first request after the restart: %v", first)
	}
}

// A snapshot that is not in ADS mode answers for some of its names too, and every
// type at its own version (VAR-1, VAR-3, ACK-2, STR-9).
func TestVAR1VAR3SnapshotWithoutADS(t *testing.T) {
	for _, api := range []APIType{AggregatedGRPC, GRPC} {
		t.Run(string(api), func(t *testing.T) {
			cp := &controlPlane{t: t, cache: cachev3.NewSnapshotCache(false, cachev3.IDHash{}, nil)}
			cp.set("1", "a", "b")
			cp.serve()
			store := newStore(sub(clusters, "*"), sub(endpoints, "a"))
			eds := streamOf(0)
			if api.PerType() {
				store = newTypedStore(sub(clusters, "*"), sub(endpoints, "a"))
				eds.TypeURL = endpoints
			}
			s := run(t, newUpstream(t, Config{Endpoints: [][]string{{cp.addr}}, APIType: api}), store, nil)
			holds := func(typeURL string, want ...string) func() bool {
				return func() bool { return slices.Equal(store.names(typeURL), want) }
			}
			eventually(t, "the first clusters", holds(clusters, "a", "b"))
			eventually(t, "the first endpoints", holds(endpoints, "a"))
			store.wantOn(eds, append(store.wanted[eds], sub(endpoints, "b")), sub(endpoints, "b"))
			eventually(t, "more endpoints", holds(endpoints, "a", "b"))
			cp.set("2", "a", "b", "c")
			eventually(t, "another cluster", holds(clusters, "a", "b", "c"))
			eventually(t, "answers to everything", func() bool {
				st := s.Status()
				return st.Responses == st.Acks && st.Nacks == 0 && st.State == StateConnected
			})
			store.get(func(s *memStore) {
				last := map[string]string{}
				for _, r := range s.states {
					last[r.TypeURL] = r.Version
				}
				if last[clusters] != "2" {
					t.Errorf("ACK-4 versions %v", last)
				}
			})
		})
	}
}

// The files of Config.TLS are what the connection uses, and errors in them are
// found before anything connects.
func TestTLS(t *testing.T) {
	pki := httptest.NewTLSServer(nil) // brings a certificate for example.com
	pair, cert := pki.TLS.Certificates[0], pki.Certificate()
	pki.Close()
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	cp := newControlPlane(t)
	cp.set("1", "a")
	cp.serve(grpc.Creds(credentials.NewServerTLSFromCert(&pair)))

	store := newStore(sub(clusters, "*"))
	cfg := Config{Endpoints: [][]string{{cp.addr}}, TLS: &tlsfiles.ClientConfig{CAFile: ca, ServerName: "example.com"}}
	run(t, newUpstream(t, cfg), store, nil)
	eventually(t, "clusters over TLS", func() bool { return len(store.names(clusters)) == 1 })

	cfg.TLS = &tlsfiles.ClientConfig{CAFile: ca, ServerName: "elsewhere.test"}
	s := run(t, newUpstream(t, cfg), newStore(sub(clusters, "*")), nil)
	eventually(t, "the refusal", func() bool {
		err := s.Status().LastError
		return err != nil && strings.Contains(err.Error(), "not elsewhere.test")
	})

	cfg.TLS = &tlsfiles.ClientConfig{CAFile: ca + ".missing"}
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "ca.crt.missing") {
		t.Errorf("New with a missing file: %v", err)
	}
}

func TestNewErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg  Config
		want string
	}{
		"no endpoints":       {Config{Name: "cp"}, `upstream "cp": no endpoints`},
		"a bad endpoint":     {Config{Endpoints: [][]string{{"passthrough:///a"}, {"%zz:///"}}}, "%zz"},
		"a negative time":    {Config{Endpoints: [][]string{{"a"}}, ConnectTimeout: -1}, "connect timeout is negative"},
		"a negative size":    {Config{Endpoints: [][]string{{"a"}}, MaxRequestSize: -1}, "request size is negative"},
		"an incomplete pair": {Config{Endpoints: [][]string{{"a"}}, TLS: &tlsfiles.ClientConfig{CertFile: "x"}}, "needs a key"},
	} {
		t.Run(name, func(t *testing.T) {
			u, err := New(tt.cfg)
			if err == nil {
				u.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
	u := newUpstream(t, Config{Endpoints: [][]string{{"a"}}, MaxRequestSize: 100})
	if _, err := u.NewSession(SessionConfig{}); err == nil {
		t.Error("a session without a store")
	}
	if _, err := u.NewSession(SessionConfig{Store: newStore(), Node: &corev3.Node{Id: strings.Repeat("x", 60)}}); err == nil {
		t.Error("a node that leaves no room")
	}
}
