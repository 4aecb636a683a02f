package upstream

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/grpc"
	grpccredentials "google.golang.org/grpc/credentials"

	"github.com/xdsrelay/xdsrelay/internal/credentials"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// startPlane starts a control plane of the testkit on loopback, with clusters and their endpoints in a first version.
func startPlane(t *testing.T, names []string, options ...grpc.ServerOption) *plane.Plane {
	t.Helper()
	p := plane.Start(t, plane.Behaviour{DigestVersions: true}, options...)
	publish(p, "1", names...)
	return p
}

// publish has a control plane have these clusters, each with endpoints, and no others.
func publish(p *plane.Plane, version string, names ...string) {
	var c plane.Change
	for _, r := range p.Contents("") {
		if !slices.Contains(names, r.Name) {
			c.Remove = append(c.Remove, plane.Key{TypeURL: r.TypeURL, Name: r.Name})
		}
	}
	for _, name := range names {
		c.Set = append(c.Set, plane.Named(&clusterv3.Cluster{Name: name, AltStatName: version}), plane.Named(&endpointv3.ClusterLoadAssignment{ClusterName: name}))
	}
	p.Apply(c)
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

// A first state, changes, a restart of the server with
// other contents meanwhile, of which only the difference comes (RES-12).
func TestRES12Restart(t *testing.T) {
	cp := startPlane(t, []string{"a", "b"})
	store := newStore(sub(clusters, "*"), sub(endpoints, "a", "b"))
	// No questions: the first request after the restart is to be that of the stream (SUR-2).
	cfg := Config{Endpoints: [][]string{{cp.Addr()}}, Backoff: Backoff{Base: 10 * time.Millisecond}, Keepalive: Keepalive{Response: -1}}
	s := run(t, newUpstream(t, cfg), store, nil)
	holds := func(typeURL string, want ...string) func() bool {
		return func() bool { return slices.Equal(store.names(typeURL), want) }
	}
	eventually(t, "the first clusters", holds(clusters, "a", "b"))
	eventually(t, "the first endpoints", holds(endpoints, "a", "b"))

	publish(cp, "2", "b", "c")
	eventually(t, "changed clusters", holds(clusters, "b", "c"))
	eventually(t, "removed endpoints", holds(endpoints, "b"))

	store.want(0, []wire.Subscription{sub(clusters, "*"), sub(endpoints, "b", "c")},
		wire.Subscription{TypeURL: endpoints, Subscribe: []string{"c"}, Unsubscribe: []string{"a"}})
	eventually(t, "new endpoints", holds(endpoints, "b", "c"))
	eventually(t, "answers to everything", func() bool {
		st := s.Status()
		return st.Responses == st.Acks && st.Nacks == 0 && st.State == StateConnected
	})

	cp.Stop()
	eventually(t, "the loss", func() bool { return s.Status().State == StateConnecting })
	before := len(cp.Requests(""))
	// Of the clusters "c" is as it was, by its version of the content; "d" is new.
	publish(cp, "2", "c", "d")
	store.mu.Lock()
	store.versions[clusters] = map[string]string{"b": "gone", "c": store.versions[clusters]["c"]}
	store.applied = nil
	store.mu.Unlock()
	cp.Restart(t)
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
	if first := cp.Requests("")[before]; first.Node != "relay" || first.Versions["c"] == "" {
		t.Errorf("first request after the restart: %+v", first)
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
	cp := startPlane(t, []string{"a"}, grpc.Creds(grpccredentials.NewServerTLSFromCert(&pair)))

	store := newStore(sub(clusters, "*"))
	cfg := Config{Endpoints: [][]string{{cp.Addr()}}, TLS: &credentials.TLSClientConfig{CAFile: ca, ServerName: "example.com"}}
	run(t, newUpstream(t, cfg), store, nil)
	eventually(t, "clusters over TLS", func() bool { return len(store.names(clusters)) == 1 })

	cfg.TLS = &credentials.TLSClientConfig{CAFile: ca, ServerName: "elsewhere.test"}
	s := run(t, newUpstream(t, cfg), newStore(sub(clusters, "*")), nil)
	eventually(t, "the refusal", func() bool {
		err := s.Status().LastError
		return err != nil && strings.Contains(err.Error(), "not elsewhere.test")
	})

	cfg.TLS = &credentials.TLSClientConfig{CAFile: ca + ".missing"}
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
		"an incomplete pair": {Config{Endpoints: [][]string{{"a"}}, TLS: &credentials.TLSClientConfig{CertFile: "x"}}, "needs a key"},
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
