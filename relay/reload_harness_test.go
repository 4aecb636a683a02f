package relay

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/logtest"
	testplane "github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	testports "github.com/xdsrelay/xdsrelay/internal/testkit/ports"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
	"github.com/xdsrelay/xdsrelay/relay/passthrough"
)

// contents are what a control plane has: versions by name.
type contents map[string]string

// planeServer is a control plane on a port of this machine that has clusters.
type planeServer struct {
	*testplane.Plane
	*testing.T

	address string
	has     contents
	shown   int // first requests that opens gave
	gone    int // streams whose end ends gave
}

// anyPort is the address of a control plane that may choose its port.
const anyPort = "127.0.0.1:0"

func newPlaneServer(t *testing.T, has contents) *planeServer {
	t.Helper()
	return newPlaneServerAt(t, anyPort, has)
}

// newPlaneServerAt starts one at an address. register registers other services beside ADS.
func newPlaneServerAt(t *testing.T, address string, has contents, register ...func(grpc.ServiceRegistrar)) *planeServer {
	t.Helper()
	return newPlaneServerWith(t, address, has, insecure.NewCredentials(), register...)
}

// newPlaneServerWith starts one with credentials.
func newPlaneServerWith(t *testing.T, address string, has contents, creds credentials.TransportCredentials, register ...func(grpc.ServiceRegistrar)) *planeServer {
	t.Helper()
	var lis net.Listener
	if address == anyPort {
		lis = testports.Listen(t) // it may come back there
	} else {
		lis = testports.Again(t, address)
	}
	p := &planeServer{T: t, Plane: testplane.New(testplane.Behaviour{}, grpc.Creds(creds)), address: lis.Addr().String(), has: has}
	for _, f := range register {
		p.Beside(f)
	}
	p.Apply(clustersOf(t, has))
	p.Serve(lis, nil)
	t.Cleanup(p.Stop)
	return p
}

// clustersOf gives a control plane clusters.
func clustersOf(t *testing.T, has contents) (c testplane.Change) {
	t.Helper()
	for name, version := range has {
		c.Set = append(c.Set, testplane.Resource{TypeURL: clusterType, Name: name, Version: version, Payload: clusterOf(t, name, version)})
	}
	return c
}

// firsts are the first requests of each type of each stream.
func (p *planeServer) firsts() (all []testplane.Request) {
	seen := make(map[string]bool)
	for _, r := range p.Requests("") {
		if id := fmt.Sprint(r.Stream, r.TypeURL); !seen[id] {
			seen[id] = true
			all = append(all, r)
		}
	}
	return all
}

// more is how many first requests opens has not given yet.
func (p *planeServer) more() int { return len(p.firsts()) - p.shown }

// opens waits for another first request.
func (p *planeServer) opens() testplane.Request {
	p.Helper()
	if _, ok := wait.Until(patience, func() bool { return p.more() > 0 }); !ok {
		p.Fatal("no stream was opened")
	}
	p.shown++
	return p.firsts()[p.shown-1]
}

// ends waits for the end of another stream.
func (p *planeServer) ends() {
	p.Helper()
	p.gone++
	if _, ok := wait.Until(patience, func() bool { return p.Opened()-p.Streams() >= p.gone }); !ok {
		p.Fatal("no stream ended")
	}
}

func clusterOf(t *testing.T, name, version string) *anypb.Any {
	t.Helper()
	payload, err := anypb.New(&clusterv3.Cluster{Name: name, AltStatName: version})
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

// running is a relay that serves, and what it was configured with last.
type running struct {
	*testing.T

	relay      *Relay
	config     *config.Config
	level      slog.LevelVar
	xds, admin string
	peers      string // where relays ask; "": nowhere
	log        *logtest.Text
	stop       func() // may be called more than once
}

// upstreamAt is an upstream of the configuration.
func upstreamAt(name, address string) config.Upstream {
	u := config.DefaultUpstream()
	u.Name, u.Endpoints = name, [][]string{{address}}
	return u
}

// configOf is a configuration with these upstreams, of which the first is the default.
func configOf(upstreams ...config.Upstream) *config.Config {
	cfg := config.Default()
	cfg.Server.Drain = 0
	upstreams[0].Default = true
	cfg.Upstreams = upstreams
	return cfg
}

// run starts a relay.
func run(t *testing.T, cfg *config.Config) *running {
	t.Helper()
	return runBeside(t, cfg, nil)
}

// runBeside starts a relay that also serves clients that poll, unless rest is nil.
func runBeside(t *testing.T, cfg *config.Config, rest net.Listener) *running {
	t.Helper()
	return runWith(t, cfg, func(r *Relay) {
		if rest != nil {
			r.ServeREST(rest)
		}
	})
}

// runWith starts a relay that is given more sockets before.
func runWith(t *testing.T, cfg *config.Config, more func(*Relay)) *running {
	t.Helper()
	r := &running{T: t, config: cfg, log: new(logtest.Text)}
	log := slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: &r.level}))
	var err error
	if r.relay, err = New(cfg, Options{Log: log, Level: &r.level}); err != nil {
		t.Fatal(err)
	}
	var ports [2]net.Listener
	for i := range ports {
		if ports[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	r.xds, r.admin = ports[0].Addr().String(), ports[1].Addr().String()
	if cfg.Peers.Listen != "" {
		lis, err := net.Listen("tcp", cfg.Peers.Listen)
		if err != nil {
			t.Fatal(err)
		}
		r.peers = lis.Addr().String()
		r.relay.ServePeers(lis)
	}
	more(r.relay)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.relay.Run(ctx, nil, ports[0], ports[1]); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	r.stop = func() {
		cancel()
		wg.Wait()
		http.DefaultClient.CloseIdleConnections()
	}
	t.Cleanup(r.stop)
	return r
}

// reload changes the configuration.
func (r *running) reload(change func(*config.Config)) {
	r.Helper()
	if err := r.try(change); err != nil {
		r.Fatalf("Reload: %v", err)
	}
}

// try reloads; if that fails the configuration is as before.
func (r *running) try(change func(*config.Config)) error {
	r.Helper()
	next := *r.config
	next.Upstreams = append([]config.Upstream(nil), next.Upstreams...)
	change(&next)
	linger := next.Aggregation.Linger
	next.Aggregation.Linger = max(linger, config.Duration(time.Second))
	if err := next.Validate(); err != nil {
		r.Fatal(err)
	}
	next.Aggregation.Linger = linger   // which may be shorter than an operator may have it
	err := r.relay.ReloadAnyway(&next) // the few clients of a test are more than a tenth
	if err == nil {
		r.config = &next
	}
	return err
}

// page is a page of the admin port.
func (r *running) page(path string) string {
	r.Helper()
	_, body := r.ask(http.MethodGet, path, "")
	return body
}

func (r *running) shows(path string, parts ...string) {
	r.Helper()
	page := r.page(path)
	for _, part := range parts {
		if !strings.Contains(page, part) {
			r.Errorf("%s has no %q:\n%s", path, part, page)
		}
	}
}

// check is the consistency check of all stores.
func (r *running) check() {
	r.Helper()
	r.shows("/check", "consistent")
}

// follower is a client that follows all clusters, or names them. When the relay sends it
// away it connects again and presents what it holds (RES-11).
type follower struct {
	*testing.T
	*xdsclient.Client

	stop func() // may be called more than once

	mu      sync.Mutex
	changed sync.Cond // on mu
	held    contents
	gone    []string // what was removed from it
	sent    int      // resources that it was sent
	away    int      // how often the relay sent it away
	ended   error
}

// sentAway is what the relay ends streams with whose names live elsewhere now.
const sentAway = "the configuration changed where resources of this stream come from: connect again"

// sentThrough is what the relay ends streams with that are to be served 1:1.
const sentThrough = "the client is served 1:1 from now on: connect again"

// join connects a client and subscribes to names, or to everything.
func (r *running) join(node string, names ...string) *follower {
	r.Helper()
	return r.joinWith(insecure.NewCredentials(), node, names...)
}

func (r *running) joinWith(creds credentials.TransportCredentials, node string, names ...string) *follower {
	r.Helper()
	conn, err := grpc.NewClient(r.xds, grpc.WithTransportCredentials(creds))
	if err != nil {
		r.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	begun := make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	f := &follower{T: r.T, held: make(contents)}
	f.changed.L = &f.mu
	f.Client = xdsclient.New(xdsclient.Options{
		Conn: conn, Node: &corev3.Node{Id: node}, OnOpen: func(string) { begin() }, OnResponse: f.take,
	})
	f.Subscribe(clusterType, names...)
	var wg sync.WaitGroup
	wg.Go(func() {
		err := f.Follow(ctx, xdsclient.Backoff{Base: 1, Max: 1}, f.lostStream)
		begin()
		f.change(func() { f.ended = err })
	})
	<-begun
	f.stop = func() {
		cancel()
		wg.Wait()
		conn.Close()
	}
	r.Cleanup(f.stop)
	return f
}

func (f *follower) change(how func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how()
	f.changed.Broadcast()
}

// take notes what a response changes.
func (f *follower) take(r *xdsclient.Response) error {
	f.change(func() {
		for _, ch := range r.Changes {
			switch {
			case ch.Resource != nil:
				f.held[ch.Name] = ch.Version
				f.sent++
			case ch.Kind == xdsclient.Removed || ch.Kind == xdsclient.Absent:
				delete(f.held, ch.Name)
				f.gone = append(f.gone, ch.Name)
			}
		}
	})
	return r.Err
}

// lostStream has it come back only if it was sent away.
func (f *follower) lostStream(reason error, _ time.Duration) error {
	again := []string{sentAway, sentThrough, status.Convert(passthrough.ErrCached).Message(), status.Convert(passthrough.ErrMoved).Message()}
	if !slices.Contains(again, status.Convert(reason).Message()) {
		return reason
	}
	f.change(func() { f.away++ })
	return nil
}

// patience is how long a test waits for something before it fails.
const patience = 30 * time.Second

// holds waits until the client holds this and nothing else.
func (f *follower) holds(want contents) {
	f.Helper()
	f.comesTo(fmt.Sprint(want), func() bool { return maps.Equal(f.held, want) })
}

// comesTo waits until what the client holds is as it should be.
func (f *follower) comesTo(want string, is func() bool) {
	f.Helper()
	ctx, cancel := wait.Context(context.Background(), patience)
	defer cancel()
	alarm := context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.changed.Broadcast()
	})
	defer alarm()
	f.mu.Lock()
	defer f.mu.Unlock()
	for !is() {
		if f.ended != nil || ctx.Err() != nil {
			f.Fatalf("the client holds %v, want %s; its stream ended with %v", f.held, want, f.ended)
		}
		f.changed.Wait()
	}
}

// lost is what was removed from the client so far.
func (f *follower) lost() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended != nil {
		return fmt.Sprint("everything: ", f.ended)
	}
	return strings.Join(f.gone, " ")
}
