package integration

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/gocontrolplane"
)

// restPlane is go-control-plane's HTTP gateway, which answers polls from snapshots.
type restPlane struct {
	*gocontrolplane.ControlPlane

	t    testing.TB
	addr string

	mu    sync.Mutex
	polls []*discovery.DiscoveryRequest
	seen  func(*http.Request) // is shown every poll; nil: nobody looks
}

func newRESTPlane(t testing.TB) *restPlane {
	t.Helper()
	return newRESTPlaneTLS(t, nil)
}

// newRESTPlaneTLS starts one; secured is nil for plain text.
func newRESTPlaneTLS(t testing.TB, secured *tls.Config) *restPlane {
	t.Helper()
	p := &restPlane{ControlPlane: gocontrolplane.NewSnapshot(), t: t}
	if err := p.Start(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	server := httptest.NewUnstartedServer(http.HandlerFunc(p.answer))
	if server.TLS = secured; secured != nil {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	p.addr = server.Listener.Addr().String()
	return p
}

// see has f shown every poll from now on.
func (p *restPlane) see(f func(*http.Request)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = f
}

func (p *restPlane) answer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	said := new(discovery.DiscoveryRequest)
	if err != nil || protojson.Unmarshal(body, said) != nil {
		http.Error(w, "no poll", http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	p.polls = append(p.polls, said)
	if p.seen != nil {
		p.seen(r)
	}
	p.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	p.REST().ServeHTTP(w, r)
}

// set adds or changes clusters ("name=stat") and endpoints.
func (p *restPlane) set(clusters, endpoints []string) {
	p.t.Helper()
	put := func(name string, m proto.Message) {
		if _, err := p.UpdateResource(name, m); err != nil {
			p.t.Fatal(err)
		}
	}
	for _, c := range clusters {
		name, stat, _ := strings.Cut(c, "=")
		put(name, &clusterv3.Cluster{Name: name, AltStatName: stat})
	}
	for _, name := range endpoints {
		put(name, &endpointv3.ClusterLoadAssignment{ClusterName: name})
	}
}

// unset removes a resource.
func (p *restPlane) unset(typeURL, name string) {
	p.t.Helper()
	if err := p.DeleteResource(typeURL, name); err != nil {
		p.t.Fatal(err)
	}
}

// polled copies the polls so far, of one type.
func (p *restPlane) polled(typeURL string) []*discovery.DiscoveryRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.polls), func(r *discovery.DiscoveryRequest) bool { return r.GetTypeUrl() != typeURL })
}

// fromREST makes the relay's upstreams poll, as often as a test likes it.
func fromREST(absent time.Duration) func(*config.Config) {
	return func(c *config.Config) {
		for i := range c.Upstreams {
			u := &c.Upstreams[i]
			u.APIType = config.REST
			u.Poll.Interval = config.Duration(100 * time.Millisecond)
			u.AbsentAfter = config.Duration(absent)
			u.Failback = config.Duration(time.Second)
		}
	}
}
