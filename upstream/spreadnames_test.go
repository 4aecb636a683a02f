package upstream

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	grpccredentials "google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/xdsrelay/xdsrelay/internal/credentials"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
)

// A server whose name was looked up is called by the name: in requests, in TLS and when its
// certificate is checked, if tls.server_name is not another one.
func TestLOC6ServerIsCalledByName(t *testing.T) {
	dir, ca := pki.NewFolder(t), pki.NewAuthority(t, "ca")
	roots := dir.PutCA("ca", ca)
	loopback := &names{answers: map[string][]netip.Addr{"cp.example.com": {netip.MustParseAddr("127.0.0.1")}}}
	for what, tt := range map[string]struct{ serverName, calls, shows string }{
		"its own name": {"", "cp.example.com:%d", "cp.example.com"},
		"another name": {"other.example.com", "other.example.com", "other.example.com"},
	} {
		pair := ca.Server(tt.shows)
		var mu sync.Mutex
		var called, shown []string
		note := func(authority, sni string) {
			mu.Lock()
			defer mu.Unlock()
			called, shown = append(called, authority), append(shown, sni)
		}
		check := func(t *testing.T, authority, sni string) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Contains(called, authority) || !slices.Contains(shown, sni) {
				t.Errorf("called %q and %q, want %s and %s", called, shown, authority, sni)
			}
			called, shown = nil, nil
		}
		files := &credentials.TLSClientConfig{CAFile: roots, ServerName: tt.serverName}
		t.Run("gRPC, "+what, func(t *testing.T) {
			sni := ""
			cp := startPlane(t, []string{"a"}, grpc.Creds(grpccredentials.NewTLS(&tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
				mu.Lock()
				defer mu.Unlock()
				sni = h.ServerName
				return &pair, nil
			}})), grpc.StreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
				md, _ := metadata.FromIncomingContext(ss.Context())
				mu.Lock()
				name := sni
				mu.Unlock()
				note(md.Get(":authority")[0], name)
				return next(srv, ss)
			}))
			port := netip.MustParseAddrPort(cp.Addr()).Port()
			endpoint := fmt.Sprintf("cp.example.com:%d", port)
			store := newStore(sub(clusters, "*"))
			s := run(t, newUpstream(t, Config{Endpoints: [][]string{{endpoint}}, TLS: files, Dial: Dial{Resolver: loopback}}), store, nil)
			eventually(t, "clusters", func() bool { return len(store.names(clusters)) == 1 })
			authority := tt.calls
			if tt.serverName == "" {
				authority = endpoint
			}
			check(t, authority, tt.shows)
			if st := s.Status(); st.Endpoint != endpoint+" (127.0.0.1)" || st.EndpointChanges > 0 {
				t.Errorf("status %+v", st)
			}
		})
		t.Run("REST, "+what, func(t *testing.T) {
			rest := &restServer{}
			rest.says(func(w http.ResponseWriter, r *http.Request, _ *discoveryv3.DiscoveryRequest) {
				note(r.Host, r.TLS.ServerName)
				holding("1", clusters, "a")(w, r, nil)
			})
			srv := httptest.NewUnstartedServer(rest)
			srv.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
			srv.StartTLS()
			t.Cleanup(srv.Close)
			_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
			endpoint := "cp.example.com:" + port
			b := newBed(t, restSource())
			b.want(clusters, "*")
			s := run(t, newUpstream(t, Config{APIType: REST, Endpoints: [][]string{{endpoint}}, TLS: files, Dial: Dial{Resolver: loopback}}), b, nil)
			eventually(t, "a poll", func() bool { return s.Status().Responses > 0 })
			check(t, endpoint, tt.shows)
		})
	}
}

// Polls spread over replicas and addresses as streams do.
func TestLOC6RESTSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		stops := make(map[string]func())
		for _, host := range []string{"10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"} {
			srv := &restServer{}
			srv.says(holding("1", clusters, "c"))
			stops[host] = n.serveREST(host, srv)
		}
		u := newUpstream(t, Config{
			APIType: REST, Endpoints: [][]string{{"cp:80", "10.0.0.3:80"}}, Dial: Dial{Resolver: newNames("cp", "10.0.0.1", "10.0.0.2")},
		})
		u.transport.(*web).tcp = n.dialTCP
		var sessions []*running
		for i := range 30 {
			b := newBed(t, restSource())
			b.want(clusters, "*")
			s, err := u.NewSession(SessionConfig{Scope: fmt.Sprint(i), Store: b})
			if err != nil {
				t.Fatal(err)
			}
			sessions = append(sessions, start(t, s))
		}
		pass(elsewhere)
		f := &fleet{t: t, sessions: sessions}
		first := f.at()
		even(t, first, 3, 8, 12)
		stops["10.0.0.1:80"]()
		pass(elsewhere)
		moved(t, first, f.at(), "cp:80 (10.0.0.1)", "")
		even(t, f.at(), 2, 11, 19)
		srv := &restServer{}
		srv.says(holding("1", clusters, "c"))
		n.serveREST("10.0.0.1:80", srv)
		pass(elsewhere)
		if back := f.at(); !slices.Equal(first, back) {
			t.Errorf("polls by replica %v, were %v", tally(back), tally(first))
		}
	})
}
