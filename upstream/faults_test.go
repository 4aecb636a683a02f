package upstream

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	clusterservice "github.com/envoyproxy/go-control-plane/envoy/service/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	endpointservice "github.com/envoyproxy/go-control-plane/envoy/service/endpoint/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	serverv3 "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// faulty connects sessions with servers whose network fails as the test says.
type faulty struct {
	*network

	mu    sync.Mutex
	hosts map[string]*line_
}

// line_ is the network to one host.
type line_ struct {
	mu      sync.Mutex
	hole    bool          // nothing arrives, of new connections neither
	stopped bool          // connections are taken, and nothing is read: the process is stopped
	frozen  chan struct{} // closed once it is neither; nil: it is neither
}

func newFaulty(t *testing.T) *faulty {
	t.Helper()
	return &faulty{network: newNetwork(t), hosts: make(map[string]*line_)}
}

func (f *faulty) to(host string) *line_ {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hosts[host] == nil {
		f.hosts[host] = new(line_)
	}
	return f.hosts[host]
}

func (f *faulty) dial(ctx context.Context, host string) (net.Conn, error) {
	l := f.to(host)
	l.mu.Lock()
	hole, stopped := l.hole, l.stopped
	l.mu.Unlock()
	if hole {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if stopped { // the backlog of the system takes it
		near, far := net.Pipe()
		context.AfterFunc(f.t.Context(), func() { _ = far.Close() })
		go func() {
			buf := make([]byte, 1<<10)
			for {
				if _, err := far.Read(buf); err != nil {
					return
				}
			}
		}()
		return near, nil
	}
	conn, err := f.network.dial(ctx, host)
	if err != nil {
		return nil, err
	}
	return &faultyConn{Conn: conn, line: l, closed: make(chan struct{})}, nil
}

// fail begins a fault.
func (f *faulty) fail(host string, hole bool) {
	l := f.to(host)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hole, l.stopped, l.frozen = hole, !hole, make(chan struct{})
}

type faultyConn struct {
	net.Conn

	line   *line_
	closed chan struct{}
	once   sync.Once
}

func (c *faultyConn) wait() {
	c.line.mu.Lock()
	frozen := c.line.frozen
	c.line.mu.Unlock()
	if frozen != nil {
		select {
		case <-frozen:
		case <-c.closed:
		}
	}
}

func (c *faultyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.wait()
	return n, err
}

func (c *faultyConn) Write(b []byte) (int, error) {
	c.line.mu.Lock()
	frozen := c.line.frozen
	c.line.mu.Unlock()
	if frozen != nil {
		return len(b), nil // the system keeps it
	}
	return c.Conn.Write(b)
}

func (c *faultyConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// livePlane is go-control-plane with snapshots, or polls, at a host.
type livePlane struct {
	t     *testing.T
	cache cachev3.SnapshotCache
	rest  *restServer
	mute  atomic.Bool  // it reads, and answers nothing
	asked atomic.Int64 // streams and polls
	stop  func()
	host  string
	net   *faulty
	opts  []grpc.ServerOption
	ads   bool
}

func (f *faulty) plane(host string, api APIType, opts ...grpc.ServerOption) *livePlane {
	f.t.Helper()
	p := &livePlane{t: f.t, net: f, host: host, opts: opts, ads: !api.PerType()}
	p.cache = cachev3.NewSnapshotCache(p.ads, cachev3.IDHash{}, nil)
	if api == REST {
		p.rest = &restServer{}
		p.rest.says(p.poll)
	}
	p.serve()
	return p
}

// serve starts the server; stop kills it.
func (p *livePlane) serve() {
	p.t.Helper()
	if p.rest != nil {
		p.stop = p.net.serveREST(p.host, p.rest)
		return
	}
	lis := bufconn.Listen(1 << 20)
	srv := grpc.NewServer(append([]grpc.ServerOption{allowPings(), grpc.StreamInterceptor(p.intercept)}, p.opts...)...)
	ctx, cancel := context.WithCancel(context.Background())
	xds := serverv3.NewServer(ctx, p.cache, nil)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(srv, xds)
	clusterservice.RegisterClusterDiscoveryServiceServer(srv, xds)
	endpointservice.RegisterEndpointDiscoveryServiceServer(srv, xds)
	p.net.network.mu.Lock()
	p.net.network.hosts[p.host] = lis
	p.net.network.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(lis) })
	p.stop = sync.OnceFunc(func() {
		p.net.network.mu.Lock()
		if p.net.network.hosts[p.host] == lis {
			delete(p.net.network.hosts, p.host)
		}
		p.net.network.mu.Unlock()
		cancel()
		srv.Stop()
		wg.Wait()
	})
	p.t.Cleanup(func() { p.stop() })
}

func (p *livePlane) intercept(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	p.asked.Add(1)
	return next(srv, &muted{ss, p})
}

type muted struct {
	grpc.ServerStream

	plane *livePlane
}

// RecvMsg swallows what arrives while the plane is mute: what it was asked then it has forgotten.
func (m *muted) RecvMsg(v any) error {
	for {
		if err := m.ServerStream.RecvMsg(v); err != nil || !m.plane.mute.Load() {
			return err
		}
	}
}

func (m *muted) SendMsg(v any) error {
	if m.plane.mute.Load() {
		return nil
	}
	return m.ServerStream.SendMsg(v)
}

func (p *livePlane) poll(w http.ResponseWriter, r *http.Request, poll *discoveryv3.DiscoveryRequest) {
	p.asked.Add(1)
	if p.mute.Load() {
		hang(w, r, poll)
		return
	}
	snap, err := p.cache.GetSnapshot("relay")
	if err != nil {
		hang(w, r, poll)
		return
	}
	names := make([]string, 0)
	for name := range snap.GetResources(poll.GetTypeUrl()) {
		if len(poll.GetResourceNames()) == 0 || slices.Contains(poll.GetResourceNames(), name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	holding(snap.GetVersion(poll.GetTypeUrl())+fmt.Sprint(names), poll.GetTypeUrl(), names...)(w, r, poll)
}

// set publishes clusters, each with endpoints.
func (p *livePlane) set(version string, names ...string) {
	p.t.Helper()
	var cs, es []types.Resource
	for _, name := range names {
		cs = append(cs, &clusterv3.Cluster{Name: name, AltStatName: version})
		es = append(es, &endpointv3.ClusterLoadAssignment{ClusterName: name})
	}
	snap, err := cachev3.NewSnapshot(version, map[resourcev3.Type][]types.Resource{
		resourcev3.ClusterType: cs, resourcev3.EndpointType: es,
	})
	if err == nil {
		err = p.cache.SetSnapshot(context.Background(), "relay", snap)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// config is for an upstream with these hosts as endpoints, each element of equal priority.
func (f *faulty) upstream(api APIType, out *Outages, hosts ...[]string) *Upstream {
	f.t.Helper()
	cfg := Config{APIType: api, Name: "cp", Outages: out, Dial: Dial{Resolver: noNames{}, Options: []grpc.DialOption{grpc.WithContextDialer(f.dial)}}}
	for _, equal := range hosts {
		var list []string
		for _, h := range equal {
			if api != REST {
				h = "passthrough:///" + h
			}
			list = append(list, h)
		}
		cfg.Endpoints = append(cfg.Endpoints, list)
	}
	u := newUpstream(f.t, cfg)
	if w, ok := u.transport.(*web); ok {
		w.tcp = func(ctx context.Context, _, host string) (net.Conn, error) { return f.dial(ctx, host) }
	}
	return u
}

// wanting is a store for a variant that wants all clusters, and endpoints by name.
func wanting(api APIType, names ...string) *memStore {
	subs := []wire.Subscription{sub(clusters, "*"), sub(endpoints, names...)}
	if api.PerType() {
		return newTypedStore(subs...)
	}
	return newStore(subs...)
}

// holdsAll says that everything was delivered, as a cache does.
func (s *memStore) holdsAll() {
	s.get(func(s *memStore) { s.held = map[string]bool{clusters: true, endpoints: true} })
}

// has reports whether a cluster was delivered.
func (s *memStore) has(name string) bool { return slices.Contains(s.names(clusters), name) }

// until waits until a condition holds, and returns how long that took: a minute at the most.
func until(ok func() bool) time.Duration {
	start := time.Now()
	for !ok() && time.Since(start) < 10*time.Minute {
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(start)
}
