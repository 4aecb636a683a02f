package downstream

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream/connections"
	"github.com/xdsrelay/xdsrelay/downstream/identity"
	"github.com/xdsrelay/xdsrelay/internal/ack"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
)

// harness is a server with real gRPC over memory in front of two control planes:
// one for opaque names, one for the authority "a". It lives in a synctest bubble,
// so that "nothing comes" can be told without waiting.
type harness struct {
	testing.TB

	server   *Server
	lis      *bufconn.Listener
	router   *testRouter
	seen     *recorder
	opaque   *plane
	a        *plane
	other    *plane                           // another scope, where names live once the test says so
	creds    credentials.TransportCredentials // the clients'
	shutdown []func()
	conn     *grpc.ClientConn
	agent    string // the user agent of clients
	// connections are those of plaintext clients.
	connections *connections.Limit
}

// ackWait is how long the tests' servers wait for an ACK, and removals for nothing: most
// tests are about other things.
const ackWait = 10 * time.Second

// bubble runs f against a server of its own; f may change the configuration first.
func bubble(t *testing.T, f func(h *harness), change ...func(*Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, change...)
		defer h.close()
		f(h)
	})
}

func newHarness(t testing.TB, change ...func(*Config)) *harness {
	t.Helper()
	c := cache.New(cache.Limits{Idle: idle}, nil)
	h := &harness{
		TB: t, lis: bufconn.Listen(1 << 20), seen: newRecorder(),
		opaque: newPlane(t, c.Open(source())), a: newPlane(t, c.Open(source())), other: newPlane(t, c.Open(otherSource())),
		creds: insecure.NewCredentials(),
	}
	h.router = &testRouter{
		scoped:      func(*corev3.Node, string, keyer.Peer) (*cache.Store, error) { return h.opaque.store, nil },
		authorities: map[string]*cache.Store{"a": h.a.store},
	}
	config := Config{Router: h.router, Observer: h.seen, Limits: Limits{AckWait: ackWait, ListHold: 5 * time.Minute}}
	for _, f := range change {
		f(&config)
	}
	lis := net.Listener(h.lis)
	if config.Credentials == nil {
		config.Credentials = identity.Credentials()
		h.connections = connections.New(connections.Limits{}, guests{h.seen})
		lis = (&identity.Listener{Name: keyer.DefaultListener, Connections: h.connections}).Guard(lis)
	}
	h.server = NewServer(config)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := h.server.Serve(lis); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	h.shutdown = append(h.shutdown, serving.Wait, h.server.Stop)
	return h
}

// idle is how long the tests' cache keeps what no client subscribes to.
const idle = 10 * time.Minute

// source is what fills the stores of the tests.
func source() cache.Source {
	s := cache.Source{Quiet: 15 * time.Second, FullState: make(map[string]bool)}
	for _, typeURL := range keyer.FullStateTypes() {
		s.FullState[typeURL] = true
	}
	return s
}

// otherSource is that of the scope that streams are moved to: nobody is waited for long.
func otherSource() cache.Source {
	s := source()
	s.Scope, s.Absent = "other", 15*time.Second
	return s
}

// close ends everything and looks whether the stores are whole and empty of
// clients.
func (h *harness) close() {
	for _, f := range slices.Backward(h.shutdown) {
		f()
	}
	for _, p := range []*plane{h.opaque, h.a, h.other} {
		if err := p.store.Check(); err != nil {
			h.Errorf("store: %v", err)
		}
		if n := p.store.Clients(); n != 0 {
			h.Errorf("%d clients left in a store", n)
		}
	}
	if h.router.open != 0 {
		h.Errorf("%d routes were not closed", h.router.open)
	}
	for typeURL, n := range h.seen.subscribed {
		if n != 0 {
			h.Errorf("%d subscriptions to %s left", n, typeURL)
		}
	}
}

// dial connects.
func (h *harness) dial() *grpc.ClientConn {
	h.Helper()
	conn, err := grpc.NewClient("passthrough:///relay",
		grpc.WithTransportCredentials(h.creds), grpc.WithUserAgent(h.agent),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return h.lis.DialContext(ctx) }))
	if err != nil {
		h.Fatal(err)
	}
	h.shutdown = append(h.shutdown, func() { conn.Close() })
	return conn
}

// quiet waits until nothing moves any more, with the control planes answering.
func (h *harness) quiet() {
	h.Helper()
	for synctest.Wait(); h.opaque.pump() || h.a.pump() || h.other.pump(); synctest.Wait() {
	}
}

// advance lets time pass.
func (h *harness) advance(d time.Duration) {
	h.Helper()
	<-time.After(d)
	h.quiet()
}

// client opens a stream that is read, and whose responses are acknowledged.
func (h *harness) client() *client {
	h.Helper()
	c := h.slowClient()
	c.acking = true
	return c
}

// slowClient opens a stream that is read, but nothing is acknowledged unasked.
func (h *harness) slowClient() *client {
	h.Helper()
	c := h.deafClient()
	c.read()
	return c
}

// deafClient opens a stream that nobody reads.
func (h *harness) deafClient() *client {
	h.Helper()
	if h.conn == nil {
		h.conn = h.dial()
	}
	return h.clientOn(h.conn)
}

func (h *harness) clientOn(conn *grpc.ClientConn) *client {
	h.Helper()
	ctx, cancel := context.WithCancel(h.Context())
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx, grpc.MaxCallRecvMsgSize(64<<20))
	if err != nil {
		h.Fatal(err)
	}
	c := &client{inbox: inbox[response]{h: h, cancel: cancel}, stream: stream}
	h.shutdown = append(h.shutdown, func() {
		cancel()
		c.reading.Wait()
	})
	return c
}

// status is what the admin port shows of the only stream.
func (h *harness) status() Status {
	h.Helper()
	h.quiet()
	all := h.server.Clients(nil, nil)
	if len(all) != 1 {
		h.Fatalf("%d streams, want 1", len(all))
	}
	return all[0]
}

// testRouter routes by authority, and keeps what it was told.
type testRouter struct {
	scoped      func(node *corev3.Node, typeURL string, peer keyer.Peer) (*cache.Store, error)
	byName      func(typeURL, name string) (*cache.Store, error) // in place of scoped, if not nil
	authorities map[string]*cache.Store
	failure     error  // what Authority fails with beside ErrNoUpstream
	rerouting   func() // called by Routes.Reopen when it knows its answer, if not nil
	distrusted  map[*cache.Store]bool
	unverified  func(node *corev3.Node) error // what Open fails with, if not nil
	nodeMatters bool
	access      Access // of all clients; nil: there are no rules

	mu    sync.Mutex
	nodes []*corev3.Node
	peers []keyer.Peer
	open  int
	plan  int // the number of the plan in force

	words    []ack.Outcome // what Routes.Tell was told
	accepted []acceptance
}

func (r *testRouter) Open(node *corev3.Node, peer *keyer.Peer) (Routes, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unverified != nil {
		if err := r.unverified(node); err != nil {
			return nil, err
		}
	}
	r.nodes, r.peers = append(r.nodes, node), append(r.peers, *peer)
	r.open++
	return &testRoutes{testRouter: r, node: node, peer: *peer, plan: r.plan, byName: r.byName, authorities: r.authorities}, nil
}

func (r *testRouter) NodeMatters(*keyer.Peer) bool { return r.nodeMatters }

type testRoutes struct {
	*testRouter

	node        *corev3.Node
	peer        keyer.Peer
	plan        int
	byName      func(typeURL, name string) (*cache.Store, error) // as they are in the plan
	authorities map[string]*cache.Store
}

// Reopen gives other routes where the test says that there is another plan.
func (r *testRoutes) Reopen() (Routes, error) {
	r.mu.Lock()
	changed, rerouting := r.plan != r.testRouter.plan, r.rerouting
	r.mu.Unlock()
	if rerouting != nil {
		rerouting()
	}
	if !changed {
		return nil, nil
	}
	return r.Open(r.node, &r.peer)
}

func (r *testRoutes) Access() Access { return r.access }

// Accepted notes which stores gave clients what they accepted.
func (r *testRoutes) Accepted(store *cache.Store, typeURL string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.accepted = append(r.accepted, acceptance{store, typeURL})
	return false
}

// acceptance is what Routes.Accepted was told.
type acceptance struct {
	store   *cache.Store
	typeURL string
}

func (r *testRoutes) Distrusts(store *cache.Store, _ string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.distrusted[store]
}

func (r *testRoutes) Scoped(typeURL, name string) (*cache.Store, error) {
	if r.byName != nil {
		return r.byName(typeURL, name)
	}
	return r.scoped(r.node, typeURL, r.peer)
}

// Named leads what has directives to the authority "resolved", if there is one.
func (r *testRoutes) Named(name keyer.Name) (*cache.Store, string, error) {
	if s := r.authorities["resolved"]; s != nil && name.Resolved() != name.Canonical() {
		return s, name.Resolved(), nil
	}
	switch s := r.authorities[name.Authority]; {
	case r.failure != nil:
		return nil, "", r.failure
	case s != nil:
		return s, name.Canonical(), nil
	}
	return nil, "", fmt.Errorf("%w: %q", ErrNoUpstream, name.Authority)
}

func (r *testRoutes) Listens() bool { return true }

func (r *testRoutes) Tell(_ *cache.Store, w ack.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.words = append(r.words, w)
}

// told compares what the routes were told of a type (ACK-7).
func (h *harness) told(typeURL string, want ...string) {
	h.Helper()
	h.router.mu.Lock()
	defer h.router.mu.Unlock()
	var got []string
	for _, w := range h.router.words {
		if w.TypeURL != typeURL {
			continue
		}
		line := fmt.Sprintf("%s %d-%d", [...]string{"sent", "accepted", "rejected"}[w.Kind], w.Of.First, w.Of.Last)
		if w.Parts {
			line += " in parts"
		}
		if of := w.PartOf; !of.Empty() {
			line += fmt.Sprintf(" of %d-%d", of.First, of.Last)
		}
		if w.Open != 0 {
			line += fmt.Sprintf(" (%d open)", w.Open)
		}
		got = append(got, line)
	}
	if !slices.Equal(got, want) {
		h.Errorf("told %q, want %q", got, want)
	}
}

func (r *testRouter) rejections() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.words {
		if w.Kind == ack.Rejected {
			all = append(all, fmt.Sprintf("%s %d %s", w.TypeURL, w.Of.Last, w.Reason))
		}
	}
	return all
}

func (r *testRoutes) Scope() string { return "scope of " + r.node.GetId() }

func (r *testRoutes) Pause() { r.Close() }

func (r *testRoutes) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open--
}

// recorder is an Observer that counts.
type recorder struct {
	mu         sync.Mutex
	events     map[string]int // by what happened
	subscribed map[string]int // by type URL
	refused    map[codes.Code]int
	closed     map[codes.Code]int
	resources  int
	removed    int
	merged     int
	took       []time.Duration
}

func newRecorder() *recorder {
	return &recorder{
		events: map[string]int{}, subscribed: map[string]int{},
		refused: map[codes.Code]int{}, closed: map[codes.Code]int{},
	}
}

// guests records what becomes of connections.
type guests struct{ seen *recorder }

func (g guests) Refused(net.Addr, connections.Reason) { g.seen.Limited(LimitConnections) }
func (g guests) Waited()                              { g.seen.Limited(LimitConnectionRate) }
func (g guests) Slowed(net.Addr)                      { g.seen.Limited(LimitFrames) }
func (g guests) Flooded(net.Addr)                     { g.seen.Limited(LimitFrames) }

func (r *recorder) note(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func (r *recorder) count(event string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events[event]
}

// rejects compares how many clients reject something of a type now (ACK-7).
func (h *harness) rejects(typeURL string, want int) {
	h.Helper()
	if got := h.server.Census()[typeURL][Rejecting]; got != want {
		h.Errorf("ACK-7: %d clients reject something of %s, want %d", got, typeURL, want)
	}
}

func (r *recorder) StreamOpened(string) { r.note(func() { r.events["opened"]++ }) }
func (r *recorder) StreamClosed(_ string, code codes.Code) {
	r.note(func() { r.events["closed"]++; r.closed[code]++ })
}
func (r *recorder) Requested(string) { r.note(func() { r.events["requested"]++ }) }
func (r *recorder) Subscribed(typeURL string, n int) {
	r.note(func() { r.subscribed[typeURL] += n })
}

func (r *recorder) Sent(_ string, resources, removed, _, merged int) {
	r.note(func() {
		r.events["sent"]++
		r.resources += resources
		r.removed += removed
		r.merged += merged
	})
}

func (r *recorder) Propagated(string, time.Duration) { r.note(func() { r.events["propagated"]++ }) }
func (r *recorder) Acknowledged(_ string, d time.Duration) {
	r.note(func() { r.took = append(r.took, d) })
}
func (r *recorder) Acked(string)              { r.note(func() { r.events["acked"]++ }) }
func (r *recorder) Warned(string)             { r.note(func() { r.events["warned"]++ }) }
func (r *recorder) Nacked(string, NackReason) { r.note(func() { r.events["nacked"]++ }) }
func (r *recorder) Offered(string)            { r.note(func() { r.events["offered"]++ }) }
func (r *recorder) Overdue(string)            { r.note(func() { r.events["overdue"]++ }) }

func (r *recorder) Unserved(variant string) { r.note(func() { r.events["unserved "+variant]++ }) }
func (r *recorder) Refused(_ string, code codes.Code) {
	r.note(func() { r.refused[code]++ })
}
func (r *recorder) Moved(string)           { r.note(func() { r.events["moved"]++ }) }
func (r *recorder) Retired(variant string) { r.note(func() { r.events["retired: "+variant]++ }) }
func (r *recorder) Limited(l Limit)        { r.note(func() { r.events["limited: "+string(l)]++ }) }
func (r *recorder) MoveEnded(m MoveEnd)    { r.note(func() { r.events["ended: "+string(m)]++ }) }
func (r *recorder) Unsendable(string)      { r.note(func() { r.events["unsendable"]++ }) }
