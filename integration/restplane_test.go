package integration

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
)

// restPlane is go-control-plane's HTTP gateway, which answers polls from snapshots. It
// can be killed, and come back at its address without what it knew.
type restPlane struct {
	t    testing.TB
	addr string
	tls  *tls.Config // nil: plain text

	mu    sync.Mutex
	polls []*discovery.DiscoveryRequest
	cache cache.SnapshotCache
	body  []byte              // not nil: what is answered instead
	seen  func(*http.Request) // is shown every poll; nil: nobody looks
	http  *http.Server
	done  chan struct{}
}

func newRESTPlane(t testing.TB) *restPlane {
	t.Helper()
	return newRESTPlaneTLS(t, nil)
}

func newRESTPlaneTLS(t testing.TB, secured *tls.Config) *restPlane {
	t.Helper()
	lis := ports.Listen(t)
	p := &restPlane{t: t, addr: lis.Addr().String(), tls: secured}
	p.serve(lis)
	t.Cleanup(p.stop)
	return p
}

// everybody gets the same.
type everybody struct{}

func (everybody) ID(*corev3.Node) string { return "all" }

func (p *restPlane) serve(lis net.Listener) {
	if p.tls != nil {
		lis = tls.NewListener(lis, p.tls)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cache = cache.NewSnapshotCache(false, everybody{}, nil)
	gateway := &server.HTTPGateway{Server: server.NewServer(context.Background(), p.cache, nil)}
	p.done = make(chan struct{})
	p.http = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { p.answer(gateway, w, r) })}
	h, done := p.http, p.done
	go func() {
		defer close(done)
		_ = h.Serve(lis)
	}()
}

// see has f shown every poll from now on.
func (p *restPlane) see(f func(*http.Request)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = f
}

func (p *restPlane) answer(gateway *server.HTTPGateway, w http.ResponseWriter, r *http.Request) {
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
	answer, code := p.body, http.StatusOK
	p.mu.Unlock()
	if answer == nil {
		r.Body = io.NopCloser(bytes.NewReader(body))
		if answer, code, err = gateway.ServeHTTP(r); err != nil {
			http.Error(w, err.Error(), code)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(answer)
}

// stop kills the server.
func (p *restPlane) stop() {
	_ = p.http.Close()
	<-p.done
}

// restart brings it back with nothing but this.
func (p *restPlane) restart(version string, clusters, endpoints []string) {
	p.t.Helper()
	p.serve(ports.Again(p.t, p.addr))
	p.set(version, clusters, endpoints)
}

// set gives it clusters ("name=stat") and endpoints.
func (p *restPlane) set(version string, clusters, endpoints []string) {
	p.t.Helper()
	var cds, eds []types.Resource
	for _, c := range clusters {
		name, stat, _ := bytes.Cut([]byte(c), []byte("="))
		cds = append(cds, &clusterv3.Cluster{Name: string(name), AltStatName: string(stat)})
	}
	for _, name := range endpoints {
		eds = append(eds, &endpointv3.ClusterLoadAssignment{ClusterName: name})
	}
	snap, err := cache.NewSnapshot(version, map[string][]types.Resource{clusterType: cds, endpointType: eds})
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.cache.SetSnapshot(context.Background(), "all", snap); err != nil {
		p.t.Fatal(err)
	}
}

// say has it answer every poll with this; nil: no longer.
func (p *restPlane) say(body []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.body = body
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
